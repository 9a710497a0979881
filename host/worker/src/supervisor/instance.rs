//! A loaded model that takes requests, and the seats on it.
//!
//! Whoever holds a [`Seat`] keeps the model loaded: it is neither evicted nor does its `keep_alive` run. The last one to leave starts that
//! clock. An [`Instance`] never changes: a restarted or replaced model is a new instance.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use onebit_engine::ModelFacts;
use onebit_sandbox::Confinement;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::calls::Calls;
use super::entry::Entry;
use crate::child::Server;
use crate::error::WorkerError;
use crate::protocol::{FrameError, MAX_FRAME_BYTES, Stats, ToWorker, encode};
use crate::spec::LaunchSpec;

/// Where requests go.
#[derive(Clone)]
pub(crate) enum Link {
    /// To the task that writes to a worker's socket.
    Process(mpsc::UnboundedSender<Vec<u8>>),
    /// To an engine in this process.
    Thread(Arc<Server>),
}

/// What a worker says of itself when its model is loaded.
pub(crate) struct Ready {
    pub(crate) facts: ModelFacts,
    pub(crate) stats: Stats,
    /// `None` = nothing confines it.
    pub(crate) confinement: Option<Confinement>,
}

/// A loaded model.
pub(crate) struct Instance {
    pub(crate) spec: LaunchSpec,
    pub(crate) facts: Arc<ModelFacts>,
    /// What confines its process; `None` = nothing.
    pub(crate) confinement: Option<Confinement>,
    /// `None` = in this process.
    pub(crate) pid: Option<u32>,
    /// When it became ready.
    pub(crate) since: SystemTime,
    pub(crate) calls: Calls,
    /// Cancelled to end the worker in good order. What still runs by then hears [`WorkerError::Draining`].
    pub(crate) stop: CancellationToken,
    /// `None` once an engine in this process has been let go.
    link: Mutex<Option<Link>>,
    stats: Mutex<Stats>,
    pulse: Pulse,
    seats: AtomicUsize,
    vacant: Notify,
    entry: Weak<Entry>,
    ended: watch::Sender<bool>,
}

impl Instance {
    pub(crate) fn new(
        entry: &Arc<Entry>,
        spec: LaunchSpec,
        ready: Ready,
        pid: Option<u32>,
        link: Link,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            spec,
            facts: Arc::new(ready.facts),
            confinement: ready.confinement,
            pid,
            since: SystemTime::now(),
            calls: Calls::default(),
            stop,
            link: Mutex::new(Some(link)),
            stats: Mutex::new(ready.stats),
            pulse: Pulse::new(),
            seats: AtomicUsize::new(0),
            vacant: Notify::new(),
            entry: Arc::downgrade(entry),
            ended: watch::Sender::new(false),
        })
    }

    /// Sends a message. For a request, `calls` knows its number already.
    pub(crate) fn send(&self, message: ToWorker) -> Result<(), WorkerError> {
        if self.calls.len() <= 1 {
            // An idle worker's last sign of life is old; the watchdog's patience begins now.
            self.pulse.beat();
        }
        // Not called under the lock: an engine in this process may answer at once.
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match link {
            Some(Link::Process(outbox)) => {
                let frame = encode(&message).map_err(|error| match error {
                    FrameError::TooLarge { bytes } => WorkerError::RequestTooLarge { bytes, limit: MAX_FRAME_BYTES },
                    other => WorkerError::Protocol { model: self.spec.model.clone(), reason: other.to_string() },
                })?;
                // The writer is gone only when the worker is, and then `calls` tells everybody why.
                outbox.send(frame).ok();
            }
            Some(Link::Thread(server)) => server.handle(message),
            // `calls` tells everybody why.
            None => {}
        }
        Ok(())
    }

    /// Lets go of the engine or the socket. For an instance that has ended.
    pub(crate) fn unlink(&self) {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(link);
    }

    /// The client of this request has left.
    pub(crate) fn abandon(&self, id: u64) {
        if self.calls.abandon(id) {
            // A cancel is small; it always fits.
            self.send(ToWorker::Cancel { id }).ok();
        }
    }

    /// The worker did something.
    pub(crate) fn beat(&self) {
        self.pulse.beat();
    }

    pub(crate) fn measured(&self, stats: Stats) {
        let mut old = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        if stats.progress != old.progress {
            self.pulse.beat();
        }
        *old = stats;
    }

    pub(crate) fn stats(&self) -> Stats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long a busy worker has done nothing, if longer than `limit`.
    pub(crate) fn stalled(&self, limit: Duration) -> Option<Duration> {
        let still = self.pulse.since();
        (self.calls.len() > 0 && still > limit).then_some(still)
    }

    /// What it is doing, for a crash report.
    pub(crate) fn activity(&self) -> String {
        match self.calls.len() {
            0 => "idle".into(),
            1 => "computing 1 request".into(),
            n => format!("computing {n} requests"),
        }
    }

    pub(crate) fn seats(&self) -> usize {
        self.seats.load(Ordering::Acquire)
    }

    /// Waits until nobody holds a seat.
    pub(crate) async fn vacant(&self) {
        loop {
            let notified = self.vacant.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.seats() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// The worker is gone and reaped.
    pub(crate) fn set_ended(&self) {
        self.ended.send_replace(true);
    }

    /// Waits until the worker is gone and reaped.
    pub(crate) async fn ended(&self) {
        // The sender lives in `self`, so the wait can only end with the value.
        self.ended.subscribe().wait_for(|ended| *ended).await.ok();
    }
}

/// Keeps an [`Instance`] loaded.
pub(crate) struct Seat(Arc<Instance>);

impl Seat {
    /// The first seat must be taken under the lock of the model's entry, so that nobody evicts the model at the same moment.
    pub(crate) fn take(instance: &Arc<Instance>) -> Self {
        instance.seats.fetch_add(1, Ordering::AcqRel);
        Self(instance.clone())
    }

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.0
    }
}

impl Clone for Seat {
    fn clone(&self) -> Self {
        Self::take(&self.0)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.0.seats.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.vacant.notify_waiters();
            if let Some(entry) = self.0.entry.upgrade() {
                entry.vacated(&self.0);
            }
        }
    }
}

/// When something happened last, readable from any thread.
struct Pulse {
    start: Instant,
    last_ms: AtomicU64,
}

impl Pulse {
    fn new() -> Self {
        Self { start: Instant::now(), last_ms: AtomicU64::new(0) }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn beat(&self) {
        self.last_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn since(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.last_ms.load(Ordering::Relaxed)))
    }
}
