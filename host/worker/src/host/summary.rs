//! Models and plugins as `list`, `show` and the API tell of them.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use onebit_catalog::{Chat, Defaults, Facts, ModelEntry, PluginEntry, Problem, State};
use onebit_loader::devices::Device;
use onebit_loader::trust::Examination;
use onebit_loader::{Info, ProbeReport, Refusal};
use serde::Serialize;

use crate::probe::Failure;

/// One model of the catalog.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelSummary {
    /// The name to ask for.
    pub name: String,
    /// Other names that lead here.
    pub aliases: Vec<String>,
    /// For people.
    pub description: Option<String>,
    /// Whether it can be served, as far as its files tell.
    pub state: ModelState,
    /// Where its file is, or its name if it is not here.
    pub file: Option<PathBuf>,
    /// Bytes of the file; of the manifest's word if it is not here.
    pub bytes: Option<u64>,
    /// Last change of the file.
    pub modified: Option<SystemTime>,
    /// `gguf`, …
    pub format: Option<String>,
    /// What the file's header says.
    pub facts: Option<Facts>,
    /// SPDX expression or a name; the manifest's word before the file's.
    pub licence: Option<String>,
    /// What the file must hash to.
    pub sha256: Option<String>,
    /// Where `pull` gets it, in order.
    pub source: Vec<String>,
    /// The manifest's file and its drop-ins, in order; empty = none.
    pub manifest: Vec<PathBuf>,
    /// The manifest's templates.
    pub chat: Chat,
    /// The manifest's sampling and limits.
    pub defaults: Defaults,
}

/// Whether a model can be served, as far as its files tell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "why")]
pub enum ModelState {
    /// The file is here.
    Here,
    /// The file is not here; what gets it.
    NotDownloaded(String),
    /// Manifest or file cannot be used.
    Broken(Vec<Problem>),
}

impl ModelSummary {
    pub(super) fn of(entry: &ModelEntry) -> Self {
        let manifest = entry.manifest.as_ref();
        let state = match &entry.state {
            State::Here(_) => ModelState::Here,
            State::Missing { .. } => ModelState::NotDownloaded(entry.obstacle().unwrap_or_default()),
            State::Broken(problems) => ModelState::Broken(problems.clone()),
        };
        let file = entry.file();
        let modified =
            file.and_then(|file| u64::try_from(file.stamp.modified_ns).ok()).map(|ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns));
        Self {
            name: entry.name.clone(),
            aliases: entry.aliases.clone(),
            description: manifest.and_then(|manifest| manifest.description.clone()),
            state,
            file: file.map(|file| file.path.clone()).or_else(|| manifest.map(|manifest| manifest.file.clone())),
            bytes: file.map(|file| file.bytes).or_else(|| manifest.and_then(|manifest| manifest.bytes)),
            modified,
            format: entry.format().map(str::to_owned),
            facts: entry.facts().cloned(),
            licence: manifest
                .and_then(|manifest| manifest.licence.clone())
                .or_else(|| entry.facts().and_then(|facts| facts.licence.clone())),
            sha256: manifest.and_then(|manifest| manifest.sha256.clone()),
            source: manifest.map(|manifest| manifest.source.clone()).unwrap_or_default(),
            manifest: entry.manifest_files.clone(),
            chat: manifest.map(|manifest| manifest.chat.clone()).unwrap_or_default(),
            defaults: manifest.map(|manifest| manifest.defaults.clone()).unwrap_or_default(),
        }
    }
}

/// One folder of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PluginReport {
    /// Its folder.
    pub dir: PathBuf,
    /// Its id; of a refused plugin as far as it is known.
    pub id: String,
    /// Its version, if known.
    pub version: Option<String>,
    /// One line for a person.
    pub description: Option<String>,
    /// SPDX expression.
    pub licence: Option<String>,
    /// Formats it reads.
    pub formats: Vec<String>,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// What came of it.
    pub outcome: PluginOutcome,
}

/// What came of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PluginOutcome {
    /// Its files were refused; nothing of it ran.
    Refused(Refusal),
    /// The same version lies in a folder that comes first.
    Shadowed(PathBuf),
    /// It was asked, in a process of its own, and failed.
    Failed {
        /// How; if it is remembered, until the plugin, a driver or the host changes, or until `plugin rescan`.
        failure: Failure,
        /// When.
        at: SystemTime,
    },
    /// It answered.
    Usable {
        /// Who it is.
        info: Info,
        /// What it says of each device.
        devices: Vec<(Device, ProbeReport)>,
        /// Sentences about its files; nothing that forbids the use.
        warnings: Vec<String>,
        /// Who made it, and what of that is not proven.
        trust: Examination,
        /// When it was asked.
        at: SystemTime,
    },
}

impl PluginReport {
    pub(super) fn of(entry: &PluginEntry, outcome: PluginOutcome) -> Self {
        let toml = &entry.inspection.file.toml;
        Self {
            dir: entry.dir.clone(),
            id: toml.id.clone(),
            version: Some(toml.version.clone()),
            description: Some(toml.description.clone()),
            licence: Some(toml.licence.clone()),
            formats: toml.formats.clone(),
            capabilities: toml.capabilities.clone(),
            outcome,
        }
    }

    /// A plugin of which only the folder, the id and a reason are known.
    pub(super) fn unknown(dir: PathBuf, id: String, version: Option<String>, outcome: PluginOutcome) -> Self {
        Self { dir, id, version, description: None, licence: None, formats: Vec::new(), capabilities: Vec::new(), outcome }
    }
}
