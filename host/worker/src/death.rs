//! How a worker process ended, in words: which signal or which silence, in which plugin, while doing what, and what it said last.
//!
//! An exit status is decoded here once; nothing else in the project looks at raw status numbers.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, SystemTime};

/// One unexpected end of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Death {
    /// The model it served.
    pub model: String,
    /// The plugin it had mapped.
    pub plugin: String,
    /// Its version.
    pub plugin_version: String,
    /// Process id it had.
    pub pid: u32,
    /// How it ended.
    pub cause: Cause,
    /// What it was doing: `loading (40 %)`, `computing 3 requests`, `idle`.
    pub activity: String,
    /// The last lines it wrote to stderr, at most 8 KiB. May be empty.
    pub last_lines: String,
    /// When the end was noticed.
    pub at: SystemTime,
}

/// One end of a worker that did nothing for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hang {
    /// The model it served.
    pub model: String,
    /// The plugin it had mapped.
    pub plugin: String,
    /// Its version.
    pub plugin_version: String,
    /// What it was doing.
    pub activity: String,
    /// How long nothing happened.
    pub stalled: Duration,
    /// The last lines it wrote to stderr, at most 8 KiB. May be empty.
    pub last_lines: String,
}

/// The way a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// By a signal.
    Signal {
        /// Its number.
        number: i32,
        /// Whether a core file was written.
        core: bool,
    },
    /// By itself, with this status. A worker that was not told to end has no business ending, not even with 0.
    Status(i32),
    /// It closed its socket and went on running; it was ended.
    HungUp,
    /// Its engine said that it cannot go on, and why; it was ended.
    GaveUp(String),
    /// It used more than it may, and what; it was ended.
    Overran(String),
}

impl Cause {
    /// Decodes what the system said.
    #[must_use]
    pub fn of(status: ExitStatus) -> Self {
        match (status.signal(), status.code()) {
            (Some(number), _) => Self::Signal { number, core: status.core_dumped() },
            (None, code) => Self::Status(code.unwrap_or_default()),
        }
    }
}

impl Cause {
    /// The signal's name, if it was one.
    pub(crate) fn signal(&self) -> Option<String> {
        match self {
            &Self::Signal { number, .. } => Some(signal_name(number).map_or_else(|| number.to_string(), str::to_owned)),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            &Self::Signal { number, core } => {
                f.write_str(signal_name(number).unwrap_or("an unnamed signal"))?;
                if signal_name(number).is_none() {
                    write!(f, " ({number})")?;
                }
                if core {
                    f.write_str(", core written")?;
                }
                if number == 9 {
                    f.write_str(", killed from outside, perhaps by the kernel for want of memory")?;
                }
                Ok(())
            }
            Self::Status(code) => write!(f, "it ended the process with status {code}"),
            Self::HungUp => f.write_str("it closed the connection to the host"),
            Self::GaveUp(why) => f.write_str(why),
            Self::Overran(why) => write!(f, "{why}; it was ended"),
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, plugin, plugin_version, pid, cause, activity, last_lines, .. } = self;
        write!(f, "plugin {plugin} {plugin_version} died while {activity} for {model} (process {pid}): {cause}")?;
        last_words(f, last_lines)
    }
}

impl fmt::Display for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, plugin, plugin_version, activity, stalled, last_lines } = self;
        let seconds = stalled.as_secs_f32();
        write!(f, "plugin {plugin} {plugin_version} made no progress for {seconds:.1} s while {activity} for {model} and was ended")?;
        last_words(f, last_lines)
    }
}

fn last_words(f: &mut fmt::Formatter<'_>, lines: &str) -> fmt::Result {
    match lines.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(last) => write!(f, "; its last words: {last}"),
        None => Ok(()),
    }
}

/// Names as in `signal(7)`, numbers of Linux on x86-64 and AArch64.
fn signal_name(number: i32) -> Option<&'static str> {
    const NAMES: &[(i32, &str)] = &[
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (5, "SIGTRAP"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
        (24, "SIGXCPU"),
        (25, "SIGXFSZ"),
        (31, "SIGSYS"),
    ];
    NAMES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death(cause: Cause, last_lines: &str) -> Death {
        Death {
            model: "tiny".into(),
            plugin: "vulkan-ggml".into(),
            plugin_version: "0.1.0".into(),
            pid: 42,
            cause,
            activity: "computing 2 requests".into(),
            last_lines: last_lines.into(),
            at: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_segfault_names_signal_plugin_activity_and_last_line() {
        let text = death(Cause::Signal { number: 11, core: false }, "ggml: loading\nggml: bad pointer\n\n").to_string();
        assert_eq!(
            text,
            "plugin vulkan-ggml 0.1.0 died while computing 2 requests for tiny (process 42): SIGSEGV; its last words: ggml: bad pointer"
        );
    }

    #[test]
    fn ending_with_status_zero_is_a_death_too() {
        assert!(death(Cause::Status(0), "").to_string().ends_with("it ended the process with status 0"));
    }

    #[test]
    fn an_unknown_signal_keeps_its_number() {
        assert_eq!(Cause::Signal { number: 64, core: false }.to_string(), "an unnamed signal (64)");
    }
}
