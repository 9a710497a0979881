//! Many requests side by side.

use std::time::Duration;

use proptest::prelude::*;

use crate::request::*;
use crate::testing::{Said, Stream, Toy, alone, ask};

#[test]
fn an_answer_in_a_batch_of_8_is_the_answer_alone() {
    let toy = Toy::new(8, 200);
    let requests: Vec<GenerateRequest> = (0..8u64)
        .map(|n| {
            let sampling = Sampling { temperature: (n % 3) as f32, seed: Some(n), repetition_penalty: 1.1, ..Sampling::default() };
            GenerateRequest { sampling, ..ask(&"prompt ".repeat(n as usize + 1), 60) }
        })
        .collect();
    let engine = toy.start();
    let streams: Vec<Stream> =
        requests.iter().enumerate().map(|(id, request)| Stream::submit(&engine, id as u64, request.clone())).collect();
    for (stream, request) in streams.into_iter().zip(requests) {
        let (together, alone) = (stream.all(), alone(&toy, request));
        assert_eq!((together.ids(), together.text), (alone.ids(), alone.text));
    }
}

#[test]
fn a_long_prompt_leaves_the_steps_of_running_answers_short() {
    // 2 ms a row: a batch of 64 takes 128 ms, 80 ms are 40 rows.
    let toy = Toy { ends: false, per_row: Duration::from_millis(2), ..Toy::new(2, 1000) };
    let engine = toy.start();
    // The first batch measures the pace.
    Stream::submit(&engine, 1, ask(&"warm up ".repeat(12), 1)).all();
    let runs = Stream::submit(&engine, 2, ask("short", 200));
    while !matches!(runs.next(), Event::Delta { .. }) {}
    let before = toy.batches().len();
    let long = Stream::submit(&engine, 3, ask(&"document ".repeat(50), 1));
    long.all();
    let beside: Vec<usize> = toy.batches()[before..].iter().filter(|seen| seen.sequences.len() == 2).map(|seen| seen.rows).collect();
    assert!(beside.len() > 8 && beside.iter().all(|rows| (8..=44).contains(rows)), "{beside:?}");
    engine.cancel(RequestId(2));
    runs.all();
}

#[test]
fn sixty_four_clients_on_four_slots_lose_nothing() {
    let toy = Toy { per_batch: Duration::from_micros(300), ..Toy::new(4, 300) };
    let engine = toy.start();
    let prompt = |n: u64| format!("client {n} asks");
    let streams: Vec<(u64, Stream)> = (0..64).map(|n| (n, Stream::submit(&engine, n, ask(&prompt(n), 40)))).collect();
    for n in (0..64).step_by(5) {
        engine.cancel(RequestId(n));
    }
    for (n, stream) in streams {
        let said = stream.all();
        if n % 5 == 0 && said.end == Event::Failed(EngineError::Cancelled) {
            continue;
        }
        let expected = alone(&toy, ask(&prompt(n), 40));
        assert_eq!((said.ids(), &said.text), (expected.ids(), &expected.text), "client {n}");
    }
    assert_eq!(engine.gauge().load(), crate::engine::EngineLoad::default());
}

#[derive(Debug, Clone)]
struct Client {
    prompt: usize,
    tokens: u32,
    temperature: f32,
    leaves_after: Option<u8>,
}

fn client() -> impl Strategy<Value = Client> {
    (0usize..180, 0u32..30, prop_oneof![Just(0.0f32), Just(1.0)], proptest::option::weighted(0.3, 0u8..6))
        .prop_map(|(prompt, tokens, temperature, leaves_after)| Client { prompt, tokens, temperature, leaves_after })
}

fn request(client: &Client) -> GenerateRequest {
    let sampling = Sampling { temperature: client.temperature, seed: Some(client.prompt as u64), ..Sampling::default() };
    GenerateRequest { sampling, ..ask(&"w".repeat(client.prompt), client.tokens) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    // The toy itself checks that positions have no gaps, sequences stay below the slots and batches below their limit.
    #[test]
    fn every_client_gets_exactly_one_end_and_the_answer_it_would_have_got_alone(
        clients in proptest::collection::vec(client(), 1..14),
        slots in 1u32..5,
        cuttable in any::<bool>(),
    ) {
        let mut toy = Toy { per_batch: Duration::from_micros(50), ..Toy::new(slots, 160) };
        toy.limits.cuttable = cuttable;
        let engine = toy.start();
        let streams: Vec<Stream> = clients.iter().enumerate().map(|(id, client)| Stream::submit(&engine, id as u64, request(client))).collect();
        for (id, client) in clients.iter().enumerate() {
            if let Some(after) = client.leaves_after {
                std::thread::sleep(Duration::from_micros(u64::from(after) * 40));
                engine.cancel(RequestId(id as u64));
            }
        }
        for (stream, client) in streams.into_iter().zip(&clients) {
            let said: Said = stream.all();
            if client.leaves_after.is_some() && said.end == Event::Failed(EngineError::Cancelled) {
                continue;
            }
            let expected = alone(&toy, request(client));
            prop_assert_eq!(said.ids(), expected.ids());
            prop_assert_eq!(&said.text, &expected.text);
            match (&said.end, &expected.end) {
                (Event::Finished(a), Event::Finished(b)) => prop_assert_eq!((&a.reason, a.usage), (&b.reason, Usage { cached_tokens: a.usage.cached_tokens, ..b.usage })),
                (a, b) => prop_assert_eq!(a, b),
            }
        }
        prop_assert_eq!(engine.gauge().load(), crate::engine::EngineLoad::default());
        prop_assert_eq!(engine.gauge().health(), crate::engine::Health::Serving);
    }
}

#[test]
fn who_has_priority_goes_first_and_who_runs_is_not_interrupted() {
    let toy = Toy { ends: false, per_batch: Duration::from_millis(2), ..Toy::new(1, 400) };
    let engine = toy.start();
    let runs = Stream::submit(&engine, 0, ask("runs", 100));
    assert!(matches!(runs.next(), Event::Started { .. }));
    // All events are said by the engine's thread, so one channel has them in their order.
    let (send, order) = std::sync::mpsc::channel();
    for (id, priority) in [(1, Priority::Low), (2, Priority::Normal), (3, Priority::High), (4, Priority::Normal), (5, Priority::High)] {
        let send = send.clone();
        let sink = move |event| {
            if matches!(event, Event::Finished(_)) {
                send.send(id).expect("somebody listens");
            }
        };
        engine.submit(RequestId(id), GenerateRequest { priority, ..ask("waits", 3) }, Box::new(sink));
    }
    drop(send);
    assert_eq!(runs.all().ids().len(), 100);
    assert_eq!(order.iter().collect::<Vec<_>>(), [3, 5, 2, 4, 1]);
}
