//! All checks that need no code of the plugin to run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Note, PluginToml, Refusal};

/// A plugin whose file, note and `plugin.toml` agree and suit this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginFile {
    /// Its folder, canonical.
    pub dir: PathBuf,
    /// `plugin.toml`.
    pub toml: PluginToml,
    /// The ELF note.
    pub note: Note,
    /// Its library, canonical.
    pub library: PathBuf,
}

/// What [`inspect()`] found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// The plugin.
    pub file: PluginFile,
    /// Shared libraries it needs, and where each was found.
    pub needed: Vec<(String, PathBuf)>,
    /// Sentences for a person; nothing that forbids the use.
    pub warnings: Vec<String>,
}

/// Reads a plugin's folder. No code of the plugin runs.
pub fn inspect(plugin_dir: &Path) -> Result<Inspection, Refusal> {
    let _ = plugin_dir;
    todo!()
}
