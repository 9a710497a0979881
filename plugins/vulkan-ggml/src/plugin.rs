//! The plugin: who it is, what it thinks of devices and files, and how it opens one.

use onebit_sdk::{
    Cancel, Device, DeviceKind, Error, Fit, FitRequest, Host, Info, MemoryKinds, Model, OpenRequest, Plugin, ProbeReport, Reason,
};
use onebit_weights::gguf::GgufError;

use llama_cpp_sys_2 as sys;

use crate::fit::{self, Side};
use crate::load::{self, Files};
use crate::logs;
use crate::model::GgmlModel;
use crate::modules::{self, Modules, Refusal};
use crate::reranker;
use crate::settings::Settings;
use crate::threads;
use crate::weights::Place;

/// Scores of [`Plugin::probe`], compared within this plugin only.
const SCORE_DISCRETE: u32 = 100;
const SCORE_INTEGRATED: u32 = 80;
const SCORE_CPU: u32 = 50;
/// Right answers, slowly: only when nothing else is there or when it is asked for.
const SCORE_SOFTWARE: u32 = 1;

/// llama.cpp on CPU and Vulkan.
pub struct GgmlPlugin {
    modules: Modules,
}

impl GgmlPlugin {
    /// Where a model would compute, and what people call that.
    fn place(&self, device: &Device) -> Result<(Place, String), Refusal> {
        // The CPU module is always needed: it holds what devices do not compute.
        let cpu = self.modules.cpu()?;
        match device.kind {
            DeviceKind::Cpu => {
                let name = if device.name.is_empty() { cpu.device.description() } else { device.name.clone() };
                Ok((Place::Cpu, format!("{name} (CPU, {})", cpu.variant)))
            }
            DeviceKind::Vulkan => {
                let found = self.modules.vulkan(&device.uuid)?;
                if !found.physical.storage_16bit {
                    return Err(Refusal::new(
                        Reason::MissingFeature,
                        format!("{} cannot read 16-bit values from buffers", found.physical.name),
                    ));
                }
                let name = format!("{} (Vulkan)", found.physical.name);
                Ok((Place::Vulkan { device: found.device, software: found.physical.software }, name))
            }
            _ => Err(Refusal::new(Reason::WrongKind, "this plugin computes on the CPU and on Vulkan devices")),
        }
    }

    fn report(&self, device: &Device) -> ProbeReport {
        match self.place(device) {
            Err(refusal) => ProbeReport::refused(refusal.reason, refusal.text),
            Ok((Place::Cpu, name)) => ProbeReport::usable(SCORE_CPU, MemoryKinds { host: true, device: false }).with_text(name),
            Ok((Place::Vulkan { software: true, .. }, name)) => {
                ProbeReport::usable(SCORE_SOFTWARE, MemoryKinds { host: true, device: false })
                    .with_text(format!("{name} computes on the CPU, slowly"))
            }
            Ok((Place::Vulkan { .. }, name)) if device.integrated => {
                ProbeReport::usable(SCORE_INTEGRATED, MemoryKinds { host: true, device: false }).with_text(name)
            }
            Ok((Place::Vulkan { .. }, name)) => {
                ProbeReport::usable(SCORE_DISCRETE, MemoryKinds { host: false, device: true }).with_text(name)
            }
        }
    }
}

impl Plugin for GgmlPlugin {
    fn new(host: Host) -> Result<Self, Error> {
        logs::route(host);
        Ok(Self { modules: Modules::default() })
    }

    fn info(&self) -> Info {
        // SAFETY: constants of the libraries that are linked.
        let (llama, ggml, commit) = unsafe { (sys::llama_version(), sys::ggml_version(), sys::ggml_commit()) };
        let (llama, ggml, commit) = (modules::text(llama), modules::text(ggml), modules::text(commit));
        Info {
            computes_with: format!("llama.cpp {llama}, ggml {ggml}"),
            facts: vec![
                ("llama.cpp".to_owned(), llama),
                ("ggml".to_owned(), ggml),
                ("ggml commit".to_owned(), commit),
                ("crate".to_owned(), "llama-cpp-sys-2 0.1.161".to_owned()),
                ("threads".to_owned(), "OpenMP".to_owned()),
            ],
        }
    }

    fn probe(&self, devices: &[Device]) -> Vec<ProbeReport> {
        devices.iter().map(|device| self.report(device)).collect()
    }

    fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, Error> {
        let settings = Settings::read(request.options)?;
        let side = match request.device.kind {
            DeviceKind::Cpu => Side::Host,
            DeviceKind::Vulkan if request.device.software || request.device.integrated => Side::Host,
            DeviceKind::Vulkan => Side::Device,
            _ => {
                return Ok(Fit::refused(Reason::WrongKind, "this plugin computes on the CPU and on Vulkan devices"));
            }
        };
        let files = match Files::open(request.path) {
            Ok(files) => files,
            Err(error @ GgufError::Io { .. }) => return Err(Error::io(error.to_string())),
            Err(error) => return Ok(Fit::refused(Reason::CorruptModel, error.to_string())),
        };
        let facts = match files.first()?.facts() {
            Ok(facts) => facts,
            Err(error) => return Ok(Fit::refused(Reason::CorruptModel, error.to_string())),
        };
        let mut answer = fit::estimate(&files, &facts, &settings, side, request.context, request.sequences)?;
        if let Err(refusal) = self.modules.cpu() {
            return Ok(Fit::refused(refusal.reason, refusal.text));
        }
        let refused = reranker::refusal(files.first()?, &facts).map_or(Ok(()), |text| Err((Reason::UnsupportedModel, text)));
        if let Err((reason, text)) = refused.and_then(|()| load::examine(&files)) {
            answer.verdict = onebit_sdk::Verdict::Refused { reason, text };
        }
        Ok(answer)
    }

    fn open(&self, request: &OpenRequest<'_>, progress: &mut dyn FnMut(f32), cancel: Cancel<'_>) -> Result<Box<dyn Model>, Error> {
        cancel.check()?;
        let settings = Settings::read(request.options)?;
        let files = Files::open(request.path).map_err(|error| match error {
            GgufError::Io { .. } | GgufError::Read { .. } => Error::io(error.to_string()),
            _ => Error::corrupt(error.to_string()),
        })?;
        let first = files.first()?;
        let facts = first.facts().map_err(|error| Error::corrupt(error.to_string()))?;
        if let Some(text) = reranker::refusal(first, &facts) {
            return Err(Error::unsupported(text));
        }
        progress(0.0);
        let (place, name) = self.place(request.device).map_err(|refusal| Error::device_unavailable(refusal.text))?;
        let threads = request.threads.unwrap_or_else(threads::available).max(1);
        let weights = load::load(&files, place, threads, settings, progress, cancel)?;
        Ok(Box::new(GgmlModel::new(&weights, &files, name)?))
    }
}
