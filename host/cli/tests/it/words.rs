//! Help, versions, completions, and what happens when nobody reads on.

use std::io::Read;
use std::process::Stdio;

use crate::support::User;

const COMMANDS: &[&str] = &["serve", "run", "list", "ps", "pull", "explain", "plugin", "doctor", "config", "completions"];

#[test]
fn every_command_explains_itself() {
    let user = User::new();
    let said = user.run(&["--help"]).ends_with_code(0);
    assert!(said.err.is_empty());
    for command in COMMANDS {
        assert!(said.out.lines().any(|line| line.trim_start().starts_with(command)), "{command} is in the list");
        let help = user.run(&[command, "--help"]).ends_with_code(0).out;
        assert!(help.contains("Usage: onebit-host") && help.contains("--models-dir"), "{command}: {help}");
    }
    assert!(said.out.contains("Exit codes:") && said.out.contains("the address to listen on is in use"), "{}", said.out);
    for hidden in ["worker", "probe", "docs"] {
        assert!(!said.out.lines().any(|line| line.trim_start().starts_with(hidden)), "{hidden} is not");
    }
}

#[test]
fn the_version_says_which_plugins_fit() {
    let said = User::new().run(&["--version"]).ends_with_code(0);
    assert!(
        said.out.starts_with(&format!("onebit-host {}", env!("CARGO_PKG_VERSION"))) && said.out.contains("plugin ABI  1."),
        "{}",
        said.out
    );
}

#[test]
fn a_misspelt_command_or_flag_suggests_the_right_one() {
    let user = User::new();
    let said = user.run(&["lst"]).ends_with_code(2);
    assert!(said.err.contains("'list'"), "{}", said.err);
    let said = user.run(&["list", "--model-dir", "/x"]).ends_with_code(2);
    assert!(said.err.contains("--models-dir"), "{}", said.err);
    user.run(&[]).ends_with_code(2);
}

#[test]
fn completions_come_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = User::new().run(&["completions", shell]).ends_with_code(0);
        assert!(said.out.contains("onebit-host") && said.out.contains("models-dir"), "{shell}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let user = User::new();
    for args in [&["docs", "settings"][..], &["completions", "bash"], &["config"]] {
        let mut child = user.command().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success() && err.is_empty(), "{args:?}: {status}: {err}");
    }
}

#[test]
fn a_pipe_gets_no_colours() {
    let said = User::new().run(&["explain", "nothing"]);
    assert!(!said.err.contains('\u{1b}'), "{:?}", said.err);
}
