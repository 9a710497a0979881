//! What the kit and the process of a case say to each other: lines of JSON over a socket of their own.

use std::path::PathBuf;

use onebit_confine::SandboxConfig;
use serde::{Deserialize, Serialize};

use crate::case::Verdict;
use crate::fuzz::Op;

/// Longest line that is read, bytes.
pub(crate) const LINE_MAX: usize = 4 << 20;

/// Which way into the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The abi_stable root module.
    Rust,
    /// The C function.
    C,
}

impl Way {
    /// As written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::C => "c",
        }
    }

    pub(crate) fn door(self) -> onebit_loader::Door {
        match self {
            Self::Rust => onebit_loader::Door::Rust,
            Self::C => onebit_loader::Door::C,
        }
    }
}

/// What a plugin is tested with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The plugin's folder.
    pub dir: PathBuf,
    /// Which way into it.
    pub way: Way,
    /// A model file.
    pub model: Option<PathBuf>,
    /// Id of the device.
    pub device: String,
    /// What its processes may do: what a worker may.
    pub sandbox: SandboxConfig,
    /// Settings of the plugin.
    pub options: Vec<(String, String)>,
    /// From which all that is random is made.
    pub seed: u64,
    /// How far two distributions may be apart and count as the same, in nats of relative entropy.
    pub tolerance: f64,
}

/// What a process is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Runs one case.
    Case { setup: Setup, id: String },
    /// Runs operations on sequences, one list after the other, each sent when the one before was answered.
    Fuzz { setup: Setup },
}

/// Operations, sent to a process that fuzzes.
pub(crate) type Ops = Vec<Op>;

/// What a process says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Said {
    /// What it is about to do: where it was when it died.
    Step(String),
    /// A warning or an error that the plugin logged.
    Log(String),
    /// What came of it.
    Verdict(Verdict),
}
