//! `docs`: prints the pages of the documentation that are made from tables.

use clap::Arg;

use super::{Command, Invocation};
use crate::exit::Failure;
use crate::output;
use crate::settings::docs;

pub(super) static COMMAND: Command = Command {
    hidden: true,
    arguments: |command| {
        command.arg(
            Arg::new("page")
                .value_name("PAGE")
                .required(true)
                .value_parser(["settings", "exit-codes", "plugin-check", "plugin-test"])
                .help("Which page"),
        )
    },
    ..Command::new("docs", "Print a page of the documentation: settings, exit-codes, plugin-check, plugin-test", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    match invocation.matches.get_one::<String>("page").map(String::as_str) {
        Some("exit-codes") => output::write(docs::exit_codes()),
        Some("plugin-check") => output::write(onebit_loader::check::codes::page()),
        Some("plugin-test") => output::write(onebit_kit::page()),
        _ => output::write(docs::settings()),
    }
}
