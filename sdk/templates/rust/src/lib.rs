//! A small plugin for onebit-host: a byte-level trigram model. Run it, read it, then put your own library in its place.
//!
//! What the host does: HTTP, chat templates, batching, sampling, streaming, stop strings. What a plugin does: it turns tokens at positions
//! of sequences into logits, and keeps the state of each sequence, so that the host can copy, cut, move and save it.
//!
//! The model counts which byte follows which two bytes of a text, so asked for the beginning of a line it answers with the rest. A model
//! file is the line `ngram1` and then that text; an empty line in it is where an answer ends, and the last line is empty.
//!
//! This file is the plugin as the host sees it: which devices, which files, and loading. [`table`] is the model (your library goes there),
//! [`model`] what it can do and its tokenizer, [`session`] the sequences, [`embed`] a capability more.

mod embed;
mod model;
mod session;
mod table;

use onebit_sdk::{
    Cancel, Device, DeviceKind, Error, Fit, FitRequest, Host, Info, Level, MemoryKinds, Model, OpenRequest, Plugin, ProbeReport, Reason,
    export_plugin,
};

use crate::model::NgramModel;
use crate::table::{Table, VOCABULARY};

/// The plugin's id is the package's name.
const NAME: &str = env!("CARGO_PKG_NAME");

/// One for the whole process, made when the host enters the library.
struct Ngram {
    /// Logs and metrics go through it; a plugin writes to no file descriptor.
    host: Host,
}

impl Plugin for Ngram {
    fn new(host: Host) -> Result<Self, Error> {
        host.log(Level::Info, "ngram", "started");
        Ok(Self { host })
    }

    fn info(&self) -> Info {
        Info { computes_with: "counting".into(), facts: vec![("language".into(), "Rust".into())] }
    }

    /// Which of the host's devices can be used? Runs in a process of its own, so a driver that crashes here harms nobody.
    fn probe(&self, devices: &[Device]) -> Vec<ProbeReport> {
        let judge = |device: &Device| match device.kind {
            DeviceKind::Cpu => ProbeReport::usable(10, MemoryKinds { host: true, device: false }),
            _ => ProbeReport::refused(Reason::WrongKind, format!("{} computes on the CPU, not on {}", NAME, device.name)),
        };
        devices.iter().map(judge).collect()
    }

    /// Could this file be served on that device, and what would it take? An estimate from the file's head, without loading it. A file that
    /// cannot be served is an answer, not a failure.
    fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, Error> {
        let bytes = match table::check_header(request.path) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Fit::refused(Reason::CorruptModel, error.message())),
        };
        if request.device.kind != DeviceKind::Cpu {
            return Ok(Fit::refused(Reason::WrongKind, format!("{NAME} computes on the CPU")));
        }
        let context = u64::from(request.context.unwrap_or(model::CONTEXT_TRAINED));
        Ok(Fit {
            architecture: "ngram".into(),
            quantisation: "counts".into(),
            weights_host: bytes * 16 + u64::from(VOCABULARY * VOCABULARY) * 4,
            state: context * 8,
            state_per_token: 8,
            scratch_host: u64::from(model::MAX_BATCH) * u64::from(VOCABULARY) * 4,
            context_trained: model::CONTEXT_TRAINED.into(),
            parameters: bytes,
            ..Fit::usable()
        })
    }

    /// Loads a model. The device that was asked for, or an error: never quietly another one.
    fn open(&self, request: &OpenRequest<'_>, progress: &mut dyn FnMut(f32), cancel: Cancel<'_>) -> Result<Box<dyn Model>, Error> {
        if request.device.kind != DeviceKind::Cpu {
            return Err(Error::device_unavailable(format!("{} computes on the CPU, not on {}", NAME, request.device.name)));
        }
        // Options are declared in plugin.toml and given in a manifest; a value that is no number is an error with both names in it.
        let open_ms: u32 = request.options.parse("open_ms")?.unwrap_or(0);
        let row_us: u64 = request.options.parse("row_us")?.unwrap_or(0);
        let table = Table::read(request.path)?;
        // A load that takes long says how far it is, and looks at the flag at least every 50 ms. This one is over at once, so the option
        // pretends: with it you see both at work.
        for step in 0..open_ms.div_ceil(10) {
            cancel.check()?;
            progress(step as f32 / open_ms.div_ceil(10) as f32);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        cancel.check()?;
        progress(1.0);
        self.host.metric_add("models_opened", 1.0);
        Ok(Box::new(NgramModel::new(table, row_us)))
    }
}

// The note that the host reads before it loads the library, both entries, and a guard that turns a panic into a status. What stands here
// must agree with plugin.toml.
export_plugin!(Ngram, {
    id: NAME,
    version: env!("CARGO_PKG_VERSION"),
    capabilities: [onebit_sdk::FORWARD, onebit_sdk::TOKENIZE, onebit_sdk::EMBED],
    licence: "MIT OR Apache-2.0",
});
