//! State that is kept is gone on from, and no answer is another for it. The toy's next token depends on every token before it, so one wrong
//! position in a sequence's state would give another answer.

use proptest::prelude::*;

use crate::backend::{Fault, ForwardLimits};
use crate::request::*;
use crate::testing::{Misdeed, Said, Stream, Toy, alone, ask};

fn scoped(prompt: &str, max_tokens: u32, scope: Option<&str>) -> GenerateRequest {
    GenerateRequest { scope: scope.map(str::to_owned), ..ask(prompt, max_tokens) }
}

fn cached(said: &Said) -> u32 {
    said.finished().usage.cached_tokens
}

#[test]
fn the_next_turn_computes_only_what_is_new() {
    for cuttable in [true, false] {
        let mut toy = Toy { ends: false, ..Toy::new(1, 400) };
        toy.limits = ForwardLimits { cuttable, sequences: if cuttable { 3 } else { 1 }, ..toy.limits };
        let engine = toy.start();
        let first = "You help. Question: what is it? ".repeat(4);
        let said = Stream::submit(&engine, 1, ask(&first, 20)).all();
        assert_eq!(cached(&said), 0);
        // What was said becomes a part of the next prompt. The last token was chosen and not computed.
        let second = format!("{first}{}{}", said.text, " And then?");
        let before = toy.batches().len();
        let again = Stream::submit(&engine, 2, ask(&second, 20)).all();
        let common = 1 + first.len() as u32 + 19;
        assert_eq!(cached(&again), common, "cuttable: {cuttable}");
        assert_eq!(toy.batches()[before].rows, 1 + second.len() - common as usize);
        assert_eq!(again.ids(), alone(&toy, ask(&second, 20)).ids());
    }
}

#[test]
fn another_branch_copies_what_is_common_and_a_small_context_still_serves_all() {
    let toy = Toy { ends: false, ..Toy::new(2, 100) };
    let engine = toy.start();
    let system = "s".repeat(60);
    for round in 0..12 {
        let prompt = format!("{system}{}", (b'a' + round) as char);
        let said = Stream::submit(&engine, round.into(), ask(&prompt, 30)).all();
        assert_eq!(cached(&said), if round == 0 { 0 } else { 61 });
        assert_eq!(said.ids(), alone(&toy, ask(&prompt, 30)).ids());
    }
}

#[test]
fn who_comes_together_computes_a_common_beginning_once() {
    let toy = Toy { ends: false, per_batch: std::time::Duration::from_millis(2), ..Toy::new(4, 400) };
    let engine = toy.start();
    // Keeps the engine busy until all are there.
    let first = Stream::submit(&engine, 9, ask("first", 8));
    let prompts: Vec<String> = (0..3).map(|n| format!("{}{n}", "instructions ".repeat(20))).collect();
    let streams: Vec<Stream> = (0..).zip(&prompts).map(|(id, prompt)| Stream::submit(&engine, id, ask(prompt, 10))).collect();
    let said: Vec<Said> = streams.into_iter().map(Stream::all).collect();
    first.all();
    let mut found: Vec<u32> = said.iter().map(cached).collect();
    found.sort_unstable();
    assert_eq!(found[0], 0);
    assert!(found[1] >= 200, "{found:?}");
    for (said, prompt) in said.iter().zip(&prompts) {
        assert_eq!(said.ids(), alone(&toy, ask(prompt, 10)).ids());
    }
}

#[test]
fn nothing_is_found_of_another_scope_and_nothing_where_nothing_is_kept() {
    let prompt = "a secret that somebody has asked".repeat(3);
    let toy = Toy::new(2, 400);
    let engine = toy.start();
    for (id, scope, expected) in [(1, Some("a"), false), (2, Some("b"), false), (3, None, false), (4, Some("a"), true), (5, None, true)] {
        let said = Stream::submit(&engine, id, scoped(&prompt, 5, scope)).all();
        assert_eq!(cached(&said) > 0, expected, "{scope:?}");
    }
    let toy = Toy { keeps: false, ..toy };
    let engine = toy.start();
    for id in 0..3 {
        assert_eq!(cached(&Stream::submit(&engine, id, ask(&prompt, 5)).all()), 0);
    }
}

#[test]
fn a_prompt_that_is_scored_is_computed_whole() {
    let toy = Toy::new(1, 400);
    let engine = toy.start();
    let prompt = "scored ".repeat(10);
    let request = || GenerateRequest { prompt_logprobs: Some(0), ..ask(&prompt, 3) };
    for id in 0..2 {
        let said = Stream::submit(&engine, id, request()).all();
        assert_eq!((cached(&said), said.prompt.map(|tokens| tokens.len())), (0, Some(71)));
    }
}

#[test]
fn what_fails_is_not_kept_and_what_is_kept_goes_before_a_request_fails() {
    let toy = Toy { ends: false, ..Toy::new(1, 400) };
    let engine = toy.start();
    let prompt = "a prompt for two ".repeat(5);
    Stream::submit(&engine, 1, ask(&prompt, 5)).all();
    // The first lack of memory costs what is kept, the second one the request.
    let lack = || Misdeed::Fault(Fault::OutOfMemory { want: 2, free: 1 });
    toy.misbehave([lack()]);
    let said = Stream::submit(&engine, 2, ask("something else", 5)).all();
    assert_eq!(said.ids(), alone(&toy, ask("something else", 5)).ids());
    assert_eq!(cached(&Stream::submit(&engine, 3, ask(&prompt, 5)).all()), 0, "it was forgotten");
    toy.misbehave([lack(), lack()]);
    let failed = Stream::submit(&engine, 4, ask(&prompt, 5)).all();
    assert!(matches!(failed.end, Event::Failed(EngineError::OutOfMemory { .. })), "{:?}", failed.end);
    let said = Stream::submit(&engine, 5, ask(&prompt, 5)).all();
    assert_eq!((cached(&said), said.ids()), (0, alone(&toy, ask(&prompt, 5)).ids()));
}

#[test]
fn a_copy_that_fails_costs_time_and_no_answer() {
    let refused = Fault::Refused { status: "unsupported".into(), message: "no copies".into() };
    for fault in [refused, Fault::OutOfMemory { want: 2, free: 1 }] {
        let toy = Toy { ends: false, no_copies: Some(fault), ..Toy::new(2, 200) };
        let engine = toy.start();
        for then in ["a", "b", "c"] {
            let prompt = format!("{}{then}", "instructions ".repeat(8));
            let said = Stream::submit(&engine, 1, ask(&prompt, 10)).all();
            assert_eq!((cached(&said), said.ids()), (0, alone(&toy, ask(&prompt, 10)).ids()));
        }
        assert_eq!(engine.gauge().health(), crate::engine::Health::Serving);
    }
}

/// A request of the property: which beginning, how much of it, what comes then, and when it is cancelled.
type Wish = (usize, usize, u8, u32, bool);

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn answers_are_those_of_an_engine_that_keeps_nothing(
        wishes in proptest::collection::vec((0usize..3, 10usize..90, any::<u8>(), 1u32..12, proptest::bool::weighted(0.15)), 1..24),
        slots in 1u32..4,
        spare in 0u32..4,
        cuttable in any::<bool>(),
        busy in 0usize..4,
    ) {
        let mut toy = Toy { ends: false, ..Toy::new(slots, 120) };
        toy.limits = ForwardLimits { cuttable, sequences: slots + if cuttable { spare } else { 0 }, ..toy.limits };
        let engine = toy.start();
        let beginnings = ["x".repeat(90), "y".repeat(90), format!("{}{}", "x".repeat(45), "y".repeat(45))];
        let prompt = |(which, length, then, _, _): &Wish| format!("{}{}", &beginnings[*which][..*length], char::from(b'a' + then % 4));
        for group in wishes.chunks(5) {
            let fault = || Misdeed::Fault(Fault::Busy { retry: std::time::Duration::from_millis(1) });
            toy.misbehave((0..busy).flat_map(|_| [Misdeed::None, fault()]));
            let streams: Vec<Stream> = (0..).zip(group).map(|(id, wish)| Stream::submit(&engine, id, ask(&prompt(wish), wish.3))).collect();
            for (id, wish) in (0..).zip(group) {
                if wish.4 {
                    engine.cancel(RequestId(id));
                }
            }
            for (stream, wish) in streams.into_iter().zip(group) {
                let said = stream.all();
                match said.end {
                    Event::Failed(EngineError::Cancelled) if wish.4 => {}
                    Event::Finished(_) => prop_assert_eq!(said.ids(), alone(&toy, ask(&prompt(wish), wish.3)).ids()),
                    end => prop_assert!(false, "{end:?}"),
                }
            }
        }
    }
}
