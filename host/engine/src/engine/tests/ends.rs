//! Requests that end early: clients that leave, an engine that is dropped.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::request::*;
use crate::testing::{Said, Stream, Toy, alone, ask};

fn cancelled(said: &Said) -> bool {
    said.end == Event::Failed(EngineError::Cancelled)
}

fn slow(slots: u32) -> Toy {
    Toy { ends: false, per_row: Duration::from_millis(5), ..Toy::new(slots, 1000) }
}

#[test]
fn a_client_that_leaves_during_a_long_prompt_stops_the_work_at_once() {
    for cuttable in [true, false] {
        let mut toy = slow(1);
        toy.limits.cuttable = cuttable;
        let engine = toy.start();
        // A batch of 64 rows takes 320 ms.
        let long = Stream::submit(&engine, 1, ask(&"p".repeat(500), 5));
        assert!(matches!(long.next(), Event::Started { .. }));
        std::thread::sleep(Duration::from_millis(30));
        let begin = Instant::now();
        engine.cancel(RequestId(1));
        let said = long.all();
        assert!(cancelled(&said), "{said:?}");
        assert!(begin.elapsed() < Duration::from_millis(200), "{:?}", begin.elapsed());
        let next = Stream::submit(&engine, 2, ask("n", 3)).all();
        assert_eq!(next.text, alone(&toy, ask("n", 3)).text);
    }
}

#[test]
fn those_beside_a_client_that_leaves_get_the_answers_they_would_have_got() {
    for cuttable in [true, false] {
        let mut toy = slow(3);
        toy.limits.cuttable = cuttable;
        let engine = toy.start();
        let leaves = Stream::submit(&engine, 1, ask(&"p".repeat(400), 5));
        let one = Stream::submit(&engine, 2, ask(&"one".repeat(30), 8));
        let two = Stream::submit(&engine, 3, ask("two", 8));
        std::thread::sleep(Duration::from_millis(60));
        engine.cancel(RequestId(1));
        assert!(cancelled(&leaves.all()));
        assert_eq!(one.all().text, alone(&toy, ask(&"one".repeat(30), 8)).text);
        assert_eq!(two.all().text, alone(&toy, ask("two", 8)).text);
    }
}

#[test]
fn a_client_that_leaves_while_it_waits_never_gets_a_slot() {
    let toy = slow(1);
    let engine = toy.start();
    let runs = Stream::submit(&engine, 1, ask("a", 30));
    assert!(matches!(runs.next(), Event::Started { .. }));
    let waits = Stream::submit(&engine, 2, ask("b", 30));
    engine.cancel(RequestId(2));
    let said = waits.all();
    assert!(cancelled(&said) && said.prompt_tokens.is_none());
    assert_eq!(engine.gauge().load().waiting, 0);
    engine.cancel(RequestId(1));
    engine.cancel(RequestId(77));
    runs.all();
    assert_eq!(engine.gauge().load(), crate::engine::EngineLoad::default());
}

#[test]
fn dropping_the_engine_answers_everybody() {
    let toy = slow(2);
    let engine = toy.start();
    let streams: Vec<Stream> = (0..6).map(|id| Stream::submit(&engine, id, ask(&"q".repeat(300), 50))).collect();
    let huge = Stream::submit(&engine, 99, ask(&"q".repeat(100_000), 50));
    std::thread::sleep(Duration::from_millis(20));
    let begin = Instant::now();
    drop(engine);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(streams.into_iter().all(|stream| cancelled(&stream.all())));
    assert!(matches!(huge.all().end, Event::Failed(EngineError::Cancelled | EngineError::ContextOverflow { .. })));
}

#[test]
fn a_receiver_that_panics_loses_its_own_request_only() {
    let toy = Toy { ends: false, ..Toy::new(2, 200) };
    let engine = toy.start();
    let (send, receive) = channel();
    engine.submit(
        RequestId(1),
        ask("bad", 100),
        Box::new(move |event| {
            let first = matches!(event, Event::Delta { .. });
            drop(send.send(event));
            assert!(!first, "the receiver was asked to panic");
        }),
    );
    let good = Stream::submit(&engine, 2, ask("good", 50)).all();
    assert_eq!(good.text, alone(&toy, ask("good", 50)).text);
    // Its sink is dropped with the request.
    let events: Vec<Event> = receive.iter().collect();
    assert!(matches!(events.last(), Some(Event::Delta { .. })));
    assert_eq!(engine.gauge().health(), crate::engine::Health::Serving);
}

#[test]
fn cancelling_200_times_leaves_nothing_behind() {
    let toy = Toy { ends: false, per_batch: Duration::from_micros(200), ..Toy::new(1, 2000) };
    let engine = toy.start();
    for round in 0..200 {
        let stream = Stream::submit(&engine, round, GenerateRequest { max_tokens: None, ..ask("endless", 0) });
        if round % 3 != 0 {
            while !matches!(stream.next(), Event::Delta { .. }) {}
        }
        engine.cancel(RequestId(round));
        assert!(cancelled(&stream.all()));
    }
    assert_eq!(engine.gauge().load(), crate::engine::EngineLoad::default());
    assert_eq!(engine.gauge().progress().busy, None);
}
