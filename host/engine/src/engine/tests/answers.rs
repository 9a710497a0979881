//! One request: its tokens, its text, its limits.

use crate::engine::Health;
use crate::request::*;
use crate::testing::{BOS, EOS, MARK, Stream, Toy, alone, ask};

fn refused(toy: &Toy, request: GenerateRequest) -> EngineError {
    match alone(toy, request).end {
        Event::Failed(error) => error,
        other => panic!("{other:?}"),
    }
}

fn param(toy: &Toy, request: GenerateRequest) -> Option<String> {
    match refused(toy, request) {
        EngineError::InvalidRequest { param, .. } => param,
        other => panic!("{other:?}"),
    }
}

#[test]
fn max_tokens_is_exact_from_0_on() {
    let toy = Toy { ends: false, ..Toy::new(2, 200) };
    let whole = alone(&toy, ask("abc", 20));
    for n in 0..6 {
        let said = alone(&toy, ask("abc", n));
        assert_eq!(said.finished().reason, FinishReason::Length);
        assert_eq!(said.finished().usage, Usage { prompt_tokens: 4, cached_tokens: 0, completion_tokens: n });
        assert_eq!(said.ids(), whole.ids()[..n as usize]);
        assert!(whole.text.starts_with(&said.text));
    }
}

#[test]
fn each_token_has_its_own_delta_while_text_flows() {
    let toy = Toy { ends: false, ..Toy::new(1, 200) };
    let said = alone(&toy, ask("stream", 12));
    assert_eq!((said.deltas, said.tokens.len()), (12, 12));
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_with_both_numbers() {
    let toy = Toy::new(4, 50);
    assert_eq!(refused(&toy, ask(&"x".repeat(50), 1)), EngineError::ContextOverflow { have: 50, need: 51 });
    let helper_thread = ask(&"x".repeat(20_000), 1);
    assert_eq!(refused(&toy, helper_thread), EngineError::ContextOverflow { have: 50, need: 20_001 });
}

#[test]
fn an_answer_that_fills_the_context_ends_with_length() {
    let toy = Toy { ends: false, ..Toy::new(2, 50) };
    let full = alone(&toy, ask(&"x".repeat(49), 100));
    assert_eq!(full.finished().reason, FinishReason::Length);
    assert_eq!(full.finished().usage, Usage { prompt_tokens: 50, cached_tokens: 0, completion_tokens: 1 });
    let open = alone(&toy, GenerateRequest { max_tokens: None, ..ask("abc", 0) });
    assert_eq!(open.finished().usage, Usage { prompt_tokens: 4, cached_tokens: 0, completion_tokens: 47 });
}

#[test]
fn the_end_token_is_counted_and_never_shown() {
    let toy = Toy::new(1, 500);
    let said = alone(&toy, ask("until the end", 400));
    assert_eq!(said.finished().reason, FinishReason::EndOfGeneration);
    assert_eq!(said.finished().usage.completion_tokens as usize, said.tokens.len() + 1);
    assert!(!said.ids().contains(&EOS) && !said.text.contains("</s>"));

    let on = alone(&toy, GenerateRequest { ignore_eos: true, ..ask("until the end", 400) });
    assert_eq!(on.finished().reason, FinishReason::Length);
    assert_eq!(on.finished().usage.completion_tokens, 400);
    assert!(on.ids().starts_with(&said.ids()) && on.ids().contains(&EOS) && !on.text.contains("</s>"));
}

#[test]
fn any_piece_of_an_answer_works_as_a_stop_string() {
    let toy = Toy { ends: false, ..Toy::new(1, 300) };
    let whole = alone(&toy, ask("story", 120)).text;
    for (start, len) in [(0, 1), (5, 3), (17, 9), (40, 2), (60, 30)] {
        let Some(stop) = whole.get(start..start + len) else { continue };
        let said = alone(&toy, GenerateRequest { stop: vec!["not in there".into(), stop.to_owned()], ..ask("story", 120) });
        assert_eq!(said.text, whole[..whole.find(stop).expect("it is in there")]);
        assert_eq!(said.finished().reason, FinishReason::StopString(stop.to_owned()));
    }
}

#[test]
fn the_start_token_stands_exactly_once() {
    let parts = |text: &str, control| Prompt::Parts(vec![PromptPart { text: text.into(), control }]);
    let toy = Toy::new(1, 100);
    let engine = toy.start();
    for add_special in [true, false] {
        assert_eq!(engine.encode(&parts("<s>a", true), add_special), Ok(vec![BOS, 97]));
    }
    assert_eq!(engine.encode(&parts("a", true), true), Ok(vec![BOS, 97]));
    assert_eq!(engine.encode(&parts("a", true), false), Ok(vec![97]));
    let without = Toy { adds_bos: false, ..toy }.start();
    assert_eq!(without.encode(&parts("a", true), true), Ok(vec![97]));
}

#[test]
fn what_a_user_typed_never_becomes_a_control_token() {
    let engine = Toy::new(1, 100).start();
    let part = |text: &str, control| PromptPart { text: text.into(), control };
    let prompt = Prompt::Parts(vec![part("<|mark|>", true), part("<|mar", false), part("k|>", false), part("", true), part("</s>", true)]);
    let tokens = engine.encode(&prompt, false).expect("tokens");
    assert_eq!((tokens[0], tokens[tokens.len() - 1]), (MARK, EOS));
    assert_eq!(tokens.len(), 2 + "<|mark|>".len());
    assert_eq!(engine.decode(&tokens).expect("bytes"), b"<|mark|><|mark|></s>");
}

#[test]
fn an_empty_prompt_is_the_start_token_or_an_error() {
    let toy = Toy { adds_bos: false, ..Toy::new(1, 100) };
    assert_eq!(alone(&toy, ask("", 3)).prompt_tokens, Some(1));
    assert_eq!(alone(&toy, GenerateRequest { prompt: Prompt::Tokens(vec![]), ..ask("", 3) }).prompt_tokens, Some(1));
    assert_eq!(param(&Toy { bos: false, ..toy }, ask("", 3)).as_deref(), Some("prompt"));
}

#[test]
fn settings_that_mean_nothing_are_refused_by_name() {
    let toy = Toy::new(1, 100);
    let base = || ask("a", 3);
    assert_eq!(param(&toy, GenerateRequest { prompt: Prompt::Tokens(vec![99_999_999]), ..base() }).as_deref(), Some("prompt"));
    assert_eq!(param(&toy, GenerateRequest { prompt: Prompt::Tokens(vec![259]), ..base() }).as_deref(), Some("prompt"));
    assert_eq!(param(&toy, GenerateRequest { stop: vec!["a".into(), String::new()], ..base() }).as_deref(), Some("stop"));
    let sampling = Sampling { logit_bias: vec![(9_999_999, 1.0)], ..Sampling::default() };
    assert_eq!(param(&toy, GenerateRequest { sampling, ..base() }).as_deref(), Some("logit_bias"));
    assert_eq!(param(&toy, GenerateRequest { logprobs: Some(1000), ..base() }).as_deref(), Some("logprobs"));
}

#[test]
fn log_probabilities_are_finite_ordered_and_spell_the_answer() {
    let toy = Toy { ends: false, ..Toy::new(1, 100) };
    let sampling = Sampling { temperature: 1.0, top_k: 1, logit_bias: vec![(97, -100.0)], ..Sampling::default() };
    let said = alone(&toy, GenerateRequest { logprobs: Some(3), sampling, ..ask("abc", 20) });
    let mut bytes: Vec<u8> = Vec::new();
    for token in &said.tokens {
        let logprob = token.logprob.as_ref().expect("log-probabilities were asked for");
        assert!(logprob.logprob <= 0.0 && logprob.logprob.is_finite());
        assert_eq!(logprob.top.len(), 3);
        assert!(logprob.top.windows(2).all(|pair| pair[0].2 >= pair[1].2));
        assert_eq!((logprob.top[0].0, logprob.top[0].2), (token.id, logprob.logprob));
        bytes.extend(&logprob.bytes);
    }
    assert_eq!(bytes, said.text.as_bytes());
    assert!(!said.text.contains('a'), "a token with bias -100 was chosen: {}", said.text);
    let none = alone(&toy, GenerateRequest { logprobs: Some(0), ..ask("abc", 2) });
    assert!(none.tokens.iter().all(|token| token.logprob.as_ref().is_some_and(|logprob| logprob.top.is_empty())));
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let toy = Toy { ends: false, ..Toy::new(1, 100) };
    let with = |seed| {
        let sampling = Sampling { temperature: 1.5, seed, ..Sampling::default() };
        alone(&toy, GenerateRequest { sampling, ..ask("abc", 40) }).ids()
    };
    assert_eq!(with(Some(1)), with(Some(1)));
    assert_ne!(with(Some(1)), with(Some(2)));
    assert_ne!(with(None), with(None));
}

#[test]
fn a_long_prompt_says_how_far_it_is() {
    let toy = Toy::new(1, 400);
    let said = alone(&toy, ask(&"y".repeat(199), 1));
    assert_eq!(said.prefill, [64, 128, 192]);
    assert_eq!(alone(&toy, ask("short", 1)).prefill, [0u32; 0]);
}

#[test]
fn embeddings_are_limited_counted_and_cancelled() {
    let engine = Toy::new(1, 100).start();
    let text = |text: &str| Prompt::Parts(vec![PromptPart { text: text.into(), control: false }]);
    let request = EmbedRequest { inputs: (0..40).map(|n| text(&"z".repeat(n % 7))).collect() };
    let cancel = onebit_loader::CancelFlag::new();
    let embedded = engine.embed(&request, &cancel).expect("vectors");
    assert_eq!(embedded.vectors.len(), 40);
    assert_eq!(embedded.vectors[5][0], 6.0, "five bytes and the start token");
    let long = EmbedRequest { inputs: vec![text(&"z".repeat(32))] };
    assert_eq!(engine.embed(&long, &cancel), Err(EngineError::TextTooLong { have: 32, need: 33 }));
    assert!(matches!(engine.embed(&EmbedRequest { inputs: vec![] }, &cancel), Err(EngineError::InvalidRequest { .. })));
    cancel.set();
    assert_eq!(engine.embed(&request, &cancel), Err(EngineError::Cancelled));
    assert_eq!(engine.gauge().health(), Health::Serving);
}

#[test]
fn documents_are_ranked_in_their_order_and_what_is_too_long_is_named() {
    let engine = Toy::new(1, 100).start();
    let documents: Vec<String> = (0..40).map(|n| format!("{}b", "a".repeat(n % 5))).collect();
    let request = RerankRequest { query: "ac".into(), documents, truncate: false };
    let cancel = onebit_loader::CancelFlag::new();
    let ranking = engine.rerank(&request, &cancel).expect("scores");
    let expected: Vec<f32> = (0..40).map(|n| (n % 5) as f32 / (n % 5 + 1) as f32).collect();
    assert_eq!(ranking.scores, expected);
    assert_eq!(ranking.prompt_tokens, 40 * (2 + 3) + 8 * (1 + 2 + 3 + 4 + 5), "the query and the joints with each document");
    let with = |query: &str, documents: &[&str], truncate| {
        let documents = documents.iter().map(|document| (*document).to_owned()).collect();
        engine.rerank(&RerankRequest { query: query.into(), documents, truncate }, &cancel)
    };
    let (long, fits) = ("a".repeat(31), "a".repeat(30));
    assert_eq!(with("ab", &[&fits, &long], false), Err(EngineError::DocumentTooLong { index: 1, have: 32, need: 33 }));
    assert_eq!(with("ab", &[&fits, &long], true).expect("cut").prompt_tokens, 2 * (32 + 3));
    assert_eq!(with(&"a".repeat(32), &["a"], true), Err(EngineError::QueryTooLong { have: 32, need: 32 }));
    assert_eq!(with("", &[""], false).expect("nothing is no fault").scores, [0.0]);
    assert!(matches!(with("a", &[], false), Err(EngineError::InvalidRequest { .. })));
    assert_eq!(with("<s>", &["<s>"], false).expect("text").prompt_tokens, 9, "control tokens stay text");
    cancel.set();
    assert_eq!(engine.rerank(&request, &cancel), Err(EngineError::Cancelled));
    assert_eq!(engine.gauge().health(), Health::Serving);
}

#[test]
fn an_id_that_runs_already_is_refused_and_the_first_goes_on() {
    let toy = Toy { ends: false, per_batch: std::time::Duration::from_millis(2), ..Toy::new(2, 100) };
    let engine = toy.start();
    let first = Stream::submit(&engine, 7, ask("abc", 30));
    let second = Stream::submit(&engine, 7, ask("abc", 30)).all();
    assert!(matches!(second.end, Event::Failed(EngineError::InvalidRequest { .. })));
    assert_eq!(first.all().finished().usage.completion_tokens, 30);
    assert_eq!(Stream::submit(&engine, 7, ask("abc", 3)).all().tokens.len(), 3, "the id is free again");
}
