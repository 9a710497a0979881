//! Where a plugin's logs and metrics go, and the host's table that a plugin sees.

use core::ffi::c_void;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Instant;

use onebit_plugin_api as abi;

use crate::{PluginError, Status};

/// Longest text taken from a plugin's log line or error, bytes; the rest is cut, visibly.
const MAX_TEXT: usize = 8 << 10;

/// Level of a plugin's log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something a person should know.
    Warn,
    /// Milestones.
    Info,
    /// For the author of the plugin.
    Debug,
}

/// Receives what a plugin says. Called from any thread, also while a call into the plugin is in progress: it must not call the plugin and
/// must not panic (a panic would meet C code; it ends the process).
pub trait Sink: Send + Sync + 'static {
    /// One line; `target` is the part of the plugin that speaks.
    fn log(&self, level: LogLevel, target: &str, message: &str);
    /// Adds to a counter.
    fn metric_add(&self, name: &str, value: f64);
    /// Sets a gauge.
    fn metric_set(&self, name: &str, value: f64);
}

/// A shared [`Sink`].
#[derive(Clone)]
pub struct HostSink(Arc<dyn Sink>);

impl HostSink {
    /// Into `sink`.
    pub fn new(sink: impl Sink) -> Self {
        Self(Arc::new(sink))
    }

    /// Logs and metrics into `tracing`: target `plugin`, field `part` = the part of the plugin that speaks, metrics at level trace.
    pub fn tracing() -> Self {
        Self::new(ToTracing)
    }
}

struct ToTracing;

impl Sink for ToTracing {
    fn log(&self, level: LogLevel, target: &str, message: &str) {
        match level {
            LogLevel::Error => tracing::error!(target: "plugin", part = target, "{message}"),
            LogLevel::Warn => tracing::warn!(target: "plugin", part = target, "{message}"),
            LogLevel::Info => tracing::info!(target: "plugin", part = target, "{message}"),
            LogLevel::Debug => tracing::debug!(target: "plugin", part = target, "{message}"),
        }
    }

    fn metric_add(&self, name: &str, value: f64) {
        tracing::trace!(target: "plugin", metric = name, add = value);
    }

    fn metric_set(&self, name: &str, value: f64) {
        tracing::trace!(target: "plugin", metric = name, set = value);
    }
}

thread_local! {
    /// The plugin's last report on this thread.
    static REPORT: RefCell<Option<PluginError>> = const { RefCell::new(None) };
}

/// Forgets reports of earlier calls on this thread.
pub(crate) fn forget_report() {
    REPORT.with_borrow_mut(|report| *report = None);
}

/// What the plugin said about the failure with `status`. A report of another status, or none, is a breach that is said, not hidden.
pub(crate) fn take_report(status: abi::OnebitStatus) -> PluginError {
    let status = Status(status);
    match REPORT.with_borrow_mut(Option::take) {
        Some(report) if report.status == status => report,
        Some(report) => PluginError::new(status, format!("{} (reported as {})", report.message, report.status)),
        None => PluginError::new(status, "the plugin gave no reason"),
    }
}

/// The plugin's own text, as far as it can be shown. Never fails: it is often part of another failure.
///
/// # Safety
///
/// `text.ptr` is null, or valid for reads of `text.len` bytes.
unsafe fn lossy(text: abi::OnebitStr) -> String {
    if text.ptr.is_null() || text.len == 0 || text.len > isize::MAX as usize {
        return String::new();
    }
    // SAFETY: not null, of a possible length, valid by promise.
    let bytes = unsafe { core::slice::from_raw_parts(text.ptr.cast::<u8>(), text.len.min(MAX_TEXT)) };
    let mut shown = String::from_utf8_lossy(bytes).into_owned();
    if text.len > MAX_TEXT {
        shown.push_str(" …");
    }
    shown
}

/// What the plugin said when it answered with null instead of a status.
pub(crate) fn take_any_report() -> PluginError {
    REPORT.with_borrow_mut(Option::take).unwrap_or_else(|| PluginError::new(Status::INTERNAL, "the plugin gave no reason"))
}

struct Context {
    sink: Arc<dyn Sink>,
}

/// The table for one plugin. It and its context are never freed: the plugin may call it until the process ends.
pub(crate) fn host_table(sink: HostSink) -> &'static abi::OnebitHost {
    let context: &'static Context = Box::leak(Box::new(Context { sink: sink.0 }));
    Box::leak(Box::new(abi::OnebitHost {
        struct_size: size_of::<abi::OnebitHost>(),
        abi_major: abi::ONEBIT_ABI_MAJOR,
        abi_minor: abi::ONEBIT_ABI_MINOR,
        ctx: core::ptr::from_ref(context).cast_mut().cast(),
        log: Some(log),
        metric_add: Some(metric_add),
        metric_set: Some(metric_set),
        now_ns: Some(now_ns),
        report_error: Some(report_error),
    }))
}

/// # Safety
///
/// `ctx` is null, or the context of [`host_table`].
unsafe fn sink<'a>(ctx: *mut c_void) -> Option<&'a dyn Sink> {
    // SAFETY: as promised; contexts are never freed.
    unsafe { ctx.cast::<Context>().as_ref() }.map(|context| context.sink.as_ref())
}

unsafe extern "C" fn log(ctx: *mut c_void, level: u32, target: abi::OnebitStr, message: abi::OnebitStr) {
    let level = match level {
        abi::ONEBIT_LOG_ERROR => LogLevel::Error,
        abi::ONEBIT_LOG_WARN => LogLevel::Warn,
        abi::ONEBIT_LOG_INFO => LogLevel::Info,
        _ => LogLevel::Debug,
    };
    // SAFETY: the plugin gives back our context and texts that live for the call.
    unsafe {
        if let Some(sink) = sink(ctx) {
            sink.log(level, &lossy(target), &lossy(message));
        }
    }
}

unsafe extern "C" fn metric_add(ctx: *mut c_void, name: abi::OnebitStr, value: f64) {
    // SAFETY: as in `log`.
    unsafe {
        if let Some(sink) = sink(ctx) {
            sink.metric_add(&lossy(name), value);
        }
    }
}

unsafe extern "C" fn metric_set(ctx: *mut c_void, name: abi::OnebitStr, value: f64) {
    // SAFETY: as in `log`.
    unsafe {
        if let Some(sink) = sink(ctx) {
            sink.metric_set(&lossy(name), value);
        }
    }
}

unsafe extern "C" fn now_ns(_ctx: *mut c_void) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

unsafe extern "C" fn report_error(_ctx: *mut c_void, error: *const abi::OnebitError) {
    // SAFETY: the plugin's promise for `error`; a short struct is completed with zeros.
    let Some(error) = (unsafe { crate::raw::read_grown(error) }) else {
        return;
    };
    let report = PluginError {
        status: Status(error.code),
        have: error.have,
        need: error.need,
        want: error.want,
        free: error.free,
        retry_ms: error.retry_ms,
        // SAFETY: borrowed for this call.
        message: unsafe { lossy(error.message) },
    };
    // A thread of the plugin may report while its thread-locals go away; nobody waits for that report.
    let _ = REPORT.try_with(|kept| *kept.borrow_mut() = Some(report));
}
