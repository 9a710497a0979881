//! What to launch: everything the supervisor needs to know of a model, chosen by somebody else.
//!
//! The supervisor chooses nothing. A [`LaunchSpec`] names one plugin, one device and one file; it is carried out as it stands or refused.

use std::path::PathBuf;

pub use onebit_catalog::KeepAlive;
use onebit_loader::Needs;
use onebit_loader::devices::Device;
use onebit_loader::trust::{Seen, Trust};

use crate::protocol::LoadOrder;

/// One model on one plugin on one device.
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    /// Name of the model; one worker serves one name.
    pub model: String,
    /// File or folder of the weights.
    pub model_path: PathBuf,
    /// Folder with `plugin.toml` and the library.
    pub plugin_dir: PathBuf,
    /// Which plugin must be found there.
    pub plugin_id: String,
    /// Which version must be found there.
    pub plugin_version: String,
    /// Where it computes.
    pub device: Device,
    /// Settings of the plugin.
    pub options: Vec<(String, String)>,
    /// Positions one request may use; `None` = what the model was trained for.
    pub context: Option<u32>,
    /// Requests computed side by side, at least 1.
    pub slots: u32,
    /// CPU threads; `None` = the plugin's choice.
    pub threads: Option<u32>,
    /// How long the model stays after the last answer.
    pub keep_alive: KeepAlive,
    /// Where the engine runs.
    pub isolation: Isolation,
    /// What it will need, by the plugin's own estimate.
    pub estimate: MemoryEstimate,
    /// Takes the place of the chat template in the model file.
    pub chat_template: Option<String>,
    /// Set when this is not the first choice of the manifest: why the better ones were not taken. Shown with the status.
    pub fallback_note: Option<String>,
    /// What the plugin asks for beyond computing.
    pub needs: Needs,
    /// Files of the plugin that were hashed before.
    pub seen: Vec<Seen>,
    /// Environment variables of the worker process, on top of what it gets of the host's own. Set at spawn; the host's environment is never changed.
    pub env: Vec<(String, String)>,
}

impl LaunchSpec {
    /// What the worker is told.
    pub(crate) fn order(&self, trust: &Trust, prefix_cache: bool) -> LoadOrder {
        LoadOrder {
            model: self.model.clone(),
            model_path: self.model_path.clone(),
            plugin_dir: self.plugin_dir.clone(),
            trust: trust.clone(),
            seen: self.seen.clone(),
            plugin_id: self.plugin_id.clone(),
            plugin_version: self.plugin_version.clone(),
            device: self.device.clone(),
            options: self.options.clone(),
            context: self.context,
            slots: self.slots.max(1),
            threads: self.threads,
            prefix_cache,
            chat_template: self.chat_template.clone(),
        }
    }

    /// Whether a worker that was started for `other` serves this just as well. How long it stays and what was estimated do not matter.
    pub(crate) fn same_launch(&self, other: &Self) -> bool {
        // The free memory of a device is a measurement, not a part of the choice.
        let measured_alike = Device { memory_free: other.device.memory_free, ..self.device.clone() };
        // All launches of one host are under one policy, and keep or do not keep.
        let trust = Trust::default();
        LoadOrder { device: measured_alike, seen: other.seen.clone(), ..self.order(&trust, true) } == other.order(&trust, true)
            && self.isolation == other.isolation
            && self.env == other.env
    }
}

/// Where the engine and the plugin run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// In a process of their own: a crash is a value.
    #[default]
    Worker,
    /// In a thread of this process: for embedding and benchmarks with plugins one trusts. A crash ends the host, a hang cannot be ended, and
    /// the plugin's library stays mapped after the model is unloaded.
    InProcess,
}

/// Bytes a model will need. All zero = not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryEstimate {
    /// In the machine's memory.
    pub host_bytes: u64,
    /// In the device's memory. On an integrated device that is the machine's memory too.
    pub device_bytes: u64,
}

impl MemoryEstimate {
    /// Both kinds.
    #[must_use]
    pub fn total(self) -> u64 {
        self.host_bytes.saturating_add(self.device_bytes)
    }
}
