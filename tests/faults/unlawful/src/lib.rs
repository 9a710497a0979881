//! A plugin that breaks one law of the contract at a time, as `ONEBIT_FAULT` says: for each kind of case of the conformance kit there is one
//! that it must catch. A kit that passes everything proves nothing.
//!
//! `none` breaks no law. Its model depends on every token and every position that a sequence holds, in exact arithmetic, so that whatever is
//! lost or mixed up shows. A model file is the line `law1`; a file that has more than that must end with `end`.

mod deeds;
mod embed;
mod fault;
mod model;
mod rerank;
mod session;

use std::path::Path;

use onebit_sdk::{
    Cancel, Device, DeviceKind, Error, Fit, FitRequest, Host, Info, MemoryKinds, Model, OpenRequest, Plugin, ProbeReport, Reason,
    export_plugin,
};

struct Unlawful;

impl Plugin for Unlawful {
    fn new(_host: Host) -> Result<Self, Error> {
        fault::known().map_err(Error::invalid_argument)?;
        Ok(Self)
    }

    fn info(&self) -> Info {
        Info { computes_with: "hashes".into(), facts: Vec::new() }
    }

    fn probe(&self, devices: &[Device]) -> Vec<ProbeReport> {
        let judge = |device: &Device| match device.kind {
            DeviceKind::Cpu => ProbeReport::usable(1, MemoryKinds { host: true, device: false }),
            _ if fault::is("probes-anything") => ProbeReport::usable(1, MemoryKinds { host: true, device: false }),
            _ => ProbeReport::refused(Reason::WrongKind, "unlawful computes on the CPU"),
        };
        devices.iter().map(judge).collect()
    }

    fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, Error> {
        if request.device.kind != DeviceKind::Cpu && !fault::is("fits-any-kind") {
            return Ok(Fit::refused(Reason::WrongKind, "unlawful computes on the CPU"));
        }
        if let Err(error) = check(request.path)
            && !fault::is("fits-garbage")
        {
            return Ok(Fit::refused(Reason::CorruptModel, error.message()));
        }
        let context = u64::from(request.context.unwrap_or(model::CONTEXT_TRAINED));
        Ok(Fit {
            architecture: "law".into(),
            quantisation: "none".into(),
            weights_host: 1024,
            state: context * 8,
            state_per_token: 8,
            context_trained: model::CONTEXT_TRAINED.into(),
            ..Fit::usable()
        })
    }

    fn open(&self, request: &OpenRequest<'_>, progress: &mut dyn FnMut(f32), cancel: Cancel<'_>) -> Result<Box<dyn Model>, Error> {
        deeds::on_open();
        if request.device.kind != DeviceKind::Cpu && !fault::is("opens-anywhere") {
            return Err(Error::device_unavailable("unlawful computes on the CPU"));
        }
        let checked = check(request.path);
        if checked.is_err() && fault::is("leaks-failed-load") {
            deeds::leak_file();
        }
        if !fault::is("opens-garbage") {
            checked?;
        }
        let open_ms: u64 = request.options.parse("open_ms")?.unwrap_or(0);
        for step in 0..open_ms.div_ceil(10) {
            if !fault::is("deaf-open") {
                cancel.check()?;
            }
            progress(step as f32 / open_ms.div_ceil(10) as f32);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        progress(1.0);
        Ok(Box::new(model::LawModel::new(request.options.parse("row_us")?.unwrap_or(0))))
    }
}

fn check(path: &Path) -> Result<(), Error> {
    let text = std::fs::read(path).map_err(|error| {
        if fault::is("calls-everything-internal") { Error::internal("something went wrong") } else { Error::io(error.to_string()) }
    })?;
    let behind = text.strip_prefix(b"law1\n").ok_or_else(|| Error::corrupt("it does not begin with the line law1"))?;
    if behind.is_empty() || behind.ends_with(b"end\n") { Ok(()) } else { Err(Error::corrupt("it does not end with the line end")) }
}

export_plugin!(Unlawful, {
    id: "unlawful",
    version: env!("CARGO_PKG_VERSION"),
    capabilities: [onebit_sdk::FORWARD, onebit_sdk::TOKENIZE, onebit_sdk::EMBED, onebit_sdk::RERANK],
    licence: "MIT OR Apache-2.0",
});
