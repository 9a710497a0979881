//! Batches that break a rule: refused by the plugin itself, with the right numbers, and without a trace.

use onebit_loader::{PluginError, Session, Status};

use super::forward::prompt;
use super::open::typed;
use crate::bench::Bench;
use crate::case::{Case, Failing, Need, Outcome, Stop, ensure, fail};
use crate::rows::{Cell, Shape, cells, feed, submit};

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case::new("forward.refused-batches", "A batch that breaks a rule is refused as invalid, and the state is as before", &[Need::Forward], refused),
    Case::new("forward.overflow", "More positions than the context holds are refused with both numbers, and the state is as before", &[Need::Forward], overflow),
    Case::new("forward.refused-sessions", "A session of impossible size is refused", &[Need::Forward], sessions),
];

/// A session that has computed the prompt, and what it must compute next.
struct Before {
    session: Session,
    prompt: Vec<u32>,
    next: Vec<crate::rows::Row>,
}

/// One more token behind the prompt, in batches of the same sizes.
fn next(session: &mut Session, prompt: &[u32]) -> Result<Vec<crate::rows::Row>, PluginError> {
    submit(session, &[(prompt[0], prompt.len() as u32, 0)], |_| true)
}

fn before(bench: &Bench, shape: Shape) -> Result<Before, Stop> {
    let (forward, prompt) = (bench.forward()?, prompt(bench, 0)?);
    let make = || {
        let mut session = shape.open(&forward)?;
        feed(&mut session, 0, 0, &prompt, shape.batch as usize)?;
        Ok::<Session, Stop>(session)
    };
    let next = next(&mut make()?, &prompt).failed("one more token")?;
    Ok(Before { session: make()?, prompt, next })
}

fn refused(bench: &Bench) -> Outcome {
    let shape = bench.shape()?;
    let vocabulary = bench.forward()?.limits().vocabulary;
    let Before { mut session, prompt, next: expected } = before(bench, shape)?;
    let end = prompt.len() as u32;
    let breaks: [(&str, Vec<Cell>); 9] = [
        ("a gap in front of the first row", vec![(0, end + 1, 0)]),
        ("a position that is there already", vec![(0, end - 1, 0)]),
        ("a gap between two rows", vec![(0, end, 0), (0, end + 2, 0)]),
        ("a position twice", vec![(0, end, 0), (0, end, 0)]),
        ("positions that fall", vec![(0, end + 1, 0), (0, end, 0)]),
        ("a token that does not exist", vec![(0, end, 0), (vocabulary, end + 1, 0)]),
        ("the token 4294967295", vec![(u32::MAX, end, 0)]),
        ("a sequence that does not exist", vec![(0, end, 0), (0, 0, shape.sequences)]),
        ("the sequence 4294967295", vec![(0, end, 0), (0, 0, u32::MAX)]),
    ];
    let large: Vec<u32> = prompt.iter().copied().cycle().take(shape.batch as usize + 1).collect();
    let mut breaks: Vec<(&str, Vec<Cell>)> = breaks.into();
    breaks.push(("one row more than the session was made for", cells(0, end, &large)));
    breaks.push(("no row", Vec::new()));
    for (what, batch) in &breaks {
        bench.step(&format!("a batch with {what}"));
        match submit(&mut session, batch, |_| true) {
            Ok(_) => fail!("a batch with {what} was computed"),
            Err(error) => typed(&format!("a batch with {what}"), &error, &[Status::INVALID_ARGUMENT])?,
        }
    }
    bench.step("one more token after all refusals");
    let after = next(&mut session, &prompt).failed("a valid batch after all refusals")?;
    bench.alike("the next token after all refusals", &after, &expected)
}

fn overflow(bench: &Bench) -> Outcome {
    let shape = bench.shape()?;
    let forward = bench.forward()?;
    let mut session = shape.open(&forward)?;
    let holds = session.allocated().context;
    if holds > 64 << 10 {
        return Err(Stop::Skipped(format!("a session holds {holds} positions where {} were asked for", shape.context)));
    }
    let tokens: Vec<u32> = prompt(bench, 0)?.into_iter().cycle().take(holds as usize).collect();
    bench.step("filling the context");
    let mut at = 0;
    for part in tokens.chunks(shape.batch as usize) {
        submit(&mut session, &cells(0, at, part), |_| false).failed(&format!("filling the context from position {at}"))?;
        at += part.len() as u32;
    }
    for rows in [1, 2.min(shape.batch)] {
        bench.step(&format!("{rows} rows more than the context holds"));
        let batch: Vec<Cell> = (0..rows).map(|row| (0, holds + row, 0)).collect();
        let Err(error) = submit(&mut session, &batch, |_| true) else { fail!("{rows} rows more than the context holds were computed") };
        typed("a batch that does not fit", &error, &[Status::CONTEXT_OVERFLOW])?;
        let (have, need) = (u64::from(holds), u64::from(holds + rows));
        ensure!(
            (error.have, error.need) == (have, need),
            "the context holds {have} positions and {need} were asked for; reported are have = {} and need = {}",
            error.have,
            error.need
        );
    }
    bench.step("going on after room was made");
    session.seq_remove(0, 0, u32::MAX).failed("removing a whole sequence")?;
    let prompt = prompt(bench, 1)?;
    let rows = feed(&mut session, 0, 0, &prompt, prompt.len())?;
    let expected = feed(&mut shape.open(&forward)?, 0, 0, &prompt, prompt.len())?;
    bench.alike("a prompt after an overflow", &rows, &expected)
}

fn sessions(bench: &Bench) -> Outcome {
    let (forward, shape) = (bench.forward()?, bench.shape()?);
    let limits = *forward.limits();
    // The host refuses these by itself; what reaches the plugin is tested by `lies.*` with sizes, and here with what is allowed.
    for (what, wrong) in [
        ("no position", Shape { context: 0, ..shape }),
        ("no sequence", Shape { sequences: 0, ..shape }),
        ("one sequence more than the limits say", Shape { sequences: limits.max_sequences.saturating_add(1), ..shape }),
        ("a batch larger than the limits say", Shape { batch: limits.max_batch.saturating_add(1), ..shape }),
    ] {
        bench.step(&format!("a session with {what}"));
        match wrong.open_unchecked(&forward) {
            Ok(_) => fail!("a session with {what} was made"),
            Err(error) => typed(&format!("a session with {what}"), &error, &[Status::INVALID_ARGUMENT, Status::UNSUPPORTED])?,
        }
    }
    bench.step("a session as small as it goes");
    let small = Shape { context: 1, sequences: 1, batch: 1 };
    let mut session = small.open(&forward)?;
    submit(&mut session, &[(0, 0, 0)], |_| true).failed("one token in a session of one position")?;
    Ok(())
}
