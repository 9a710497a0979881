//! What the host is told, and what went wrong before: everything besides manifest and plugins that a choice depends on.

use crate::device::Selector;

/// What the host is told to do for all models.
#[derive(Debug, Clone, Default)]
pub struct Wishes {
    /// Only devices of this set.
    pub device: Selector,
    /// Positions per request, where the manifest does not say.
    pub context: Option<u32>,
    /// Requests side by side, where the manifest does not say; 0 = [`crate::context::SLOTS`].
    pub slots: u32,
    /// CPU threads, where the manifest does not say.
    pub threads: Option<u32>,
    /// What was chosen before and failed while it loaded. From then on only declared fallbacks are used.
    pub failed: Vec<Failed>,
    /// Judge everything, also what comes after the choice. Costs questions to the plugins.
    pub thorough: bool,
}

/// A choice that failed while it loaded.
#[derive(Debug, Clone)]
pub struct Failed {
    /// Id of the plugin.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// Id of the device.
    pub device: String,
    /// What happened.
    pub reason: String,
}
