//! `cargo xtask test`: every check and every test, in the order in which a failure is cheapest to learn of.
//!
//! A failed step does not stop the others, unless they stand on it. The last line sums up what ran.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{abi_diff, cargo, fuzz, model, paths, process, setup, stage, vulkan_sdk};

/// Options of `test`.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Only the checks and the tests that need no built tree and no model.
    #[arg(long)]
    quick: bool,
    /// Also ask the advisory database (needs to reach it).
    #[arg(long)]
    advisories: bool,
    #[command(flatten)]
    setup: setup::Args,
}

const PLUGIN: &str = "onebit-plugin-vulkan-ggml";
const DENY_VERSION: &str = "0.20.2";
/// Long enough to see a law that is plainly broken; real fuzzing is `cargo xtask fuzz`.
const FUZZ_EACH: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Tally {
    passed: u64,
    failed: u64,
    lines: Vec<String>,
}

impl Tally {
    /// One check without tests of its own: counts as one.
    fn check(&mut self, what: &str, job: impl FnOnce() -> Result<()>) -> bool {
        let since = process::begin(what);
        let result = job();
        match &result {
            Ok(()) => self.passed += 1,
            Err(error) => {
                eprintln!("    FAILED: {error:#}");
                self.failed += 1;
            }
        }
        self.line(what, since, if result.is_ok() { "ok" } else { "FAILED" });
        result.is_ok()
    }

    /// A test runner: its own numbers count; one that dies before it has any counts as one failure.
    fn tests(&mut self, what: &str, command: Result<Command>) {
        let since = process::begin(what);
        let outcome = command.and_then(|command| run_counted(command, &mut std::io::stderr()));
        let state = match outcome {
            Ok((count, true)) => {
                self.passed += count.passed;
                self.failed += count.failed;
                format!("{} passed, {} failed", count.passed, count.failed)
            }
            Ok((count, false)) => {
                self.passed += count.passed;
                self.failed += count.failed.max(1);
                format!("FAILED: {} passed, {} failed", count.passed, count.failed.max(1))
            }
            Err(error) => {
                self.failed += 1;
                format!("FAILED: {error:#}")
            }
        };
        self.line(what, since, &state);
    }

    fn line(&mut self, what: &str, since: Instant, state: &str) {
        let line = format!("{:<58} {:>12}  {state}", what, process::short(since.elapsed()));
        eprintln!("    {line}");
        self.lines.push(line);
    }
}

/// Everything.
pub fn run(args: &Args) -> Result<()> {
    let since = Instant::now();
    let mut tally = Tally::default();
    let nextest = process::find("cargo-nextest").is_some();
    let tools = vulkan_sdk::find(args.setup.portable_shaders)?.filter(|_| crate::packages::missing().is_empty());
    let Some(tools) = tools else { bail!("this machine is not set up: run `cargo xtask setup`") };

    tally.check("formatting", || process::run(&mut cargo::command(&["fmt", "--all", "--check"])?));
    tally.check("lints", || {
        let words =
            ["clippy", "--workspace", "--exclude", PLUGIN, "--all-targets", "--features", "onebit-tests/e2e", "--", "-D", "warnings"];
        process::run(&mut cargo::command(&words)?)
    });
    tally.check("licences, bans and sources of dependencies", || deny(args.advisories));

    tally.check("the plugin ABI against every minor that was released", abi_diff::against_all_minors);

    // The model comes before the first test, because tests beside the code use it too.
    let model = std::cell::OnceCell::new();
    if !args.quick {
        tally.check("demo model", || {
            let file = model::ensure_here(&model::Args::default())?;
            let _ = model.set(file);
            Ok(())
        });
    }
    let spins = worker_variable("GOMP_SPINCOUNT")?;
    let environment = |mut command: Command, dist: Option<&PathBuf>| {
        if let Some(folder) = model.get().and_then(|file| file.parent()) {
            command.env("ONEBIT_TEST_MODELS", folder);
        }
        if let Some(dist) = dist {
            command.env("ONEBIT_DIST", dist);
        }
        // Some tests load the plugin into their own process, and several run at a time: their threads wait as a worker's do.
        command.env("GOMP_SPINCOUNT", &spins);
        command
    };

    let mut units = vec!["--workspace", "--exclude", PLUGIN];
    if args.quick {
        units.push("--locked");
    }
    tally.tests("tests beside the code", runner(nextest, &units).map(|command| environment(command, None)));
    if nextest {
        let words = ["test", "--doc", "--workspace", "--exclude", PLUGIN];
        tally.tests("examples in the documentation", cargo::command(&words));
    }
    if !args.quick {
        let what = "a short fuzzing of every target";
        match fuzz::missing() {
            None => drop(tally.check(what, || fuzz::short(FUZZ_EACH))),
            // The inputs that are kept were replayed above, on any compiler.
            Some(missing) => tally.line(what, Instant::now(), &format!("left out: {missing}")),
        }
        let dist = std::cell::OnceCell::new();
        tally.check("release build, laid out in target/dist", || {
            let _ = dist.set(stage::run(&stage::Args { setup: args.setup.clone() })?);
            Ok(())
        });
        tally.check("lints of the vulkan-ggml plugin", || {
            let words = ["clippy", "--release", "-p", PLUGIN, "--all-targets", "--", "-D", "warnings"];
            process::run(&mut stage::plugin_build(&tools, &words)?)
        });
        let words = ["test", "--release", "-p", PLUGIN];
        tally.tests("tests of the vulkan-ggml plugin", stage::plugin_build(&tools, &words).map(|command| environment(command, dist.get())));
        if dist.get().is_some() && model.get().is_some() {
            tally.check("vulkan-ggml against the contract, through both doors", || {
                // Both doors lead to one table, which a case makes sure of; what takes long is run through one of them.
                for words in [&["--door", "rust"][..], &["--door", "c", "--exclude", "leaks", "--exclude", "lies", "--exclude", "cancel"]] {
                    let mut command = environment(conformance(dist.get(), model.get())?, dist.get());
                    process::run(command.args(words))?;
                }
                Ok(())
            });
            let words = ["-p", "onebit-engine", "--features", "real-model"];
            tally.tests("the engine on the real model", runner(nextest, &words).map(|command| environment(command, dist.get())));
            let words = ["-p", "onebit-tests", "--features", "e2e"];
            tally.tests("the product from outside", runner(nextest, &words).map(|command| environment(command, dist.get())));
        } else {
            eprintln!("    the end-to-end tests need the tree and the model: not run");
        }
    }

    eprintln!("\n==> summary ({})", process::short(since.elapsed()));
    for line in &tally.lines {
        eprintln!("    {line}");
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if tally.failed > 0 {
        bail!("{} failed", tally.failed);
    }
    Ok(())
}

/// The staged host tests the staged plugin with the demo model.
fn conformance(dist: Option<&PathBuf>, model: Option<&PathBuf>) -> Result<Command> {
    let (dist, model) = (dist.context("the tree is not staged")?, model.context("there is no demo model")?);
    let mut command = Command::new(dist.join("bin/onebit-host"));
    command.args(["plugin", "test"]).arg(dist.join("lib/onebit/plugins/vulkan-ggml")).arg("--model").arg(model).arg("--only-failed");
    Ok(command)
}

/// What the plugin's `plugin.toml` sets for its workers.
fn worker_variable(name: &str) -> Result<String> {
    let file = paths::root().join("plugins/vulkan-ggml/plugin.toml");
    let table: toml::Table = std::fs::read_to_string(&file)?.parse()?;
    let value = table.get("environment").and_then(|environment| environment.get(name)).and_then(toml::Value::as_str);
    value.map(str::to_owned).with_context(|| format!("{} sets no {name}", file.display()))
}

fn runner(nextest: bool, words: &[&str]) -> Result<Command> {
    let mut all = if nextest { vec!["nextest", "run", "--no-fail-fast"] } else { vec!["test", "--no-fail-fast"] };
    all.extend(words);
    cargo::command(&all)
}

/// From `PATH`, else from the cache, else built once into the cache.
fn deny(advisories: bool) -> Result<()> {
    let own = paths::tools()?.join("bin/cargo-deny");
    let program = match process::find("cargo-deny") {
        Some(path) => path,
        None if own.exists() => own,
        None => {
            eprintln!("    building cargo-deny {DENY_VERSION}, once for this user");
            let root = paths::tools()?;
            let mut install = cargo::command(&["install", "--locked", "--quiet", "cargo-deny", "--version", DENY_VERSION])?;
            let target = root.join("target");
            process::run(install.arg("--root").arg(&root).env("CARGO_TARGET_DIR", &target).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"))?;
            std::fs::remove_dir_all(&target)?;
            own
        }
    };
    let mut command = Command::new(program);
    command.current_dir(paths::root()).args(["--locked", "check", "licenses", "bans", "sources"]);
    if advisories {
        command.arg("advisories");
    }
    process::run(&mut command)
}

#[derive(Debug, Default, PartialEq)]
struct Count {
    passed: u64,
    failed: u64,
}

/// Runs, shows everything as it comes, and adds up the runner's closing lines. The flag is whether it ended well.
fn run_counted(mut command: Command, show: &mut impl Write) -> Result<(Count, bool)> {
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", process::shown(&command)))?;
    // The command holds the pipe's other end; with it open here, reading would never end.
    drop(command);
    let mut count = Count::default();
    let mut line = Vec::new();
    let mut reader = BufReader::new(reader);
    while reader.read_until(b'\n', &mut line)? > 0 {
        show.write_all(&line)?;
        let text = String::from_utf8_lossy(&line);
        if let Some(more) = closing_line(text.trim_end()) {
            count.passed += more.passed;
            count.failed += more.failed;
        }
        line.clear();
    }
    Ok((count, child.wait()?.success()))
}

/// Of a runner, not of the output that it repeats of a failed test, which nextest moves to the right:
/// `test result: ok. 5 passed; 1 failed; …` and `Summary [ 0.2s] 6 tests run: 5 passed (1 slow), 1 failed, 0 skipped`.
fn closing_line(line: &str) -> Option<Count> {
    let numbers = match line.strip_prefix("test result: ") {
        Some(rest) => rest,
        None => line.trim_start().strip_prefix("Summary [")?.split_once("run: ")?.1,
    };
    let before = |word: &str| {
        let words: Vec<&str> = numbers.split([' ', ',', ';']).filter(|part| !part.is_empty()).collect();
        words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
    };
    // A test that ran out of time, or whose process died, did not pass.
    Some(Count { passed: before("passed"), failed: before("failed") + before("timed") + before("exec") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_runners_are_counted() {
        let count = |passed, failed| Some(Count { passed, failed });
        assert_eq!(closing_line("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out"), count(12, 0));
        assert_eq!(closing_line("test result: FAILED. 3 passed; 2 failed; 0 ignored"), count(3, 2));
        assert_eq!(closing_line("Summary [   0.512s] 9 tests run: 7 passed (1 slow), 1 failed, 1 timed out, 0 skipped"), count(7, 2));
        assert_eq!(closing_line("Summary [ 12.512s] 9/12 tests run: 9 passed, 3 skipped"), count(9, 0));
        assert_eq!(closing_line("     Summary [   0.5s] 2 tests run: 2 passed, 0 skipped"), count(2, 0));
        assert_eq!(closing_line("    test result: FAILED. 0 passed; 1 failed; 0 ignored"), None);
        assert_eq!(closing_line("running 3 tests"), None);
    }

    #[test]
    fn a_runner_that_dies_is_no_success() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test result: ok. 2 passed; 0 failed;'; exit 101"]);
        let mut shown = Vec::new();
        let (count, good) = run_counted(command, &mut shown).unwrap();
        assert_eq!((count, good), (Count { passed: 2, failed: 0 }, false));
        assert!(String::from_utf8(shown).unwrap().contains("2 passed"));
    }
}
