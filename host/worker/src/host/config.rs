//! What a host is told when it starts: where to look, and what to do where neither a manifest nor a request says.

use std::path::PathBuf;
use std::time::Instant;

use onebit_catalog::{CatalogPaths, KeepAlive, Selector, Shelf, Wishes, context};

use onebit_loader::trust::Trust;

use crate::probe::ProbeConfig;
use crate::supervisor::SupervisorConfig;

/// Settings of a [`Host`](super::Host).
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Folders of plugins; of two copies of one version the one in the first folder is used.
    pub plugin_dirs: Vec<PathBuf>,
    /// Folders of manifests, the weakest first.
    pub manifest_dirs: Vec<PathBuf>,
    /// The folder of manifests that models are made in, one of the above; `None` = none are made.
    pub own_manifests: Option<PathBuf>,
    /// Folders of model files; of two files with one name the one in the first folder is used.
    pub models_dirs: Vec<PathBuf>,
    /// Where answers of plugins and hashes of files are remembered; `None` = nowhere.
    pub cache_dir: Option<PathBuf>,
    /// The program that becomes a worker or a probe; `None` = this very program.
    pub exe: Option<PathBuf>,
    /// Only devices of this set are used.
    pub device: Selector,
    /// Positions per request; `None` = by the rule of [`context`].
    pub context: Option<u32>,
    /// Requests computed side by side.
    pub slots: u32,
    /// CPU threads; `None` = the plugin's own choice.
    pub threads: Option<u32>,
    /// How long a model without work stays loaded.
    pub keep_alive: KeepAlive,
    /// How much proof of its origin a plugin must bring.
    pub trust: Trust,
    /// Limits and patience of the supervisor. Its `exe` and `trust` are taken from above.
    pub supervisor: SupervisorConfig,
    /// How probe processes are started. Its `exe` is taken from above, its `sandbox` from the supervisor's.
    pub probe: ProbeConfig,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            plugin_dirs: Vec::new(),
            manifest_dirs: Vec::new(),
            own_manifests: None,
            models_dirs: Vec::new(),
            cache_dir: None,
            exe: None,
            device: Selector::Any,
            context: None,
            slots: context::SLOTS,
            threads: None,
            keep_alive: KeepAlive::For(std::time::Duration::from_secs(300)),
            trust: Trust::default(),
            supervisor: SupervisorConfig::default(),
            probe: ProbeConfig::default(),
        }
    }
}

impl HostConfig {
    pub(super) fn paths(&self) -> CatalogPaths {
        CatalogPaths {
            manifest_dirs: self.manifest_dirs.clone(),
            models_dirs: self.models_dirs.clone(),
            plugin_dirs: self.plugin_dirs.clone(),
            trust: self.trust.clone(),
        }
    }

    pub(super) fn shelf(&self) -> Shelf {
        Shelf { manifests: self.own_manifests.clone(), models: self.models_dirs.first().cloned() }
    }

    pub(super) fn wishes(&self) -> Wishes {
        Wishes { device: self.device.clone(), context: self.context, slots: self.slots, threads: self.threads, ..Wishes::default() }
    }
}

/// What one request wants of its lease.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeaseOptions {
    /// How long the model stays loaded after it, instead of what manifest and host say.
    pub keep_alive: Option<KeepAlive>,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
}
