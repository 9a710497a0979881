//! What is left after many times of the same.
//!
//! Files, threads and mappings are counted exactly. What was allocated and not freed may grow by [`ALLOWED`] in all, after some cycles that
//! nobody counts: caches fill. The memory of the process may grow by [`KEPT`], because allocators keep some; that finds what was allocated
//! by other means than malloc. What leaks 20 KiB each time is found.

use std::path::Path;
use std::time::{Duration, Instant};

use super::files;
use super::forward::prompt;
use crate::bench::Bench;
use crate::case::{Case, Need, Outcome, Stop, ensure, fail};
use crate::measure::{Holds, running};
use crate::rows::feed;

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case { seconds: 120, ..Case::new("leaks.models", "Opening and closing a model 50 times leaves no file, mapping, thread or memory", &[Need::Model], models) },
    Case { seconds: 120, ..Case::new("leaks.sessions", "Making and closing a session 50 times leaves nothing", &[Need::Forward], sessions) },
    Case { seconds: 120, ..Case::new("leaks.batches", "Computing the same 200 times in one session leaves nothing", &[Need::Forward], batches) },
    Case::new("leaks.failed-loads", "Loads that fail leave nothing behind", &[], failed_loads),
    Case::new("leaks.threads", "After a model is closed no thread of it computes", &[Need::Model], threads),
];

/// Bytes that may be allocated and not freed, in all.
const ALLOWED: u64 = 1 << 20;
/// Bytes by which the memory of the process may grow, in all.
const KEPT: u64 = 32 << 20;
/// Cycles that nobody counts.
const WARM: usize = 4;
/// Cycles that are counted at least, however long they take.
const FEWEST: usize = 10;
/// Nobody waits longer for a number of cycles.
const PATIENCE: Duration = Duration::from_secs(8);

/// Does `work` some times without counting and `cycles` times with, and compares what the process holds.
fn grows(bench: &Bench, cycles: usize, mut work: impl FnMut() -> Outcome) -> Outcome {
    let model = bench.setup.model.as_deref();
    for cycle in 0..WARM {
        bench.step(&format!("warming up, cycle {cycle}"));
        work()?;
    }
    let before = Holds::now(model);
    let begin = Instant::now();
    let mut done = 0;
    while done < cycles && (done < FEWEST || begin.elapsed() < PATIENCE) {
        bench.step(&format!("cycle {done}"));
        work()?;
        done += 1;
    }
    if done < cycles {
        // Enough to see a leak in, and no more is asked of a model that loads slowly.
        bench.number("cycles in the time there is", done as f64, "", None);
    }
    left(bench, &before, &Holds::settled(model, before.threads), done)
}

fn left(bench: &Bench, before: &Holds, now: &Holds, cycles: usize) -> Outcome {
    let growth = now.memory.saturating_sub(before.memory);
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    let unfreed = match (before.allocated, now.allocated) {
        (Some(before), Some(now)) => now.saturating_sub(before),
        _ => 0,
    };
    bench.number(&format!("not freed after {cycles} cycles"), kib(unfreed), "KiB", Some(kib(ALLOWED)));
    bench.number("growth of the process", kib(growth), "KiB", Some(kib(KEPT)));
    ensure!(now.files <= before.files, "{cycles} cycles leave {} files open", now.files - before.files);
    ensure!(now.mapped <= before.mapped, "{cycles} cycles leave the model mapped {} times more", now.mapped - before.mapped);
    ensure!(
        now.threads <= before.threads,
        "{cycles} cycles leave {} threads more than the {} there were",
        now.threads - before.threads,
        before.threads
    );
    ensure!(unfreed <= ALLOWED, "{cycles} cycles leave {:.0} KiB that nobody freed, allowed are {:.0}", kib(unfreed), kib(ALLOWED));
    ensure!(growth <= KEPT, "the process grew by {:.0} KiB in {cycles} cycles, allowed are {:.0}", kib(growth), kib(KEPT));
    Ok(())
}

fn models(bench: &Bench) -> Outcome {
    bench.path()?;
    grows(bench, 50, || {
        let model = bench.open()?;
        if let Some(forward) = model.forward() {
            let shape = crate::rows::Shape::usual(forward.limits());
            feed(&mut shape.open(&forward)?, 0, 0, &[0, 0], 2)?;
        }
        Ok(())
    })?;
    let mapped = Holds::now(bench.setup.model.as_deref()).mapped;
    ensure!(mapped == 0, "all models are closed, and the file is mapped {mapped} times");
    Ok(())
}

fn sessions(bench: &Bench) -> Outcome {
    let (forward, shape, prompt) = (bench.forward()?, bench.shape()?, prompt(bench, 0)?);
    grows(bench, 50, || {
        let mut session = shape.open(&forward)?;
        feed(&mut session, 0, 0, &prompt, prompt.len())?;
        Ok(())
    })
}

fn batches(bench: &Bench) -> Outcome {
    let (forward, shape, prompt) = (bench.forward()?, bench.shape()?, prompt(bench, 0)?);
    let mut session = shape.open(&forward)?;
    let limits = *forward.limits();
    grows(bench, 200, || {
        session.seq_remove(0, 0, u32::MAX).map_err(|error| Stop::Failed(format!("removing a whole sequence: {error}")))?;
        feed(&mut session, 0, 0, &prompt[..prompt.len().min(8)], 8)?;
        if limits.snapshot {
            let state = session.state_save(0).map_err(|error| Stop::Failed(format!("state_save: {error}")))?;
            session.state_load(0, &state).map_err(|error| Stop::Failed(format!("state_load: {error}")))?;
        }
        // A refusal must not cost anything either.
        if crate::rows::submit(&mut session, &[(0, shape.context, 0)], |_| true).is_ok() {
            fail!("a batch with a gap was computed");
        }
        Ok(())
    })
}

fn failed_loads(bench: &Bench) -> Outcome {
    bench.plugin()?;
    let bad = files::bad(bench)?;
    // The large ones cost the kit memory, not the plugin; what they show is shown by `open.bad-files`.
    let small = |path: &Path| std::fs::metadata(path).map_or(true, |metadata| metadata.len() < 1 << 20);
    let bad: Vec<_> = bad.into_iter().filter(|bad| small(&bad.path)).collect();
    grows(bench, 20, || {
        for bad in &bad {
            bench.step(&format!("open of {}", bad.what));
            // What opens after all is closed again, and `open.bad-files` says so.
            drop(bench.open_with(&bad.path, &onebit_loader::CancelFlag::new(), &mut |_| {})?);
        }
        Ok(())
    })
}

fn threads(bench: &Bench) -> Outcome {
    let path = bench.path()?;
    bench.plugin()?;
    let before = Holds::now(Some(path));
    let model = bench.open()?;
    if let Some(forward) = model.forward() {
        let shape = crate::rows::Shape::usual(forward.limits());
        feed(&mut shape.open(&forward)?, 0, 0, &[0, 0], 2)?;
    }
    bench.step("closing the model");
    drop(model);
    let now = Holds::settled(Some(path), before.threads);
    if now.threads > before.threads {
        bench.remark(format!("{} threads are left after the model was closed", now.threads - before.threads));
    }
    const LOOKS: usize = 30;
    let busy = (0..LOOKS).filter(|_| {
        std::thread::sleep(Duration::from_millis(20));
        running() > 0
    });
    let busy = busy.count();
    let most = LOOKS / 2;
    bench.number(&format!("of {LOOKS} looks found a thread computing"), busy as f64, "", Some(most as f64));
    ensure!(busy <= most, "the model is closed, and still a thread computes at {busy} of {LOOKS} looks");
    Ok(())
}
