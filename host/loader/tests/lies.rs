//! Plugins that break the contract or fail in the middle of their work: each comes out as a sentence, not as a crash, wherever that can be
//! told. Every case runs in a process of its own, because some of them end it.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use common::{append, cpu};
use onebit_faults::Which;
use onebit_loader::{CancelFlag, Encode, HostSink, OpenRequest, Plugin, SessionArgs, inspect};

/// What a process of its own did.
struct Outcome {
    status: ExitStatus,
    /// What went wrong, or `fine`; empty if the process ended before it could say.
    said: String,
    stdout: String,
    stderr: String,
}

/// Uses the plugin in `dir` with `model` from loading to closing, in a process of its own.
fn run(dir: &Path, model: &Path, environment: &[(&str, &str)]) -> Outcome {
    let out = tempfile::NamedTempFile::new().expect("a file");
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "the_process_of_a_case", "--nocapture", "--test-threads=1"])
        .env("ONEBIT_TEST_PLUGIN", dir)
        .env("ONEBIT_TEST_MODEL", model)
        .env("ONEBIT_TEST_OUT", out.path())
        .envs(environment.iter().copied())
        .output()
        .expect("a process");
    Outcome {
        status: output.status,
        said: fs::read_to_string(out.path()).expect("the outcome"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
#[ignore = "run by the other tests of this file, in a process of its own"]
fn the_process_of_a_case() {
    let variable = |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("{name} is set by the tests that run this one"));
    let said = match use_all(Path::new(&variable("ONEBIT_TEST_PLUGIN")), Path::new(&variable("ONEBIT_TEST_MODEL"))) {
        Ok(()) => "fine".to_owned(),
        Err(said) => said,
    };
    fs::write(variable("ONEBIT_TEST_OUT"), said).expect("the outcome");
}

fn use_all(dir: &Path, path: &Path) -> Result<(), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let file = inspect(dir).map_err(|error| text(&error))?.file;
    let plugin = Plugin::load(&file, HostSink::tracing()).map_err(|error| text(&error))?;
    let device = cpu();
    plugin.probe(std::slice::from_ref(&device)).map_err(|error| text(&error))?;
    let request = OpenRequest { path, device: &device, threads: None, options: &[], cancel: &CancelFlag::new(), progress: &mut |_| {} };
    let model = plugin.open(request).map_err(|error| text(&error))?;
    let ids = model.tokenizer().ok_or("no tokenizer")?.encode("Hello", Encode::default()).map_err(|error| text(&error))?;
    let forward = model.forward().ok_or("no forward")?;
    let args = SessionArgs { context: 1024, sequences: 8, batch: 256, threads_decode: None, threads_prefill: None, options: &[] };
    let mut session = forward.open_session(&args).map_err(|error| text(&error))?;
    append(&mut session, 0, 0, &ids)
        .map_err(|error| format!("{error} have={} need={} want={} free={}", error.have, error.need, error.want, error.free))?;
    if session.limits().snapshot {
        session.state_save(0).map_err(|error| text(&error))?;
    }
    Ok(())
}

#[test]
fn every_lie_about_sizes_tables_and_counts_is_told_as_a_sentence() {
    let dir = tempfile::tempdir().expect("a folder");
    let liar = onebit_faults::install(Which::Liar, dir.path()).expect("the liar");
    let model = onebit_faults::ngram_model(dir.path()).expect("a model");
    let cases = [
        ("none", "fine"),
        ("table-null", "refused to start"),
        ("table-misaligned", "a struct with its own size in front"),
        ("table-huge", "a struct with its own size in front"),
        ("table-short", "24 bytes"),
        ("open-null", "a function"),
        ("other-major", "7 in its table, 1 in its note"),
        ("other-version", "info: 9.9.9"),
        ("reports-missing", "probe gave 0 reports for 1 devices"),
        ("report-null", "a probe report is null"),
        ("model-null", "open succeeded without a model"),
        ("text-not-utf8", "open.computes_on is not UTF-8"),
        ("text-endless", "open.architecture has 1099511627776 bytes"),
        ("forward-short", "the function session_open is null"),
        ("forward-null", "the function forward is null"),
        ("vocabulary-zero", "limits.vocabulary is 0"),
        ("shift-without-function", "seq_shift is null"),
        ("eos-outside", "eos is token 257 of a vocabulary of 257"),
        ("token-outside", "encode gave token 257"),
        ("tokens-overflow", "values were written into"),
        ("context-smaller", "the session holds 512 positions, 1024 were asked for"),
        ("logits-null", "logits is null"),
        ("logits-misaligned", "logits is null or not aligned"),
        ("vocabulary-grows", "logits of 5 × 258 where 5 × 257"),
        ("rows-missing", "logits of 4 × 257 where 5 × 257"),
        ("status-unknown", "unknown status 4711: the plugin gave no reason"),
        ("fails-silently", "internal: the plugin gave no reason"),
        ("state-endless", "1152921504606846976 bytes"),
        ("no-such-lie", "there is no lie no-such-lie"),
    ];
    for (lie, expected) in cases {
        let outcome = run(&liar, &model, &[("ONEBIT_LIE", lie)]);
        assert!(outcome.said.contains(expected), "{lie}: {:?} {:?}\n{}", outcome.said, outcome.status, outcome.stderr);
    }
}

#[test]
fn failures_and_panics_in_a_plugin_are_typed_and_print_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let faulty = onebit_faults::install(Which::Faulty, dir.path()).expect("faulty");
    let cases = [
        ("none", "fine"),
        ("panic-open", "panic: panic at "),
        ("panic-forward", "panic: panic at "),
        ("memory-open", "out_of_device_memory: told to have no memory"),
        ("memory-forward", "want=1099511627776 free=1048576"),
        ("lost-forward", "device_lost: told to lose the device"),
        ("thread-close", "fine"),
        ("leak-forward", "fine"),
        ("no-such-fault", "there is no fault \"no-such-fault\""),
    ];
    for (fault, expected) in cases {
        let model = onebit_faults::faulty_model(dir.path(), fault).expect("a model");
        let outcome = run(&faulty, &model, &[]);
        assert!(outcome.said.contains(expected), "{fault}: {:?} {:?}\n{}", outcome.said, outcome.status, outcome.stderr);
        assert!(outcome.status.success(), "{fault}: {:?}", outcome.status);
        assert!(!outcome.stderr.contains("panicked"), "{fault}: a plugin writes to no file descriptor: {}", outcome.stderr);
    }
    let outcome = run(&faulty, Path::new("none.fault"), &[("ONEBIT_FAULT", "panic-entry")]);
    assert!(outcome.said.contains("refused to start: panic: panic at "), "{}", outcome.said);
}

#[test]
fn what_cannot_be_caught_ends_the_process_that_the_plugin_runs_in_with_a_status_that_tells() {
    let dir = tempfile::tempdir().expect("a folder");
    let faulty = onebit_faults::install(Which::Faulty, dir.path()).expect("faulty");
    let ended = |fault: &str| run(&faulty, &onebit_faults::faulty_model(dir.path(), fault).expect("a model"), &[]);
    for (fault, signal) in [("segfault-open", 11), ("segfault-forward", 11), ("abort-open", 6), ("abort-forward", 6)] {
        let outcome = ended(fault);
        assert_eq!((outcome.status.signal(), outcome.said.as_str()), (Some(signal), ""), "{fault}");
    }
    for fault in ["exit-open", "exit-forward"] {
        let outcome = ended(fault);
        assert_eq!((outcome.status.code(), outcome.said.as_str()), (Some(0), ""), "{fault}: looks like success and is none");
    }
    let noisy = ended("stdout-forward");
    assert!(noisy.said == "fine" && noisy.stdout.contains("stdout is not yours"), "{:?}", noisy.said);
}
