//! How the program ends: one table of exit codes, and the one shape in which an error reaches a person.
//!
//! A [`Failure`] says what happened and to what, and what to do next. It is printed once, by `main`; its causes are printed only with
//! `--verbose`. Scripts read the code, never the words. A closed pipe (`onebit-host list | head -1`) is not an error of ours and says nothing.

mod from;

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Why the program ended. The number of each is in [`TABLE`] and never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done what was asked.
    Done,
    /// Something else.
    Other,
    /// The command line, the environment or a configuration file is wrong.
    Usage,
    /// What was asked for does not exist.
    NotFound,
    /// The model exists, but nothing here can serve it.
    Unservable,
    /// A worker process died or hung.
    WorkerDied,
    /// A peer cannot be reached or does not do its part.
    Network,
    /// Bytes are not what they should be.
    Corrupt,
    /// The address is taken.
    PortInUse,
    /// The disk is full or would be.
    NoSpace,
    /// The operating system says no.
    Permission,
    /// Ctrl-C.
    Interrupted,
}

/// One exit code.
pub struct Row {
    /// Which.
    pub exit: Exit,
    /// Its number.
    pub code: u8,
    /// When, for people.
    pub meaning: &'static str,
}

/// All exit codes, by number.
pub static TABLE: &[Row] = &[
    Row { exit: Exit::Done, code: 0, meaning: "done" },
    Row { exit: Exit::Other, code: 1, meaning: "failed for a reason without a number of its own; a check found problems" },
    Row { exit: Exit::Usage, code: 2, meaning: "the command line, the environment or a configuration file is wrong" },
    Row { exit: Exit::NotFound, code: 3, meaning: "the model, file, package or server does not exist" },
    Row { exit: Exit::Unservable, code: 4, meaning: "the model exists, but no plugin here can serve it" },
    Row { exit: Exit::WorkerDied, code: 5, meaning: "a worker process died or hung" },
    Row { exit: Exit::Network, code: 6, meaning: "a server could not be reached, refused, or broke off" },
    Row { exit: Exit::Corrupt, code: 7, meaning: "a file is damaged or is not the one with the given sha256" },
    Row { exit: Exit::PortInUse, code: 8, meaning: "the address to listen on is in use" },
    Row { exit: Exit::NoSpace, code: 9, meaning: "not enough space on the disk" },
    Row { exit: Exit::Permission, code: 10, meaning: "not permitted: a file, folder or device cannot be read or written" },
    Row { exit: Exit::Interrupted, code: 130, meaning: "ended by Ctrl-C" },
];

impl Exit {
    /// Its number.
    pub fn code(self) -> u8 {
        TABLE.iter().find(|row| row.exit == self).map_or(1, |row| row.code)
    }

    /// The row for an error of the operating system.
    pub fn of_io(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound => Self::NotFound,
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Self::Permission,
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Self::NoSpace,
            Kind::AddrInUse => Self::PortInUse,
            Kind::ConnectionRefused | Kind::ConnectionReset | Kind::ConnectionAborted | Kind::TimedOut => Self::Network,
            _ => Self::Other,
        }
    }
}

/// The table as lines for `--help`.
pub fn help() -> String {
    let mut text = String::from("Exit codes:\n");
    for row in TABLE {
        text.push_str(&format!("  {:>3}  {}\n", row.code, row.meaning));
    }
    text.trim_end().to_owned()
}

/// An error on its way to a person.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    what: String,
    next: Option<String>,
    causes: Vec<String>,
}

impl Failure {
    /// What happened, to what.
    pub fn new(exit: Exit, what: impl Display) -> Self {
        Self { exit, what: what.to_string(), next: None, causes: Vec::new() }
    }

    /// Ends with a code and without a word: whatever there was to say has been said.
    pub fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// An error of the operating system, met while doing `what` ("write /x/y").
    pub fn io(what: impl Display, error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::silent(Exit::Done);
        }
        Self::new(Exit::of_io(error), format!("cannot {what}: {error}"))
    }

    /// What to do about it.
    pub fn next(mut self, next: impl Display) -> Self {
        self.next = Some(next.to_string());
        self
    }

    /// Keeps the chain below an error for `--verbose`.
    pub fn caused_by(mut self, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            let text = error.to_string();
            // Many libraries repeat the cause in their own sentence; a chain that says it twice is harder to read.
            if !self.what.contains(&text) && self.causes.last() != Some(&text) {
                self.causes.push(text);
            }
            cause = error.source();
        }
        self
    }

    /// Why.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// The sentence.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The sentence, and what to do about it.
    pub fn sentence(&self) -> String {
        match &self.next {
            Some(next) => format!("{}. {next}", self.what),
            None => self.what.clone(),
        }
    }

    /// Prints it once, to standard error, and turns it into the process's end.
    pub fn report(&self, verbose: bool) -> ExitCode {
        if !self.what.is_empty() {
            let bold = use_colour(&std::io::stderr());
            let (on, off) = if bold { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
            let mut text = format!("{on}error{off}: {}\n", self.what);
            if let Some(next) = &self.next {
                for line in next.lines() {
                    text.push_str(&format!("  {line}\n"));
                }
            }
            if verbose {
                for cause in &self.causes {
                    text.push_str(&format!("  caused by: {cause}\n"));
                }
            }
            // If standard error is gone there is nobody left to tell.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        ExitCode::from(self.exit.code())
    }
}

/// Whether a stream gets colours: it is a terminal and the user did not ask for none (<https://no-color.org>).
pub fn use_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_one_row_and_every_row_its_own_number() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.exit.code(), row.code);
            assert!(TABLE[..at].iter().all(|other| other.code < row.code && other.exit != row.exit), "{}", row.code);
        }
    }

    #[test]
    fn a_closed_pipe_is_quiet() {
        let failure = Failure::io("write", &std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit(), failure.what()), (Exit::Done, ""));
    }

    #[test]
    fn a_full_disk_and_a_taken_port_have_their_codes() {
        for (errno, exit) in
            [(28, Exit::NoSpace), (98, Exit::PortInUse), (13, Exit::Permission), (30, Exit::Permission), (2, Exit::NotFound)]
        {
            assert_eq!(Exit::of_io(&std::io::Error::from_raw_os_error(errno)), exit, "errno {errno}");
        }
    }
}
