//! A model that says what its file says, so that a client which works in several steps can be tested with the answers of a large model.
//!
//! The file has an object a line: `{"after": TEXT, "say": TEXT}`. The line whose `after` stands last in the prompt is said, byte by byte,
//! and then the answer ends; so an agent's task is answered with a call, and that call's result with the next. A byte is a token.

mod model;
mod script;
mod session;

use onebit_sdk::{
    Cancel, Device, DeviceKind, Error, Fit, FitRequest, Host, Info, MemoryKinds, Model, OpenRequest, Plugin, ProbeReport, Reason,
    export_plugin,
};

use crate::script::Script;

struct Scripted;

impl Plugin for Scripted {
    fn new(_host: Host) -> Result<Self, Error> {
        Ok(Self)
    }

    fn info(&self) -> Info {
        Info { computes_with: "a script".into(), facts: Vec::new() }
    }

    fn probe(&self, devices: &[Device]) -> Vec<ProbeReport> {
        let judge = |device: &Device| match device.kind {
            DeviceKind::Cpu => ProbeReport::usable(1, MemoryKinds { host: true, device: false }),
            _ => ProbeReport::refused(Reason::WrongKind, "scripted computes on the CPU"),
        };
        devices.iter().map(judge).collect()
    }

    fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, Error> {
        if request.device.kind != DeviceKind::Cpu {
            return Ok(Fit::refused(Reason::WrongKind, "scripted computes on the CPU"));
        }
        if let Err(error) = Script::read(request.path) {
            return Ok(Fit::refused(Reason::CorruptModel, error.message()));
        }
        let context = u64::from(request.context.unwrap_or(model::CONTEXT_TRAINED));
        Ok(Fit {
            architecture: "script".into(),
            quantisation: "none".into(),
            weights_host: 1024,
            state: context * 8,
            state_per_token: 8,
            context_trained: model::CONTEXT_TRAINED.into(),
            ..Fit::usable()
        })
    }

    fn open(&self, request: &OpenRequest<'_>, progress: &mut dyn FnMut(f32), _cancel: Cancel<'_>) -> Result<Box<dyn Model>, Error> {
        if request.device.kind != DeviceKind::Cpu {
            return Err(Error::device_unavailable("scripted computes on the CPU"));
        }
        let script = Script::read(request.path)?;
        progress(1.0);
        Ok(Box::new(model::ScriptedModel::new(script)))
    }
}

export_plugin!(Scripted, {
    id: "scripted",
    version: env!("CARGO_PKG_VERSION"),
    capabilities: [onebit_sdk::FORWARD, onebit_sdk::TOKENIZE],
    licence: "MIT OR Apache-2.0",
});
