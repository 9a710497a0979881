//! Keeps workers: starts one per model when it is first asked for, watches it, starts it again when it dies, and ends it when nobody needs it.
//!
//! The supervisor maps no plugin and trusts none. What a caller holds is a [`Lease`]: as long as it lives, the model stays. Everything that
//! can go wrong comes back as a [`WorkerError`]; nothing is retried behind the caller's back except a request that had not been answered
//! at all when its worker died, once.
//!
//! | file | idea |
//! |---|---|
//! | `entry` | the state machine of one model |
//! | `load`, `launch`, `thread`, `replace` | from a specification to a loaded model |
//! | `instance`, `calls`, `lease` | a loaded model, its requests, its users |
//! | `process`, `wire`, `stderr`, `keeper` | one process, watched to its end |
//! | `breaker`, `admission`, `memory`, `room` | backoff, queue bound, memory, eviction |

mod admission;
mod breaker;
mod calls;
mod config;
mod entry;
mod events;
mod instance;
mod keeper;
mod launch;
mod lease;
mod limits;
mod load;
mod memory;
mod process;
mod replace;
mod room;
mod status;
mod stderr;
mod thread;
mod wire;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use config::{RestartPolicy, SupervisorConfig};
pub use events::{Lifecycle, UnloadReason};
pub use lease::{Generation, Lease};
pub(crate) use memory::available as available_memory;
pub use status::{Crash, WorkerState, WorkerStatus};

use crate::error::WorkerError;
use crate::spec::{Isolation, LaunchSpec};
use entry::{Cleared, Entry, Next};
use instance::{Instance, Seat};
use load::Load;

/// Keeps workers. Clones share them; when the last clone and the last lease are gone, the workers end.
#[derive(Clone)]
pub struct Supervisor {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    config: Arc<SupervisorConfig>,
    handle: Handle,
    entries: Mutex<BTreeMap<String, Arc<Entry>>>,
    /// Instances that were taken out of their entry and are on their way out.
    retiring: Mutex<Vec<Arc<Instance>>>,
    ledger: Arc<memory::Ledger>,
    /// Held by whoever looks for memory.
    room: tokio::sync::Mutex<()>,
    /// Something became idle or went.
    freed: Notify,
    observers: events::Observers,
    draining: AtomicBool,
    requests: AtomicU64,
    /// Ends everything.
    cancel: CancellationToken,
}

impl Supervisor {
    /// A supervisor without workers. Its tasks run on `handle`.
    #[must_use]
    pub fn new_on(handle: Handle, config: SupervisorConfig) -> Self {
        Self {
            inner: Arc::new(Inner {
                config: Arc::new(config),
                handle,
                entries: Mutex::default(),
                retiring: Mutex::default(),
                ledger: Arc::default(),
                room: tokio::sync::Mutex::new(()),
                freed: Notify::new(),
                observers: events::Observers::default(),
                draining: AtomicBool::new(false),
                requests: AtomicU64::new(0),
                cancel: CancellationToken::new(),
            }),
        }
    }

    /// A supervisor without workers, on the runtime of the caller.
    ///
    /// # Panics
    /// Outside a tokio runtime; use [`new_on`](Self::new_on) there.
    #[must_use]
    pub fn new(config: SupervisorConfig) -> Self {
        Self::new_on(Handle::current(), config)
    }

    /// Waits until the model is loaded, loading it if need be, and keeps it loaded as long as the lease lives.
    ///
    /// Dropping the future leaves the queue; a load that nobody else waits for is given up.
    ///
    /// # Errors
    /// Every [`WorkerError`] except [`WorkerError::Engine`].
    pub async fn lease(&self, spec: LaunchSpec) -> Result<Lease, WorkerError> {
        let entry = self.inner.entry(&spec.model);
        let ticket = self.inner.admit(&entry)?;
        let seat = self.inner.seat(&entry, &spec).await?;
        Ok(Lease::new(self.inner.clone(), entry, spec, seat, ticket))
    }

    /// Has a new worker loaded for `spec` and puts it in the place of the old one, which finishes its running answers. If the new one
    /// cannot be loaded the old one stays. Also loads a model that is not loaded.
    ///
    /// # Errors
    /// Why the new one could not be loaded.
    pub async fn reload(&self, spec: LaunchSpec) -> Result<(), WorkerError> {
        let entry = self.inner.entry(&spec.model);
        entry.forgive();
        if entry.ready().is_some() { self.inner.replace(&entry, &spec, true).await } else { self.inner.seat(&entry, &spec).await.map(drop) }
    }

    /// Ends the worker of `model`: running answers may finish within the host's patience, waiting requests are told. A load is given up, and
    /// requests that waited for it begin another.
    /// Returns when a loaded model's process is gone. Past crashes are forgotten. False if there was nothing to end.
    pub async fn unload(&self, model: &str) -> bool {
        let entry = self.inner.lock_entries().get(model).cloned();
        match entry.map_or(Cleared::Nothing, |entry| entry.clear()) {
            Cleared::Nothing => false,
            Cleared::Load => true,
            Cleared::Instance(instance) => {
                self.inner.retire(instance.clone(), UnloadReason::Asked, self.inner.config.unload_patience);
                instance.ended().await;
                true
            }
        }
    }

    /// Takes no more requests, lets running answers finish within `patience`, and ends all workers. Returns when all processes are gone.
    pub async fn drain(&self, patience: Duration) {
        let inner = &self.inner;
        inner.draining.store(true, Ordering::Release);
        let entries: Vec<_> = inner.lock_entries().values().cloned().collect();
        for entry in entries {
            if let Cleared::Instance(instance) = entry.clear() {
                inner.retire(instance, UnloadReason::Shutdown, patience);
            }
        }
        // Replacements in progress, and models that were leaving already with a patience of their own.
        let leaving: Vec<_> = inner.lock_retiring().clone();
        let all_gone = async {
            for instance in &leaving {
                instance.ended().await;
            }
        };
        if tokio::time::timeout(patience, all_gone).await.is_err() {
            tracing::warn!("answers that were still running at the end of the host's patience are cut off");
        }
        inner.cancel.cancel();
        // And nobody may see a worker that is gone: the list is cleared a moment after the process.
        while inner.ledger.workers() > 0 || !inner.lock_retiring().is_empty() {
            tokio::time::timeout(Duration::from_millis(50), inner.freed.notified()).await.ok();
        }
    }

    /// All models that are loaded, on their way in or out, or just failed.
    #[must_use]
    pub fn status(&self) -> Vec<WorkerStatus> {
        let entries: Vec<_> = self.inner.lock_entries().values().cloned().collect();
        let mut all: Vec<_> = entries.iter().filter_map(|entry| entry.status()).collect();
        let leaving = self.inner.lock_retiring().clone();
        all.extend(leaving.iter().map(|instance| status::instance_status(instance, WorkerState::Draining)));
        all
    }

    /// Requests for `model` that are being computed or wait, loads included.
    #[must_use]
    pub fn depth(&self, model: &str) -> usize {
        self.inner.lock_entries().get(model).map_or(0, |entry| entry.admission.taken())
    }

    /// Calls `observer` for everything that happens to workers from now on. It runs on the supervisor's tasks and must be quick.
    pub fn observe(&self, observer: impl Fn(&Lifecycle) + Send + Sync + 'static) {
        self.inner.observers.add(observer);
    }
}

impl Inner {
    fn lock_entries(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_retiring(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Instance>>> {
        self.retiring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(self: &Arc<Self>, model: &str) -> Arc<Entry> {
        self.lock_entries().entry(model.to_owned()).or_insert_with(|| Entry::new(self, model)).clone()
    }

    fn next_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A place in the queue.
    fn admit(&self, entry: &Arc<Entry>) -> Result<admission::Ticket, WorkerError> {
        self.check_draining(&entry.model)?;
        entry
            .admission
            .take(self.config.max_queue)
            .inspect_err(|_| self.observers.tell(&Lifecycle::QueueFull { model: entry.model.clone() }))
    }

    fn check_draining(&self, model: &str) -> Result<(), WorkerError> {
        if self.draining.load(Ordering::Acquire) {
            return Err(WorkerError::Draining { model: model.to_owned(), reason: "the host is shutting down".into() });
        }
        Ok(())
    }

    /// A seat on a worker that serves `spec`.
    async fn seat(self: &Arc<Self>, entry: &Arc<Entry>, spec: &LaunchSpec) -> Result<Seat, WorkerError> {
        loop {
            self.check_draining(&entry.model)?;
            match entry.next(self, spec)? {
                Next::Seat(seat) => return Ok(seat),
                Next::Wait(waiter) => match waiter.wait().await {
                    // The model was unloaded while it was loading. This request still wants it, and comes after that.
                    Err(WorkerError::Draining { .. }) => {}
                    outcome => return outcome,
                },
                // Its end is what matters, not how it ended.
                Next::WaitForOther(waiter) => drop(waiter.wait().await),
                Next::Replace => self.replace(entry, spec, false).await?,
            }
        }
    }

    /// The task of one load.
    async fn run_load(self: Arc<Self>, entry: Arc<Entry>, load: Arc<Load>, delay: Duration) {
        let waited = tokio::select! {
            () = tokio::time::sleep(delay) => Ok(()),
            () = load.cancel.cancelled() => Err(launch::given_up(&load.spec)),
        };
        let outcome = match waited {
            Ok(()) => self.load(&entry, &load, false).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok((instance, took)) => match entry.loaded(&load, &instance) {
                Some((seat, restarted)) => {
                    self.tell_loaded(&instance, took, restarted);
                    load.finish(Ok(seat));
                }
                None => {
                    instance.stop.cancel();
                    load.finish(Err(launch::given_up(&load.spec)));
                }
            },
            Err(error) => {
                self.load_failed(&load, &error);
                entry.load_failed(&load, &error);
                load.finish(Err(error));
            }
        }
    }

    /// Memory, process or thread, model.
    async fn load(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        load: &Arc<Load>,
        replaces: bool,
    ) -> Result<(Arc<Instance>, Duration), WorkerError> {
        let claim = tokio::select! {
            claim = self.make_room(&load.spec, replaces) => claim?,
            () = load.cancel.cancelled() => return Err(launch::given_up(&load.spec)),
        };
        let start = Instant::now();
        let instance = match load.spec.isolation {
            Isolation::Worker => launch::launch(self, entry, load, claim).await?,
            Isolation::InProcess => thread::launch(self, entry, load, claim).await?,
        };
        Ok((instance, start.elapsed()))
    }

    fn tell_loaded(&self, instance: &Instance, took: Duration, restarted: bool) {
        let (model, plugin) = (instance.spec.model.clone(), instance.spec.plugin_id.clone());
        tracing::info!(
            model,
            plugin,
            device = instance.spec.device.id,
            pid = instance.pid,
            took_ms = took.as_millis(),
            restarted,
            "model loaded"
        );
        self.observers.tell(&Lifecycle::Loaded { model, plugin, took, restarted });
    }

    fn load_failed(&self, load: &Load, error: &WorkerError) {
        if load.cancel.is_cancelled() {
            return;
        }
        let (model, plugin) = (load.spec.model.clone(), load.spec.plugin_id.clone());
        tracing::error!(model, plugin, %error, "the model could not be loaded");
        self.observers.tell(&Lifecycle::LoadFailed { model, plugin, kind: error.kind() });
        if matches!(error, WorkerError::Died(_) | WorkerError::Hang { .. } | WorkerError::Protocol { .. }) {
            self.worker_lost(&load.spec, error);
        }
    }

    fn worker_lost(&self, spec: &LaunchSpec, error: &WorkerError) {
        self.observers.tell(&Lifecycle::Died { model: spec.model.clone(), plugin: spec.plugin_id.clone(), kind: error.kind() });
    }

    /// Lets an instance that was taken out of its entry finish what it is doing, and ends it.
    fn retire(self: &Arc<Self>, instance: Arc<Instance>, reason: UnloadReason, patience: Duration) {
        self.lock_retiring().push(instance.clone());
        let inner = self.clone();
        self.handle.spawn(async move {
            if tokio::time::timeout(patience, instance.vacant()).await.is_err() {
                tracing::debug!(model = instance.spec.model, "unloaded while requests ran");
            }
            instance.stop.cancel();
            instance.ended().await;
            inner.lock_retiring().retain(|other| !Arc::ptr_eq(other, &instance));
            tracing::info!(model = instance.spec.model, pid = instance.pid, reason = reason.name(), "model unloaded");
            inner.observers.tell(&Lifecycle::Unloaded { model: instance.spec.model.clone(), reason });
            inner.freed.notify_one();
        });
    }

    /// Takes out the idle model that was used longest ago; models that were meant to stay go last.
    fn least_recently_used(&self, except: &str) -> Option<(Arc<Entry>, Arc<Instance>)> {
        let entries: Vec<_> = self.lock_entries().values().filter(|entry| entry.model != except).cloned().collect();
        let mut idle: Vec<_> = entries.into_iter().filter_map(|entry| entry.idle().map(|idle| (idle, entry))).collect();
        idle.sort_by_key(|((stays, used, _), _)| (*stays, *used));
        // Somebody may sit down between the look and the taking; then the next one goes.
        idle.into_iter().find(|((_, _, instance), entry)| entry.take_idle(instance)).map(|((_, _, instance), entry)| (entry, instance))
    }

    /// Starts a model again that is meant to stay.
    fn restart(self: Arc<Self>, entry: Arc<Entry>, spec: LaunchSpec) {
        let inner = Arc::downgrade(&self);
        self.handle.spawn(async move {
            loop {
                let Some(inner) = inner.upgrade() else { return };
                match inner.seat(&entry, &spec).await {
                    Ok(_) => return,
                    Err(WorkerError::CircuitOpen { until, .. }) => {
                        drop(inner);
                        tokio::time::sleep(until.duration_since(std::time::SystemTime::now()).unwrap_or_default()).await;
                    }
                    // It crashed again; the breaker says when to go on.
                    Err(WorkerError::Died(_) | WorkerError::Hang { .. } | WorkerError::Protocol { .. }) => {}
                    Err(error) => {
                        tracing::error!(model = entry.model, %error, "a model that is meant to stay is not started again");
                        return;
                    }
                }
            }
        });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Every load and every worker hangs on this token; the keepers end their workers in good order. If the runtime ends first, dropping
        // the keepers kills them.
        self.cancel.cancel();
    }
}
