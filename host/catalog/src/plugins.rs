//! The plugins that are installed: found, inspected, and those that cannot be used kept with the reason.
//!
//! Nothing of a plugin runs here; see [`onebit_loader::inspect`].

use std::path::{Path, PathBuf};

use onebit_loader::trust::Trust;
use onebit_loader::{Inspection, Refusal};

/// A plugin that this host can load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginEntry {
    /// Its folder.
    pub dir: PathBuf,
    /// Parsed from `plugin.toml`.
    pub version: semver::Version,
    /// What its files say.
    pub inspection: Inspection,
}

impl PluginEntry {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.inspection.file.toml.id
    }

    /// Whether it reads model files of this format.
    pub fn reads(&self, format: &str) -> bool {
        self.inspection.file.toml.formats.iter().any(|known| known.eq_ignore_ascii_case(format))
    }
}

/// A folder that holds a plugin that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPlugin {
    /// The folder.
    pub dir: PathBuf,
    /// Why.
    pub refusal: Refusal,
}

/// What was found in the plugin folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plugins {
    /// By id, then the newest version first.
    pub usable: Vec<PluginEntry>,
    /// In the order of the folders.
    pub refused: Vec<RefusedPlugin>,
    /// Plugins that lie twice: the one that is not used and the one that is.
    pub shadowed: Vec<(PathBuf, PathBuf)>,
}

/// Looks through the folders in order: of two copies of one version the first is used.
pub(crate) fn scan(folders: &[PathBuf], trust: &Trust) -> Plugins {
    let mut plugins = Plugins::default();
    for dir in folders.iter().flat_map(|folder| plugin_dirs(folder)) {
        match entry(&dir, trust) {
            Err(refusal) => plugins.refused.push(RefusedPlugin { dir, refusal }),
            Ok(entry) => {
                let same = |other: &PluginEntry| other.id() == entry.id() && other.version == entry.version;
                match plugins.usable.iter().find(|other| same(other)) {
                    // The same folder by another way is no second copy.
                    Some(first) if first.inspection.file.dir == entry.inspection.file.dir => {}
                    Some(first) => plugins.shadowed.push((dir, first.dir.clone())),
                    None => plugins.usable.push(entry),
                }
            }
        }
    }
    plugins.usable.sort_by(|a, b| a.id().cmp(b.id()).then_with(|| b.version.cmp(&a.version)));
    plugins
}

fn entry(dir: &Path, trust: &Trust) -> Result<PluginEntry, Refusal> {
    let inspection = onebit_loader::inspect_under(dir, trust)?;
    let toml = &inspection.file.toml;
    let version = semver::Version::parse(&toml.version).map_err(|error| Refusal {
        plugin: toml.id.clone(),
        version: Some(toml.version.clone()),
        rows: vec![onebit_loader::RefusalRow {
            field: "version".into(),
            host: "a semantic version".into(),
            plugin: format!("{:?}: {error}", toml.version),
            remedy: "correct `version` in plugin.toml".into(),
        }],
    })?;
    Ok(PluginEntry { dir: dir.to_owned(), version, inspection })
}

/// The folders in `folder` that hold a `plugin.toml`, sorted; `folder` itself, if it does.
pub(crate) fn plugin_dirs(folder: &Path) -> Vec<PathBuf> {
    let holds = |dir: &Path| dir.join("plugin.toml").symlink_metadata().is_ok();
    if holds(folder) {
        return vec![folder.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut dirs: Vec<PathBuf> = entries.map_while(Result::ok).map(|entry| entry.path()).filter(|dir| holds(dir)).collect();
    dirs.sort();
    dirs
}
