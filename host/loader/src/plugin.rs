//! A loaded plugin.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use onebit_plugin_api as abi;

use crate::devices::{Device, DeviceKind};
use crate::door::{self, Door};
use crate::model::ModelInner;
use crate::sink::{forget_report, host_table, take_report};
use crate::{Fit, FitRequest, HostSink, Info, LoadError, Model, OpenRequest, PluginError, PluginFile, ProbeReport, Reason, Status, raw};

/// A loaded plugin. Clones share it; it is never unloaded.
#[derive(Clone)]
pub struct Plugin(pub(crate) Arc<PluginInner>);

pub(crate) struct PluginInner {
    pub(crate) table: abi::OnebitPlugin,
    pub(crate) capabilities: Vec<String>,
    info: Info,
    door: Door,
    address: usize,
    /// `probe` and `fit`: one call at a time.
    one_at_a_time: Mutex<()>,
}

/// Runs one call into a plugin on this thread; a status that is not OK comes back with what the plugin reported.
pub(crate) fn call(work: impl FnOnce() -> abi::OnebitStatus) -> Result<(), PluginError> {
    forget_report();
    match work() {
        abi::ONEBIT_OK => Ok(()),
        status => Err(take_report(status)),
    }
}

/// The error of a function that the table must have and has not. [`Plugin::load`] makes this impossible.
pub(crate) fn absent(name: &str) -> PluginError {
    PluginError::broken(format!("the function {name} is null"))
}

impl Plugin {
    /// Loads through the Rust door if the note offers it, else through the C door. The library stays loaded until the process ends.
    pub fn load(file: &PluginFile, sink: HostSink) -> Result<Self, LoadError> {
        Self::load_through(file, sink, if file.note.has_rust_door() { Door::Rust } else { Door::C })
    }

    /// Loads through this door.
    pub fn load_through(file: &PluginFile, sink: HostSink, door: Door) -> Result<Self, LoadError> {
        Self::enter(file, host_table(sink), door)
    }

    pub(crate) fn enter(file: &PluginFile, host: *const abi::OnebitHost, door: Door) -> Result<Self, LoadError> {
        let entered = door::enter(file, host, door)?;
        Ok(Self(Arc::new(PluginInner {
            table: entered.table,
            info: entered.info,
            capabilities: file.note.capabilities.clone(),
            door,
            address: entered.address,
            one_at_a_time: Mutex::new(()),
        })))
    }

    /// Who it is, in its own words; id and version agree with its note.
    pub fn info(&self) -> &Info {
        &self.0.info
    }

    /// The door it was loaded through.
    pub fn door(&self) -> Door {
        self.0.door
    }

    /// Where the plugin keeps its table: the same, whichever door was taken and however often.
    pub fn table_address(&self) -> usize {
        self.0.address
    }

    /// One report per device, in the order asked. May start drivers: call it in a process that may die.
    pub fn probe(&self, devices: &[Device]) -> Result<Vec<ProbeReport>, PluginError> {
        let probe = self.0.table.probe.ok_or_else(|| absent("probe"))?;
        let raw_devices: Vec<_> = devices.iter().map(raw_device).collect();
        let pointers: Vec<_> = raw_devices.iter().map(core::ptr::from_ref).collect();
        let args = abi::OnebitProbeArgs { devices: pointers.as_ptr(), n_devices: pointers.len(), ..raw::out() };
        let mut out: abi::OnebitProbeOut = raw::out();
        let _lock = self.0.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a function of the table; both structs live for the call.
        call(|| unsafe { probe(&raw const args, &raw mut out) })?;
        if out.n_reports != devices.len() {
            return Err(PluginError::broken(format!("probe gave {} reports for {} devices", out.n_reports, devices.len())));
        }
        // SAFETY: valid until the next `probe`, which the lock keeps away; so are the reports and their texts.
        unsafe {
            let reports = raw::slice(out.reports, out.n_reports, "reports")?;
            reports.iter().map(|report| read_report(*report)).collect()
        }
    }

    /// Judges a model file for a device, from its header.
    pub fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, PluginError> {
        let fit = self.0.table.fit.ok_or_else(|| absent("fit"))?;
        let device = raw_device(request.device);
        let options = raw::pairs(request.options);
        let args = abi::OnebitFitArgs {
            path: raw_path(request.path)?,
            device: &raw const device,
            context: request.context.unwrap_or(0),
            sequences: request.sequences,
            options: options.as_ptr(),
            n_options: options.len(),
            ..raw::out()
        };
        let mut out: abi::OnebitFitOut = raw::out();
        let _lock = self.0.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a function of the table; both structs and what they point to live for the call.
        call(|| unsafe { fit(&raw const args, &raw mut out) })?;
        // SAFETY: the texts live until the next `fit` on this thread.
        unsafe {
            Ok(Fit {
                usable: yes_or_no(out.usable, "fit.usable")?,
                reason: Reason::from_abi(out.reason_code),
                text: raw::text(out.reason, "fit.reason")?,
                architecture: raw::text(out.architecture, "fit.architecture")?,
                quantisation: raw::text(out.quantisation, "fit.quantisation")?,
                weights_host: out.weights_host,
                weights_device: out.weights_device,
                state: out.state,
                state_per_token: out.state_per_token,
                scratch_host: out.scratch_host,
                scratch_device: out.scratch_device,
                context_trained: out.context_trained,
                parameters: out.parameters,
            })
        }
    }

    /// Loads a model. Blocks; ends early when `cancel` is set.
    pub fn open(&self, request: OpenRequest<'_>) -> Result<Model, PluginError> {
        let open = self.0.table.open.ok_or_else(|| absent("open"))?;
        let device = raw_device(request.device);
        let options = raw::pairs(request.options);
        let mut progress = Progress { hear: request.progress, panic: None };
        let args = abi::OnebitOpenArgs {
            path: raw_path(request.path)?,
            device: &raw const device,
            threads: request.threads.unwrap_or(0),
            options: options.as_ptr(),
            n_options: options.len(),
            cancel: request.cancel.as_ptr(),
            progress: Some(on_progress),
            progress_ctx: (&raw mut progress).cast(),
            ..raw::out()
        };
        let mut out: abi::OnebitOpenOut = raw::out();
        // SAFETY: a function of the table; both structs and what they point to live for the call.
        let result = call(|| unsafe { open(&raw const args, &raw mut out) });
        // From here on the model is closed again whatever happens.
        let model = result.and_then(|()| ModelInner::take(Arc::clone(&self.0), &out));
        if let Some(panic) = progress.panic {
            drop(model);
            resume_unwind(panic);
        }
        Ok(Model(Arc::new(model?)))
    }
}

impl core::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Plugin({} {}, {:?} door)", self.0.info.id, self.0.info.version, self.0.door)
    }
}

struct Progress<'a> {
    hear: &'a mut dyn FnMut(f32),
    /// A panic of the listener, kept until the plugin's frames are gone.
    panic: Option<Box<dyn std::any::Any + Send>>,
}

unsafe extern "C" fn on_progress(ctx: *mut c_void, fraction: f32) {
    // SAFETY: the context of the `open` in progress on this thread, which the plugin gives back.
    let Some(progress) = (unsafe { ctx.cast::<Progress<'_>>().as_mut() }) else {
        return;
    };
    if progress.panic.is_none() && !fraction.is_nan() {
        progress.panic = catch_unwind(AssertUnwindSafe(|| (progress.hear)(fraction.clamp(0.0, 1.0)))).err();
    }
}

/// Asks a table for its `info`. Before there is a [`Plugin`], because it decides whether there will be one.
pub(crate) fn read_info(table: &abi::OnebitPlugin) -> Result<Info, PluginError> {
    let info = table.info.ok_or_else(|| absent("info"))?;
    let mut out: abi::OnebitInfo = raw::out();
    // SAFETY: a function of the table; `out` lives for the call.
    call(|| unsafe { info(&raw mut out) })?;
    // SAFETY: all texts live until the process ends.
    unsafe {
        let facts = raw::slice(out.facts, out.n_facts.min(1024), "info.facts")?;
        Ok(Info {
            id: raw::text(out.id, "info.id")?,
            version: raw::text(out.version, "info.version")?,
            computes_with: raw::text(out.computes_with, "info.computes_with")?,
            facts: facts
                .iter()
                .map(|fact| Ok((raw::text(fact.key, "a fact's name")?, raw::text(fact.value, "a fact's value")?)))
                .collect::<Result<_, PluginError>>()?,
        })
    }
}

/// # Safety
///
/// `report` is null, or a report that is valid now.
pub(crate) unsafe fn read_report(report: *const abi::OnebitProbeReport) -> Result<ProbeReport, PluginError> {
    // SAFETY: as promised.
    let report = unsafe { raw::read_grown(report) }.ok_or_else(|| PluginError::broken("a probe report is null or lies about its size"))?;
    Ok(ProbeReport {
        usable: yes_or_no(report.usable, "report.usable")?,
        score: report.score,
        reason: Reason::from_abi(report.reason_code),
        // SAFETY: as promised.
        text: unsafe { raw::text(report.reason, "report.reason") }?,
        exclusive: yes_or_no(report.exclusive, "report.exclusive")?,
        memory_host: report.memory_kinds & abi::ONEBIT_MEMORY_HOST != 0,
        memory_device: report.memory_kinds & abi::ONEBIT_MEMORY_DEVICE != 0,
    })
}

fn yes_or_no(value: u32, what: &str) -> Result<bool, PluginError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(PluginError::broken(format!("{what} is {other}, allowed are 0 and 1"))),
    }
}

/// Borrows from `device`.
pub(crate) fn raw_device(device: &Device) -> abi::OnebitDevice {
    let flags = [(device.integrated, abi::ONEBIT_DEVICE_FLAG_INTEGRATED), (device.software, abi::ONEBIT_DEVICE_FLAG_SOFTWARE)];
    abi::OnebitDevice {
        kind: match device.kind {
            DeviceKind::Cpu => abi::ONEBIT_DEVICE_CPU,
            DeviceKind::Vulkan => abi::ONEBIT_DEVICE_VULKAN,
            DeviceKind::Accel => abi::ONEBIT_DEVICE_ACCEL,
        },
        flags: flags.iter().filter(|(there, _)| *there).map(|(_, bit)| bit).sum(),
        id: abi::OnebitStr::new(&device.id),
        name: abi::OnebitStr::new(&device.name),
        driver: abi::OnebitStr::new(&device.driver),
        firmware: abi::OnebitStr::new(&device.firmware),
        uuid: device.uuid,
        vendor_id: device.vendor_id,
        device_id: device.device_id,
        memory_total: device.memory_total,
        memory_free: device.memory_free,
        ..raw::out()
    }
}

pub(crate) fn raw_path(path: &Path) -> Result<abi::OnebitStr, PluginError> {
    path.to_str()
        .map(abi::OnebitStr::new)
        .ok_or_else(|| PluginError::new(Status::INVALID_ARGUMENT, format!("the path {} is not UTF-8; rename it", path.display())))
}
