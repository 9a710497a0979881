//! What confining a plugin costs: the same server with its plugin confined and exempted, alternating.
//!
//! One per cent of speed is less than such a machine changes between two breaths, so the turns are short and many.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;

use super::report::{Bar, Report, Series};
use super::{Bench, load};
use crate::server::Server;
use crate::{http, model};

/// The other one, in the tables.
const OPEN: &str = "sandbox off";
const EXEMPT: (&str, &str) = ("ONEBIT_SANDBOX_EXEMPT", "vulkan-ggml");

/// Turns of a round, and what is generated in each.
const TURNS: u32 = 8;
const TOKENS: u32 = 64;
/// Starts of a worker in a round.
const STARTS: u32 = 4;

/// Tokens a second, and the time of a request that starts a worker.
pub fn measure(bench: &Bench, rounds: u32, report: &mut Report) -> Result<()> {
    let mut decode = Series::new("decode, plugin confined", "tok/s", &[Bar::at_least(OPEN, 0.99)]);
    {
        let servers = [("onebit-host", bench.ours("confined", &[])?), (OPEN, bench.ours("exempt", &[EXEMPT])?)];
        for (_, server) in &servers {
            load::decode(server, 8, 0)?;
        }
        for turn in 0..rounds * TURNS {
            for (name, server) in alternating(&servers, turn) {
                decode.add(name, load::decode(server, TOKENS, turn)?);
            }
        }
    }
    let mut start = Series::new("start of a worker, more than without the sandbox", "ms", &[Bar::limit(30.0)]);
    let gone = ("ONEBIT_KEEP_ALIVE", "0s");
    let servers = [("onebit-host", bench.ours("confined-start", &[gone])?), (OPEN, bench.ours("exempt-start", &[gone, EXEMPT])?)];
    for (_, server) in &servers {
        first_answer_ms(server)?;
    }
    for turn in 0..rounds * STARTS {
        let mut took = [0.0; 2];
        for (name, server) in alternating(&servers, turn) {
            took[usize::from(name == OPEN)] = first_answer_ms(server)?;
        }
        start.add("onebit-host", took[0] - took[1]);
    }
    report.extend([decode, start]);
    Ok(())
}

/// Another one first each time.
fn alternating<'a>(servers: &'a [(&'static str, Server); 2], turn: u32) -> [(&'static str, &'a Server); 2] {
    let mut pair = [(servers[0].0, &servers[0].1), (servers[1].0, &servers[1].1)];
    pair.rotate_left(turn as usize % 2);
    pair
}

/// A request to a model that no worker holds, once the worker before is gone.
fn first_answer_ms(server: &Server) -> Result<f64> {
    while !onebit_tests::processes::children(server.pid()).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let since = Instant::now();
    http::post(
        &format!("{}/v1/completions", server.base),
        &json!({"model": model::NAME, "prompt": "Hi", "max_tokens": 1, "temperature": 0}),
    )?;
    Ok(since.elapsed().as_secs_f64() * 1e3)
}
