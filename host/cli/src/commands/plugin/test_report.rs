//! What `plugin test` shows: a line for each case, what a case that failed found, and the sum.

use std::path::Path;
use std::time::Duration;

use onebit_kit::fuzz::{self, Found, Op};
use onebit_kit::{Case, CaseResult, Number, Plan, Setup, State};
use onebit_loader::PluginFile;
use serde::Serialize;
use serde_json::json;

use crate::exit::{Exit, Failure, use_colour};
use crate::output::{self, note};

/// `--list`.
pub(super) fn list(cases: &[&'static Case], as_json: bool) -> Result<(), Failure> {
    let needs = |case: &Case| case.needs.iter().map(|need| need.name()).collect::<Vec<_>>();
    if as_json {
        let rows: Vec<_> = cases.iter().map(|case| json!({ "id": case.id, "law": case.law, "needs": needs(case) })).collect();
        return output::json(&json!({ "cases": rows }));
    }
    output::line(output::table(&["case", "law"], cases.iter().map(|case| vec![case.id.to_owned(), case.law.to_owned()])))
}

/// What is tested, with what.
pub(super) fn heading(plan: &Plan, file: &PluginFile) -> String {
    let Some(setup) = plan.setups.first() else { return String::new() };
    let doors: Vec<&str> = plan.setups.iter().map(|setup| setup.way.name()).collect();
    let model = setup.model.as_deref().map_or("no model".to_owned(), name);
    let options: String = setup.options.iter().map(|(name, value)| format!(", {name}={value}")).collect();
    format!("{} {}: door {}, on {}, with {model}{options}", file.toml.id, file.toml.version, doors.join(" and "), setup.device)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Shows cases as they end.
pub(super) struct Show {
    only_failed: bool,
    doors: bool,
    colour: bool,
}

impl Show {
    /// `doors`: each line names its door.
    pub(super) fn new(only_failed: bool, doors: bool) -> Self {
        Self { only_failed, doors, colour: use_colour(&std::io::stdout()) }
    }

    /// One case.
    pub(super) fn case(&self, result: &CaseResult) -> Result<(), Failure> {
        let state = result.verdict.state;
        if self.only_failed && matches!(state, State::Passed | State::Skipped) {
            return Ok(());
        }
        let door = if self.doors { format!("{:<5}", result.door.name()) } else { String::new() };
        let mut text = format!("  {} {door}{:<32} {:>6.1} s", self.word(state), result.id, result.seconds);
        let numbers: Vec<String> = result.verdict.numbers.iter().map(number).collect();
        match state {
            State::Passed => text.push_str(&numbers.first().map_or_else(String::new, |first| format!("   {first}"))),
            State::Skipped => text.push_str(&format!("   {}", result.verdict.text)),
            State::Warned | State::Failed => {
                let found = [format!("law: {}", result.law), result.verdict.text.clone()];
                let log = result.log.iter().map(|line| format!("log: {line}"));
                for line in found.into_iter().chain(numbers).chain(log) {
                    text.push_str(&format!("\n         {line}"));
                }
            }
        }
        output::line(text)
    }

    fn word(&self, state: State) -> String {
        let (word, code) = match state {
            State::Passed => ("ok  ", "32"),
            State::Warned => ("warn", "33"),
            State::Failed => ("FAIL", "1;31"),
            State::Skipped => ("skip", "2"),
        };
        if self.colour { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() }
    }
}

fn number(number: &Number) -> String {
    let Number { name, value, unit, limit } = number;
    let short = |value: f64| {
        let text = format!("{value:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let space = if unit.is_empty() { "" } else { " " };
    let limit = limit.map_or_else(String::new, |limit| format!(", at most {}", short(limit)));
    format!("{name}: {}{space}{unit}{limit}", short(*value))
}

/// The sum.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    passed: usize,
    warned: usize,
    failed: usize,
    skipped: usize,
    seconds: f64,
}

impl Summary {
    pub(super) fn of(results: &[CaseResult], took: Duration) -> Self {
        let count = |state| results.iter().filter(|result| result.verdict.state == state).count();
        Self {
            passed: count(State::Passed),
            warned: count(State::Warned),
            failed: count(State::Failed),
            skipped: count(State::Skipped),
            seconds: took.as_secs_f64(),
        }
    }

    pub(super) fn text(&self, plan: &Plan) -> String {
        let Self { passed, warned, failed, skipped, seconds } = self;
        let mut text = format!("{passed} passed, {warned} with a warning, {failed} failed, {skipped} skipped, in {seconds:.0} s");
        if let Some(setup) = plan.setups.first() {
            text.push_str(&format!(" (seed {}, tolerance {} nats)", setup.seed, setup.tolerance));
            if setup.model.is_none() {
                text.push_str("\nWithout a model most of the contract was not tested: give one with --model.");
            }
        }
        text
    }
}

/// `--fuzz`: through each door in turn.
pub(super) fn fuzz(plan: &Plan, file: &PluginFile, time: Duration) -> Result<(), Failure> {
    output::line(heading(plan, file))?;
    for setup in &plan.setups {
        let report = fuzz::fuzz(&plan.program, setup, time / plan.setups.len() as u32, &mut |_| {})
            .map_err(|error| Failure::new(Exit::Other, error))?;
        if let Some(why) = report.skipped {
            return Err(Failure::new(Exit::Usage, format!("nothing to try: {why}")));
        }
        let door = setup.way.name();
        match report.found {
            None => output::line(format!(
                "door {door}: {} lists with {} operations, seeds {} to {}: nothing found",
                report.lists,
                report.operations,
                setup.seed,
                setup.seed.wrapping_add(report.lists - 1)
            ))?,
            Some(found) => {
                output::line(format!("door {door}: list {} fails", report.lists))?;
                output::write(story(setup, &found)?)?;
                return Err(Failure::silent(Exit::Other));
            }
        }
    }
    Ok(())
}

fn story(setup: &Setup, found: &Found) -> Result<String, Failure> {
    let mut text = format!("  {}\n  {} operations, made small from {}:\n", found.text, found.ops.len(), found.original.len());
    for (number, op) in (1..).zip(&found.ops) {
        text.push_str(&format!("    {number:>2}. {op:?}\n"));
    }
    let mut words = format!("onebit-host plugin test {} --door {}", quoted(&setup.dir.to_string_lossy()), setup.way.name());
    if let Some(model) = &setup.model {
        words.push_str(&format!(" --model {}", quoted(&model.to_string_lossy())));
    }
    if setup.device != "cpu" {
        words.push_str(&format!(" --device {}", quoted(&setup.device)));
    }
    for (name, value) in &setup.options {
        words.push_str(&format!(" --option {}", quoted(&format!("{name}={value}"))));
    }
    words.push_str(&format!(" --tolerance {}", setup.tolerance));
    let ops = serde_json::to_string(&found.ops).map_err(|error| Failure::new(Exit::Other, format!("cannot write JSON: {error}")))?;
    text.push_str(&match found.only_after {
        Some(before) => format!(
            "  It fails only in a process that has run {before} lists before. The whole run again:\n    {words} --seed {} --fuzz\n",
            found.seed.wrapping_sub(before)
        ),
        None => format!(
            "  The small list again:\n    {words} --replay {}\n  The whole list again:\n    {words} --seed {} --fuzz 1\n",
            quoted(&ops),
            found.seed
        ),
    });
    Ok(text)
}

/// For a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// `--replay`.
pub(super) fn replay(plan: &Plan, list: &str) -> Result<(), Failure> {
    let ops: Vec<Op> = serde_json::from_str(list).map_err(|error| {
        Failure::new(Exit::Usage, format!("--replay is no list of operations: {error}")).next("Copy it from what --fuzz printed.")
    })?;
    let mut failed = false;
    for setup in &plan.setups {
        let verdict = fuzz::replay(&plan.program, setup, &ops).map_err(|error| Failure::new(Exit::Other, error))?;
        match verdict.state {
            State::Failed => {
                failed = true;
                output::line(format!("door {}: {}", setup.way.name(), verdict.text))?;
            }
            State::Skipped => note(format!("door {}: nothing was tried: {}", setup.way.name(), verdict.text)),
            State::Passed | State::Warned => output::line(format!("door {}: {} operations, nothing found", setup.way.name(), ops.len()))?,
        }
    }
    if failed { Err(Failure::silent(Exit::Other)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell_are_quoted_where_they_must_be() {
        assert_eq!(quoted("/a/b-c.gguf"), "/a/b-c.gguf");
        assert_eq!(quoted("[{\"remove\":1}]"), "'[{\"remove\":1}]'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

    #[test]
    fn a_number_is_short_and_stands_beside_its_limit() {
        let of = |value, limit| number(&Number { name: "growth".into(), value, unit: "KiB".into(), limit });
        assert_eq!(of(12.0, Some(4096.0)), "growth: 12 KiB, at most 4096");
        assert_eq!(of(0.0312, None), "growth: 0.0312 KiB");
    }
}
