//! `key …`: who may call the server. Works on the file that `api_keys_file` names; a running server takes a change over by itself.

mod file;
mod list;
mod new;
mod remove;

use clap::ArgMatches;

use super::{Command, Invocation};
use crate::exit::{Exit, Failure};
use crate::settings::table;
use file::KeyFile;

/// One `key NAME`.
struct Sub {
    name: &'static str,
    /// One line.
    about: &'static str,
    /// Adds its own arguments.
    arguments: fn(clap::Command) -> clap::Command,
    /// Does it, with its own arguments.
    run: fn(KeyFile, &ArgMatches) -> Result<(), Failure>,
}

/// All of them, in the order of help.
static SUBS: &[&Sub] = &[&new::SUB, &list::SUB, &remove::SUB];

pub(super) static COMMAND: Command = Command {
    arguments: |command| {
        let subs = SUBS.iter().map(|sub| (sub.arguments)(clap::Command::new(sub.name).about(sub.about)));
        command.subcommand_required(true).arg_required_else_help(true).subcommands(subs)
    },
    ..Command::new("key", "Make, list and remove the API keys of a server", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let (name, own) =
        invocation.matches.subcommand().ok_or_else(|| Failure::new(Exit::Usage, "key what? See `onebit-host key --help`."))?;
    let sub = SUBS.iter().find(|sub| sub.name == name);
    let sub = sub.ok_or_else(|| Failure::new(Exit::Usage, format!("there is no `key {name}`")))?;
    let path = invocation.settings.get(&table::API_KEYS_FILE)?.ok_or_else(|| {
        Failure::new(Exit::Usage, "no file of API keys is named")
            .next("Give it with --api-keys-file FILE, or write api_keys_file into the configuration, where `serve` finds it too.")
    })?;
    (sub.run)(KeyFile::at(path), own)
}

/// The argument that names a key.
fn name_argument() -> clap::Arg {
    clap::Arg::new("name").value_name("NAME").required(true).help("Name of the key: whose it is, or what for")
}

fn name_of(matches: &ArgMatches) -> &str {
    matches.get_one::<String>("name").map_or("", String::as_str)
}
