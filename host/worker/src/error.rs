//! Everything that can go wrong between a request and its worker. One variant is one row in the HTTP error table.
//!
//! Errors are `Clone`: one failed load or one crash is told to every request that waited for it.

use std::time::{Duration, SystemTime};

use onebit_engine::EngineError;

use crate::death::{Death, Hang};
use crate::protocol::LoadFailure;

/// Why there is no answer, or no further answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// Too many requests for this model already.
    #[error("the queue of {model} is full ({depth} requests); try again in {} s", retry_after.as_secs().max(1))]
    QueueFull {
        /// The model.
        model: String,
        /// Requests that are being computed or wait.
        depth: usize,
        /// When a place is likely to be free.
        retry_after: Duration,
    },
    /// The request waited for its turn until its deadline.
    #[error("{model} was busy: the request waited {:.1} s for its turn, which was its deadline; try again", waited.as_secs_f32())]
    Deadline {
        /// The model.
        model: String,
        /// How long it waited.
        waited: Duration,
    },
    /// The plugin or the engine refused the model, in its own words and numbers.
    #[error("{model} could not be loaded by plugin {plugin} {version}: {failure}")]
    Load {
        /// The model.
        model: String,
        /// The plugin.
        plugin: String,
        /// Its version.
        version: String,
        /// Why.
        failure: Box<LoadFailure>,
    },
    /// The worker process ended by itself. The next request starts a new one.
    #[error("{0}")]
    Died(Box<Death>),
    /// The worker made no progress and was ended.
    #[error("{0}")]
    Hang(Box<Hang>),
    /// The model crashed too often; it is left alone for a while.
    #[error("{model} is switched off for {} s after {crashes} crashes in a row: {reason}", remaining(*until).as_secs().max(1))]
    CircuitOpen {
        /// The model.
        model: String,
        /// Crashes that led here.
        crashes: usize,
        /// When it is tried again.
        until: SystemTime,
        /// The last crash.
        reason: String,
    },
    /// The host is going down, or this model is being unloaded while the request ran.
    #[error("{model} takes no more requests: {reason}")]
    Draining {
        /// The model.
        model: String,
        /// Why.
        reason: String,
    },
    /// The model does not fit next to what is running.
    #[error(
        "{model} needs {want} bytes of {kind}, {free} are free{}; unload a model, choose a smaller context or a smaller quantisation",
        held_by(holders)
    )]
    NoMemory {
        /// The model.
        model: String,
        /// `memory` or the name of a device.
        kind: String,
        /// Bytes the model needs, by the plugin's estimate.
        want: u64,
        /// Bytes free.
        free: u64,
        /// Loaded models that hold the rest and cannot go now.
        holders: Vec<String>,
    },
    /// The worker process could not be started.
    #[error("the worker process for {model} could not be started: {reason}")]
    Spawn {
        /// The model.
        model: String,
        /// Why.
        reason: String,
    },
    /// The worker is another build than this host.
    #[error(
        "the worker for {model} is build {worker:?} (protocol {worker_protocol}), this host is build {host:?} (protocol {host_protocol}): the program \
         was replaced while it ran; restart onebit-host"
    )]
    BuildMismatch {
        /// The model.
        model: String,
        /// Build of the host.
        host: String,
        /// Protocol of the host.
        host_protocol: u32,
        /// Build of the worker.
        worker: String,
        /// Protocol of the worker.
        worker_protocol: u32,
    },
    /// The worker said something that is not the protocol; it was ended.
    #[error("the worker of {model} was ended because it broke the protocol: {reason}")]
    Protocol {
        /// The model.
        model: String,
        /// What was wrong.
        reason: String,
    },
    /// The request does not fit into a message.
    #[error("the request is too large: {bytes} bytes, at most {limit} are allowed")]
    RequestTooLarge {
        /// Its size.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// The engine refused this request; the model lives.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl WorkerError {
    /// When it makes sense to ask again, if it does.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::QueueFull { retry_after, .. } => Some(*retry_after),
            Self::CircuitOpen { until, .. } => Some(remaining(*until)),
            Self::Load { failure, .. } if failure.retry_ms > 0 => Some(Duration::from_millis(failure.retry_ms)),
            Self::Died(_) | Self::Hang(_) | Self::NoMemory { .. } | Self::Draining { .. } | Self::Deadline { .. } => {
                Some(Duration::from_secs(1))
            }
            _ => None,
        }
    }

    /// Short stable name, for metrics and logs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::QueueFull { .. } => "queue_full",
            Self::Deadline { .. } => "deadline",
            Self::Load { .. } => "load",
            Self::Died(_) => "crash",
            Self::Hang(_) => "hang",
            Self::CircuitOpen { .. } => "circuit_open",
            Self::Draining { .. } => "draining",
            Self::NoMemory { .. } => "no_memory",
            Self::Spawn { .. } => "spawn",
            Self::BuildMismatch { .. } => "build_mismatch",
            Self::Protocol { .. } => "protocol",
            Self::RequestTooLarge { .. } => "request_too_large",
            Self::Engine(_) => "engine",
        }
    }
}

fn remaining(until: SystemTime) -> Duration {
    until.duration_since(SystemTime::now()).unwrap_or_default()
}

fn held_by(holders: &[String]) -> String {
    if holders.is_empty() { String::new() } else { format!(" while {} is loaded", holders.join(", ")) }
}
