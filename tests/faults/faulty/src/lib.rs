//! A plugin that fails in the way it is told to: through the option `fault`, else the variable `ONEBIT_FAULT`, else the name of the model
//! file (`panic-forward.fault`). A name that is in no row of [`fault::FAULTS`] is an error of its own, so that a misspelt test fails.
//!
//! With the option `attempt` it tries, while it opens a model, what a hostile plugin would try.
//!
//! `none` computes: token t is followed by token t + 1 of a vocabulary of 257, and 256 ends. The faults lie on the way of a working model.

mod fault;
mod hostile;
mod model;

use onebit_sdk::{
    Cancel, Device, DeviceKind, Error, Fit, FitRequest, Host, Info, MemoryKinds, Model, OpenRequest, Plugin, ProbeReport, Reason,
    export_plugin,
};

use crate::fault::{Fault, Place};
use crate::hostile::Victim;

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
        if let Some(name) = request.options.get("attempt") {
            self.attempt(name, request)?;
        }
        fault.happen(Place::Open)?;
        progress(1.0);
        Ok(Box::new(model::FaultyModel::new(fault, self.host)))
    }
}

impl Faulty {
    /// Tries, says in the log how that ended, and gives it back as the failure of the load unless it is told to stay.
    fn attempt(&self, name: &str, request: &OpenRequest<'_>) -> Result<(), Error> {
        let victim = Victim { target: request.options.get("target").unwrap_or_default(), model: request.path };
        let said = hostile::attempt(name, &victim).ok_or_else(|| Error::invalid_argument(format!("there is no attempt {name:?}")))?;
        self.host.log(onebit_sdk::Level::Info, "hostile", &said);
        if request.options.get("stay") == Some("true") { Ok(()) } else { Err(Error::internal(said)) }
    }
}

export_plugin!(Faulty, {
    id: "faulty",
    version: env!("CARGO_PKG_VERSION"),
    capabilities: [onebit_sdk::FORWARD, onebit_sdk::TOKENIZE],
    licence: "MIT OR Apache-2.0",
});
