//! How soon a call ends after it was asked to, and what it leaves.

use std::time::{Duration, Instant};

use onebit_loader::{Batch, CancelFlag, Input, PluginError, Session, Status};

use super::forward::prompt;
use crate::bench::Bench;
use crate::case::{Case, Failing, Need, Outcome, Stop, ensure, fail};
use crate::measure::{Holds, crowded};
use crate::rows::{Shape, cells, feed, submit};

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case::new("cancel.open", "A load ends soon after it is cancelled, and leaves nothing behind", &[Need::Model], open),
    Case { seconds: 120, ..Case::new("cancel.forward", "A prompt ends soon after it is cancelled; its rows removed, the session is as good as new", &[Need::Forward], forward) },
    Case::new("cancel.embed", "Embedding ends soon after it is cancelled", &[Need::Embed], embed),
    Case::new("cancel.rerank", "Ranking ends soon after it is cancelled", &[Need::Rerank], rerank),
];

/// The flag is to be looked at every 50 ms of work. What is held against is more, and the best of [`TRIES`], because the machine of a test
/// has other things to do. How many times longer than its own computing a thread takes there is measured, and the limit is so much longer.
const LIMIT: Duration = Duration::from_millis(250);
/// Times that something is cancelled, until it comes back in time.
const TRIES: usize = 3;

/// When the flag was set and when the call was back.
struct Cancelled<T> {
    late: Duration,
    result: Result<T, PluginError>,
}

/// Calls `work` while another thread sets the flag `after` its beginning.
fn cancelled_after<T>(after: Duration, work: &mut impl FnMut(&CancelFlag) -> Result<T, PluginError>) -> Result<Cancelled<T>, Stop> {
    let flag = CancelFlag::new();
    std::thread::scope(|scope| {
        let theirs = flag.clone();
        let setter = scope.spawn(move || {
            std::thread::sleep(after);
            theirs.set();
            Instant::now()
        });
        let result = work(&flag);
        let back = Instant::now();
        let set = setter.join().map_err(|_| Stop::Failed("a thread of the kit panicked".into()))?;
        Ok(Cancelled { late: back.saturating_duration_since(set), result })
    })
}

/// Cancels `work` `after` its beginning; `whole` is what it takes otherwise.
fn judge<T>(
    bench: &Bench,
    what: &str,
    whole: Duration,
    after: Duration,
    mut work: impl FnMut(&CancelFlag) -> Result<T, PluginError>,
) -> Outcome {
    let mut limit = LIMIT;
    let mut tries = 0;
    let cancelled = loop {
        let cancelled = cancelled_after(after, &mut work)?;
        tries += 1;
        limit = limit.max(LIMIT.mul_f64(crowded()));
        if tries == TRIES || cancelled.late <= if cancelled.result.is_ok() { LIMIT } else { limit } {
            break cancelled;
        }
    };
    let late = cancelled.late.as_secs_f64() * 1e3;
    bench.number(&format!("{what} came back after the flag was set"), late, "ms", Some(limit.as_secs_f64() * 1e3));
    match cancelled.result {
        Err(error) if error.status == Status::CANCELLED => {}
        Err(error) => fail!("{what} was cancelled and answers {error}"),
        // What was nearly done may be done before it looks.
        Ok(_) if cancelled.late <= LIMIT => {}
        Ok(_) => fail!("{what} did not see the flag that was set after {} ms of {}", after.as_millis(), whole.as_millis()),
    }
    ensure!(cancelled.late <= limit, "{what} came back {late:.0} ms after the flag was set, allowed are {}", limit.as_millis());
    Ok(())
}

fn open(bench: &Bench) -> Outcome {
    let path = bench.path()?;
    bench.plugin()?;
    bench.step("opening the model");
    let begin = Instant::now();
    drop(bench.open()?);
    let whole = begin.elapsed();
    bench.number("a whole load", whole.as_secs_f64() * 1e3, "ms", None);
    let before = Holds::now(Some(path));
    for part in [0.0, 0.3, 0.7] {
        let after = whole.mul_f64(part);
        bench.step(&format!("cancelling a load after {} ms", after.as_millis()));
        judge(bench, &format!("a load cancelled after {} ms", after.as_millis()), whole, after, |flag| {
            match bench.open_with(path, flag, &mut |_| {}) {
                Ok(result) => result,
                Err(_) => Err(PluginError::new(Status::INTERNAL, "the kit could not open")),
            }
        })?;
    }
    let now = Holds::settled(Some(path), before.threads);
    ensure!(now.files <= before.files, "cancelled loads leave {} files open", now.files - before.files);
    ensure!(now.mapped == 0, "cancelled loads leave the model mapped {} times", now.mapped);
    if now.threads > before.threads {
        bench.remark(format!("cancelled loads leave {} threads", now.threads - before.threads));
    }
    bench.step("opening the model after all");
    drop(bench.open()?);
    Ok(())
}

/// Tokens of what is cancelled, at most.
const LONG: u32 = 2048;
/// How long what is cancelled should take: long enough to be cancelled in its middle.
const TAKES: f64 = 1.5;

/// How many tokens take [`TAKES`], if `tokens` took `time`.
fn enough(tokens: u32, time: Duration) -> u32 {
    (f64::from(tokens) / time.as_secs_f64().max(1e-6) * TAKES) as u32
}

fn compute(session: &mut Session, tokens: &[u32], flag: &CancelFlag) -> Result<(), PluginError> {
    let positions: Vec<u32> = (0..tokens.len() as u32).collect();
    let (sequences, wants_logits) = (vec![0; tokens.len()], vec![false; tokens.len()]);
    let batch = Batch {
        input: Input::Tokens(tokens),
        positions: &positions,
        sequences: &sequences,
        wants_logits: &wants_logits,
        cancel: Some(flag),
    };
    session.forward(&batch).map(|_| ())
}

fn forward(bench: &Bench) -> Outcome {
    let forward = bench.forward()?;
    let limits = *forward.limits();
    let trained = if limits.context_trained == 0 { LONG } else { limits.context_trained };
    let usual = Shape::usual(&limits);
    let first = bench.prompt(0, usual.batch as usize)?;
    let mut session = usual.open(&forward)?;
    bench.step("finding out how fast it computes");
    compute(&mut session, &first, &CancelFlag::new()).failed("a prompt")?;
    session.seq_remove(0, 0, u32::MAX).failed("removing a whole sequence")?;
    let begin = Instant::now();
    compute(&mut session, &first, &CancelFlag::new()).failed("a prompt")?;
    drop(session);
    let batch = enough(usual.batch, begin.elapsed()).max(usual.batch).min(LONG).min(limits.max_batch).min(trained);
    let shape = Shape { context: batch.max(256).min(trained), sequences: 2.min(limits.max_sequences), batch };
    let tokens = bench.prompt(0, batch as usize)?;
    let mut session = shape.open(&forward)?;
    bench.step(&format!("computing {batch} rows"));
    let begin = Instant::now();
    compute(&mut session, &tokens, &CancelFlag::new()).failed("a whole prompt")?;
    let whole = begin.elapsed();
    bench.number(&format!("a whole prompt of {batch}"), whole.as_secs_f64() * 1e3, "ms", None);
    let short = prompt(bench, 1)?;
    let expected = feed(&mut shape.open(&forward)?, 0, 0, &short, short.len())?;
    for part in [0.0, 0.2, 0.6] {
        let after = whole.mul_f64(part);
        bench.step(&format!("cancelling a prompt after {} ms", after.as_millis()));
        judge(bench, &format!("a prompt cancelled after {} ms", after.as_millis()), whole, after, |flag| {
            session.seq_remove(0, 0, u32::MAX)?;
            compute(&mut session, &tokens, flag)
        })?;
        bench.step("going on after a cancelled prompt");
        session.seq_remove(0, 0, u32::MAX).failed("removing the sequence of a cancelled prompt")?;
        let rows = feed(&mut session, 0, 0, &short, short.len())?;
        bench.alike("a prompt after a cancelled one", &rows, &expected)?;
    }
    // A sequence beside it is not touched.
    if shape.sequences > 1 && shape.context > batch / 2 + 2 * short.len() as u32 {
        bench.step("cancelling beside another sequence");
        session.seq_remove(0, 0, u32::MAX).failed("removing a whole sequence")?;
        submit(&mut session, &cells(1, 0, &short[..1]), |_| false).failed("another sequence")?;
        let part = &tokens[..batch as usize / 2];
        let result = cancelled_after(whole.mul_f64(0.2), &mut |flag: &CancelFlag| compute(&mut session, part, flag))?;
        if let Err(error) = result.result {
            ensure!(error.status == Status::CANCELLED, "a prompt was cancelled and answers {error}");
        }
        session.seq_remove(0, 0, u32::MAX).failed("removing the sequence of a cancelled prompt")?;
        let rows = feed(&mut session, 1, 1, &short[1..], short.len())?;
        bench.alike("a sequence beside a cancelled prompt", &rows, &expected[1..])?;
    }
    Ok(())
}

fn embed(bench: &Bench) -> Outcome {
    let embedder = bench.model()?.embedder().ok_or_else(|| Stop::Skipped("this model has no onebit.embed/1".into()))?;
    text_calls(bench, "embedding", embedder.limits().max_tokens, |text, flag| embedder.embed_unchecked(text, flag))
}

fn rerank(bench: &Bench) -> Outcome {
    let reranker = bench.model()?.reranker().ok_or_else(|| Stop::Skipped("this model has no onebit.rerank/1".into()))?;
    let most = reranker.limits().max_tokens - 1;
    if most == 0 {
        return Err(Stop::Skipped("this model reads one token at a time".into()));
    }
    text_calls(bench, "ranking", most, |text, flag| reranker.rerank_unchecked(&text[..1], text, flag))
}

/// Cancels a call that reads a text of up to `most` tokens.
fn text_calls<T>(bench: &Bench, doing: &str, most: u32, call: impl Fn(&[u32], Option<&CancelFlag>) -> Result<T, PluginError>) -> Outcome {
    let most = (most as usize).min(LONG as usize);
    let text: Vec<u32> = match bench.model()?.forward() {
        Some(_) => bench.prompt(0, most)?,
        None => (0..most as u32).map(|token| token % 16).collect(),
    };
    bench.step(&format!("finding out how fast {doing} is"));
    let few = most.min(64);
    call(&text[..few], None).failed(doing)?;
    let begin = Instant::now();
    call(&text[..few], None).failed(doing)?;
    let most = (enough(few as u32, begin.elapsed()) as usize).clamp(few, most);
    let text = &text[..most];
    bench.step(&format!("{doing} {most} tokens"));
    let begin = Instant::now();
    call(text, None).failed(doing)?;
    let whole = begin.elapsed();
    bench.number(&format!("{doing} {most} tokens"), whole.as_secs_f64() * 1e3, "ms", None);
    for part in [0.0, 0.4] {
        let after = whole.mul_f64(part);
        bench.step(&format!("cancelling it after {} ms", after.as_millis()));
        let what = format!("{doing} cancelled after {} ms", after.as_millis());
        judge(bench, &what, whole, after, |flag| call(text, Some(flag)))?;
    }
    bench.step(&format!("{doing} after all"));
    call(text, None).failed(&format!("{doing} after it was cancelled"))?;
    Ok(())
}
