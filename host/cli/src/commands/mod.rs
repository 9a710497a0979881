//! The commands: one table, from which the parser, `--help` and completions are made.
//!
//! A command is a row: its name, its own arguments, and a function. Settings (see [`crate::settings`]) come to every command by themselves.

mod completions;
mod config;
mod docs;
mod doctor;
mod explain;
mod key;
mod list;
mod open;
mod plugin;
mod ps;
mod pull;
mod run;
mod serve;

pub use plugin::name as plugin_name;

use clap::{ArgMatches, ColorChoice};
use onebit_loader::trust::{Mode, Trust};

use crate::exit::{self, Exit, Failure};
use crate::places::{Places, distinct};
use crate::settings::{Settings, TrustMode, arguments, table};

/// What a command works with.
pub struct Invocation<'a> {
    /// Values of all settings.
    pub settings: Settings,
    /// Where things are.
    pub places: Places,
    /// The command's own arguments.
    pub matches: &'a ArgMatches,
    /// Say more.
    pub verbose: bool,
}

/// A command.
pub struct Command {
    /// On the command line.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Not in help.
    pub hidden: bool,
    /// What is logged if nobody says what to log.
    pub log: &'static str,
    /// Adds its own arguments.
    pub arguments: fn(clap::Command) -> clap::Command,
    /// Does it.
    pub run: fn(&Invocation<'_>) -> Result<(), Failure>,
}

impl Command {
    /// A row that only needs what differs.
    const fn new(name: &'static str, about: &'static str, run: fn(&Invocation<'_>) -> Result<(), Failure>) -> Self {
        Self { name, about, hidden: false, log: "warn", arguments: |command| command, run }
    }
}

/// All commands, in the order of help.
#[rustfmt::skip]
pub static COMMANDS: &[&Command] = &[
    &serve::COMMAND, &run::COMMAND, &list::COMMAND, &ps::COMMAND, &pull::COMMAND, &explain::COMMAND, &plugin::COMMAND,
    &key::COMMAND, &doctor::COMMAND, &config::COMMAND, &completions::COMMAND, &docs::COMMAND,
];

/// The parser.
pub fn parser() -> clap::Command {
    let mut parser = clap::Command::new("onebit-host")
        .about("A host for local AI whose engine is its plugins")
        .version(crate::version::LONG.as_str())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .color(if no_color() { ColorChoice::Never } else { ColorChoice::Auto })
        .after_help(exit::help())
        .args(arguments(None));
    for command in COMMANDS {
        let sub = clap::Command::new(command.name).about(command.about).hide(command.hidden);
        parser = parser.subcommand((command.arguments)(sub).args(arguments(Some(command.name))));
    }
    parser
}

fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Parses, resolves, runs. `verbose` is handed out as soon as it is known, because the error may come right after.
pub fn run(verbose: &mut bool) -> Result<(), Failure> {
    let matches = parser().try_get_matches().map_err(|error| parse_failed(&error))?;
    let (name, own) = matches.subcommand().ok_or_else(|| Failure::new(Exit::Usage, "no command was given"))?;
    let command = COMMANDS
        .iter()
        .find(|command| command.name == name)
        .ok_or_else(|| Failure::new(Exit::Usage, format!("there is no command {name}")))?;
    let places = Places::of_this_process().map_err(|error| Failure::io("find the running program", &error))?;
    let settings = Settings::resolve(&matches, &places)?;
    *verbose = settings.get(&table::VERBOSE)?;
    crate::log::start(&settings, command.log)?;
    (command.run)(&Invocation { settings, places, matches: own, verbose: *verbose })
}

/// clap prints help, versions and its own errors; the exit code is ours.
fn parse_failed(error: &clap::Error) -> Failure {
    match error.print() {
        Err(closed) if closed.kind() == std::io::ErrorKind::BrokenPipe => Failure::silent(Exit::Done),
        _ => Failure::silent(if error.use_stderr() { Exit::Usage } else { Exit::Done }),
    }
}

/// `--json`, for commands whose result is also for programs.
fn json_flag() -> clap::Arg {
    clap::Arg::new("json").long("json").action(clap::ArgAction::SetTrue).help("Print JSON")
}

/// Where models, manifests and plugins are looked for.
fn catalog_paths(invocation: &Invocation<'_>) -> Result<onebit_catalog::CatalogPaths, Failure> {
    let Invocation { settings, places, .. } = invocation;
    let only_given = settings.get(&table::NO_DEFAULT_DIRS)?;
    let installed = |dirs: Vec<std::path::PathBuf>| if only_given { Vec::new() } else { dirs };
    let manifests = installed(places.manifest_dirs()).into_iter().chain(settings.get(&table::MANIFEST_DIR)?);
    let plugins = settings.get(&table::PLUGIN_DIR)?.into_iter().chain(installed(places.plugin_dirs()));
    Ok(onebit_catalog::CatalogPaths {
        manifest_dirs: distinct(manifests),
        models_dirs: settings.get(&table::MODELS_DIR)?,
        plugin_dirs: distinct(plugins),
        trust: trust(settings)?,
    })
}

/// Where manifests of models are written that are made by a request or a pull: the strongest folder, if it is the user's.
fn own_manifests(invocation: &Invocation<'_>) -> Result<Option<std::path::PathBuf>, Failure> {
    let Invocation { settings, places, .. } = invocation;
    if let Some(given) = settings.get(&table::MANIFEST_DIR)?.pop() {
        return Ok(Some(given));
    }
    Ok(if settings.get(&table::NO_DEFAULT_DIRS)? { None } else { places.own_manifests() })
}

/// How much proof of its origin a plugin must bring.
fn trust(settings: &Settings) -> Result<Trust, Failure> {
    let mode = match settings.get(&table::TRUST_MODE)? {
        TrustMode::Warn => Mode::Warn,
        TrustMode::Strict => Mode::Strict,
    };
    // Nobody takes the system's keys away by naming others.
    let keys = std::iter::once(std::path::PathBuf::from(onebit_loader::trust::SYSTEM_KEYS)).chain(settings.get(&table::TRUST_KEYS)?);
    Ok(Trust { mode, keys: distinct(keys) })
}

/// A name that no model has.
fn unknown_model(name: &str, suggestions: &[String]) -> Failure {
    let next = match suggestions {
        [] => "`onebit-host list` shows all models; `onebit-host pull` gets one.".to_owned(),
        names => format!("Did you mean {}? `onebit-host list` shows all models.", names.join(" or ")),
    };
    Failure::new(Exit::NotFound, format!("there is no model {name:?}")).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parser_is_consistent() {
        parser().debug_assert();
    }

    #[test]
    fn settings_name_only_commands_that_exist() {
        for row in table::TABLE {
            if let crate::settings::Commands::Only(names) = row.commands() {
                assert!(names.iter().all(|name| COMMANDS.iter().any(|command| command.name == *name)), "{}: {names:?}", row.key());
            }
        }
    }
}
