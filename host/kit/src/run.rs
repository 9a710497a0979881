//! Which cases are run, and what came of each.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use onebit_loader::HostSink;
use serde::Serialize;

use crate::KitError;
use crate::bench::{Bench, Voice};
use crate::case::{Case, Need, State, Verdict};
use crate::message::{Setup, Task, Way};
use crate::process::{Process, Program};

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How processes are started.
    pub program: Program,
    /// With what, once for each way into the plugin.
    pub setups: Vec<Setup>,
    /// Capabilities that the plugin's note lists.
    pub capabilities: Vec<String>,
    /// Cases at a time.
    pub jobs: usize,
}

/// One case, run.
#[derive(Debug, Clone, Serialize)]
pub struct Result {
    /// The case's id.
    pub id: &'static str,
    /// Its law.
    pub law: &'static str,
    /// Through which door.
    pub door: Way,
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What the plugin logged meanwhile: warnings and errors, the last of them.
    pub log: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// The cases whose ids match a pattern of `include` (all, if there is none) and none of `exclude`. A pattern is a part of an id, or has `*`.
pub fn select(include: &[String], exclude: &[String]) -> Vec<&'static Case> {
    let wanted = |id: &str| include.is_empty() || include.iter().any(|pattern| matches(pattern, id));
    crate::cases::all().filter(|case| wanted(case.id) && !exclude.iter().any(|pattern| matches(pattern, case.id))).collect()
}

fn matches(pattern: &str, id: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return id.contains(pattern) };
    let Some(mut left) = id.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(tail)
}

/// Runs cases, each in a process of its own. `hear` is told of each as it ends, in the order of the table where one runs at a time.
pub fn run(plan: &Plan, cases: &[&'static Case], hear: &(dyn Fn(&Result) + Sync)) -> std::result::Result<Vec<Result>, KitError> {
    let work: Vec<(&Setup, &'static Case)> = plan.setups.iter().flat_map(|setup| cases.iter().map(move |case| (setup, *case))).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, std::result::Result<Result, KitError>)>> = Mutex::new(Vec::new());
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((setup, case)) = work.get(index) else { break };
            let result = one(plan, setup, case);
            let failed = result.is_err();
            if let Ok(result) = &result {
                hear(result);
            }
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
            if failed {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..plan.jobs {
            scope.spawn(worker);
        }
        worker();
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Why a case cannot be run, as far as that can be told without the plugin.
fn lacks(plan: &Plan, setup: &Setup, case: &Case) -> Option<String> {
    for need in case.needs {
        if let Some(capability) = need.capability().filter(|id| !plan.capabilities.iter().any(|listed| listed == id)) {
            return Some(format!("the plugin does not offer {capability}"));
        }
    }
    let needs_model = case.needs.iter().any(|need| !matches!(need, Need::Model)) || case.needs.contains(&Need::Model);
    (needs_model && setup.model.is_none()).then(|| "needs a model; give one with --model".to_owned())
}

fn one(plan: &Plan, setup: &Setup, case: &'static Case) -> std::result::Result<Result, KitError> {
    let begin = Instant::now();
    let (verdict, log) = match lacks(plan, setup, case) {
        Some(why) => (Verdict::new(State::Skipped, why), Vec::new()),
        None => in_a_process(&plan.program, setup, case)?,
    };
    Ok(Result { id: case.id, law: case.law, door: setup.way, verdict, log, seconds: begin.elapsed().as_secs_f64() })
}

fn in_a_process(program: &Program, setup: &Setup, case: &'static Case) -> std::result::Result<(Verdict, Vec<String>), KitError> {
    let mut process = Process::start(program, &Task::Case { setup: setup.clone(), id: case.id.to_owned() })?;
    let heard = process.verdict(Duration::from_secs(case.seconds));
    let at = process.step.take();
    let mut verdict = match heard {
        Ok(verdict) if case.ends_by_itself && verdict.state != State::Failed => ended(&mut process, verdict),
        Ok(verdict) => verdict,
        Err(end) => {
            let place = at.map_or_else(String::new, |step| format!(" while: {step}"));
            let [out, err] = process.printed();
            let words =
                [out, err].iter().find_map(|text| last_line(text)).map_or_else(String::new, |line| format!("; its last words: {line}"));
            Verdict::new(State::Failed, format!("{end}{place}{words}"))
        }
    };
    if verdict.state == State::Passed
        && let Some(text) = noise(&process.printed())
    {
        verdict.state = State::Warned;
        verdict.text = text;
    }
    Ok((verdict, std::mem::take(&mut process.log)))
}

/// A process whose case is done has nothing left to do but to end.
fn ended(process: &mut Process, verdict: Verdict) -> Verdict {
    const GRACE: Duration = Duration::from_secs(20);
    match process.wait(Instant::now() + GRACE) {
        Some(status) if status.success() => match noise(&process.printed()) {
            Some(text) => Verdict { state: State::Failed, text, ..verdict },
            None => verdict,
        },
        Some(status) => {
            Verdict { state: State::Failed, text: format!("at its end, the process {}", crate::process::describe(status)), ..verdict }
        }
        None => Verdict { state: State::Failed, text: format!("the process did not end within {} s", GRACE.as_secs()), ..verdict },
    }
}

fn noise(printed: &[String; 2]) -> Option<String> {
    let stream = |name: &str, text: &String| last_line(text).map(|line| format!("{} bytes were written to {name}: {line:?}", text.len()));
    stream("standard output", &printed[0]).or_else(|| stream("standard error", &printed[1]))
}

fn last_line(text: &str) -> Option<String> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(|line| line.chars().take(200).collect())
}

/// Runs one case in this very process, for a debugger. Whatever the plugin does to its process it does to this one.
pub fn run_here(setup: &Setup, case: &'static Case) -> Result {
    let begin = Instant::now();
    let verdict = Bench::new(setup.clone(), Box::new(Here)).judge(case);
    Result { id: case.id, law: case.law, door: setup.way, verdict, log: Vec::new(), seconds: begin.elapsed().as_secs_f64() }
}

/// Nobody listens: a debugger sees where it is.
struct Here;

impl Voice for Here {
    fn step(&self, _what: &str) {}

    fn sink(&self) -> HostSink {
        HostSink::tracing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_part_of_an_id_or_has_stars() {
        for (pattern, id, expected) in [
            ("forward", "forward.determinism", true),
            ("min", "forward.determinism", true),
            ("forward.*", "forward.determinism", true),
            ("*.det*", "forward.determinism", true),
            ("*.det", "forward.determinism", false),
            ("open.*", "forward.determinism", false),
            ("forward*ism", "forward.determinism", true),
        ] {
            assert_eq!(matches(pattern, id), expected, "{pattern}");
        }
    }

    #[test]
    fn included_and_not_excluded_cases_are_selected() {
        let ids = |include: &[&str], exclude: &[&str]| -> Vec<&str> {
            let owned = |patterns: &[&str]| patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>();
            select(&owned(include), &owned(exclude)).iter().map(|case| case.id).collect()
        };
        assert_eq!(ids(&[], &[]).len(), crate::cases::all().count());
        assert_eq!(ids(&["forward.determinism"], &[]), ["forward.determinism"]);
        assert!(ids(&["forward"], &["determinism"]).iter().all(|id| id.contains("forward") && !id.contains("determinism")));
    }
}
