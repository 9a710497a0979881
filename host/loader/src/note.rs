//! The static note of a plugin, read from its file.

use serde::{Deserialize, Serialize};

/// What the note says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// ABI major it was built for.
    pub abi_major: u32,
    /// Lowest host minor it can live with.
    pub abi_min_minor: u32,
    /// Minor it was built for.
    pub abi_built_minor: u32,
    /// Plugin id.
    pub id: String,
    /// Semantic version.
    pub version: String,
    /// Capability ids.
    pub capabilities: Vec<String>,
    /// Target triple it was built for.
    pub target: String,
    /// `unwind` or `none`.
    pub panic: String,
    /// SPDX expression.
    pub licence: String,
    /// `c`, `rust`.
    pub doors: Vec<String>,
}

/// Why a file has no usable note.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoteError(pub String);
