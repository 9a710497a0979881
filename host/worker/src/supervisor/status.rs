//! How the workers are, for `ps`, readiness and metrics: read from the workers' real state at the moment of the question.

use std::time::SystemTime;

use onebit_sandbox::Confinement;

use super::instance::Instance;
use crate::spec::{LaunchSpec, MemoryEstimate};

/// One model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// The model.
    pub model: String,
    /// The plugin.
    pub plugin: String,
    /// Its version.
    pub plugin_version: String,
    /// Device id.
    pub device: String,
    /// The process, if there is one of its own.
    pub pid: Option<u32>,
    /// What it is doing.
    pub state: WorkerState,
    /// Since when it is in this state.
    pub since: SystemTime,
    /// Bytes in memory, as the worker measured them last. 0 before the first measurement, and for a model that runs inside the host.
    pub rss_bytes: u64,
    /// What was estimated before the load.
    pub estimate: MemoryEstimate,
    /// What confines the process; `None` = nothing (inside the host, exempted), or not known before the model is loaded.
    pub confinement: Option<Confinement>,
    /// System calls that the sandbox refused to the plugin.
    pub refused_calls: u64,
    /// Requests being computed.
    pub active: u32,
    /// Requests that wait.
    pub waiting: u32,
    /// Loads after a crash.
    pub restarts: u32,
    /// The last crash, if there was one.
    pub last_crash: Option<Crash>,
    /// When it will leave if nobody uses it. `None` while it is used, and for a model that stays.
    pub expires_at: Option<SystemTime>,
    /// Why the manifest's better choices were not taken, if that is so.
    pub fallback_note: Option<String>,
}

/// An unexpected end of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// When.
    pub at: SystemTime,
    /// What happened, one sentence.
    pub reason: String,
    /// The last lines the worker wrote.
    pub last_lines: String,
}

/// The states of a model that is loaded, about to be, or just failed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum WorkerState {
    /// Waiting for memory, for the end of a backoff, or for the process to greet.
    Starting,
    /// The plugin is loading the model.
    Loading {
        /// 0 ..= 1, as the plugin says.
        progress: f32,
    },
    /// It takes requests.
    Ready,
    /// It finishes its running answers and leaves.
    Draining,
    /// Its worker ended badly; the next request starts a new one.
    Crashed {
        /// What happened.
        reason: String,
    },
    /// It is not loaded, because of this.
    Failed {
        /// Why.
        reason: String,
        /// Before this nothing is tried.
        until: SystemTime,
    },
}

impl WorkerState {
    /// Short stable name, for tables and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Loading { .. } => "loading",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Crashed { .. } => "crashed",
            Self::Failed { .. } => "failed",
        }
    }
}

/// The status of a model of which only the specification is known.
pub(crate) fn spec_status(spec: &LaunchSpec, state: WorkerState, since: SystemTime) -> WorkerStatus {
    WorkerStatus {
        model: spec.model.clone(),
        plugin: spec.plugin_id.clone(),
        plugin_version: spec.plugin_version.clone(),
        device: spec.device.id.clone(),
        pid: None,
        state,
        since,
        rss_bytes: 0,
        estimate: spec.estimate,
        confinement: None,
        refused_calls: 0,
        active: 0,
        waiting: 0,
        restarts: 0,
        last_crash: None,
        expires_at: None,
        fallback_note: spec.fallback_note.clone(),
    }
}

/// The status of a loaded model.
pub(crate) fn instance_status(instance: &Instance, state: WorkerState) -> WorkerStatus {
    let stats = instance.stats();
    WorkerStatus {
        pid: instance.pid,
        rss_bytes: stats.rss_bytes,
        confinement: instance.confinement.clone(),
        refused_calls: stats.refused_calls,
        active: stats.active,
        waiting: stats.waiting,
        ..spec_status(&instance.spec, state, instance.since)
    }
}
