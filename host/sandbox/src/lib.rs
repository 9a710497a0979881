//! What a process may still do once a stranger's code runs in it.
//!
//! A plugin is native code: it can do whatever its process can. So the process gives up, before it maps the plugin and before it has a second
//! thread, what computing does not need. Each layer stands alone; where the kernel lacks one, the others hold, and [`Confinement`] says so.
//!
//! | layer | file | takes away |
//! |---|---|---|
//! | Landlock | `files` | every file but the ones in the [`Policy`]; with newer kernels TCP, signals to others, abstract sockets, device ioctls |
//! | seccomp | `calls` | every system call but those that computing needs: no program, no new process, no network, no tracing, no mount |
//! | privileges | `privileges` | what root could do beyond reading files; new privileges through any program; core files |
//! | environment | `environment` | variables that are not about computing, keys and tokens among them |
//!
//! What this crate must never do: decide who is trusted (the host does), or take a restriction back (the kernel does not let it).

mod calls;
mod environment;
mod files;
mod policy;
mod privileges;

use serde::{Deserialize, Serialize};

pub use calls::name as call_name;
pub use environment::scrubbed;
pub use policy::{Devices, Policy};

/// What holds in a process, and what its kernel does not offer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Confinement {
    /// Version of Landlock that holds; 0 = none, so files are as open as they are to the host.
    pub landlock: u32,
    /// Whether system calls are filtered.
    pub seccomp: bool,
    /// What does not hold here, one sentence each.
    pub missing: Vec<String>,
}

impl Confinement {
    /// Whether the two layers hold that keep a hostile plugin in: files and system calls.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.landlock > 0 && self.seccomp
    }
}

impl core::fmt::Display for Confinement {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match (self.landlock, self.seccomp) {
            (0, false) => f.write_str("none"),
            (0, true) => f.write_str("seccomp"),
            (version, false) => write!(f, "landlock {version}"),
            (version, true) => write!(f, "landlock {version}, seccomp"),
        }
    }
}

/// The process cannot be confined as it was told to be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something the policy names cannot be opened.
    #[error("the sandbox cannot open {path}: {reason}")]
    Path {
        /// What it names.
        path: String,
        /// The system's word.
        reason: String,
    },
    /// More than one thread: the others would keep all rights, and a plugin could make them work for it.
    #[error("the sandbox was asked for too late: the process has {threads} threads already")]
    Threads {
        /// How many.
        threads: usize,
    },
    /// The kernel has the layer and refused it.
    #[error("the kernel refused the sandbox's {layer}: {reason}")]
    Kernel {
        /// Which one.
        layer: &'static str,
        /// The system's word.
        reason: String,
    },
}

/// Confines this process for ever. To be called while it has one thread, before any foreign code is mapped.
///
/// # Errors
/// When a layer that the kernel has cannot be put up. A layer that it has not is no error: it is in [`Confinement::missing`].
pub fn enter(policy: &Policy) -> Result<Confinement, Error> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(Error::Threads { threads });
    }
    // Asked first: the file that tells is closed afterwards.
    let seccomp = calls::offered();
    privileges::give_up()?;
    let landlock = files::restrict(policy)?;
    if seccomp {
        // Last: it takes away the calls that the layers above need.
        calls::filter(policy.network)?;
    }
    Ok(Confinement { landlock, seccomp, missing: missing(landlock, seccomp) })
}

/// What this kernel offers, without confining anything. Not for a process that is about to call [`enter`]: a thread of this function may still be
/// counted a moment after it has ended.
#[must_use]
pub fn offered() -> Confinement {
    let (landlock, seccomp) = (files::offered(), calls::offered());
    Confinement { landlock, seccomp, missing: missing(landlock, seccomp) }
}

/// By version of Landlock: what kernels below it do not take away by this way. Where seccomp takes it away too, nothing is missing.
const SINCE: &[(u32, &str)] = &[
    (1, "files are not restricted: this kernel has no Landlock (Linux 5.13 or newer, with \"landlock\" in its list of security modules)"),
    (3, "files that may be read may also be cut short: Landlock restricts that since Linux 6.2"),
    (5, "devices that may be opened take every ioctl: Landlock restricts them since Linux 6.10"),
];

fn missing(landlock: u32, seccomp: bool) -> Vec<String> {
    let mut missing: Vec<String> =
        SINCE.iter().filter(|(since, _)| landlock < *since).map(|(_, sentence)| (*sentence).to_owned()).collect();
    if landlock == 0 {
        missing.truncate(1);
    }
    if !seccomp {
        missing.push("system calls are not filtered: this kernel has no seccomp filters".into());
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_second_thread_is_not_confined_and_says_so() {
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let second = std::thread::spawn(move || wait.recv().ok());
        let error = enter(&Policy::default()).unwrap_err();
        assert!(matches!(error, Error::Threads { threads } if threads > 1), "{error}");
        assert!(std::fs::read_dir("/").is_ok(), "nothing was taken away");
        drop(stop);
        second.join().unwrap();
    }

    #[test]
    fn what_is_missing_is_said_once_for_each_layer() {
        assert!(missing(7, true).is_empty());
        assert_eq!(missing(0, true).len(), 1);
        assert_eq!(missing(2, false).len(), 3);
        let confinement = |landlock, seccomp| Confinement { landlock, seccomp, missing: missing(landlock, seccomp) };
        assert!(confinement(1, true).holds() && !confinement(0, true).holds() && !confinement(7, false).holds());
        assert_eq!(confinement(7, true).to_string(), "landlock 7, seccomp");
    }
}
