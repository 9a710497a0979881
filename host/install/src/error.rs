//! Why nothing was installed, sealed, rolled back or removed. Each leaves everything as it was.

use std::path::{Path, PathBuf};

use onebit_loader::Refusal;
use onebit_loader::trust::Problem;

/// What happened, to what, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// A system call failed.
    #[error("cannot {what}: {error}")]
    Io {
        /// `write /x/y`.
        what: String,
        /// The system's words.
        error: std::io::Error,
    },
    /// Not a kind of archive that is known.
    #[error("{path} is no plugin: neither a folder nor a .tar.gz, .tar.zst or .zip archive")]
    NoArchive {
        /// What was given.
        path: PathBuf,
    },
    /// The archive cannot be read to its end.
    #[error("the archive is damaged: {0}")]
    Damaged(String),
    /// A name that would lead out of the folder, or fool somebody.
    #[error("it holds {name:?}: {why}; nothing of it was installed")]
    Path {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// Something that is neither a plain file nor a folder.
    #[error("it holds {name:?}, {kind}; a plugin consists of plain files and folders, and nothing of it was installed")]
    Kind {
        /// The name.
        name: String,
        /// `a link`, `a device`.
        kind: String,
    },
    /// More than a plugin has.
    #[error("it holds more than a plugin may: {0}")]
    Bounds(String),
    /// No `plugin.toml`.
    #[error("it holds no plugin.toml, neither at its top nor in its only folder")]
    NoPlugin,
    /// A `plugin.toml` that hosts cannot read.
    #[error("{path} cannot be used: {why}")]
    Toml {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The folder holds what a plugin's may not.
    #[error("the folder cannot be sealed: {0}")]
    Unsealable(Box<Problem>),
    /// The checks refuse it.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// Somebody else is at work.
    #[error("another install or removal is at work in {0}; wait for it to end and try again")]
    Busy(PathBuf),
    /// What lies in its place is not a plugin's folder.
    #[error("{0} is in the way: it is not a folder of its own; move it away")]
    InTheWay(PathBuf),
    /// There is no such plugin here.
    #[error("there is no plugin {name} in {dir}")]
    NotThere {
        /// Its name.
        name: String,
        /// The folder of plugins.
        dir: PathBuf,
    },
    /// Nothing to go back to.
    #[error("no previous version of {name} is kept in {dir}")]
    NoPrevious {
        /// Its name.
        name: String,
        /// The folder of plugins.
        dir: PathBuf,
    },
    /// Somebody else put it there.
    #[error("{dir} was not put there by `onebit-host plugin install`, so it is not removed")]
    NotOurs {
        /// The plugin's folder.
        dir: PathBuf,
    },
}

impl InstallError {
    /// For `map_err`: an error of the system while doing `what` to `path`.
    pub(crate) fn io(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let what = format!("{what} {}", path.display());
        move |error| Self::Io { what, error }
    }
}
