//! Plugins that fail, in every way the border has.

use std::time::Duration;

use crate::backend::Fault;
use crate::engine::Health;
use crate::request::*;
use crate::testing::{Misdeed, Stream, Toy, alone, ask};

fn toy() -> Toy {
    Toy { ends: false, ..Toy::new(3, 300) }
}

/// Three requests side by side while the plugin does `misdeeds`; the first is the oldest.
fn three(toy: &Toy, misdeeds: Vec<Misdeed>) -> ([crate::testing::Said; 3], Health) {
    let slow = Toy { per_batch: Duration::from_millis(1), ..toy.clone() };
    let engine = slow.start();
    let streams = ["first", "second", "third"].map(|prompt| {
        let stream = Stream::submit(&engine, prompt.len() as u64 * 7 + u64::from(prompt.as_bytes()[0]), ask(prompt, 60));
        while !matches!(stream.next(), Event::Delta { .. }) {}
        stream
    });
    toy.misbehave(misdeeds);
    (streams.map(Stream::all), engine.gauge().health())
}

#[test]
fn out_of_memory_ends_the_newest_request_and_the_others_do_not_notice() {
    for cuttable in [true, false] {
        let mut toy = toy();
        toy.limits.cuttable = cuttable;
        let ([first, second, third], health) = three(&toy, vec![Misdeed::Fault(Fault::OutOfMemory { want: 100, free: 7 })]);
        assert_eq!(third.end, Event::Failed(EngineError::OutOfMemory { want: 100, free: 7 }));
        // The first delta was taken by `three`.
        assert_eq!(first.ids(), alone(&toy, ask("first", 60)).ids()[60 - first.tokens.len()..]);
        assert_eq!(second.ids(), alone(&toy, ask("second", 60)).ids()[60 - second.tokens.len()..]);
        assert_eq!(health, Health::Serving);
    }
}

#[test]
fn a_busy_plugin_is_asked_again_and_nobody_notices() {
    let toy = toy();
    let busy = Misdeed::Fault(Fault::Busy { retry: Duration::from_millis(1) });
    let (all, health) = three(&toy, vec![busy; 5]);
    assert!(all.iter().all(|said| said.finished().reason == FinishReason::Length));
    assert_eq!(all[2].ids(), alone(&toy, ask("third", 60)).ids()[60 - all[2].tokens.len()..]);
    assert_eq!(health, Health::Serving);
}

#[test]
fn a_plugin_that_stays_busy_costs_one_request_with_its_status() {
    let toy = toy();
    let busy = Misdeed::Fault(Fault::Busy { retry: Duration::from_millis(1) });
    let ([first, _, third], health) = three(&toy, vec![busy; 51]);
    assert!(matches!(&third.end, Event::Failed(EngineError::Plugin { status, .. }) if status == "busy"), "{:?}", third.end);
    assert_eq!(first.finished().reason, FinishReason::Length);
    assert_eq!(health, Health::Serving);
}

#[test]
fn a_lost_device_ends_all_and_the_engine_says_so_from_then_on() {
    let toy = toy();
    let lost = EngineError::Plugin { status: "device_lost".into(), message: "the device is gone".into() };
    let fault = Fault::Broken { status: "device_lost".into(), message: "the device is gone".into() };
    let engine = toy.start();
    toy.misbehave([Misdeed::Fault(fault)]);
    assert_eq!(Stream::submit(&engine, 1, ask("a", 5)).all().end, Event::Failed(lost.clone()));
    assert_eq!(engine.gauge().health(), Health::Failed(lost.clone()));
    assert_eq!(Stream::submit(&engine, 2, ask("a", 5)).all().end, Event::Failed(lost));
    assert_eq!(engine.gauge().load(), crate::engine::EngineLoad::default());
}

#[test]
fn logits_with_nan_are_the_plugins_fault_and_end_their_request_only() {
    let toy = toy();
    let engine = toy.start();
    toy.misbehave([Misdeed::Nan]);
    let said = Stream::submit(&engine, 1, ask("a", 5)).all();
    assert!(matches!(&said.end, Event::Failed(EngineError::Plugin { message, .. }) if message.contains("NaN")), "{:?}", said.end);
    assert_eq!(engine.gauge().health(), Health::Serving);
    assert_eq!(Stream::submit(&engine, 2, ask("a", 5)).all().tokens.len(), 5);
}

#[test]
fn too_few_logits_are_a_broken_plugin() {
    let toy = toy();
    let engine = toy.start();
    toy.misbehave([Misdeed::FewLogits]);
    let said = Stream::submit(&engine, 1, ask("a", 5)).all();
    assert!(matches!(&said.end, Event::Failed(EngineError::Plugin { status, .. }) if status == "internal"), "{:?}", said.end);
    assert!(matches!(engine.gauge().health(), Health::Failed(_)));
}

#[test]
fn a_panic_in_the_loop_answers_everybody_and_poisons_the_engine() {
    let toy = toy();
    let (all, health) = three(&toy, vec![Misdeed::Panic]);
    let expected = EngineError::Internal("the toy was asked to panic".into());
    assert!(all.iter().all(|said| said.end == Event::Failed(expected.clone())), "{all:?}");
    assert_eq!(health, Health::Failed(expected));
}

#[test]
fn an_abort_that_nobody_asked_for_is_computed_again() {
    for cuttable in [true, false] {
        let mut toy = toy();
        toy.limits.cuttable = cuttable;
        let engine = toy.start();
        toy.misbehave((0..20).map(|n| if n % 3 == 0 { Misdeed::Fault(Fault::Cancelled) } else { Misdeed::None }));
        let request = ask(&"r".repeat(150), 20);
        assert_eq!(Stream::submit(&engine, 1, request.clone()).all().ids(), alone(&toy, request).ids());
    }
}

#[test]
fn a_watchdog_sees_a_step_that_does_not_end() {
    let toy = Toy { per_batch: Duration::from_millis(300), ..toy() };
    let engine = toy.start();
    assert_eq!((engine.gauge().progress().steps, engine.gauge().progress().busy), (0, None));
    let stream = Stream::submit(&engine, 1, ask("a", 2));
    assert!(matches!(stream.next(), Event::Started { .. }));
    std::thread::sleep(Duration::from_millis(100));
    assert!(engine.gauge().progress().busy.is_some_and(|busy| busy > Duration::from_millis(50)));
    stream.all();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((engine.gauge().progress().steps, engine.gauge().progress().busy), (2, None));
}
