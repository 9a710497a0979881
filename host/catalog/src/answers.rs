//! The border of the choice: what it asks plugins and the machine.

use onebit_loader::devices::Device;
use onebit_loader::{Fit, ProbeReport};

use crate::entry::ModelEntry;
use crate::estimate::Free;
use crate::plugins::PluginEntry;

/// A question to a plugin about a model file.
#[derive(Debug, Clone, Copy)]
pub struct FitQuestion<'a> {
    /// The model.
    pub model: &'a ModelEntry,
    /// The file to open.
    pub path: &'a std::path::Path,
    /// The device.
    pub device: &'a Device,
    /// Positions in all sequences together.
    pub context: u32,
    /// Sequences side by side.
    pub sequences: u32,
    /// Settings.
    pub options: &'a [(String, String)],
}

/// Answers of plugins and of the machine. An `Err` is a sentence: the plugin crashed, hung, could not be loaded.
pub trait Answers {
    /// The devices of this machine, in the order of their list.
    fn devices(&self) -> &[Device];
    /// What a plugin says of the devices, in their order.
    fn probe(&self, plugin: &PluginEntry) -> Result<Vec<ProbeReport>, String>;
    /// What a plugin says of a model file.
    fn fit(&self, plugin: &PluginEntry, question: &FitQuestion<'_>) -> Result<Fit, String>;
    /// What a model on this device could have: what is free, and what idle models would give back.
    fn free(&self, device: &Device) -> Free;
}
