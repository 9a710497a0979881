//! What happens to workers, told to whoever wants to count it. Observers are called on the supervisor's own tasks: they must be quick.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifecycle {
    /// A model is loaded and takes requests.
    Loaded {
        /// The model.
        model: String,
        /// The plugin that loaded it.
        plugin: String,
        /// From the start of the process to the first request it could take.
        took: Duration,
        /// This is not the first time since the last crash.
        restarted: bool,
    },
    /// A load ended without a model.
    LoadFailed {
        /// The model.
        model: String,
        /// The plugin that was to load it.
        plugin: String,
        /// [`WorkerError::kind`](crate::WorkerError::kind).
        kind: &'static str,
    },
    /// A worker ended unexpectedly.
    Died {
        /// The model.
        model: String,
        /// The plugin it had mapped.
        plugin: String,
        /// `crash`, `hang` or `protocol`.
        kind: &'static str,
    },
    /// A model left.
    Unloaded {
        /// The model.
        model: String,
        /// Why.
        reason: UnloadReason,
    },
    /// A request was refused because the queue was full.
    QueueFull {
        /// The model.
        model: String,
    },
    /// A request was sent to a new worker because the old one died before it had answered anything.
    Replayed {
        /// The model.
        model: String,
    },
}

/// Why a loaded model left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnloadReason {
    /// Nobody used it for `keep_alive`.
    Idle,
    /// Its memory was needed.
    Evicted,
    /// Somebody asked for it.
    Asked,
    /// A newer one took its place.
    Replaced,
    /// The host ends.
    Shutdown,
}

impl UnloadReason {
    /// Short stable name, for metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Evicted => "evicted",
            Self::Asked => "asked",
            Self::Replaced => "replaced",
            Self::Shutdown => "shutdown",
        }
    }
}

type Observer = Arc<dyn Fn(&Lifecycle) + Send + Sync>;

/// The list of observers.
#[derive(Default)]
pub(crate) struct Observers(Mutex<Vec<Observer>>);

impl Observers {
    pub(crate) fn add(&self, observer: impl Fn(&Lifecycle) + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(observer));
    }

    pub(crate) fn tell(&self, event: &Lifecycle) {
        tracing::debug!(?event, "lifecycle");
        let observers = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for observer in observers {
            observer(event);
        }
    }
}
