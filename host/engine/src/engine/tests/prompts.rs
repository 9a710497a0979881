//! Log-probabilities of prompts, and texts of control tokens.

use crate::backend::{Fault, ForwardLimits};
use crate::request::*;
use crate::testing::{BOS, MARK, Misdeed, Said, Stream, Toy, alone, ask};

fn scored(prompt: &str, max_tokens: u32) -> GenerateRequest {
    GenerateRequest { prompt_logprobs: Some(2), ..ask(prompt, max_tokens) }
}

/// What the toy says of a prompt, one token after the other.
fn expected(toy: &Toy, tokens: &[TokenId]) -> Vec<(TokenId, Option<f32>)> {
    let of = |end: usize| {
        let mut row = Vec::new();
        toy.row(&tokens[..end], &mut row);
        row.truncate(259);
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        (f64::from(row[tokens[end] as usize]) - sum.ln()) as f32
    };
    tokens.iter().enumerate().map(|(at, token)| (*token, (at > 0).then(|| of(at)))).collect()
}

fn check(toy: &Toy, said: &Said, prompt: &str) {
    let tokens: Vec<TokenId> = std::iter::once(BOS).chain(prompt.bytes().map(u32::from)).collect();
    let told = said.prompt.as_ref().expect("the prompt was told");
    let expected = expected(toy, &tokens);
    assert_eq!(told.len(), expected.len());
    for (told, (id, logprob)) in told.iter().zip(expected) {
        assert_eq!(told.id, id);
        match (&told.logprob, logprob) {
            (None, None) => {}
            (Some(told), Some(logprob)) => {
                assert!((told.logprob - logprob).abs() < 1e-3, "{} for {logprob}", told.logprob);
                assert_eq!(told.top.len(), 2);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_token_of_a_prompt_is_scored_once_however_it_is_cut_into_batches() {
    let toy = Toy::new(1, 800);
    for length in [0, 1, 63, 64, 500] {
        let prompt = "p".repeat(length);
        for max_tokens in [0, 5] {
            let said = alone(&toy, scored(&prompt, max_tokens));
            check(&toy, &said, &prompt);
            assert_eq!(said.ids(), alone(&toy, ask(&prompt, max_tokens)).ids());
        }
    }
    assert_eq!(alone(&toy, ask("p", 3)).prompt, None);
}

#[test]
fn a_batch_that_fails_or_is_aborted_costs_no_score() {
    for cuttable in [true, false] {
        let mut toy = Toy::new(2, 400);
        toy.limits = ForwardLimits { cuttable, ..toy.limits };
        let busy = || Misdeed::Fault(Fault::Busy { retry: std::time::Duration::from_millis(1) });
        toy.misbehave([Misdeed::None, busy(), Misdeed::None, busy(), busy()]);
        let engine = toy.start();
        let prompt = "again and again ".repeat(15);
        let said = Stream::submit(&engine, 1, scored(&prompt, 20)).all();
        check(&toy, &said, &prompt);
        assert_eq!(said.ids(), alone(&toy, ask(&prompt, 20)).ids());
    }
}

#[test]
fn several_prompts_are_scored_beside_answers_that_run() {
    let toy = Toy { ends: false, ..Toy::new(4, 300) };
    let engine = toy.start();
    let prompts = ["one ".repeat(30), "two ".repeat(20), "three".to_owned()];
    let runs = Stream::submit(&engine, 9, ask("runs", 100));
    let streams: Vec<Stream> = (0..).zip(&prompts).map(|(id, prompt)| Stream::submit(&engine, id, scored(prompt, 10))).collect();
    for (stream, prompt) in streams.into_iter().zip(&prompts) {
        check(&toy, &stream.all(), prompt);
    }
    assert_eq!(runs.all().ids(), alone(&toy, ask("runs", 100)).ids());
}

#[test]
fn a_prompt_whose_scores_are_damaged_fails_alone() {
    let toy = Toy { per_batch: std::time::Duration::from_millis(20), ..Toy::new(2, 200) };
    // The first batch keeps the engine busy until both are there; then both prompts are computed in one.
    toy.misbehave([Misdeed::None, Misdeed::NanFirst]);
    let engine = toy.start();
    let first = Stream::submit(&engine, 0, ask("first", 1));
    assert!(matches!(first.next(), Event::Started { .. }));
    let damaged = Stream::submit(&engine, 1, scored("damaged", 10));
    let whole = Stream::submit(&engine, 2, scored("whole", 10));
    while !matches!(first.next(), Event::Finished(_)) {}
    assert!(matches!(damaged.all().end, Event::Failed(EngineError::Plugin { .. })));
    let whole = whole.all();
    check(&toy, &whole, "whole");
    assert_eq!(whole.ids(), alone(&toy, ask("whole", 10)).ids());
}

#[test]
fn too_many_log_probabilities_for_one_message_are_refused() {
    let mut toy = Toy::new(1, 20_000);
    toy.limits.batch = 20_000;
    let request = GenerateRequest { prompt_logprobs: Some(128), ..ask(&"x".repeat(16_000), 1) };
    match alone(&toy, request).end {
        Event::Failed(EngineError::InvalidRequest { param, .. }) => assert_eq!(param.as_deref(), Some("prompt_logprobs")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_of_control_tokens_are_text_only_when_asked_for() {
    let toy = Toy::new(1, 100);
    let favour = Sampling { logit_bias: vec![(MARK, 100.0)], ..Sampling::default() };
    let ask = |control_text: bool, stop: &[&str]| GenerateRequest {
        control_text,
        sampling: favour.clone(),
        logprobs: Some(1),
        stop: stop.iter().map(|stop| (*stop).to_owned()).collect(),
        ..ask("m", 3)
    };
    let silent = alone(&toy, ask(false, &["<|mark|>"]));
    assert_eq!((silent.text.as_str(), silent.ids()), ("", vec![MARK; 3]));
    assert_eq!(silent.tokens[0].logprob.as_ref().map(|logprob| logprob.bytes.as_slice()), Some(&b""[..]));
    let spoken = alone(&toy, ask(true, &[]));
    assert_eq!((spoken.text.as_str(), spoken.ids()), ("<|mark|><|mark|><|mark|>", vec![MARK; 3]));
    assert_eq!(spoken.tokens[0].logprob.as_ref().map(|logprob| logprob.bytes.as_slice()), Some(&b"<|mark|>"[..]));
    let stopped = alone(&toy, ask(true, &["k|><|m"]));
    assert_eq!((stopped.text.as_str(), &stopped.finished().reason), ("<|mar", &FinishReason::StopString("k|><|m".into())));
}

#[test]
fn the_token_that_ends_an_answer_is_never_text() {
    let toy = Toy::new(1, 100);
    let sampling = Sampling { logit_bias: vec![(crate::testing::EOS, 100.0)], ..Sampling::default() };
    let said = alone(&toy, GenerateRequest { control_text: true, sampling, ..ask("m", 3) });
    assert_eq!((said.text.as_str(), &said.finished().reason), ("", &FinishReason::EndOfGeneration));
}
