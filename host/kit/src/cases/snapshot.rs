//! Saved states: `load(save(prefix)) + tail` equals `prefix + tail`, bit for bit, and what is damaged is refused.

use onebit_loader::{Session, Status};

use super::forward::prompt;
use super::open::typed;
use crate::bench::Bench;
use crate::case::{Case, Failing, Need, Outcome, Stop, ensure, fail};
use crate::rows::{Row, feed, submit};

#[rustfmt::skip]
pub(super) static CASES: &[Case] = &[
    Case::new("snapshot.same-sequence", "A saved state goes on bit for bit where it was saved, whatever came between", &[Need::Snapshot], same_sequence),
    Case::new("snapshot.other-session", "A saved state goes on bit for bit in another session and another sequence", &[Need::Snapshot], other_session),
    Case::new("snapshot.other-model", "A saved state goes on bit for bit after the model was closed and opened again", &[Need::Snapshot], other_model),
    Case::new("snapshot.size", "state_size is what state_save writes; a smaller buffer is refused with the size to come back with", &[Need::Snapshot], size),
    Case::new("snapshot.damaged", "A state that is damaged or cut short is refused as invalid, and the sequence is as before", &[Need::Snapshot], damaged),
    Case::new("snapshot.bad-sequence", "A state of or for a sequence that does not exist is refused", &[Need::Snapshot], bad_sequence),
];

/// Several batches behind a prefix: the rows of all.
fn go_on(session: &mut Session, sequence: u32, prefix: usize, tail: &[u32]) -> Result<Vec<Row>, Stop> {
    let (first, rest) = tail.split_at(tail.len() / 2);
    let mut rows = feed(session, sequence, prefix as u32, first, first.len())?;
    rows.extend(feed(session, sequence, (prefix + first.len()) as u32, rest, 1)?);
    Ok(rows)
}

struct Saved {
    state: Vec<u8>,
    prefix: Vec<u32>,
    tail: Vec<u32>,
    expected: Vec<Row>,
}

/// Saves a prefix, and computes what comes behind it in the session it was saved in.
fn save(bench: &Bench) -> Result<(Session, Saved), Stop> {
    let (shape, prefix, tail) = (bench.shape()?, prompt(bench, 0)?, prompt(bench, 1)?);
    let mut session = shape.open(&bench.forward()?)?;
    feed(&mut session, 0, 0, &prefix, prefix.len())?;
    bench.step("saving a sequence");
    let state = session.state_save(0).failed("state_save")?;
    bench.number("state of the prefix", state.len() as f64, "bytes", None);
    let expected = go_on(&mut session, 0, prefix.len(), &tail)?;
    Ok((session, Saved { state, prefix, tail, expected }))
}

fn same_sequence(bench: &Bench) -> Outcome {
    let (mut session, saved) = save(bench)?;
    // Saving must not disturb: the same without it.
    let mut undisturbed = bench.shape()?.open(&bench.forward()?)?;
    feed(&mut undisturbed, 0, 0, &saved.prefix, saved.prefix.len())?;
    let plain = go_on(&mut undisturbed, 0, saved.prefix.len(), &saved.tail)?;
    bench.identical("going on after saving against going on without", &saved.expected, &plain)?;
    bench.step("loading into the sequence that was saved");
    session.state_load(0, &saved.state).failed("state_load")?;
    let rows = go_on(&mut session, 0, saved.prefix.len(), &saved.tail)?;
    bench.identical("load(save(prefix)) + tail against prefix + tail", &rows, &saved.expected)
}

fn other_session(bench: &Bench) -> Outcome {
    let (session, saved) = save(bench)?;
    drop(session);
    let shape = bench.shape()?;
    let mut other = shape.open(&bench.forward()?)?;
    bench.step("loading into another session");
    other.state_load(0, &saved.state).failed("state_load into an empty session")?;
    let rows = go_on(&mut other, 0, saved.prefix.len(), &saved.tail)?;
    bench.identical("another session against the one it was saved in", &rows, &saved.expected)?;
    let last = shape.sequences - 1;
    let busy = prompt(bench, 2)?;
    let mut other = shape.open(&bench.forward()?)?;
    feed(&mut other, last, 0, &busy, busy.len())?;
    bench.step("loading over another state");
    other.state_load(last, &saved.state).failed("state_load over another state")?;
    let rows = go_on(&mut other, last, saved.prefix.len(), &saved.tail)?;
    bench.identical(&format!("sequence {last} of another session, over another state"), &rows, &saved.expected)
}

fn other_model(bench: &Bench) -> Outcome {
    let (session, saved) = save(bench)?;
    drop(session);
    bench.step("opening the model a second time");
    let model = bench.open()?;
    let forward = model.forward().ok_or_else(|| Stop::Failed("opened again, the model has no onebit.forward/1".into()))?;
    let mut other = bench.shape()?.open(&forward)?;
    other.state_load(0, &saved.state).failed("state_load into a model that was opened again")?;
    let rows = go_on(&mut other, 0, saved.prefix.len(), &saved.tail)?;
    bench.identical("a model that was opened again", &rows, &saved.expected)
}

fn size(bench: &Bench) -> Outcome {
    let (mut session, saved) = save(bench)?;
    session.state_load(0, &saved.state).failed("state_load")?;
    let size = session.state_size(0).failed("state_size")?;
    ensure!(size >= saved.state.len() as u64, "state_size says {size} bytes, state_save wrote {}", saved.state.len());
    if size != saved.state.len() as u64 {
        bench.remark(format!("state_size says {size} bytes, state_save wrote {}", saved.state.len()));
    }
    for have in [0, size / 2, size - 1] {
        bench.step(&format!("saving {size} bytes into {have}"));
        let mut buffer = vec![0x5a; have as usize];
        let (result, named) = session.state_save_unchecked(0, &mut buffer).failed("state_save")?;
        let Err(error) = result else {
            ensure!(named <= have, "state_save says that it wrote {named} bytes into {have}");
            continue;
        };
        typed("a buffer that is too small", &error, &[Status::BUFFER_TOO_SMALL])?;
        ensure!(named == size, "state_save came out of a buffer of {have} bytes with {named}; needed are {size}");
        ensure!((error.have, error.need) == (have, size), "reported are have = {}, need = {}, not {have}, {size}", error.have, error.need);
    }
    bench.step("saving an empty sequence");
    let last = bench.shape()?.sequences - 1;
    if last > 0 {
        let empty = session.state_save(last).failed("saving an empty sequence")?;
        session.state_load(last, &empty).failed("loading an empty sequence")?;
        submit(&mut session, &[(0, 0, last)], |_| true).failed("computing in a sequence that was loaded empty")?;
    }
    Ok(())
}

fn damaged(bench: &Bench) -> Outcome {
    let (mut session, saved) = save(bench)?;
    session.state_load(0, &saved.state).failed("state_load")?;
    let state = &saved.state;
    let mut random = bench.random(9);
    let noise: Vec<u8> = (0..state.len()).map(|_| random.u8(..)).collect();
    let mut wrong: Vec<(String, Vec<u8>)> = vec![
        ("no byte".into(), Vec::new()),
        ("one byte".into(), state[..1].to_vec()),
        ("half of it".into(), state[..state.len() / 2].to_vec()),
        ("all but the last byte".into(), state[..state.len() - 1].to_vec()),
        ("one byte more".into(), [state.as_slice(), &[0]].concat()),
        ("noise".into(), noise),
        ("zeros".into(), vec![0; state.len()]),
    ];
    for at in [0, 8.min(state.len() - 1)] {
        let mut flipped = state.clone();
        flipped[at] ^= 0xff;
        wrong.push((format!("byte {at} changed"), flipped));
    }
    for (what, bytes) in &wrong {
        bench.step(&format!("loading a state with {what}"));
        match session.state_load(0, bytes) {
            // What stands for a number may be another good number; then there is nothing to see, and the state is put back.
            Ok(()) if what.starts_with("byte 8") => {
                bench.remark(format!("a state with {what} loads"));
                session.state_load(0, state).failed("state_load")?;
            }
            Ok(()) => fail!("a state with {what} was loaded"),
            Err(error) => typed(&format!("a state with {what}"), &error, &[Status::INVALID_ARGUMENT])?,
        }
    }
    bench.step("going on after all refusals");
    let rows = go_on(&mut session, 0, saved.prefix.len(), &saved.tail)?;
    bench.identical("after all refusals", &rows, &saved.expected)
}

fn bad_sequence(bench: &Bench) -> Outcome {
    let (mut session, saved) = save(bench)?;
    let shape = bench.shape()?;
    for sequence in [shape.sequences, u32::MAX] {
        bench.step(&format!("a state of sequence {sequence}"));
        match session.state_load_unchecked(sequence, &saved.state) {
            Ok(()) => fail!("a state was loaded into sequence {sequence} of {}", shape.sequences),
            Err(error) => typed(&format!("a state for sequence {sequence}"), &error, &[Status::INVALID_ARGUMENT])?,
        }
        let mut buffer = vec![0; saved.state.len()];
        let (result, _) = session.state_save_unchecked(sequence, &mut buffer).failed("state_save")?;
        match result {
            Ok(()) => fail!("sequence {sequence} of {} was saved", shape.sequences),
            Err(error) => typed(&format!("a state of sequence {sequence}"), &error, &[Status::INVALID_ARGUMENT])?,
        }
    }
    Ok(())
}
