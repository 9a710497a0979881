//! `completions SHELL`: a script for the shell, made from the same parser.

use clap::Arg;
use clap_complete::Shell;

use super::{Command, Invocation, parser};
use crate::exit::Failure;
use crate::output;

pub(super) static COMMAND: Command = Command {
    arguments: |command| {
        command.arg(Arg::new("shell").value_name("SHELL").required(true).value_parser(clap::value_parser!(Shell)).help("Which shell"))
    },
    ..Command::new(
        "completions",
        "Print a completion script: onebit-host completions bash > ~/.local/share/bash-completion/completions/onebit-host",
        run,
    )
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let Some(&shell) = invocation.matches.get_one::<Shell>("shell") else { return Ok(()) };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut parser(), "onebit-host", &mut script);
    output::write(String::from_utf8_lossy(&script))
}
