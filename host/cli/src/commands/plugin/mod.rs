//! `plugin …`: for those who install plugins and those who write them. One file for each subcommand, one row for each in the table.

mod check;
mod install;
mod list;
mod new;
mod remove;
mod rescan;
mod rollback;
mod seal;
mod test;
mod test_report;

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use onebit_loader::Refusal;
use onebit_worker::PluginReport;

use super::{Command, Invocation};
use crate::exit::{Exit, Failure};
use crate::output;

/// One `plugin NAME`.
pub(super) struct Sub {
    name: &'static str,
    /// One line.
    about: &'static str,
    /// Adds its own arguments.
    arguments: fn(clap::Command) -> clap::Command,
    /// Does it, with its own arguments.
    run: fn(&Invocation<'_>, &ArgMatches) -> Result<(), Failure>,
}

/// All of them, in the order of help.
static SUBS: &[&Sub] =
    &[&list::SUB, &install::SUB, &rollback::SUB, &remove::SUB, &new::SUB, &check::SUB, &test::SUB, &seal::SUB, &rescan::SUB];

pub(super) static COMMAND: Command = Command {
    arguments: |command| {
        let subs = SUBS.iter().map(|sub| (sub.arguments)(clap::Command::new(sub.name).about(sub.about)));
        command.subcommand_required(true).arg_required_else_help(true).subcommands(subs)
    },
    ..Command::new("plugin", "List, install, check, test and write plugins", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let (name, own) =
        invocation.matches.subcommand().ok_or_else(|| Failure::new(Exit::Usage, "plugin what? See `onebit-host plugin --help`."))?;
    let sub = SUBS.iter().find(|sub| sub.name == name);
    let sub = sub.ok_or_else(|| Failure::new(Exit::Usage, format!("there is no `plugin {name}`")))?;
    (sub.run)(invocation, own)
}

/// `vulkan-ggml 0.1.0`.
pub fn name(report: &PluginReport) -> String {
    match &report.version {
        Some(version) => format!("{} {version}", report.id),
        None => report.id.clone(),
    }
}

fn refusal_table(refusal: &Refusal) -> String {
    let rows = refusal.rows.iter().map(|row| vec![row.field.clone(), row.host.clone(), row.plugin.clone(), row.remedy.clone()]);
    output::table(&["field", "host", "plugin", "what to do"], rows)
}

/// The plugin's folder, from any file of it.
fn folder_of(given: &Path) -> Result<PathBuf, Failure> {
    let metadata = std::fs::metadata(given).map_err(|error| {
        Failure::io(format!("look at {}", given.display()), &error).next("Give a plugin's folder, its library or its plugin.toml.")
    })?;
    if metadata.is_dir() {
        return Ok(given.to_owned());
    }
    let real = given.canonicalize().map_err(|error| Failure::io(format!("look at {}", given.display()), &error))?;
    match real.parent() {
        Some(dir) if dir.join("plugin.toml").exists() => Ok(dir.to_owned()),
        _ => Err(Failure::new(Exit::NotFound, format!("there is no plugin.toml beside {}", given.display()))
            .next("A plugin is a folder with a library and a plugin.toml; without it the host does not look at the library.")),
    }
}

/// Moved to the right, below a heading.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
