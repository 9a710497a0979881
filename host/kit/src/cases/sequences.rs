//! Copies, cuts and shifts, held against computing from the start. Exact or UNSUPPORTED, and unsupported only where no flag promises it.
//!
//! Cutting and copying are compared within the tolerance, because the same state may lie elsewhere in memory and be added up in another
//! order; what was lost or mixed up is far outside of it.

use onebit_loader::bare::SeqCall;
use onebit_loader::{PluginError, Session, Status};

use super::forward::prompt;
use super::open::typed;
use crate::bench::Bench;
use crate::case::{Case, Failing, Need, Outcome, Stop, fail};
use crate::rows::{Row, feed};

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case::new("sequences.copy", "A copy goes on like its source, which does not notice, and lives on when the source goes", &[Need::Forward], copy),
    Case::new("sequences.copy-part", "A copy of a part is as if only that part had been computed", &[Need::Forward], copy_part),
    Case::new("sequences.copy-refused", "A copy onto a sequence that is not empty is refused, and both are as before", &[Need::Forward], copy_refused),
    Case::new("sequences.remove", "A whole sequence can always be removed, and leaves nothing behind", &[Need::Forward], remove),
    Case::new("sequences.cut", "What was cut at the end is as if it had never been computed", &[Need::Forward], cut),
    Case::new("sequences.cut-middle", "What was cut from the middle is gone in the same way every time", &[Need::Forward], cut_middle),
    Case::new("sequences.shift", "A sequence that was shifted computes as if it had begun there", &[Need::Shift], shift),
    Case::new("sequences.bad-arguments", "Sequences that do not exist and ranges that run backwards are refused", &[Need::Forward], bad_arguments),
];

/// Two sequences, or the case says nothing.
fn two(bench: &Bench) -> Outcome {
    match bench.shape()?.sequences {
        1 => Err(Stop::Skipped("a session of this model holds one sequence".into())),
        _ => Ok(()),
    }
}

/// What `tokens` compute from the start, in two batches, the second beginning at `at`: the rows of the second.
fn fresh(bench: &Bench, tokens: &[u32], at: usize) -> Result<Vec<Row>, Stop> {
    let mut session = bench.shape()?.open(&bench.forward()?)?;
    let (head, tail) = tokens.split_at(at);
    feed(&mut session, 0, 0, head, head.len())?;
    feed(&mut session, 0, at as u32, tail, tail.len())
}

/// Whether a part could be cut or copied; that it cannot is allowed where the flag does not promise it.
fn partly(bench: &Bench, what: &str, result: Result<(), PluginError>) -> Outcome {
    let cut = bench.forward()?.limits().cut;
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.status == Status::UNSUPPORTED && !cut => Err(Stop::Skipped(format!("{what}: unsupported, as the limits say"))),
        Err(error) => fail!("{what}: {error}"),
    }
}

fn copy(bench: &Bench) -> Outcome {
    two(bench)?;
    let (shape, head, tail) = (bench.shape()?, prompt(bench, 0)?, prompt(bench, 1)?);
    let end = head.len() as u32;
    let all = [head.as_slice(), tail.as_slice()].concat();
    let expected = fresh(bench, &all, head.len())?;
    let mut session = shape.open(&bench.forward()?)?;
    feed(&mut session, 0, 0, &head, head.len())?;
    bench.step("copying a sequence");
    session.seq_copy(0, 1, 0, u32::MAX).failed("copying a whole sequence")?;
    bench.step("going on with the copy");
    let copied = feed(&mut session, 1, end, &tail, tail.len())?;
    bench.alike("the copy against computing from the start", &copied, &expected)?;
    bench.step("going on with the source");
    let source = feed(&mut session, 0, end, &tail, tail.len())?;
    bench.alike("the source after its copy went on", &source, &expected)?;
    bench.step("removing the source");
    session.seq_remove(0, 0, u32::MAX).failed("removing the source")?;
    let more = prompt(bench, 2)?;
    let further = feed(&mut session, 1, all.len() as u32, &more, more.len())?;
    let whole = [all.as_slice(), more.as_slice()].concat();
    bench.alike("the copy after its source went", &further, &fresh(bench, &whole, all.len())?)
}

fn copy_part(bench: &Bench) -> Outcome {
    two(bench)?;
    let (shape, head, tail) = (bench.shape()?, prompt(bench, 0)?, prompt(bench, 1)?);
    let keep = head.len() * 2 / 3;
    let mut session = shape.open(&bench.forward()?)?;
    feed(&mut session, 0, 0, &head, head.len())?;
    bench.step("copying a part of a sequence");
    partly(bench, "copying a part", session.seq_copy(0, 1, 0, keep as u32))?;
    let copied = feed(&mut session, 1, keep as u32, &tail, tail.len())?;
    let all = [&head[..keep], tail.as_slice()].concat();
    bench.alike("the part against computing from the start", &copied, &fresh(bench, &all, keep)?)
}

fn copy_refused(bench: &Bench) -> Outcome {
    two(bench)?;
    let (shape, forward, one, other) = (bench.shape()?, bench.forward()?, prompt(bench, 0)?, prompt(bench, 1)?);
    let mut session = shape.open(&forward)?;
    feed(&mut session, 0, 0, &one, one.len())?;
    feed(&mut session, 1, 0, &other, other.len())?;
    for (what, to) in [("another sequence that is not empty", 1), ("itself", 0)] {
        bench.step(&format!("copying a sequence onto {what}"));
        match session.seq_unchecked(SeqCall::Copy, 0, to, [0, u32::MAX], 0) {
            Ok(()) => fail!("a sequence was copied onto {what}"),
            Err(error) => typed(&format!("a copy onto {what}"), &error, &[Status::INVALID_ARGUMENT])?,
        }
    }
    for (sequence, prompt) in [(0, &one), (1, &other)] {
        let rows = feed(&mut session, sequence, prompt.len() as u32, &one, one.len())?;
        let all = [prompt.as_slice(), one.as_slice()].concat();
        bench.alike(&format!("sequence {sequence} after the refusals"), &rows, &fresh(bench, &all, prompt.len())?)?;
    }
    Ok(())
}

fn remove(bench: &Bench) -> Outcome {
    let (shape, forward, one, other) = (bench.shape()?, bench.forward()?, prompt(bench, 0)?, prompt(bench, 1)?);
    let mut session = shape.open(&forward)?;
    bench.step("removing an empty sequence");
    session.seq_remove(0, 0, u32::MAX).failed("removing an empty sequence")?;
    feed(&mut session, 0, 0, &one, one.len())?;
    bench.step("removing a whole sequence");
    session.seq_remove(0, 0, u32::MAX).failed("removing a whole sequence")?;
    let anew = feed(&mut session, 0, 0, &other, other.len())?;
    let expected = feed(&mut shape.open(&forward)?, 0, 0, &other, other.len())?;
    bench.alike("a prompt in place of another", &anew, &expected)?;
    // Room that was given back can be used again, many times over.
    bench.step("using the context many times over");
    for _ in 0..2 * shape.context as usize / one.len().max(1) {
        session.seq_remove(0, 0, u32::MAX).failed("removing a whole sequence")?;
        crate::rows::submit(&mut session, &crate::rows::cells(0, 0, &one), |_| false)
            .failed("computing in the room that was given back")?;
    }
    Ok(())
}

fn cut(bench: &Bench) -> Outcome {
    let (shape, one, other) = (bench.shape()?, prompt(bench, 0)?, prompt(bench, 1)?);
    for keep in [1, one.len() / 2, one.len() - 1] {
        let mut session = shape.open(&bench.forward()?)?;
        feed(&mut session, 0, 0, &one, one.len())?;
        bench.step(&format!("cutting all but {keep} positions"));
        partly(bench, "cutting the end", session.seq_remove(0, keep as u32, u32::MAX))?;
        let rows = feed(&mut session, 0, keep as u32, &other, other.len())?;
        let all = [&one[..keep], other.as_slice()].concat();
        bench.alike(&format!("after a cut to {keep} positions"), &rows, &fresh(bench, &all, keep)?)?;
    }
    Ok(())
}

fn cut_middle(bench: &Bench) -> Outcome {
    let (shape, forward, one, other) = (bench.shape()?, bench.forward()?, prompt(bench, 0)?, prompt(bench, 1)?);
    let third = one.len() as u32 / 3;
    let tell = |session: &mut Session| {
        feed(session, 0, 0, &one, one.len())?;
        partly(bench, "cutting the middle", session.seq_remove(0, third, 2 * third))?;
        feed(session, 0, one.len() as u32, &other, other.len())
    };
    bench.step("cutting from the middle");
    let first = tell(&mut shape.open(&forward)?)?;
    let mut used = shape.open(&forward)?;
    feed(&mut used, 0, 0, &other, other.len())?;
    used.seq_remove(0, 0, u32::MAX).failed("removing a whole sequence")?;
    bench.alike("the same cut in a session that was used before", &tell(&mut used)?, &first)
}

fn shift(bench: &Bench) -> Outcome {
    let (shape, forward, one, other) = (bench.shape()?, bench.forward()?, prompt(bench, 0)?, prompt(bench, 1)?);
    for (start, delta) in [(8_u32, -8_i32), (3, 5), (16, -1)] {
        let mut session = shape.open(&forward)?;
        feed(&mut session, 0, start, &one, one.len())?;
        bench.step(&format!("shifting by {delta}"));
        session.seq_shift(0, 0, u32::MAX, delta).failed("a shift that the limits promise")?;
        let begin = start.saturating_add_signed(delta);
        let rows = feed(&mut session, 0, begin + one.len() as u32, &other, other.len())?;
        let mut unmoved = shape.open(&forward)?;
        feed(&mut unmoved, 0, begin, &one, one.len())?;
        let expected = feed(&mut unmoved, 0, begin + one.len() as u32, &other, other.len())?;
        bench.alike(&format!("from {start} by {delta}, against beginning at {begin}"), &rows, &expected)?;
    }
    let mut session = shape.open(&forward)?;
    feed(&mut session, 0, 2, &one, one.len())?;
    match session.seq_shift(0, 0, u32::MAX, -3) {
        Ok(()) => fail!("a sequence was shifted to a position below 0"),
        Err(error) => typed("a shift below position 0", &error, &[Status::INVALID_ARGUMENT]),
    }
}

fn bad_arguments(bench: &Bench) -> Outcome {
    let (shape, one, other) = (bench.shape()?, prompt(bench, 0)?, prompt(bench, 1)?);
    let mut session = shape.open(&bench.forward()?)?;
    feed(&mut session, 0, 0, &one, one.len())?;
    for (name, call) in [("seq_copy", SeqCall::Copy), ("seq_remove", SeqCall::Remove), ("seq_shift", SeqCall::Shift)] {
        for (what, sequence, destination, range) in [
            ("of a sequence that does not exist", shape.sequences, 0, [0, u32::MAX]),
            ("of sequence 4294967295", u32::MAX, 0, [0, u32::MAX]),
            ("of a range that runs backwards", 0, 1 % shape.sequences, [5, 2]),
        ] {
            bench.step(&format!("{name} {what}"));
            match session.seq_unchecked(call, sequence, destination, range, 1) {
                Ok(()) => fail!("{name} {what} was done"),
                Err(error) => {
                    typed(&format!("{name} {what}"), &error, &[Status::INVALID_ARGUMENT, Status::UNSUPPORTED])?;
                }
            }
        }
    }
    bench.step("seq_copy to a sequence that does not exist");
    if session.seq_unchecked(SeqCall::Copy, 0, shape.sequences, [0, u32::MAX], 0).is_ok() {
        fail!("a sequence was copied to one that does not exist");
    }
    let rows = feed(&mut session, 0, one.len() as u32, &other, other.len())?;
    let all = [one.as_slice(), other.as_slice()].concat();
    bench.alike("the sequence after the refusals", &rows, &fresh(bench, &all, one.len())?)
}
