//! The laws of the engine on a real plugin and a real model, so that the toy of the unit tests cannot drift from what it stands for.
//!
//! `cargo test -p onebit-engine --features real-model`, with `ONEBIT_DIST` = a staged tree and `ONEBIT_TEST_MODELS` = a folder that holds
//! the demo model. Without them every test fails and says so.

#[path = "real_model/guides.rs"]
mod guides;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use onebit_engine::*;
use onebit_loader::{HostSink, OpenRequest, Plugin};

const PLUGIN: &str = "vulkan-ggml";
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Prompts with what llama.cpp answers on a CPU at temperature 0.
const GOLDEN: [(&str, &[TokenId], &[TokenId]); 3] = [
    (
        "The capital of France is",
        &[504, 3575, 282, 4649, 314],
        &[7042, 30, 198, 198, 504, 1797, 1918, 553, 253, 2155, 282, 4723, 216, 35, 33, 33, 2215, 701, 30],
    ),
    (
        "Gravity is",
        &[22007, 6463, 314],
        &[253, 4959, 1909, 281, 6944, 338, 6601, 260, 26589, 282, 42548, 2952, 411, 260, 4313, 282, 2631, 284, 1439, 30],
    ),
    (
        "Once upon a time, there was a little",
        &[6403, 1980, 253, 655, 28, 665, 436, 253, 1838],
        &[8180, 3365, 20391, 617, 5732, 288, 1238, 281, 260, 2388, 30, 2306, 5732, 288, 1238, 351, 874, 2428, 28, 284],
    ),
];

/// Kernels differ in rounding from one processor and batch size to the next. Where that turns an answer, both tokens were this close
/// (difference of log-probabilities); a real fault is far beyond it.
const NEAR_TIE: f32 = 0.5;

/// `said` is `expected`, or leaves it at a near tie after at least 10 tokens. Needs log-probabilities.
#[track_caller]
fn agrees(said: &Said, expected: &[TokenId]) {
    for (place, (token, expected)) in said.tokens.iter().zip(expected).enumerate() {
        if token.id == *expected {
            continue;
        }
        let logprob = logprob(token);
        let other = logprob.top.iter().find(|(id, ..)| id == expected).map(|(_, _, logprob)| *logprob);
        let gap = other.map(|other| logprob.logprob - other);
        println!("token {} instead of {expected} at place {place}, a gap of {gap:?}", token.id);
        assert!(place >= 10 && gap.is_some_and(|gap| gap <= NEAR_TIE), "{} instead of {expected} at place {place}: {gap:?}", token.id);
        return;
    }
    assert_eq!(said.tokens.len(), expected.len());
}

/// Log-probabilities of the best five stay this close to those of the answer alone. The shape of a batch changes how attention and
/// quantised activations round; with this model (Q4_1, 135 M weights) that moved a log-probability by 0.6 at most. That it is only the
/// shape, and never what the others say, is a law of its own below.
const ROUNDING: f32 = 1.0;

/// `said`, computed beside others, is `alone`: the same tokens with nearly the same log-probabilities, up to a near tie if there is one.
#[track_caller]
fn agrees_with(said: &Said, alone: &Said) {
    let mut furthest = 0.0f32;
    for (place, (token, expected)) in said.tokens.iter().zip(&alone.tokens).enumerate() {
        let (here, there) = (logprob(token), logprob(expected));
        let difference =
            here.top.iter().filter_map(|(id, _, a)| there.top.iter().find(|(other, ..)| other == id).map(|(_, _, b)| (a - b).abs()));
        furthest = difference.fold(furthest, f32::max);
        assert!(furthest <= ROUNDING, "a log-probability at place {place} is off by {furthest}");
        if token.id != expected.id {
            let rival = there.top.iter().find(|(id, ..)| *id == token.id).map(|(_, _, rival)| there.logprob - rival);
            println!("token {} instead of {} at place {place}, alone a gap of {rival:?}; furthest off {furthest}", token.id, expected.id);
            assert!(rival.is_some_and(|gap| gap <= NEAR_TIE), "{} instead of {} at place {place}: {rival:?}", token.id, expected.id);
            return;
        }
    }
    println!("the same tokens; furthest off {furthest}");
    assert_eq!(said.tokens.len(), alone.tokens.len());
}

fn logprob(token: &TokenOut) -> &TokenLogprob {
    token.logprob.as_ref().expect("log-probabilities were asked for")
}

/// Greedy, with what [`agrees`] needs.
fn golden(n: usize) -> GenerateRequest {
    GenerateRequest { logprobs: Some(5), ..ask(GOLDEN[n].0, GOLDEN[n].2.len() as u32) }
}

fn folder(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .map_or_else(|| panic!("{variable} is not set: these tests need a staged tree and the demo model"), PathBuf::from)
}

fn start(slots: u32, context: u32) -> (Engine, ModelFacts) {
    start_with(slots, context, true)
}

fn start_with(slots: u32, context: u32, prefix_cache: bool) -> (Engine, ModelFacts) {
    let plugin = folder("ONEBIT_DIST").join("lib/onebit/plugins").join(PLUGIN);
    let inspection = onebit_loader::inspect(&plugin).unwrap_or_else(|refusal| panic!("{refusal}"));
    let plugin = Plugin::load(&inspection.file, HostSink::tracing()).expect("the plugin loads");
    let device = onebit_loader::devices::cpu();
    let path = folder("ONEBIT_TEST_MODELS").join(FILE);
    let model = plugin
        .open(OpenRequest { path: &path, device: &device, threads: None, options: &[], cancel: &CancelFlag::new(), progress: &mut |_| {} })
        .expect("the model opens");
    let options = EngineOptions {
        context: Some(context),
        slots,
        batch: None,
        threads: None,
        prefix_cache,
        options: Vec::new(),
        plugin: PLUGIN.into(),
        plugin_version: inspection.file.toml.version.to_string(),
        device: device.id,
    };
    Engine::start(model, options).expect("the engine starts")
}

/// One engine for all tests that need nothing special, one test at a time: what computes side by side rounds differently.
fn engine() -> (&'static (Engine, ModelFacts), MutexGuard<'static, ()>) {
    static ENGINE: OnceLock<(Engine, ModelFacts)> = OnceLock::new();
    let turn = turn();
    (ENGINE.get_or_init(|| start(8, 8 * 1024)), turn)
}

/// Engines share the cores of the machine, and a step that waits for a neighbour's threads takes many times as long.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ask(prompt: &str, max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        add_special: true,
        max_tokens: Some(max_tokens),
        ..GenerateRequest::new(Prompt::Parts(vec![PromptPart { text: prompt.into(), control: false }]))
    }
}

#[derive(Debug)]
struct Said {
    text: String,
    tokens: Vec<TokenOut>,
    end: Event,
}

impl Said {
    fn ids(&self) -> Vec<TokenId> {
        self.tokens.iter().map(|token| token.id).collect()
    }

    fn finished(&self) -> &Finished {
        match &self.end {
            Event::Finished(finished) => finished,
            other => panic!("{other:?}"),
        }
    }
}

fn submit(engine: &Engine, request: GenerateRequest) -> (RequestId, Receiver<Event>) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = RequestId(NEXT.fetch_add(1, Ordering::Relaxed));
    let (send, receive) = channel();
    engine.submit(id, request, Box::new(move |event| drop(send.send(event))));
    (id, receive)
}

fn hear(events: &Receiver<Event>) -> Said {
    let mut said = Said { text: String::new(), tokens: Vec::new(), end: Event::Prefill { done: 0 } };
    loop {
        match events.recv_timeout(Duration::from_secs(120)).expect("an event within two minutes") {
            Event::Started { .. } | Event::Prefill { .. } | Event::Prompt { .. } => {}
            Event::Delta { text, tokens } => {
                assert!(!text.contains('\u{FFFD}'), "a broken character in {text:?}");
                said.text.push_str(&text);
                said.tokens.extend(tokens);
            }
            end => {
                said.end = end;
                return said;
            }
        }
    }
}

fn answer(engine: &Engine, request: GenerateRequest) -> Said {
    hear(&submit(engine, request).1)
}

#[test]
fn the_facts_are_those_of_the_file() {
    let ((_, facts), _turn) = engine();
    assert_eq!((facts.architecture.as_str(), facts.vocabulary, facts.context, facts.slots), ("llama", 49_152, 1024, 8));
    assert!(facts.control_tokens.iter().any(|text| text == "<|im_start|>"));
    assert!(facts.chat_template.as_ref().is_some_and(|template| template.contains("<|im_start|>")));
    assert!(!facts.computes_on.is_empty() && facts.state_bytes > 0);
}

#[test]
fn golden_prompts_give_the_golden_tokens() {
    let ((engine, _), _turn) = engine();
    for (n, (prompt, ids, tokens)) in GOLDEN.iter().enumerate() {
        assert_eq!(engine.encode(&ask(prompt, 0).prompt, true).expect("tokens"), *ids, "{prompt}");
        agrees(&answer(engine, golden(n)), tokens);
    }
}

#[test]
fn the_golden_chat_ends_by_itself() {
    let part = |text: &str, control| PromptPart { text: text.into(), control };
    let prompt = Prompt::Parts(vec![
        part("<|im_start|>system\n", true),
        part("You are a helpful AI assistant named SmolLM, trained by Hugging Face", false),
        part("<|im_end|>\n<|im_start|>user\n", true),
        part("What is 2+2?", false),
        part("<|im_end|>\n<|im_start|>assistant\n", true),
    ]);
    let ((engine, _), _turn) = engine();
    let said = answer(engine, GenerateRequest { prompt, ..ask("", 100) });
    assert_eq!(said.ids(), [504, 2988, 288, 451, 8170, 4119, 1732, 314, 216, 36, 30]);
    assert_eq!(said.text, "The answer to this classic math problem is 4.");
    assert_eq!(said.finished().reason, FinishReason::EndOfGeneration);
    assert_eq!(said.finished().usage.completion_tokens, 12);
}

#[test]
fn greedy_answers_alone_and_in_a_batch_of_8_agree_on_the_golden_prompts() {
    let ((engine, _), _turn) = engine();
    let alone: Vec<Said> = (0..3).map(|n| answer(engine, golden(n))).collect();
    let streams: Vec<_> = (0..8).map(|n| (n % 3, submit(engine, golden(n % 3)).1)).collect();
    for (n, stream) in streams {
        agrees_with(&hear(&stream), &alone[n]);
    }
}

#[test]
fn what_others_say_does_not_change_an_answer_by_a_bit() {
    let _turn = turn();
    let (engine, _) = start(4, 4 * 512);
    // Rounding depends on the shape of a batch, never on what stands in it: in two companies of the same shape all is equal.
    let beside = |token: TokenId| {
        let company = |length: usize, max_tokens| GenerateRequest {
            prompt: Prompt::Tokens(vec![token; length]),
            ignore_eos: true,
            ..ask("", max_tokens)
        };
        // While the first prompt is computed, and not before that, the others arrive: so they start in one batch.
        let (_, first) = submit(&engine, company(400, 1));
        let started = first.recv_timeout(Duration::from_secs(120)).expect("an event within two minutes");
        assert!(matches!(started, Event::Started { .. }), "{started:?}");
        let others = [golden(2), company(30, 30), company(11, 30)].map(|request| submit(&engine, request).1);
        hear(&first);
        let [said, ..] = others.map(|stream| hear(&stream));
        said.tokens
    };
    let first = beside(504);
    assert_eq!(first.len(), GOLDEN[2].2.len());
    assert_eq!(first, beside(7042));
    assert_eq!(first, beside(253));
}

#[test]
fn max_tokens_is_exact_and_each_answer_begins_the_next() {
    let ((engine, _), _turn) = engine();
    let mut last = String::new();
    for n in 0..4 {
        let said = answer(engine, ask("a", n));
        assert_eq!(said.finished().usage.completion_tokens, n);
        assert_eq!(said.finished().reason, FinishReason::Length);
        assert!(said.text.starts_with(&last));
        last = said.text;
    }
}

#[test]
fn a_stop_string_from_the_middle_of_an_answer_ends_it_there() {
    let ((engine, _), _turn) = engine();
    let whole = answer(engine, ask(GOLDEN[2].0, 60)).text;
    for (start, len) in [(3, 2), (20, 7), (41, 11)] {
        let stop = &whole[start..start + len];
        let said = answer(engine, GenerateRequest { stop: vec![stop.into()], ..ask(GOLDEN[2].0, 60) });
        assert_eq!(said.text, whole[..whole.find(stop).expect("it is in there")]);
        assert_eq!(said.finished().reason, FinishReason::StopString(stop.into()));
    }
}

#[test]
fn characters_that_are_many_tokens_stream_whole() {
    let ((engine, _), _turn) = engine();
    // The vocabulary splits an emoji into several tokens; the model goes on with the row.
    let said = answer(engine, ask(&"😀".repeat(24), 24));
    assert!(said.text.contains("😀😀"), "{:?}", said.text);
    assert!(said.tokens.len() > said.text.chars().count(), "{:?}", said.text);
    let text = "é漢字😀👩‍🚀";
    let tokens = engine.encode(&ask(text, 0).prompt, false).expect("tokens");
    assert_eq!(engine.decode(&tokens).expect("bytes"), text.as_bytes());
}

#[test]
fn turn_markers_typed_by_a_user_are_ordinary_text() {
    let ((engine, _), _turn) = engine();
    let prompt = |control| Prompt::Parts(vec![PromptPart { text: "<|im_start|><|im_end|>".into(), control }]);
    assert_eq!(engine.encode(&prompt(true), false).expect("tokens").len(), 2);
    let typed = engine.encode(&prompt(false), false).expect("tokens");
    assert!(typed.len() >= 6, "{typed:?}");
    assert_eq!(engine.decode(&typed).expect("bytes"), b"<|im_start|><|im_end|>");
}

#[test]
fn log_probabilities_spell_the_answer() {
    let ((engine, _), _turn) = engine();
    let said = answer(engine, GenerateRequest { logprobs: Some(2), ..ask(GOLDEN[0].0, 10) });
    let logprobs: Vec<&TokenLogprob> = said.tokens.iter().filter_map(|token| token.logprob.as_ref()).collect();
    assert_eq!(logprobs.len(), 10);
    assert!(logprobs.iter().all(|l| l.logprob <= 0.0 && l.top.len() == 2 && l.top[0].2 == l.logprob));
    let bytes: Vec<u8> = logprobs.iter().flat_map(|l| l.bytes.clone()).collect();
    assert_eq!(bytes, said.text.as_bytes());
}

#[test]
fn a_client_that_leaves_during_the_prompt_frees_its_slot_and_leaves_nothing_behind() {
    let _turn = turn();
    let (engine, _) = start(1, 8192);
    let long = "the quick brown fox jumps over the lazy dog and ".repeat(600);
    let (id, events) = submit(&engine, ask(&long, 10));
    while !matches!(events.recv_timeout(Duration::from_secs(60)).expect("an event"), Event::Started { .. }) {}
    std::thread::sleep(Duration::from_millis(50));
    let begin = Instant::now();
    engine.cancel(id);
    let said = hear(&events);
    let took = begin.elapsed();
    assert_eq!(said.end, Event::Failed(EngineError::Cancelled));
    assert!(took < Duration::from_millis(300), "{took:?}");
    let next = answer(&engine, ask(GOLDEN[0].0, 10));
    assert_eq!(next.ids(), GOLDEN[0].2[..10]);
}

#[test]
fn a_prompt_that_is_too_long_is_refused_with_both_numbers_and_a_long_run_of_one_letter_is_quick() {
    let ((engine, _), _turn) = engine();
    for letter in ["A", ".", "漢", " ", "é", "0"] {
        let begin = Instant::now();
        let said = answer(engine, ask(&letter.repeat(200_000), 1));
        assert!(
            matches!(said.end, Event::Failed(EngineError::ContextOverflow { have: 1024, need }) if need > 1024),
            "{letter}: {:?}",
            said.end
        );
        assert!(begin.elapsed() < Duration::from_secs(5), "{letter}: {:?}", begin.elapsed());
    }
    assert_eq!(answer(engine, ask(GOLDEN[0].0, 3)).ids(), GOLDEN[0].2[..3]);
}

/// The law of the prefix cache: what is found computed changes no answer.
#[test]
fn the_turns_of_a_conversation_are_answered_as_if_nothing_had_been_kept() {
    let _turn = turn();
    let ((keeps, _), (forgets, _)) = (start(2, 4096), start_with(2, 4096, false));
    let turns = ["What is the capital of France?", "And of Italy?", "Which of the two is larger?", "Write a short poem about it."];
    let mut prompt = "<|im_start|>system\nYou are a helpful assistant who answers in one sentence.<|im_end|>\n".to_owned();
    let chat = |text: &str| GenerateRequest {
        prompt: Prompt::Parts(vec![PromptPart { text: text.into(), control: true }]),
        logprobs: Some(5),
        ..ask("", 40)
    };
    let mut before = 0;
    for (turn, question) in turns.into_iter().enumerate() {
        prompt.push_str(&format!("<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"));
        let (kept, fresh) = (answer(&keeps, chat(&prompt)), answer(&forgets, chat(&prompt)));
        let (found, all) = (kept.finished().usage.cached_tokens, kept.finished().usage.prompt_tokens);
        assert_eq!(fresh.finished().usage.cached_tokens, 0);
        // At least the prompt of the turn before; its answer too, unless the text of it is other tokens than it was made of.
        assert!(if turn == 0 { found == 0 } else { found + 1 >= before }, "turn {turn}: {found} of {all}, {before} before");
        before = all;
        agrees_with(&kept, &fresh);
        // Another question on the same beginning is another branch.
        let branch = prompt.replace(question, "Say hello.");
        let (kept, fresh) = (answer(&keeps, chat(&branch)), answer(&forgets, chat(&branch)));
        assert!(kept.finished().usage.cached_tokens > 10, "{:?}", kept.finished().usage);
        agrees_with(&kept, &fresh);
        prompt.push_str(&format!("{}<|im_end|>\n", fresh.text));
    }
}

#[test]
fn many_clients_on_few_slots_get_their_own_answers() {
    let _turn = turn();
    let (engine, _) = start(4, 4 * 512);
    let alone: Vec<Said> = (0..3).map(|n| answer(&engine, golden(n))).collect();
    let streams: Vec<_> = (0..24).map(|n| (n, submit(&engine, golden(n % 3)))).collect();
    for (n, (id, _)) in &streams {
        if n % 5 == 4 {
            engine.cancel(*id);
        }
    }
    for (n, (_, events)) in streams {
        let said = hear(&events);
        if n % 5 == 4 && said.end == Event::Failed(EngineError::Cancelled) {
            continue;
        }
        agrees_with(&said, &alone[n % 3]);
    }
    assert_eq!(engine.gauge().load(), EngineLoad::default());
}

#[test]
fn embeddings_have_length_one_and_know_what_is_alike() {
    let ((engine, facts), _turn) = engine();
    let dimension = facts.embedding.expect("the plugin embeds").dimension;
    let text = |text: &str| Prompt::Parts(vec![PromptPart { text: text.into(), control: false }]);
    let request = EmbedRequest { inputs: vec![text("a cat sat on the mat"), text("a cat sat on a mat"), text("quarterly tax report")] };
    let vectors = engine.embed(&request, &CancelFlag::new()).expect("vectors").vectors;
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    for vector in &vectors {
        assert_eq!(vector.len(), dimension as usize);
        assert!((dot(vector, vector) - 1.0).abs() < 1e-3);
    }
    assert!(dot(&vectors[0], &vectors[1]) > dot(&vectors[0], &vectors[2]));
}
