//! What the host asks a probe process, and what comes back: one line of JSON each.

use std::path::PathBuf;

use onebit_loader::devices::{Device, DeviceList};
use onebit_loader::trust::{Seen, Trust};
use onebit_loader::{Fit, Info, ProbeReport};
use serde::{Deserialize, Serialize};

use onebit_confine::SandboxConfig;

/// Longest line, bytes. A machine with hundreds of devices stays far below.
pub(super) const LINE_MAX: usize = 4 << 20;

/// A question. Each is asked in a process of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Which devices are there? Starts the Vulkan drivers.
    Devices,
    /// Load this plugin: what does it say of these devices?
    Probe { plugin_dir: PathBuf, trust: Trust, seen: Vec<Seen>, devices: Vec<Device>, sandbox: SandboxConfig },
    /// Load this plugin: what does it say of this file?
    Fit {
        plugin_dir: PathBuf,
        trust: Trust,
        seen: Vec<Seen>,
        device: Box<Device>,
        path: PathBuf,
        context: u32,
        sequences: u32,
        options: Vec<(String, String)>,
        sandbox: SandboxConfig,
    },
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Devices(DeviceList),
    Probed(Probed),
    Fit(Fit),
    /// The plugin could not be loaded, or its call failed: a sentence.
    Failed(String),
}

/// A plugin's word about itself and about the devices it was asked about, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// Who it is.
    pub info: Info,
    /// One per device.
    pub reports: Vec<ProbeReport>,
}
