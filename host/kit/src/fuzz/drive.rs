//! Makes lists, has them run, and makes one that fails as small as it goes.

use std::time::{Duration, Instant};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::{Op, ops};
use crate::KitError;
use crate::case::{State, Verdict};
use crate::message::{Setup, Task};
use crate::process::{Process, Program};

/// Lists that one process runs before it is replaced.
const PER_PROCESS: u64 = 50;
/// The longest that one list may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Processes that are spent on making a list small.
const MAX_SHRINKS: usize = 400;
/// Time that is spent on making a list small.
const SHRINK_TIME: Duration = Duration::from_secs(120);

/// A list that fails.
#[derive(Debug, Clone)]
pub struct Found {
    /// With this seed it is the first list that is tried.
    pub seed: u64,
    /// What fails.
    pub text: String,
    /// As made by chance.
    pub original: Vec<Op>,
    /// As small as it went.
    pub ops: Vec<Op>,
    /// It fails only in a process that has run this many other lists before.
    pub only_after: Option<u64>,
}

/// What fuzzing found.
#[derive(Debug, Clone)]
pub struct FuzzReport {
    /// Lists that were run.
    pub lists: u64,
    /// Operations in them.
    pub operations: u64,
    /// The first that failed; fuzzing ends there.
    pub found: Option<Found>,
    /// Why nothing can be tested, if so.
    pub skipped: Option<String>,
}

/// Runs lists until the time is over or one fails. `hear` is told how many were run.
pub fn fuzz(program: &Program, setup: &Setup, time: Duration, hear: &mut dyn FnMut(u64)) -> Result<FuzzReport, KitError> {
    let deadline = Instant::now() + time;
    let mut report = FuzzReport { lists: 0, operations: 0, found: None, skipped: None };
    let mut process = None;
    let mut run_before = 0;
    while Instant::now() < deadline || report.lists == 0 {
        let seed = setup.seed.wrapping_add(report.lists);
        let mut tree = tree(seed)?;
        let list = tree.current();
        if run_before == PER_PROCESS {
            process = None;
            run_before = 0;
        }
        let running = match &mut process {
            Some(running) => running,
            none => none.insert(Process::start(program, &Task::Fuzz { setup: setup.clone() })?),
        };
        let verdict = ask(running, &list)?;
        report.lists += 1;
        report.operations += list.len() as u64;
        hear(report.lists);
        match verdict.state {
            State::Failed => {
                report.found = Some(shrink(program, setup, seed, tree.as_mut(), verdict.text, run_before)?);
                return Ok(report);
            }
            State::Skipped => {
                report.skipped = Some(verdict.text);
                return Ok(report);
            }
            State::Passed | State::Warned => run_before += 1,
        }
    }
    Ok(report)
}

/// A seed by chance, small enough to be typed.
pub fn chance() -> u64 {
    fastrand::u64(1..1_000_000_000)
}

/// Runs one list in a process of its own.
pub fn replay(program: &Program, setup: &Setup, list: &[Op]) -> Result<Verdict, KitError> {
    let mut process = Process::start(program, &Task::Fuzz { setup: setup.clone() })?;
    ask(&mut process, list)
}

/// A list by chance, with what it can be made of.
fn tree(seed: u64) -> Result<Box<dyn ValueTree<Value = Vec<Op>>>, KitError> {
    let mut bytes = [0_u8; 32];
    for (place, byte) in bytes.iter_mut().zip(seed.to_le_bytes()) {
        *place = byte;
    }
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let tree = ops::lists().new_tree(&mut runner).map_err(|reason| KitError::Message(reason.to_string()))?;
    Ok(Box::new(tree))
}

fn ask(process: &mut Process, list: &[Op]) -> Result<Verdict, KitError> {
    process.send(&list)?;
    Ok(process.verdict(LIMIT).unwrap_or_else(|end| {
        let place = process.step.as_ref().map_or_else(String::new, |step| format!(" in {step}"));
        Verdict::new(State::Failed, format!("{end}{place}"))
    }))
}

fn shrink(
    program: &Program,
    setup: &Setup,
    seed: u64,
    tree: &mut dyn ValueTree<Value = Vec<Op>>,
    text: String,
    run_before: u64,
) -> Result<Found, KitError> {
    let original = tree.current();
    let mut found = Found { seed, text, ops: original.clone(), original, only_after: None };
    let first = replay(program, setup, &found.ops)?;
    if first.state != State::Failed {
        found.only_after = Some(run_before);
        return Ok(found);
    }
    found.text = first.text;
    let deadline = Instant::now() + SHRINK_TIME;
    let mut more = tree.simplify();
    for _ in 0..MAX_SHRINKS {
        if !more || Instant::now() > deadline {
            break;
        }
        let list = tree.current();
        let verdict = replay(program, setup, &list)?;
        if verdict.state == State::Failed {
            (found.ops, found.text) = (list, verdict.text);
            more = tree.simplify();
        } else {
            more = tree.complicate();
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_list_and_another_makes_another() {
        let list = |seed| tree(seed).expect("a list").current();
        assert_eq!(list(7), list(7));
        assert_ne!(list(7), list(8));
    }
}
