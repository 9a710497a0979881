//! What the engine's thread and the callers' threads both see: who runs, who is to stop, what the watchdog reads, and whether the engine
//! is still sound.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use onebit_loader::CancelFlag;

use super::reply::{Reply, Sink};
use super::{EngineLoad, Progress};
use crate::request::{EngineError, Event, RequestId};

/// The wish of one request to end, and whether it is being computed right now.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// It is to end.
    pub(crate) cancelled: AtomicBool,
    /// Rows of it are in the batch that is being computed.
    pub(crate) in_batch: AtomicBool,
}

/// Shared between the engine's thread and its handle.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    requests: Mutex<HashMap<RequestId, Arc<Flags>>>,
    /// Ends the batch that is being computed.
    pub(crate) abort: CancelFlag,
    /// It is worth it: the batch takes long, and what it computed for others can be taken back.
    pub(crate) abortable: AtomicBool,
    /// The engine is to end.
    pub(crate) stop: AtomicBool,
    /// Requests that hold a slot.
    pub(crate) active: AtomicU32,
    /// For the watchdog.
    pub(crate) watch: Watch,
    failure: Mutex<Option<EngineError>>,
    flush: OnceLock<Flush>,
}

/// Called when events were said and the thread that said them turns to something that takes time.
struct Flush(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Flush {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Flush")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Enters a request; a second one under the same id is answered and refused here.
    pub(crate) fn register(self: &Arc<Self>, id: RequestId, mut sink: Sink) -> Option<Reply> {
        let flags = Arc::new(Flags::default());
        match lock(&self.requests).entry(id) {
            Entry::Vacant(free) => {
                free.insert(Arc::clone(&flags));
            }
            Entry::Occupied(_) => {
                sink(Event::Failed(EngineError::InvalidRequest {
                    message: format!("request {} is running already; ids must differ", id.0),
                    param: None,
                }));
                return None;
            }
        }
        Some(Reply::new(id, Arc::clone(self), flags, sink))
    }

    /// The request is over.
    pub(crate) fn forget(&self, id: RequestId) {
        lock(&self.requests).remove(&id);
    }

    /// Asks a request to end. True if there is such a request.
    pub(crate) fn cancel(&self, id: RequestId) -> bool {
        let Some(flags) = lock(&self.requests).get(&id).map(Arc::clone) else {
            return false;
        };
        flags.cancelled.store(true, Ordering::SeqCst);
        // The engine marks its rows before it looks for cancelled requests, so one of the two always sees the other. Too late is
        // harmless: a batch that ends early for nothing is computed again.
        if flags.in_batch.load(Ordering::SeqCst) && self.abortable.load(Ordering::SeqCst) {
            self.abort.set();
        }
        true
    }

    /// Requests, counted.
    pub(crate) fn load(&self) -> EngineLoad {
        let all = u32::try_from(lock(&self.requests).len()).unwrap_or(u32::MAX);
        let active = self.active.load(Ordering::Relaxed);
        EngineLoad { active, waiting: all.saturating_sub(active) }
    }

    /// The engine is broken for good. The first reason stays.
    pub(crate) fn fail(&self, error: &EngineError) {
        let mut failure = lock(&self.failure);
        if failure.is_none() {
            tracing::error!(%error, "the engine stops serving");
            *failure = Some(error.clone());
        }
    }

    /// From now on [`flush`](Self::flush) calls this. The first one stays.
    pub(crate) fn flush_with(&self, flush: Box<dyn Fn() + Send + Sync>) {
        self.flush.set(Flush(flush)).ok();
    }

    /// Events may have been said; whoever gathers them may send them now.
    pub(crate) fn flush(&self) {
        if let Some(flush) = self.flush.get() {
            (flush.0)();
        }
    }

    /// Why it is broken, if it is.
    pub(crate) fn failure(&self) -> Option<EngineError> {
        lock(&self.failure).clone()
    }
}

/// Counts steps and remembers since when each unfinished one runs.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    steps: AtomicU64,
    running: Mutex<Vec<(u64, Instant)>>,
    next: AtomicU64,
}

impl Watch {
    /// A step begins; it ends when the value is dropped.
    pub(crate) fn begin(&self) -> Step<'_> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.running).push((key, Instant::now()));
        Step { watch: self, key }
    }

    /// What a watchdog looks at.
    pub(crate) fn progress(&self) -> Progress {
        let oldest = lock(&self.running).iter().map(|(_, since)| *since).min();
        Progress { steps: self.steps.load(Ordering::Relaxed), busy: oldest.map(|since| since.elapsed()) }
    }
}

/// A step that runs.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    watch: &'a Watch,
    key: u64,
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        lock(&self.watch.running).retain(|(key, _)| *key != self.key);
        self.watch.steps.fetch_add(1, Ordering::Relaxed);
    }
}
