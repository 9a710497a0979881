//! One load and the requests that wait for it.
//!
//! However many requests ask for a model that is not there, it is loaded once. A request that leaves does not disturb the others; when the last
//! one leaves, the load is given up. The result carries a seat, so that a model cannot be evicted between "ready" and the moment its first
//! waiter sits down.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::SystemTime;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::entry::Entry;
use super::instance::Seat;
use crate::error::WorkerError;
use crate::spec::LaunchSpec;

type Outcome = Option<Result<Seat, WorkerError>>;

/// A load in progress.
pub(crate) struct Load {
    pub(crate) spec: LaunchSpec,
    pub(crate) since: SystemTime,
    /// Cancelled when nobody wants the model any more.
    pub(crate) cancel: CancellationToken,
    waiters: AtomicUsize,
    outcome: watch::Sender<Outcome>,
    /// `None` until the process has greeted; then the fraction, as bits.
    progress: AtomicU32,
    pid: Mutex<Option<u32>>,
}

/// No fraction has these bits.
const NOT_LOADING: u32 = u32::MAX;

impl Load {
    pub(crate) fn new(spec: LaunchSpec, cancel: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            spec,
            since: SystemTime::now(),
            cancel,
            waiters: AtomicUsize::new(0),
            outcome: watch::Sender::new(None),
            progress: AtomicU32::new(NOT_LOADING),
            pid: Mutex::new(None),
        })
    }

    pub(crate) fn set_pid(&self, pid: u32) {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner) = Some(pid);
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_progress(&self, fraction: f32) {
        // A plugin may say anything; only a fraction is shown.
        let fraction = if fraction.is_finite() { fraction.clamp(0.0, 1.0) } else { 0.0 };
        self.progress.store(fraction.to_bits(), Ordering::Relaxed);
    }

    /// `None` before the plugin has begun.
    pub(crate) fn progress(&self) -> Option<f32> {
        let bits = self.progress.load(Ordering::Relaxed);
        (bits != NOT_LOADING).then(|| f32::from_bits(bits))
    }

    /// What it is doing, for a crash report.
    pub(crate) fn activity(&self) -> String {
        match self.progress() {
            Some(fraction) => format!("loading ({:.0} %)", f64::from(fraction) * 100.0),
            None => "starting".into(),
        }
    }

    /// Tells everybody how it ended.
    pub(crate) fn finish(&self, outcome: Result<Seat, WorkerError>) {
        self.outcome.send_replace(Some(outcome));
    }
}

/// One request that waits for a load. Made under the lock of the entry.
pub(crate) struct Waiter {
    entry: Arc<Entry>,
    load: Arc<Load>,
    outcome: watch::Receiver<Outcome>,
}

impl Waiter {
    pub(crate) fn join(entry: &Arc<Entry>, load: &Arc<Load>) -> Self {
        load.waiters.fetch_add(1, Ordering::AcqRel);
        Self { entry: entry.clone(), load: load.clone(), outcome: load.outcome.subscribe() }
    }

    /// Waits for the end of the load.
    pub(crate) async fn wait(mut self) -> Result<Seat, WorkerError> {
        match self.outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
            Ok(Some(outcome)) => outcome,
            // The sender lives in `self.load` and the value was just seen.
            Ok(None) | Err(_) => Err(WorkerError::Draining { model: self.load.spec.model.clone(), reason: "its load was given up".into() }),
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // Under the entry's lock nobody can join between the count and the cancel.
        self.entry.give_up_if(&self.load, || self.load.waiters.fetch_sub(1, Ordering::AcqRel) == 1);
    }
}
