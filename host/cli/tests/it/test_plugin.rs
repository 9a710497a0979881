//! `plugin test` as authors meet it: lists, lines, JSON, exit codes, what --fuzz prints can be run again.

use std::path::PathBuf;

use onebit_faults::Which;
use serde_json::Value;

use crate::support::{Said, User};

/// A device that is in no machine.
const NOWHERE: &str = "vulkan:a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5";

struct Author {
    user: User,
    plugin: PathBuf,
    model: PathBuf,
}

impl Author {
    fn new(which: Which) -> Self {
        let user = User::new();
        let plugin = onebit_faults::install(which, user.home()).expect("a plugin");
        let model = match which {
            Which::Unlawful => onebit_faults::unlawful_model(user.home()),
            _ => onebit_faults::ngram_model(user.home()),
        };
        Self { user, plugin, model: model.expect("a model") }
    }

    /// Where its files go that nobody needs afterwards.
    fn scratch(&self) -> PathBuf {
        let dir = self.user.home().join("scratch");
        std::fs::create_dir_all(&dir).expect("a folder");
        dir
    }

    fn test(&self, fault: &str, args: &[&str]) -> Said {
        let mut command = self.user.command();
        command
            .env("TMPDIR", self.scratch())
            .args(["plugin", "test"])
            .arg(&self.plugin)
            .arg("--model")
            .arg(&self.model)
            .args(args)
            .env("ONEBIT_FAULT", fault)
            .env("ONEBIT_SANDBOX_ENVIRONMENT", "ONEBIT_FAULT");
        Said::of(command.output().expect("the program runs"))
    }
}

#[test]
fn the_cases_are_listed_without_a_plugin() {
    let user = User::new();
    let said = user.run(&["plugin", "test", "--list"]).ends_with_code(0);
    assert!(said.out.contains("forward.determinism") && said.out.contains("bit"), "{}", said.out);
    let said = user.run(&["plugin", "test", "--list", "--json", "--include", "snapshot.*"]).ends_with_code(0);
    let list: Value = serde_json::from_str(&said.out).expect("JSON");
    let cases = list["cases"].as_array().expect("cases");
    assert!(cases.len() >= 5 && cases.iter().all(|case| case["id"].as_str().is_some_and(|id| id.starts_with("snapshot."))), "{list}");
    user.run(&["plugin", "test", "--list", "--include", "no-such-case"]).ends_with_code(0);
    user.run(&["plugin", "test", "nowhere", "--include", "no-such-case"]).ends_with_code(2);
}

#[test]
fn a_plugin_that_keeps_the_laws_ends_with_0_and_one_that_does_not_with_1() {
    let author = Author::new(Which::Unlawful);
    let said = author.test("none", &["--include", "sequences", "--include", "open.model"]).ends_with_code(0);
    assert!(said.out.contains("ok   rust sequences.copy") && said.out.contains("ok   c    open.model"), "{}", said.out);
    assert!(said.out.contains("18 passed, 0 with a warning, 0 failed, 0 skipped"), "{}", said.out);
    let said = author.test("copy-loses-first", &["--include", "sequences", "--door", "c", "--only-failed"]).ends_with_code(1);
    assert!(said.out.contains("FAIL sequences.copy ") && said.out.contains("law: A copy goes on like its source"), "{}", said.out);
    assert!(!said.out.contains("ok   ") && said.out.contains("failed"), "{}", said.out);
}

#[test]
fn a_crash_is_the_result_of_its_case_and_programs_read_it_as_json() {
    let author = Author::new(Which::Unlawful);
    let said = author.test("segfaults", &["--include", "open.", "--include", "probe.", "--door", "rust", "--json"]).ends_with_code(1);
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!((report["plugin"].as_str(), report["seed"].as_u64()), (Some("unlawful"), Some(1)));
    let cases = report["cases"].as_array().expect("cases");
    let of = |id: &str| cases.iter().find(|case| case["id"] == id).unwrap_or_else(|| panic!("no {id} in {report}"));
    assert_eq!(of("probe.devices")["state"], "passed");
    assert_eq!(of("open.model")["state"], "failed");
    assert!(of("open.model")["text"].as_str().is_some_and(|text| text.contains("SIGSEGV")), "{report}");
    assert_eq!(std::fs::read_dir(author.scratch()).expect("a folder").count(), 0, "files of processes that died are left");
}

#[test]
fn one_case_can_run_in_this_very_process_and_only_one() {
    let author = Author::new(Which::NgramC);
    let said = author.test("none", &["--in-process", "--include", "forward.chunks"]).ends_with_code(0);
    assert!(said.out.contains("1 passed"), "{}", said.out);
    author.test("none", &["--in-process", "--include", "forward"]).ends_with_code(2);
}

#[test]
fn a_plugin_without_a_model_says_that_most_was_not_tested_unless_it_brings_one() {
    let author = Author::new(Which::NgramC);
    let plugin = author.plugin.to_str().expect("UTF-8");
    let said = author.user.run(&["plugin", "test", plugin, "--include", "forward."]).ends_with_code(0);
    assert!(said.out.contains("give one with --model") && said.out.contains("with no model"), "{}", said.out);
    std::fs::copy(&author.model, author.plugin.join("story.ngram")).expect("a copy");
    let said = author.user.run(&["plugin", "test", plugin, "--include", "forward.chunks"]).ends_with_code(0);
    assert!(said.out.contains("with story.ngram") && said.out.contains("1 passed"), "{}", said.out);
}

#[test]
fn what_fuzzing_found_is_printed_with_a_command_that_finds_it_again() {
    let author = Author::new(Which::Unlawful);
    let said = author.test("snapshot-loses-last", &["--fuzz", "20", "--seed", "5", "--door", "rust"]).ends_with_code(1);
    let line = said.out.lines().find(|line| line.contains("--replay")).unwrap_or_else(|| panic!("{}", said.out));
    let words = line.trim().strip_prefix("onebit-host ").expect("a command");
    let again = format!("{} {words}", env!("CARGO_BIN_EXE_onebit-host"));
    let mut shell = std::process::Command::new("sh");
    author.user.dress(&mut shell);
    let output = shell
        .args(["-c", &again])
        .env("ONEBIT_FAULT", "snapshot-loses-last")
        .env("ONEBIT_SANDBOX_ENVIRONMENT", "ONEBIT_FAULT")
        .output()
        .expect("a shell");
    let said = Said::of(output).ends_with_code(1);
    assert!(said.out.contains("nats apart"), "{}", said.out);
    let said = author.test("none", &["--fuzz", "2", "--seed", "5"]).ends_with_code(0);
    assert!(said.out.contains("nothing found"), "{}", said.out);
}

#[test]
fn options_and_devices_that_are_none_are_refused() {
    let author = Author::new(Which::NgramC);
    for (args, part) in [
        (["--option", "speed=9"], "has no option"),
        (["--option", "row_us=fast"], "is of kind"),
        (["--option", "row_us"], "NAME=VALUE"),
        (["--door", "rust"], "offers no door rust"),
        (["--replay", "[{}]"], "no list of operations"),
    ] {
        let said = author.test("none", &args).ends_with_code(2);
        assert!(said.err.contains(part), "{args:?}: {}", said.err);
    }
    let said = author.test("none", &["--device", NOWHERE, "--include", "open.model"]).ends_with_code(1);
    assert!(said.out.contains("there is no device vulkan:a5a5"), "{}", said.out);
}
