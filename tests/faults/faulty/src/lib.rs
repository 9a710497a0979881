//! A plugin that fails in the way it is told to: through the option `fault`, else the variable `ONEBIT_FAULT`, else the name of the model
//! file (`panic-forward.fault`). A name that is in no row of [`fault::FAULTS`] is an error of its own, so that a misspelt test fails.
//!
//! `none` computes: token t is followed by token t + 1 of a vocabulary of 257, and 256 ends. The faults lie on the way of a working model.

mod fault;
mod model;

use onebit_sdk::{
    Cancel, Device, DeviceKind, Error, Fit, FitRequest, Host, Info, MemoryKinds, Model, OpenRequest, Plugin, ProbeReport, Reason,
    export_plugin,
};

use crate::fault::{Fault, Place};

struct Faulty {
    host: Host,
}

impl Plugin for Faulty {
    fn new(host: Host) -> Result<Self, Error> {
        Fault::from_environment()?.happen(Place::Entry)?;
        Ok(Self { host })
    }

    fn info(&self) -> Info {
        Info { computes_with: "mistakes".into(), facts: Vec::new() }
    }

    fn probe(&self, devices: &[Device]) -> Vec<ProbeReport> {
        // Nothing to answer an error with here: a fault of this place is one that does not come back.
        let _ = Fault::from_environment().and_then(|fault| fault.happen(Place::Probe));
        let judge = |device: &Device| match device.kind {
            DeviceKind::Cpu => ProbeReport::usable(1, MemoryKinds { host: true, device: false }),
            _ => ProbeReport::refused(Reason::WrongKind, "faulty computes on the CPU"),
        };
        devices.iter().map(judge).collect()
    }

    fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, Error> {
        Fault::of(request.path, request.options)?.happen(Place::Fit)?;
        Ok(Fit { architecture: "faulty".into(), quantisation: "none".into(), weights_host: 1024, context_trained: 4096, ..Fit::usable() })
    }

    fn open(&self, request: &OpenRequest<'_>, progress: &mut dyn FnMut(f32), _cancel: Cancel<'_>) -> Result<Box<dyn Model>, Error> {
        let fault = Fault::of(request.path, request.options)?;
        progress(0.5);
        fault.happen(Place::Open)?;
        progress(1.0);
        Ok(Box::new(model::FaultyModel::new(fault, self.host)))
    }
}

export_plugin!(Faulty, {
    id: "faulty",
    version: env!("CARGO_PKG_VERSION"),
    capabilities: [onebit_sdk::FORWARD, onebit_sdk::TOKENIZE],
    licence: "MIT OR Apache-2.0",
});
