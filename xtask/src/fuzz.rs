//! `cargo xtask fuzz`: builds the fuzz targets with a nightly compiler and runs them under libFuzzer, within the bounds of
//! `tests/fuzz/targets.toml`.
//!
//! What a run learns (inputs that reach new code) stays beside the build outputs and is where the next run begins; the inputs in
//! `tests/fuzz/corpus` are those that every clone has, and are replayed by plain `cargo test` on any compiler. cargo-fuzz is not needed:
//! it would call the same compiler with the same flags.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{cargo, paths, process};

/// Options of `fuzz`.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Which targets; none = all.
    targets: Vec<String>,
    /// How long each runs.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many run at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Name the targets and what each is, and do nothing.
    #[arg(long)]
    list: bool,
    /// Run this one input instead of making new ones: says whether a finding is still one.
    #[arg(long, value_name = "FILE", conflicts_with = "shrink")]
    input: Option<PathBuf>,
    /// Make this input as small as it can be while it still breaks the target.
    #[arg(long, value_name = "FILE")]
    shrink: Option<PathBuf>,
    /// Add to tests/fuzz/corpus the fewest learned inputs that reach what its inputs do not.
    #[arg(long, conflicts_with_all = ["input", "shrink"])]
    keep: bool,
}

/// A row of `targets.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bounds {
    about: String,
    input_bytes: u64,
    allocation_mib: u64,
    seconds: u64,
}

/// The program that runs chat templates.
const RENDERER: &str = "onebit-fuzz-render";

/// Memory of one fuzzing process, the sanitiser's own included.
const MEMORY_MIB: u64 = 2048;

/// As cargo-fuzz builds: coverage for libFuzzer, the address sanitiser, and all checks of a debug build in optimised code.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Zsanitizer=address",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "--cfg",
    "fuzzing",
];

/// The command.
pub fn run(args: &Args) -> Result<()> {
    let table = table()?;
    if args.list {
        table.iter().for_each(|(name, bounds)| println!("{name:<16} {}", bounds.about));
        return Ok(());
    }
    let names = chosen(&table, &args.targets)?;
    if let Some(missing) = missing() {
        bail!("{missing}");
    }
    let programs = build(&names)?;
    if let Some(file) = args.input.as_ref().or(args.shrink.as_ref()) {
        let [program] = programs.as_slice() else { bail!("name the one target that {} is an input of", file.display()) };
        return if args.shrink.is_some() { shrink(program, file) } else { process::run(program.command()?.arg(file)) };
    }
    if args.keep {
        return programs.iter().try_for_each(keep);
    }
    run_all(&programs, Duration::from_secs(args.seconds), args.jobs)
}

/// What `cargo xtask test` does: each target for a short time, on all cores.
pub fn short(each: Duration) -> Result<()> {
    let table = table()?;
    let names: Vec<&str> = table.keys().map(String::as_str).collect();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    run_all(&build(&names)?, each, jobs)
}

/// Why fuzzing is impossible here, if it is.
pub fn missing() -> Option<&'static str> {
    let nightly =
        Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !nightly.is_ok_and(|status| status.success()) {
        return Some("there is no nightly compiler, which libFuzzer needs: `rustup toolchain install nightly --profile minimal`");
    }
    None
}

fn folder() -> PathBuf {
    paths::root().join("tests/fuzz")
}

fn table() -> Result<BTreeMap<String, Bounds>> {
    let file = folder().join("targets.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is no table of targets", file.display()))
}

fn chosen<'t>(table: &'t BTreeMap<String, Bounds>, wanted: &[String]) -> Result<Vec<&'t str>> {
    if let Some(unknown) = wanted.iter().find(|name| !table.contains_key(*name)) {
        bail!("there is no target {unknown}; there are {}", table.keys().cloned().collect::<Vec<_>>().join(", "));
    }
    Ok(table.keys().map(String::as_str).filter(|name| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)).collect())
}

/// A target that was built.
struct Program {
    name: String,
    file: PathBuf,
    /// The program that runs chat templates, for the target `http`.
    renderer: PathBuf,
    bounds: Bounds,
    /// What runs learn, find and say.
    work: PathBuf,
}

fn build(names: &[&str]) -> Result<Vec<Program>> {
    let target = paths::cargo_target()?.join("libfuzzer");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "build", "--quiet", "--release", "--target", &triple]);
    names.iter().for_each(|name| {
        command.args(["--bin", name]);
    });
    // What the outer cargo set is for its own compiler.
    ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTFLAGS"].iter().for_each(|name| {
        command.env_remove(name);
    });
    command.current_dir(folder().join("libfuzzer")).env("CARGO_TARGET_DIR", &target).env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"));
    process::run(process::as_a_user(&mut command))?;
    // Limits its own memory, which the sanitiser does not survive: built as everything else is.
    let renderer = cargo::build(cargo::command(&["build", "--quiet", "--package", "onebit-fuzz", "--bin", RENDERER])?)?;
    let renderer = renderer.artifact(RENDERER, "")?;
    let mut table = table()?;
    let program = |name: &&str| {
        let work = target.join("work").join(name);
        fs::create_dir_all(work.join("learned"))?;
        let bounds = table.remove(*name).with_context(|| format!("{name} is not in the table"))?;
        Ok(Program {
            name: (*name).to_owned(),
            renderer: renderer.clone(),
            file: target.join(&triple).join("release").join(name),
            bounds,
            work,
        })
    };
    names.iter().map(program).collect()
}

impl Program {
    /// With the bounds of its row; the current folder is where findings fall.
    fn command(&self) -> Result<Command> {
        let Bounds { input_bytes, allocation_mib, seconds, .. } = self.bounds;
        let mut command = Command::new(&self.file);
        command.env("ONEBIT_FUZZ_RENDERER", &self.renderer).env("RUST_BACKTRACE", "0").args([
            format!("-max_len={input_bytes}"),
            format!("-malloc_limit_mb={allocation_mib}"),
            format!("-rss_limit_mb={MEMORY_MIB}"),
            format!("-timeout={seconds}"),
            format!("-artifact_prefix={}/", self.work.display()),
        ]);
        Ok(command)
    }

    fn kept(&self) -> PathBuf {
        folder().join("corpus").join(&self.name)
    }

    fn learned(&self) -> PathBuf {
        self.work.join("learned")
    }
}

/// Runs them, some at a time, and says of each what it did.
fn run_all(programs: &[Program], each: Duration, jobs: usize) -> Result<()> {
    let waiting = Mutex::new(programs.iter());
    let broken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, programs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().ok().and_then(|mut waiting| waiting.next());
                    let Some(program) = next else { break };
                    if let Err(error) = fuzz(program, each) {
                        eprintln!("    {:<16} {error:#}", program.name);
                        broken.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(program.name.as_str());
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if broken.is_empty() { Ok(()) } else { bail!("findings in {}", broken.join(", ")) }
}

fn fuzz(program: &Program, each: Duration) -> Result<()> {
    let began = Instant::now();
    let log = program.work.join("log");
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = program.command()?;
    command.args([format!("-max_total_time={}", each.as_secs().max(1)), "-print_final_stats=1".into()]);
    let words = folder().join("words").join(&program.name);
    if words.exists() {
        command.arg(format!("-dict={}", words.display()));
    }
    command.arg(program.learned()).arg(program.kept()).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let status = command.status().with_context(|| format!("cannot start {}", program.file.display()))?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if status.success() {
        let (runs, places) = numbers(&text);
        eprintln!("    {:<16} {:>7}  {runs} inputs, {places} places in the code reached", program.name, process::short(began.elapsed()));
        return Ok(());
    }
    let finding = text.lines().rev().find_map(|line| line.split_once("Test unit written to ")).map(|(_, file)| file);
    let said: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let tail = said[said.len().saturating_sub(60)..].join("\n");
    match finding {
        Some(file) => bail!("{tail}\n\n{}", what_to_do(&program.name, file)),
        None => bail!("{tail}\n\nended with {status} without a finding; its whole log is {}", log.display()),
    }
}

fn what_to_do(name: &str, file: &str) -> String {
    format!(
        "A finding of the target {name}: {file}\n\
         \x20 see it again:    cargo xtask fuzz {name} --input {file}\n\
         \x20 make it smaller: cargo xtask fuzz {name} --shrink {file}\n\
         \x20 keep it:         copy it to tests/fuzz/corpus/{name}/ under a name that says what it is, and mend the code;\n\
         \x20                  `cargo test -p onebit-fuzz` looks at it from then on"
    )
}

/// Inputs that were run, and places that were reached, from libFuzzer's closing lines.
fn numbers(log: &str) -> (u64, u64) {
    let after = |line: &str, mark: &str| line.split_once(mark).and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    let runs = log.lines().rev().find_map(|line| after(line, "stat::number_of_executed_units:"));
    let places = log.lines().rev().find_map(|line| after(line, " cov: "));
    (runs.unwrap_or(0), places.unwrap_or(0))
}

fn shrink(program: &Program, file: &Path) -> Result<()> {
    let small = file.with_extension("small");
    let mut command = program.command()?;
    command.args(["-minimize_crash=1".into(), "-max_total_time=60".into(), format!("-exact_artifact_path={}", small.display())]).arg(file);
    // It ends with the status of the last crash.
    command.status().with_context(|| format!("cannot start {}", program.file.display()))?;
    if !small.exists() {
        bail!("{} could not be made smaller, or does not break {} any more", file.display(), program.name);
    }
    println!("{}", small.display());
    Ok(())
}

fn keep(program: &Program) -> Result<()> {
    let count = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    let before = count(&program.kept());
    let log = program.work.join("log");
    let output = File::create(&log)?;
    let mut command = program.command()?;
    command.arg("-set_cover_merge=1").arg(program.kept()).arg(program.learned()).stdout(output.try_clone()?).stderr(output);
    let status = command.status().with_context(|| format!("cannot start {}", program.file.display()))?;
    if !status.success() {
        bail!("{} ended with {status}; see {}", program.name, log.display());
    }
    println!("{:<16} {before} inputs before, {} now", program.name, count(&program.kept()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_of_a_run_are_understood() {
        let log = "#2\tINITED cov: 5 ft: 6 corp: 1/1b\n#900\tDONE   cov: 145 ft: 300 corp: 12/1Kb lim: 4096 exec/s: 90 rss: 60Mb\n\
                   Done 900 runs in 10 second(s)\nstat::number_of_executed_units: 900\nstat::average_exec_per_sec:     90\n";
        assert_eq!(numbers(log), (900, 145));
        assert_eq!(numbers(""), (0, 0));
    }

    #[test]
    fn the_table_is_read_and_a_target_that_is_not_there_is_named() {
        let table = table().unwrap();
        assert_eq!(chosen(&table, &["gguf".into()]).unwrap(), ["gguf"]);
        assert_eq!(chosen(&table, &[]).unwrap().len(), table.len());
        let error = chosen(&table, &["ggfu".into()]).unwrap_err().to_string();
        assert!(error.starts_with("there is no target ggfu; there are ") && error.contains("gguf"), "{error}");
    }
}
