//! Where a plugin's logs and metrics go.

use std::sync::Arc;

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

/// Receives what a plugin says. Called from any thread, also while a call into the plugin is in progress: must not call the plugin.
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
pub struct HostSink(pub(crate) Arc<dyn Sink>);

impl HostSink {
    /// Into `sink`.
    pub fn new(sink: impl Sink) -> Self {
        Self(Arc::new(sink))
    }

    /// Logs into `tracing` (target `plugin`, field `part`); metrics as `tracing` events of level trace.
    pub fn tracing() -> Self {
        todo!()
    }
}
