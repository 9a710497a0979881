//! A small honest plugin: a byte-level trigram model. Small enough to be read at one sitting, real enough to answer: the text that it
//! was given as a model file comes back in its answers.
//!
//! It exists so that everything above the plugin border can be tested in milliseconds, with exact arithmetic: its state is the list of
//! tokens, so copying, cutting, shifting and saving are exact by construction. `../c/ngram.c` is the same model in C, and both give the
//! same logits, bit for bit.
//!
//! A model file is the line `ngram1` and then text; an empty line in the text is where an answer ends.

mod embed;
mod model;
mod session;
mod table;

use onebit_sdk::{
    Cancel, Device, DeviceKind, Error, Fit, FitRequest, Host, Info, Level, MemoryKinds, Model, OpenRequest, Plugin, ProbeReport, Reason,
    export_plugin,
};

use crate::model::NgramModel;
use crate::table::{END, Table, VOCABULARY};

struct Ngram {
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

    fn probe(&self, devices: &[Device]) -> Vec<ProbeReport> {
        let judge = |device: &Device| match device.kind {
            DeviceKind::Cpu => ProbeReport::usable(10, MemoryKinds { host: true, device: false }),
            _ => ProbeReport::refused(Reason::WrongKind, format!("ngram computes on the CPU, not on {}", device.name)),
        };
        devices.iter().map(judge).collect()
    }

    fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, Error> {
        let bytes = match table::check_header(request.path) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Fit::refused(Reason::CorruptModel, error.message())),
        };
        if request.device.kind != DeviceKind::Cpu {
            return Ok(Fit::refused(Reason::WrongKind, "ngram computes on the CPU"));
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

    fn open(&self, request: &OpenRequest<'_>, progress: &mut dyn FnMut(f32), cancel: Cancel<'_>) -> Result<Box<dyn Model>, Error> {
        if request.device.kind != DeviceKind::Cpu {
            return Err(Error::device_unavailable(format!("ngram computes on the CPU, not on {}", request.device.name)));
        }
        let open_ms: u32 = request.options.parse("open_ms")?.unwrap_or(0);
        let row_us: u64 = request.options.parse("row_us")?.unwrap_or(0);
        let table = Table::read(request.path)?;
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

export_plugin!(Ngram, {
    id: "ngram",
    version: env!("CARGO_PKG_VERSION"),
    capabilities: [onebit_sdk::FORWARD, onebit_sdk::TOKENIZE, onebit_sdk::EMBED],
    licence: "MIT OR Apache-2.0",
});

const _: () = assert!(END + 1 == VOCABULARY);
