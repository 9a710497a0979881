//! What is wrong with a file, said once and kept.
//!
//! A file that cannot be used is never replaced by defaults and never stops other files from being used. It becomes a [`Problem`], which
//! `list`, `doctor` and the log show, and with which its models answer.

use std::fmt;
use std::path::{Path, PathBuf};

use onebit_loader::one_line;
use serde::Serialize;

/// What a problem costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file is used, but not everything in it has an effect.
    Warning,
    /// The file is not used; its models cannot be served.
    Error,
}

/// Something wrong with a file, for the person who can mend it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file or folder.
    pub path: PathBuf,
    /// Counted from 1; `None` when the whole file is meant.
    pub line: Option<u32>,
    /// What is wrong and what would be right.
    pub message: String,
    /// What it costs.
    pub severity: Severity,
}

impl Problem {
    /// The file cannot be used. A message may quote the file, whatever is in it.
    pub fn error(path: &Path, line: Option<u32>, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: one_line(&message.into()), severity: Severity::Error }
    }

    /// The file is used, with a loss.
    pub fn warning(path: &Path, line: Option<u32>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, line, message) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Problem {}
