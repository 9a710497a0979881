//! Tokens in, logits out: the laws of a valid batch.

use onebit_loader::{Batch, Input};

use crate::bench::Bench;
use crate::case::{Case, Failing, Need, Outcome, Stop, ensure};
use crate::rows::{Cell, Row, cells, difference, feed, same_bits, submit};

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case::new("forward.determinism", "The same tokens in the same batches give the same bits in a new session", &[Need::Forward], determinism),
    Case::new("forward.uses-tokens", "Logits are finite and depend on the tokens", &[Need::Forward], uses_tokens),
    Case::new("forward.chunks", "A prompt token by token, in chunks and at once computes the same", &[Need::Forward], chunks),
    Case::new("forward.wanted-rows", "Exactly the rows that are wanted come back, in the order of the batch", &[Need::Forward], wanted_rows),
    Case::new("forward.row-order", "The order in which sequences stand in a batch does not matter", &[Need::Forward], row_order),
    Case::new("forward.side-by-side", "Sequences side by side compute what each computes alone", &[Need::Forward], side_by_side),
    Case::new("forward.start-anywhere", "An empty sequence may begin at any position", &[Need::Forward], start_anywhere),
    Case::new("forward.threads", "A session moves between threads, and sessions compute side by side", &[Need::Forward], threads),
    Case::new("forward.embeddings", "Embedding rows are taken where the limits say so, and compute the same each time", &[Need::Embeddings], embeddings),
];

/// Tokens of most prompts.
const LENGTH: usize = 24;

/// A prompt that fits several times into the session.
pub(super) fn prompt(bench: &Bench, which: usize) -> Result<Vec<u32>, Stop> {
    let shape = bench.shape()?;
    bench.prompt(which, LENGTH.min(shape.context as usize / 6).min(shape.batch as usize).max(2))
}

fn determinism(bench: &Bench) -> Outcome {
    let (forward, shape, prompt) = (bench.forward()?, bench.shape()?, prompt(bench, 0)?);
    let once = |step: &str| {
        bench.step(step);
        let mut session = shape.open(&forward)?;
        let mut rows = feed(&mut session, 0, 0, &prompt, shape.batch as usize)?;
        for (token, position) in prompt.iter().zip(prompt.len() as u32..).take(4) {
            rows.extend(submit(&mut session, &[(*token, position, 0)], |_| true).failed("one more token")?);
        }
        Ok(rows)
    };
    let first = once("computing a first time")?;
    ensure!(first.len() == prompt.len() + prompt.len().min(4), "{} rows of logits for {} tokens", first.len(), prompt.len());
    for time in ["second", "third"] {
        bench.identical(&format!("the {time} session against the first"), &first, &once(&format!("computing a {time} time"))?)?;
    }
    Ok(())
}

fn uses_tokens(bench: &Bench) -> Outcome {
    let (forward, shape) = (bench.forward()?, bench.shape()?);
    let compute = |tokens: &[u32]| feed(&mut shape.open(&forward)?, 0, 0, tokens, shape.batch as usize);
    let (one, other) = (prompt(bench, 0)?, prompt(bench, 1)?);
    let rows = compute(&one)?;
    for (index, row) in rows.iter().enumerate() {
        let finite = row.iter().all(|value| !value.is_nan() && *value != f32::INFINITY) && row.iter().any(|value| value.is_finite());
        ensure!(finite, "row {index} has a value that is NaN or +∞, or none that is finite");
    }
    let last = |rows: &[Row]| rows.last().cloned().into_iter().collect::<Vec<_>>();
    ensure!(!same_bits(&last(&rows), &last(&compute(&other)?)), "two different prompts end in the same logits");
    // The same last token behind another one.
    let mut changed = one.clone();
    let end = changed.len();
    changed[end - 2] = *other.iter().find(|token| **token != one[end - 2]).unwrap_or(&0);
    let behind = difference(&last(&rows), &last(&compute(&changed)?));
    bench.number("what the token before changes", behind, "nats", None);
    if behind == 0.0 {
        bench.remark("logits do not depend on the token before the last: most other cases cannot see a wrong state");
    }
    Ok(())
}

fn chunks(bench: &Bench) -> Outcome {
    let (forward, shape, prompt) = (bench.forward()?, bench.shape()?, prompt(bench, 0)?);
    let whole = feed(&mut shape.open(&forward)?, 0, 0, &prompt, prompt.len())?;
    for chunk in [1, 2, 3, 7, prompt.len().div_ceil(2)].into_iter().filter(|chunk| *chunk < prompt.len()) {
        bench.step(&format!("computing in chunks of {chunk}"));
        let parts = feed(&mut shape.open(&forward)?, 0, 0, &prompt, chunk)?;
        bench.alike(&format!("chunks of {chunk} against the whole prompt"), &parts, &whole)?;
    }
    Ok(())
}

fn wanted_rows(bench: &Bench) -> Outcome {
    let (forward, shape, prompt) = (bench.forward()?, bench.shape()?, prompt(bench, 0)?);
    let rows = cells(0, 0, &prompt);
    let all = submit(&mut shape.open(&forward)?, &rows, |_| true).failed("forward")?;
    ensure!(all.len() == rows.len(), "{} rows of logits came, {} were wanted", all.len(), rows.len());
    let last = rows.len() - 1;
    let none: Vec<usize> = Vec::new();
    let third = (1..rows.len()).step_by(3).collect();
    for (what, chosen) in [("only the last row", vec![last]), ("only the first row", vec![0]), ("every third row", third), ("no row", none)]
    {
        bench.step(&format!("computing with {what} wanted"));
        let mut session = shape.open(&forward)?;
        let some = submit(&mut session, &rows, |index| chosen.contains(&index)).failed(what)?;
        let expected: Vec<Row> = chosen.iter().map(|index| all[*index].clone()).collect();
        ensure!(some.len() == expected.len(), "{what}: {} rows of logits came, {} were wanted", some.len(), expected.len());
        bench.alike(&format!("{what}, against the same of all rows"), &some, &expected)?;
        // What was not wanted is in the state all the same.
        let next = submit(&mut session, &[(prompt[0], prompt.len() as u32, 0)], |_| true).failed("one more token")?;
        let mut whole = shape.open(&forward)?;
        feed(&mut whole, 0, 0, &prompt, prompt.len())?;
        let expected = submit(&mut whole, &[(prompt[0], prompt.len() as u32, 0)], |_| true).failed("one more token")?;
        bench.alike(&format!("the next token after {what}"), &next, &expected)?;
    }
    Ok(())
}

/// Prompts of different lengths for several sequences, and what each computes alone.
type Several = (Vec<Vec<u32>>, Vec<Vec<Row>>);

fn several(bench: &Bench) -> Result<Several, Stop> {
    let (forward, shape) = (bench.forward()?, bench.shape()?);
    if shape.sequences < 2 {
        return Err(Stop::Skipped("a session of this model holds one sequence".into()));
    }
    let length = (shape.batch / shape.sequences).clamp(1, 12);
    let prompts = (0..shape.sequences).map(|which| bench.prompt(which as usize, (length - which.min(length - 1)) as usize));
    let prompts = prompts.collect::<Result<Vec<_>, Stop>>()?;
    bench.step("computing each sequence alone");
    let alone = prompts.iter().map(|prompt| feed(&mut shape.open(&forward)?, 0, 0, prompt, prompt.len())).collect::<Result<_, Stop>>()?;
    Ok((prompts, alone))
}

/// Of the rows of a batch, the logits of each sequence.
fn apart(batch: &[Cell], logits: &[Row], sequences: u32) -> Vec<Vec<Row>> {
    let of = |sequence: u32| batch.iter().zip(logits).filter(|(row, _)| row.2 == sequence).map(|(_, logits)| logits.clone()).collect();
    (0..sequences).map(of).collect()
}

fn row_order(bench: &Bench) -> Outcome {
    let (prompts, alone) = several(bench)?;
    let (forward, shape) = (bench.forward()?, bench.shape()?);
    let forwards: Vec<Cell> = (0..).zip(&prompts).flat_map(|(sequence, prompt)| cells(sequence, 0, prompt)).collect();
    let mut backwards = forwards.clone();
    backwards.sort_by_key(|(_, position, sequence)| (u32::MAX - *sequence, *position));
    let mut turns = forwards.clone();
    turns.sort_by_key(|(_, position, sequence)| (*position, *sequence));
    for (what, batch) in [("one after the other", &forwards), ("from the last", &backwards), ("taking turns", &turns)] {
        bench.step(&format!("computing sequences {what}"));
        let logits = submit(&mut shape.open(&forward)?, batch, |_| true).failed(what)?;
        ensure!(logits.len() == batch.len(), "{} rows of logits came, {} were wanted", logits.len(), batch.len());
        for (sequence, rows) in apart(batch, &logits, shape.sequences).iter().enumerate() {
            bench.alike(&format!("sequence {sequence}, {what}, against alone"), rows, &alone[sequence])?;
        }
    }
    Ok(())
}

fn side_by_side(bench: &Bench) -> Outcome {
    let (prompts, alone) = several(bench)?;
    let (forward, shape) = (bench.forward()?, bench.shape()?);
    let mut session = shape.open(&forward)?;
    let mut got: Vec<Vec<Row>> = vec![Vec::new(); prompts.len()];
    bench.step("computing sequences step by step, side by side");
    for position in 0..prompts.iter().map(Vec::len).max().unwrap_or(0) {
        let row = |(sequence, prompt): (u32, &Vec<u32>)| prompt.get(position).map(|token| (*token, position as u32, sequence));
        let batch: Vec<Cell> = (0..).zip(&prompts).filter_map(row).collect();
        let logits = submit(&mut session, &batch, |_| true).failed("one token of each sequence")?;
        ensure!(logits.len() == batch.len(), "{} rows of logits came, {} were wanted", logits.len(), batch.len());
        for (row, logits) in batch.iter().zip(logits) {
            got[row.2 as usize].push(logits);
        }
    }
    for (sequence, (rows, alone)) in got.iter().zip(&alone).enumerate() {
        bench.alike(&format!("sequence {sequence} side by side, against alone"), rows, alone)?;
    }
    Ok(())
}

fn start_anywhere(bench: &Bench) -> Outcome {
    let (forward, shape, prompt) = (bench.forward()?, bench.shape()?, prompt(bench, 0)?);
    let trained = forward.limits().context_trained;
    let far = if trained == 0 { 1000 } else { trained / 2 };
    for start in [1, shape.context / 2, far] {
        bench.step(&format!("beginning at position {start}"));
        let mut session = shape.open(&forward)?;
        let rows = feed(&mut session, 0, start, &prompt, prompt.len())?;
        ensure!(rows.len() == prompt.len(), "{} rows of logits for {} tokens", rows.len(), prompt.len());
        let goes_on = submit(&mut session, &[(prompt[0], start + prompt.len() as u32, 0)], |_| true);
        goes_on.failed(&format!("going on behind a beginning at {start}"))?;
    }
    Ok(())
}

fn threads(bench: &Bench) -> Outcome {
    let (forward, shape, prompt) = (bench.forward()?, bench.shape()?, prompt(bench, 0)?);
    let (head, tail) = prompt.split_at(prompt.len() / 2);
    let mut session = shape.open(&forward)?;
    let mut alone = feed(&mut session, 0, 0, head, head.len())?;
    alone.extend(feed(&mut session, 0, head.len() as u32, tail, tail.len())?);
    drop(session);
    bench.step("moving a session to another thread");
    let gone = || Stop::Failed("a thread of the kit panicked".into());
    let mut session = shape.open(&forward)?;
    let mut moved = feed(&mut session, 0, 0, head, head.len())?;
    let rest = std::thread::scope(|scope| {
        let work = scope.spawn(move || feed(&mut session, 0, head.len() as u32, tail, tail.len()));
        work.join().map_err(|_| gone())
    });
    moved.extend(rest??);
    bench.alike("a session that moved to another thread", &moved, &alone)?;
    bench.step("computing in two sessions at a time");
    let both = std::thread::scope(|scope| {
        let work = || -> Result<Vec<Row>, Stop> {
            let mut rows = Vec::new();
            for _ in 0..3 {
                rows = feed(&mut shape.open(&forward)?, 0, 0, &prompt, head.len())?;
            }
            Ok(rows)
        };
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().map(|thread| thread.join().map_err(|_| gone())?).collect::<Result<Vec<_>, Stop>>()
    })?;
    for rows in &both {
        bench.alike("a session beside another", rows, &alone)?;
    }
    Ok(())
}

fn embeddings(bench: &Bench) -> Outcome {
    let (forward, shape) = (bench.forward()?, bench.shape()?);
    let width = forward.limits().embedding as usize;
    let n = 4.min(shape.batch as usize);
    let mut random = bench.random(5);
    let values: Vec<f32> = (0..n * width).map(|_| random.f32() * 0.2 - 0.1).collect();
    let (positions, sequences, wants_logits) = ((0..n as u32).collect::<Vec<_>>(), vec![0; n], vec![true; n]);
    let compute = |values: &[f32]| {
        let mut session = shape.open(&forward)?;
        let batch = Batch {
            input: Input::Embeddings(values),
            positions: &positions,
            sequences: &sequences,
            wants_logits: &wants_logits,
            cancel: None,
        };
        let logits = session.forward(&batch).failed("a batch of embedding rows")?;
        Ok((0..logits.rows()).map(|row| logits.row(row).to_vec()).collect::<Vec<Row>>())
    };
    let first = compute(&values)?;
    bench.identical("the same embedding rows once more", &first, &compute(&values)?)?;
    let other: Vec<f32> = values.iter().map(|value| -value).collect();
    ensure!(!same_bits(&first, &compute(&other)?), "other embedding rows give the same logits");
    Ok(())
}
