//! From flags, environment, files and defaults to one value per setting, with its origin.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

use super::file::{self, FromFile};
use super::row::{Commands, Fallback, Row, Setting};
use super::table::{self, TABLE};
use super::value::{Shape, Value};
use crate::exit::{Exit, Failure};
use crate::places::Places;
use crate::service::Service;

/// Who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody.
    Default,
    /// A configuration file, and the line.
    File(PathBuf, u32),
    /// A variable of the environment.
    Environment(&'static str),
    /// The command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => write!(f, "--{flag}"),
        }
    }
}

/// A value before it has a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// Its texts: one, or several for a list, or none if it is not set.
    pub texts: Vec<String>,
    /// Who said so.
    pub origin: Origin,
}

/// All settings of this process.
#[derive(Debug)]
pub struct Settings {
    values: HashMap<&'static str, Raw>,
}

impl Settings {
    /// Puts the layers on top of each other. Every row is checked, also those the command does not use: a broken file is found when it
    /// was written and not a week later.
    pub fn resolve(matches: &ArgMatches, places: &Places) -> Result<Self, Failure> {
        let elevated = places.service == Some(Service::Elevated);
        if elevated {
            refuse_ways_to_code(matches)?;
        }
        // Who starts a program with more rights than their own chooses its environment, so the environment chooses nothing.
        let environment = |name: &'static str| std::env::var_os(name).filter(|_| !elevated);
        Self::layered(matches, &environment, places, &places.config_files())
    }

    fn layered(
        matches: &ArgMatches,
        environment: &dyn Fn(&'static str) -> Option<OsString>,
        places: &Places,
        standard_files: &[PathBuf],
    ) -> Result<Self, Failure> {
        let named =
            from_flag(&table::CONFIG, matches).map_or_else(|| from_environment(&table::CONFIG, environment), |raw| Ok(Some(raw)))?;
        let mut files = FromFile::new();
        for path in standard_files {
            file::read_over(&mut files, path, false)?;
        }
        if let Some(raw) = named.as_ref().filter(|raw| raw.texts.iter().any(|text| !text.is_empty())) {
            for text in &raw.texts {
                file::read_over(&mut files, Path::new(text), true)?;
            }
        }
        let mut values = HashMap::new();
        for &row in TABLE {
            let raw = match from_flag(row, matches) {
                Some(raw) => raw,
                None => match from_environment(row, environment)? {
                    Some(raw) => raw,
                    None => files.remove(row.key()).unwrap_or_else(|| from_default(row, places)),
                },
            };
            let set = !raw.texts.is_empty() || row.shape() != Shape::One;
            if set && let Err(problem) = row.check(&raw.texts) {
                return Err(wrong(row, &raw.origin, &problem));
            }
            values.insert(row.key(), raw);
        }
        Ok(Self { values })
    }

    /// One value. An error names the flag: it is only possible for a setting without default that a command needs.
    pub fn get<T: Value>(&self, setting: &Setting<T>) -> Result<T, Failure> {
        let raw = self.raw(setting);
        T::read(&raw.texts).map_err(|problem| wrong(setting, &raw.origin, &problem))
    }

    /// The flags that this process was given and that every command takes, for a child that is another command.
    pub fn flags_of_every_command(&self) -> Vec<OsString> {
        let given = TABLE.iter().filter(|row| matches!(row.commands(), Commands::Every) && !row.secret());
        let flags = given.filter_map(|row| match self.raw(*row) {
            Raw { texts, origin: Origin::Flag(flag) } => Some((row.shape(), flag, texts)),
            _ => None,
        });
        flags
            .flat_map(|(shape, flag, texts)| match shape {
                Shape::Switch => vec![format!("--{flag}")],
                Shape::One | Shape::List(_) => texts.into_iter().map(|text| format!("--{flag}={text}")).collect(),
            })
            .map(OsString::from)
            .collect()
    }

    /// The texts and the origin of a row.
    pub fn raw(&self, row: &dyn Row) -> Raw {
        self.values.get(row.key()).cloned().unwrap_or(Raw { texts: Vec::new(), origin: Origin::Default })
    }
}

/// A caller with fewer rights than the program must not say what code it runs, nor how little proof that needs.
fn refuse_ways_to_code(matches: &ArgMatches) -> Result<(), Failure> {
    let leads_to_code =
        |key: &str| ["config", "plugin_dir", "manifest_dir"].contains(&key) || key.starts_with("trust.") || key.starts_with("sandbox.");
    match TABLE.iter().find(|row| leads_to_code(row.key()) && from_flag(**row, matches).is_some()) {
        None => Ok(()),
        Some(row) => Err(Failure::new(Exit::Usage, format!("--{} is not taken: {}", row.flag(), Service::Elevated))
            .next("Write it into /etc/onebit/config.toml, or start a program without such rights.")),
    }
}

fn wrong(row: &dyn Row, origin: &Origin, problem: &str) -> Failure {
    let problem = if row.secret() { format!("cannot be used; it takes {}", row.expects()) } else { problem.to_owned() };
    Failure::new(Exit::Usage, format!("{} ({origin}) {problem}", row.key())).next(row.help())
}

/// What clap must know: the rows that every command takes (`None`), or those of one command.
pub fn arguments(command: Option<&str>) -> Vec<Arg> {
    let wanted = |row: &&'static dyn Row| match (command, row.commands()) {
        (None, Commands::Every) => true,
        (Some(command), Commands::Only(names)) => names.contains(&command),
        _ => false,
    };
    // Global also below a command: `key new --api-keys-file` means the same as `key --api-keys-file new`.
    TABLE.iter().copied().filter(wanted).map(|row| argument(row).global(true)).collect()
}

fn argument(row: &'static dyn Row) -> Arg {
    let mut help = row.help().to_owned();
    let default = match row.fallback() {
        Fallback::Unset => None,
        Fallback::Text(text) => (row.shape() != Shape::Switch).then_some(text),
        Fallback::Computed(_, rule) => Some(rule),
    };
    if let Some(default) = default {
        help.push_str(&format!(" [default: {default}]"));
    }
    help.push_str(&format!(" [env: {}]", row.env().join(", ")));
    let arg = Arg::new(row.key()).long(row.flag()).help(help).help_heading(row.group());
    let arg = match row.short() {
        Some(short) => arg.short(short),
        None => arg,
    };
    match row.shape() {
        Shape::Switch => arg.action(ArgAction::SetTrue),
        Shape::One => arg.action(ArgAction::Set).value_name(row.placeholder()).allow_hyphen_values(row.expects().contains("number")),
        Shape::List(_) => arg.action(ArgAction::Append).value_name(row.placeholder()),
    }
}

fn from_flag(row: &dyn Row, matches: &ArgMatches) -> Option<Raw> {
    // A flag may stand before or after the command's name. clap hands global ones down to the innermost matches.
    let mut level = Some(matches);
    let mut found = None;
    while let Some(matches) = level {
        if matches.try_contains_id(row.key()).unwrap_or(false) && matches.value_source(row.key()) == Some(ValueSource::CommandLine) {
            let texts = match row.shape() {
                Shape::Switch => vec!["true".to_owned()],
                Shape::One | Shape::List(_) => matches.get_many::<String>(row.key()).into_iter().flatten().cloned().collect(),
            };
            found = Some(Raw { texts, origin: Origin::Flag(row.flag()) });
        }
        level = matches.subcommand().map(|(_, matches)| matches);
    }
    found
}

fn from_environment(row: &dyn Row, environment: &dyn Fn(&'static str) -> Option<OsString>) -> Result<Option<Raw>, Failure> {
    for &name in row.env() {
        let Some(value) = environment(name) else { continue };
        let origin = Origin::Environment(name);
        let Some(value) = value.to_str() else { return Err(wrong(row, &origin, "is not UTF-8")) };
        // Set and empty is how a service file or a container takes a variable back.
        if value.is_empty() {
            continue;
        }
        let texts = match row.shape() {
            Shape::List(separator) => value.split(separator).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            Shape::One | Shape::Switch => vec![value.to_owned()],
        };
        return Ok(Some(Raw { texts, origin }));
    }
    Ok(None)
}

fn from_default(row: &dyn Row, places: &Places) -> Raw {
    let texts = match row.fallback() {
        Fallback::Unset if row.shape() == Shape::Switch => vec!["false".to_owned()],
        Fallback::Unset => Vec::new(),
        Fallback::Text(text) => vec![text.to_owned()],
        Fallback::Computed(compute, _) => compute(places),
    };
    Raw { texts, origin: Origin::Default }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(args: &[&str], environment: &[(&'static str, &str)], files: &[PathBuf]) -> Result<Settings, Failure> {
        let matches = crate::commands::parser().try_get_matches_from(std::iter::once("onebit-host").chain(args.iter().copied())).unwrap();
        let lookup = |name: &'static str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        Settings::layered(&matches, &lookup, &Places::default(), files)
    }

    #[test]
    fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        std::fs::write(&file, "listen = \"127.0.0.1:1\"\n").unwrap();
        let files = [file.clone()];
        let at = |args: &[&str], env: &[(&'static str, &str)], files: &[PathBuf]| {
            let raw = resolve(args, env, files).unwrap().raw(&table::LISTEN);
            (raw.texts.join(" "), raw.origin)
        };
        let env = [("ONEBIT_LISTEN", "127.0.0.1:2")];
        assert_eq!(at(&["serve"], &[], &[]), ("127.0.0.1:8090".into(), Origin::Default));
        assert_eq!(at(&["serve"], &[], &files), ("127.0.0.1:1".into(), Origin::File(file, 1)));
        assert_eq!(at(&["serve"], &env, &files), ("127.0.0.1:2".into(), Origin::Environment("ONEBIT_LISTEN")));
        assert_eq!(at(&["serve", "--listen", "127.0.0.1:3"], &env, &files), ("127.0.0.1:3".into(), Origin::Flag("listen")));
    }

    #[test]
    fn a_child_is_told_what_was_said_by_flags_and_is_for_all_commands() {
        let words =
            ["--models-dir", "/a b", "serve", "--models-dir=-c", "--no-default-dirs", "--listen", "127.0.0.1:1", "--api-key", "hush"];
        let settings = resolve(&words, &[("ONEBIT_MANIFEST_DIR", "/m")], &[]).unwrap();
        let flags = settings.flags_of_every_command();
        assert_eq!(flags, ["--models-dir=-c", "--no-default-dirs"].map(OsString::from));
        let child: Vec<&str> = std::iter::once("pull").chain(flags.iter().map(|flag| flag.to_str().unwrap())).chain(["--", "-x"]).collect();
        assert_eq!(resolve(&child, &[], &[]).unwrap().get(&table::MODELS_DIR).unwrap(), [PathBuf::from("-c")]);
    }

    #[test]
    fn a_later_file_beats_an_earlier_one_key_by_key() {
        let dir = tempfile::tempdir().unwrap();
        let (system, user) = (dir.path().join("a.toml"), dir.path().join("b.toml"));
        std::fs::write(&system, "log = \"debug\"\nlog_format = \"json\"\n").unwrap();
        std::fs::write(&user, "log = \"warn\"\n").unwrap();
        let settings = resolve(&["list"], &[], &[system.clone(), user.clone()]).unwrap();
        assert_eq!(settings.raw(&table::LOG).origin, Origin::File(user, 1));
        assert_eq!(settings.raw(&table::LOG_FORMAT).origin, Origin::File(system, 2));
    }

    #[test]
    fn folder_flags_repeat_and_stand_before_or_after_the_command() {
        for args in [&["--models-dir", "/a", "--models-dir", "/b", "list"][..], &["list", "--models-dir", "/a", "--models-dir", "/b"]] {
            assert_eq!(resolve(args, &[], &[]).unwrap().get(&table::MODELS_DIR).unwrap(), ["/a", "/b"].map(PathBuf::from));
        }
        let env = [("ONEBIT_MODELS_DIR", "/x:/y")];
        assert_eq!(resolve(&["list"], &env, &[]).unwrap().get(&table::MODELS_DIR).unwrap(), ["/x", "/y"].map(PathBuf::from));
    }

    #[test]
    fn a_wrong_value_names_its_origin() {
        let failure = resolve(&["serve"], &[("ONEBIT_SLOTS", "many")], &[]).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.what().starts_with("slots (environment ONEBIT_SLOTS) is \"many\""), "{}", failure.what());
    }

    #[test]
    fn an_elevated_program_takes_no_code_from_its_caller() {
        let places = Places { service: Some(Service::Elevated), ..Places::default() };
        let given = |args: &[&str]| {
            let matches = crate::commands::parser().try_get_matches_from([&["onebit-host"], args].concat()).unwrap();
            Settings::resolve(&matches, &places).map(drop)
        };
        for args in [&["list", "--plugin-dir", "/x"][..], &["list", "--trust", "warn"], &["list", "--config", "/x"]] {
            let failure = given(args).unwrap_err();
            assert!(failure.exit() == Exit::Usage && failure.what().contains("rights of its own"), "{args:?}: {}", failure.what());
        }
        given(&["list"]).unwrap();
    }

    #[test]
    fn a_secret_is_never_in_a_message() {
        let failure = wrong(&table::API_KEY, &Origin::Environment("ONEBIT_API_KEY"), "is \"hunter2\"");
        assert!(!failure.what().contains("hunter2"));
    }
}
