//! A loaded plugin.

use crate::devices::Device;
use crate::{Fit, FitRequest, HostSink, Info, LoadError, Model, OpenRequest, PluginError, PluginFile, ProbeReport};

/// Which way into the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The abi_stable root module, with its layout check.
    Rust,
    /// The C function `onebit_plugin_v1`.
    C,
}

/// A loaded plugin. Clones share it; it is never unloaded.
#[derive(Clone)]
pub struct Plugin {}

impl Plugin {
    /// Loads through the Rust door if the note offers it, else through the C door.
    pub fn load(file: &PluginFile, sink: HostSink) -> Result<Self, LoadError> {
        let _ = (file, sink);
        todo!()
    }

    /// Loads through this door.
    pub fn load_through(file: &PluginFile, sink: HostSink, door: Door) -> Result<Self, LoadError> {
        let _ = (file, sink, door);
        todo!()
    }

    /// Who it is.
    pub fn info(&self) -> &Info {
        todo!()
    }

    /// One report per device, in the order asked.
    pub fn probe(&self, devices: &[Device]) -> Result<Vec<ProbeReport>, PluginError> {
        let _ = devices;
        todo!()
    }

    /// Judges a model file for a device.
    pub fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, PluginError> {
        let _ = request;
        todo!()
    }

    /// Loads a model.
    pub fn open(&self, request: OpenRequest<'_>) -> Result<Model, PluginError> {
        let _ = request;
        todo!()
    }
}
