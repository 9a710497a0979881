//! One row of the table of settings, with and without its type.

use super::value::{Shape, Value};
use crate::places::Places;

/// What holds if nobody says anything.
#[derive(Clone, Copy)]
pub enum Fallback {
    /// Not set.
    Unset,
    /// This text.
    Text(&'static str),
    /// Depends on the machine and the user: how, and the rule for people.
    Computed(fn(&Places) -> Vec<String>, &'static str),
}

/// Which commands take the flag. Environment and files are read for all.
#[derive(Clone, Copy)]
pub enum Commands {
    /// Every one.
    Every,
    /// These.
    Only(&'static [&'static str]),
}

/// Everything about one setting.
pub struct Setting<T: Value> {
    /// In a configuration file, dotted: `hub.endpoint`.
    pub key: &'static str,
    /// On the command line, without the dashes.
    pub flag: &'static str,
    /// A one-letter flag.
    pub short: Option<char>,
    /// Environment variables, the first that is set counts. The first one is ours.
    pub env: &'static [&'static str],
    /// What stands for the value in help.
    pub placeholder: &'static str,
    /// What holds otherwise.
    pub fallback: Fallback,
    /// Who takes it.
    pub commands: Commands,
    /// Heading in help and documentation.
    pub group: &'static str,
    /// Never shown.
    pub secret: bool,
    /// Whether a configuration file may have it (a file cannot name the configuration file).
    pub in_file: bool,
    /// What it does, one or two sentences.
    pub help: &'static str,
    /// Refuses values that have the right form and make no sense.
    pub sensible: fn(&T) -> Result<(), String>,
}

impl<T: Value> Setting<T> {
    /// A row with what most rows have in common; the table overrides the rest.
    pub const fn named(key: &'static str, flag: &'static str, env: &'static [&'static str]) -> Self {
        Self {
            key,
            flag,
            short: None,
            env,
            placeholder: "VALUE",
            fallback: Fallback::Unset,
            commands: Commands::Every,
            group: "Options",
            secret: false,
            in_file: true,
            help: "",
            sensible: |_| Ok(()),
        }
    }
}

/// A row without its type: what parser, files and documentation need.
pub trait Row: Sync {
    /// See [`Setting::key`].
    fn key(&self) -> &'static str;
    /// See [`Setting::flag`].
    fn flag(&self) -> &'static str;
    /// See [`Setting::short`].
    fn short(&self) -> Option<char>;
    /// See [`Setting::env`].
    fn env(&self) -> &'static [&'static str];
    /// See [`Setting::placeholder`].
    fn placeholder(&self) -> &'static str;
    /// See [`Setting::fallback`].
    fn fallback(&self) -> Fallback;
    /// See [`Setting::commands`].
    fn commands(&self) -> Commands;
    /// See [`Setting::group`].
    fn group(&self) -> &'static str;
    /// See [`Setting::secret`].
    fn secret(&self) -> bool;
    /// See [`Setting::in_file`].
    fn in_file(&self) -> bool;
    /// See [`Setting::help`].
    fn help(&self) -> &'static str;
    /// See [`Value::SHAPE`].
    fn shape(&self) -> Shape;
    /// See [`Value::EXPECTS`].
    fn expects(&self) -> &'static str;
    /// Whether a value would be read.
    fn check(&self, raw: &[String]) -> Result<(), String>;
}

impl<T: Value> Row for Setting<T> {
    fn key(&self) -> &'static str {
        self.key
    }
    fn flag(&self) -> &'static str {
        self.flag
    }
    fn short(&self) -> Option<char> {
        self.short
    }
    fn env(&self) -> &'static [&'static str] {
        self.env
    }
    fn placeholder(&self) -> &'static str {
        self.placeholder
    }
    fn fallback(&self) -> Fallback {
        self.fallback
    }
    fn commands(&self) -> Commands {
        self.commands
    }
    fn group(&self) -> &'static str {
        self.group
    }
    fn secret(&self) -> bool {
        self.secret
    }
    fn in_file(&self) -> bool {
        self.in_file
    }
    fn help(&self) -> &'static str {
        self.help
    }
    fn shape(&self) -> Shape {
        T::SHAPE
    }
    fn expects(&self) -> &'static str {
        T::EXPECTS
    }
    fn check(&self, raw: &[String]) -> Result<(), String> {
        (self.sensible)(&T::read(raw)?)
    }
}
