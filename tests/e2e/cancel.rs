//! A client that leaves takes its work with it.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use onebit_tests::server::{Home, Server};
use onebit_tests::{processes, raw};
use serde_json::{Value, json};

use crate::{continuation, question, with};

/// Work that does not end by itself.
fn endless(prompt: &str) -> Value {
    with(continuation(prompt, 1), &json!({"temperature": 1.0, "max_tokens": 4000, "ignore_eos": true}))
}

/// One slot, so that a dead request would block the next one.
fn one_slot() -> Server {
    let server = Home::with_model().env("ONEBIT_SLOTS", "1").env("ONEBIT_CONTEXT", "8192").serve();
    server.client().post("/v1/chat/completions", &question("Hi", 1)).good();
    server
}

/// How long the worker goes on computing from now, up to two seconds.
fn computes_for(worker: u32) -> Duration {
    let since = Instant::now();
    let mut last_work = Duration::ZERO;
    let mut before = processes::cpu_time_ns(worker);
    while since.elapsed() < Duration::from_secs(2) && since.elapsed() - last_work < Duration::from_millis(400) {
        std::thread::sleep(Duration::from_millis(10));
        let now = processes::cpu_time_ns(worker);
        // Half of a core over the interval is work; a heartbeat is not.
        if now - before > 5_000_000 {
            last_work = since.elapsed();
        }
        before = now;
    }
    last_work
}

#[test]
fn a_client_that_leaves_frees_its_slot() {
    let server = one_slot();
    let worker = server.wait_for_worker();
    let long = "The tide came in and the boats rose with it. ".repeat(180);
    // name, request, whether to wait for first bytes before leaving
    let cases = [
        ("stream, after the first bytes", with(endless("Count:"), &json!({"stream": true})), true),
        ("no stream, after half a second", endless("Count:"), false),
        ("while the prompt is computed", with(endless(&long), &json!({"stream": true})), false),
    ];
    for (name, body, wait) in cases {
        let mut socket = raw::connect(server.port);
        socket.write_all(&raw::post("/v1/completions", &[], body.to_string().as_bytes())).unwrap();
        if wait {
            assert!(socket.read(&mut [0; 256]).unwrap() > 0);
        } else {
            std::thread::sleep(Duration::from_millis(500));
        }
        let before = processes::cpu_time_ns(worker);
        std::thread::sleep(Duration::from_millis(150));
        assert!(processes::cpu_time_ns(worker) - before > 20_000_000, "{name}: it was not being computed");
        drop(socket);
        let went_on = computes_for(worker);
        assert!(went_on < Duration::from_millis(600), "{name}: the worker computed for another {went_on:?}");
        let since = Instant::now();
        server.client().post("/v1/completions", &continuation("Hi", 1)).good();
        assert!(since.elapsed() < Duration::from_secs(3), "{name}: the next request waited {:?}", since.elapsed());
    }
}

#[test]
fn two_hundred_clients_that_leave_leave_nothing_behind() {
    let server = one_slot();
    let body = with(endless("Count:"), &json!({"stream": true})).to_string();
    let worker = server.wait_for_worker();
    let leave = || {
        let mut socket = raw::connect(server.port);
        socket.write_all(&raw::post("/v1/completions", &[], body.as_bytes())).unwrap();
        assert!(socket.read(&mut [0; 64]).unwrap() > 0);
    };
    for _ in 0..20 {
        leave();
    }
    server.client().post("/v1/completions", &continuation("Hi", 1)).good();
    let state = || [server.pid(), worker].map(|pid| (processes::descriptors(pid), processes::threads(pid), processes::rss(pid)));
    let before = state();
    for _ in 0..180 {
        leave();
    }
    server.client().post("/v1/completions", &continuation("Hi", 1)).good();
    std::thread::sleep(Duration::from_millis(300));
    for (before, after) in before.iter().zip(state()) {
        assert!(after.0 <= before.0 + 4, "descriptors {} → {}", before.0, after.0);
        assert!(after.1 <= before.1 + 4, "threads {} → {}", before.1, after.1);
        assert!(after.2 <= before.2 + (16 << 20), "resident bytes {} → {}", before.2, after.2);
    }
}
