//! The plugin's own table: entry, `info`, `probe`, `fit`, `open`.

use std::cell::RefCell;
use std::sync::{Mutex, OnceLock, PoisonError};

use onebit_plugin_api as abi;

use super::guard::{HOST, caught, guard, install_hook};
use super::note::{MIN_MINOR, Meta};
use super::{model, wire};
use crate::{Cancel, Error, FitRequest, Host, Info, OpenRequest, Options, Plugin, ProbeReport, Verdict};

/// What `export_plugin!` adds to a [`Plugin`].
pub trait Exported: Plugin {
    /// As given to the macro.
    const META: Meta;
    /// Where the one instance lives.
    fn slot() -> &'static Slot<Self>;
    /// The plugin's table.
    fn table() -> &'static abi::OnebitPlugin;
}

/// The one instance of a plugin in its process.
pub struct Slot<P> {
    entering: Mutex<()>,
    loaded: OnceLock<Loaded<P>>,
}

struct Loaded<P> {
    plugin: P,
    info: Info,
    facts: Facts,
    reports: Mutex<Reports>,
}

/// Points into `Loaded::info`, which is never changed or moved.
struct Facts(Vec<abi::OnebitKeyValue>);

// SAFETY: only read; what it points to lives in a static and never changes.
unsafe impl Send for Facts {}
// SAFETY: as above.
unsafe impl Sync for Facts {}

/// What the last `probe` answered; the host may look at it until the next.
#[derive(Default)]
struct Reports {
    texts: Vec<String>,
    reports: Vec<abi::OnebitProbeReport>,
    pointers: Vec<*const abi::OnebitProbeReport>,
}

// SAFETY: its pointers point into itself.
unsafe impl Send for Reports {}

impl<P> Slot<P> {
    /// Empty.
    #[expect(clippy::new_without_default, reason = "only ever a static of the macro")]
    pub const fn new() -> Self {
        Self { entering: Mutex::new(()), loaded: OnceLock::new() }
    }
}

/// Both doors. A second entry gets the same table; what it gave as host is not kept.
///
/// # Safety
///
/// `host` is null, or a host's table that lives until the process ends.
pub unsafe fn enter<P: Exported>(host: *const abi::OnebitHost) -> *const abi::OnebitPlugin {
    // SAFETY: as promised.
    let Some(host) = (unsafe { Host::from_raw(host) }) else {
        return core::ptr::null();
    };
    install_hook();
    match caught(|| start::<P>(host)) {
        Ok(()) => P::table(),
        Err(error) => {
            host.report(&error);
            core::ptr::null()
        }
    }
}

fn start<P: Exported>(host: Host) -> Result<(), Error> {
    let (major, minor) = host.abi();
    if major != abi::ONEBIT_ABI_MAJOR || !(MIN_MINOR..).contains(&minor) {
        return Err(Error::abi_mismatch(
            minor,
            MIN_MINOR,
            format!(
                "{} {} speaks ABI {}.{MIN_MINOR} or newer of that major, this host {major}.{minor}",
                P::META.id,
                P::META.version,
                abi::ONEBIT_ABI_MAJOR
            ),
        ));
    }
    let slot = P::slot();
    let _one_at_a_time = slot.entering.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.loaded.get().is_some() {
        return Ok(());
    }
    let host = *HOST.get_or_init(|| host);
    let plugin = P::new(host)?;
    let info = plugin.info();
    let loaded = Loaded { plugin, info, facts: Facts(Vec::new()), reports: Mutex::default() };
    // The facts point into `info`'s heap texts, which do not move with it.
    let facts = loaded
        .info
        .facts
        .iter()
        .map(|(key, value)| abi::OnebitKeyValue { key: abi::OnebitStr::new(key), value: abi::OnebitStr::new(value) })
        .collect();
    let _ = slot.loaded.set(Loaded { facts: Facts(facts), ..loaded });
    Ok(())
}

fn loaded<P: Exported>() -> Result<&'static Loaded<P>, Error> {
    P::slot().loaded.get().ok_or_else(|| Error::internal("the table was used before an entry succeeded"))
}

/// The table of `P`.
pub const fn table<P: Exported>() -> abi::OnebitPlugin {
    abi::OnebitPlugin {
        struct_size: size_of::<abi::OnebitPlugin>(),
        abi_major: abi::ONEBIT_ABI_MAJOR,
        abi_minor: abi::ONEBIT_ABI_MINOR,
        info: Some(info::<P>),
        probe: Some(probe::<P>),
        fit: Some(fit::<P>),
        open: Some(open::<P>),
        close: Some(model::close),
        extension: Some(model::extension),
    }
}

unsafe extern "C" fn info<P: Exported>(out: *mut abi::OnebitInfo) -> abi::OnebitStatus {
    guard(|| {
        let loaded = loaded::<P>()?;
        let value = abi::OnebitInfo {
            struct_size: 0,
            id: abi::OnebitStr::new(P::META.id),
            version: abi::OnebitStr::new(P::META.version),
            computes_with: abi::OnebitStr::new(&loaded.info.computes_with),
            facts: loaded.facts.0.as_ptr(),
            n_facts: loaded.facts.0.len(),
        };
        // SAFETY: the host's promise for `out`.
        unsafe { wire::write(out, &value) }
    })
}

unsafe extern "C" fn probe<P: Exported>(args: *const abi::OnebitProbeArgs, out: *mut abi::OnebitProbeOut) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for `args`, `out` and what they point to, here and below.
        let args = unsafe {
            wire::check_out(out)?;
            wire::read(args)?
        };
        // SAFETY: as above.
        let devices = unsafe { wire::slice(args.devices, args.n_devices, "devices") }?;
        // SAFETY: as above.
        let devices = devices.iter().map(|device| unsafe { wire::device(*device) }).collect::<Result<Vec<_>, _>>()?;
        let loaded = loaded::<P>()?;
        let answers = loaded.plugin.probe(&devices);
        if answers.len() != devices.len() {
            return Err(Error::internal(format!("probe answered {} reports for {} devices", answers.len(), devices.len())));
        }
        let mut kept = loaded.reports.lock().unwrap_or_else(PoisonError::into_inner);
        kept.fill(answers);
        let value = abi::OnebitProbeOut { struct_size: 0, reports: kept.pointers.as_ptr(), n_reports: kept.pointers.len() };
        // SAFETY: as above.
        unsafe { wire::write(out, &value) }
    })
}

impl Reports {
    fn fill(&mut self, answers: Vec<ProbeReport>) {
        self.reports.clear();
        self.texts.clear();
        for answer in answers {
            let kinds = [(answer.memory.host, abi::ONEBIT_MEMORY_HOST), (answer.memory.device, abi::ONEBIT_MEMORY_DEVICE)];
            self.reports.push(abi::OnebitProbeReport {
                struct_size: size_of::<abi::OnebitProbeReport>(),
                usable: u32::from(answer.refused.is_none()),
                score: answer.score,
                reason_code: answer.refused.map_or(abi::ONEBIT_REASON_NONE, |reason| reason as u32),
                exclusive: u32::from(answer.exclusive),
                memory_kinds: kinds.iter().filter(|(there, _)| *there).map(|(_, bit)| bit).sum(),
                reserved: 0,
                // The heap bytes of the text do not move when the `String` does.
                reason: abi::OnebitStr::new(&answer.text),
            });
            self.texts.push(answer.text);
        }
        self.pointers = self.reports.iter().map(core::ptr::from_ref).collect();
    }
}

thread_local! {
    /// Texts of the last `fit` on this thread; the host may look at them until the next.
    static FIT_TEXTS: RefCell<[String; 3]> = const { RefCell::new([String::new(), String::new(), String::new()]) };
}

unsafe extern "C" fn fit<P: Exported>(args: *const abi::OnebitFitArgs, out: *mut abi::OnebitFitOut) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for `args`, `out` and what they point to.
        let (args, path, device, pairs) = unsafe {
            wire::check_out(out)?;
            let args = wire::read(args)?;
            (args, wire::path(args.path)?, wire::device(args.device)?, wire::pairs(args.options, args.n_options)?)
        };
        let request = FitRequest {
            path,
            device: &device,
            context: (args.context > 0).then_some(args.context),
            sequences: args.sequences.max(1),
            options: Options { pairs: &pairs },
        };
        let fit = loaded::<P>()?.plugin.fit(&request)?;
        let (usable, reason_code, text) = match fit.verdict {
            Verdict::Usable => (1, abi::ONEBIT_REASON_NONE, String::new()),
            Verdict::Refused { reason, text } => (0, reason as u32, text),
        };
        FIT_TEXTS.with_borrow_mut(|texts| {
            *texts = [text, fit.architecture, fit.quantisation];
            let value = abi::OnebitFitOut {
                struct_size: 0,
                usable,
                reason_code,
                reason: abi::OnebitStr::new(&texts[0]),
                architecture: abi::OnebitStr::new(&texts[1]),
                quantisation: abi::OnebitStr::new(&texts[2]),
                weights_host: fit.weights_host,
                weights_device: fit.weights_device,
                state: fit.state,
                state_per_token: fit.state_per_token,
                scratch_host: fit.scratch_host,
                scratch_device: fit.scratch_device,
                context_trained: fit.context_trained,
                parameters: fit.parameters,
            };
            // SAFETY: the host's promise for `out`.
            unsafe { wire::write(out, &value) }
        })
    })
}

unsafe extern "C" fn open<P: Exported>(args: *const abi::OnebitOpenArgs, out: *mut abi::OnebitOpenOut) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for `args`, `out` and what they point to.
        let (args, path, device, pairs, cancel) = unsafe {
            wire::check_out(out)?;
            let args = wire::read(args)?;
            (
                args,
                wire::path(args.path)?,
                wire::device(args.device)?,
                wire::pairs(args.options, args.n_options)?,
                Cancel::from_raw(args.cancel),
            )
        };
        let request =
            OpenRequest { path, device: &device, threads: (args.threads > 0).then_some(args.threads), options: Options { pairs: &pairs } };
        let mut progress = |fraction: f32| {
            if let Some(call) = args.progress {
                // SAFETY: the host's function with the host's context, on the calling thread (the closure cannot leave it).
                unsafe { call(args.progress_ctx, fraction.clamp(0.0, 1.0)) }
            }
        };
        let opened = loaded::<P>()?.plugin.open(&request, &mut progress, cancel)?;
        // SAFETY: the host's promise for `out`.
        unsafe { model::hand_out(opened, out) }
    })
}
