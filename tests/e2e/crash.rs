//! Processes that die: the worker in the middle of an answer, while it loads, and the host itself.

use std::time::Duration;

use onebit_tests::processes;
use onebit_tests::server::Home;
use rustix::process::Signal;
use serde_json::json;

use crate::{continuation, question, with};

#[test]
fn a_worker_killed_in_the_middle_of_an_answer_is_an_error_and_is_replaced() {
    let server = Home::with_model().serve();
    let client = server.client();
    let endless = json!({"stream": true, "max_tokens": 4000, "ignore_eos": true, "temperature": 1.0});
    let mut stream = client.stream("/v1/completions", &with(continuation("Count:", 1), &endless));
    assert!(stream.try_next().unwrap().is_some());
    let worker = server.wait_for_worker();
    processes::signal(worker, Signal::KILL);
    let mut last = None;
    while let Ok(Some(event)) = stream.try_next() {
        last = Some(event);
    }
    assert!(!stream.ended_well(), "[DONE] after the worker was killed");
    let last = last.expect("an event that says why");
    let message = last["error"]["message"].as_str().unwrap_or_else(|| panic!("the last event is no error: {last}"));
    assert!(!message.is_empty());

    // The same request works again, on another worker, without anybody's help.
    client.post("/v1/chat/completions", &question("Hi", 1)).good();
    let next = server.wait_for_worker();
    assert_ne!(next, worker);
    assert!(processes::alive(server.pid()));
}

#[test]
fn a_worker_killed_while_it_loads_is_an_error_or_a_second_try_and_the_host_lives() {
    let server = Home::with_model().serve();
    let client = server.client();
    let asking = std::thread::spawn({
        let client = client.clone();
        move || client.try_post("/v1/chat/completions", &question("Hi", 1))
    });
    let worker = server.wait_for_worker();
    processes::signal(worker, Signal::KILL);
    let answer = asking.join().unwrap().expect("an answer, not a broken connection");
    assert!(answer.status == 200 || (502..=503).contains(&answer.status), "{}: {}", answer.status, answer.text);
    if answer.status != 200 {
        answer.error();
    }
    processes::eventually("a good answer after the crash", Duration::from_secs(20), || {
        client.post("/v1/chat/completions", &question("Hi", 1)).status == 200
    });
}

#[test]
fn workers_do_not_outlive_a_killed_host() {
    let mut server = Home::with_model().serve();
    server.client().post("/v1/chat/completions", &question("Hi", 1)).good();
    let workers = server.workers();
    assert_eq!(workers.len(), 1);
    server.kill();
    processes::eventually("the worker is gone", Duration::from_secs(2), || !workers.iter().any(|pid| processes::alive(*pid)));
}

#[test]
fn a_host_that_is_asked_to_end_finishes_the_running_answer() {
    let mut server = Home::with_model().serve();
    let client = server.client();
    client.post("/v1/chat/completions", &question("Hi", 1)).good();
    let body = with(continuation("Once upon a time", 60), &json!({"stream": true, "ignore_eos": true}));
    let mut stream = client.stream("/v1/completions", &body);
    assert!(stream.try_next().unwrap().is_some());
    let worker = server.wait_for_worker();
    let reading = std::thread::spawn(move || {
        let mut events = 1;
        while stream.try_next().unwrap().is_some() {
            events += 1;
        }
        (stream.ended_well(), events)
    });
    let status = server.terminate(Duration::from_secs(30));
    let (ended_well, events) = reading.join().unwrap();
    assert!(ended_well && events > 1, "the answer was cut off after {events} events");
    assert!(status.success(), "{status}");
    assert!(!processes::alive(worker));
}

#[test]
fn a_model_that_is_not_used_leaves_memory_and_comes_back() {
    let server = Home::with_model().env("ONEBIT_KEEP_ALIVE", "1s").serve();
    let client = server.client();
    client.post("/v1/chat/completions", &question("Hi", 1)).good();
    let worker = server.wait_for_worker();
    processes::eventually("the worker is gone", Duration::from_secs(15), || !processes::alive(worker));
    client.post("/v1/chat/completions", &question("Hi", 1)).good();
}
