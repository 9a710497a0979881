//! What the front process costs when nobody asks, how soon it is ready, how soon work stops, and whether anything stays behind.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use onebit_tests::processes;
use serde_json::json;

use super::report::{Bar, Report, Series};
use super::{Bench, load};
use crate::server::Server;
use crate::{http, model};

/// How often a worker is looked at that should have stopped.
const LOOK: Duration = Duration::from_millis(5);

/// All of it.
pub fn measure(bench: &Bench, cycles: u32, rounds: u32, report: &mut Report) -> Result<()> {
    let mut ready = Series::new("ready after start, warm probe cache", "ms", &[Bar::limit(150.0)]);
    let mut idle = Series::new("front process, idle", "MiB", &[Bar::limit(25.0)]);
    for _ in 0..rounds {
        let server = bench.ours("idle", &[])?;
        ready.add("onebit-host", server.ready_after.as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(500));
        idle.add("onebit-host", mib(processes::rss(server.pid())));
    }
    let mut cancel = Series::new("decode goes on after a client left", "ms", &[Bar::limit(100.0)]);
    let server = bench.ours("cancel", &[])?;
    load::decode(&server, 8, 0)?;
    for _ in 0..rounds {
        cancel.add("onebit-host", cancel_ms(&server)?);
    }
    drop(server);
    report.extend([ready, idle, cancel, cycle(bench, cycles)?]);
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn worker(server: &Server) -> Result<u32> {
    let is_worker = |pid: &u32| processes::command_line(*pid).iter().any(|word| word == "worker");
    processes::children(server.pid()).into_iter().find(is_worker).context("the server has no worker")
}

/// How long the worker's threads go on computing after the connection is closed, by the kernel's own count of their time.
fn cancel_ms(server: &Server) -> Result<f64> {
    let worker = worker(server)?;
    let body = json!({"model": model::NAME, "prompt": "Count:", "max_tokens": 900, "ignore_eos": true, "temperature": 1.0, "stream": true});
    let mut events = 0;
    http::stream(&format!("{}/v1/completions", server.base), &body, |_| {
        events += 1;
        events < 20
    })?;
    let left = Instant::now();
    // Looked at every few milliseconds, so this is the least that can be said.
    let (mut worked_until, mut before) = (LOOK, processes::cpu_time_ns(worker));
    while left.elapsed() < worked_until + Duration::from_millis(300) {
        ensure!(left.elapsed() < Duration::from_secs(5), "the worker still computes five seconds after its client left");
        std::thread::sleep(LOOK);
        let now = processes::cpu_time_ns(worker);
        // A fifth of a core over the interval is work; a heartbeat is not.
        if now - before > 1_000_000 {
            worked_until = left.elapsed();
        }
        before = now;
    }
    Ok(worked_until.as_secs_f64() * 1e3)
}

/// Loads and unloads; what the front's memory grew by after the first ten.
fn cycle(bench: &Bench, cycles: u32) -> Result<Series> {
    let mut growth = Series::new(&format!("front process after {cycles} load/unload cycles, growth"), "MiB", &[Bar::limit(5.0)]);
    let server = bench.ours("cycles", &[("ONEBIT_KEEP_ALIVE", "0s")])?;
    let body = json!({"model": model::NAME, "prompt": "Hi", "max_tokens": 1, "temperature": 0});
    let mut start = 0;
    for n in 1..=cycles {
        http::post(&format!("{}/v1/completions", server.base), &body)?;
        let since = Instant::now();
        while !processes::children(server.pid()).is_empty() {
            ensure!(since.elapsed() < Duration::from_secs(20), "a child of the host is left 20 s after cycle {n}");
            std::thread::sleep(Duration::from_millis(10));
        }
        // The first cycles fill pools and caches that stay.
        if n == 10.min(cycles) {
            start = processes::rss(server.pid());
        }
        if n % 20 == 0 {
            eprintln!("    {n} cycles: {:.1} MiB", mib(processes::rss(server.pid())));
        }
    }
    growth.add("onebit-host", mib(processes::rss(server.pid())) - mib(start));
    Ok(growth)
}
