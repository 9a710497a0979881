//! The state machine of one model: not loaded, loading, ready, failed. Every transition of a model is a function in this file.
//!
//! ```text
//!            lease                 ready                 keep_alive, eviction, unload
//!   Idle ───────────▶ Loading ───────────────▶ Ready ─────────────────────────────────▶ Idle (the instance drains on its own)
//!    ▲ ▲                │  │                     │
//!    │ └── all left ────┘  └─ refused ▶ Failed   └─ crash, hang ▶ Idle, with a mark in the breaker
//!    └──────────────────────────────────┘ a moment later
//! ```
//!
//! The lock is never held across an await, and nothing that may drop a [`Seat`] is dropped under it.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Inner;
use super::admission::Admission;
use super::breaker::{Admit, Breaker};
use super::events::UnloadReason;
use super::instance::{Instance, Seat};
use super::load::{Load, Waiter};
use super::status::{Crash, WorkerState, WorkerStatus, instance_status, spec_status};
use crate::error::WorkerError;
use crate::spec::{KeepAlive, LaunchSpec};

/// How long a refusal by plugin or engine is repeated without asking again: a burst of requests for a broken file costs one load.
const REFUSAL_HOLDS: Duration = Duration::from_secs(1);

/// One model, loaded or not.
pub(crate) struct Entry {
    pub(crate) model: String,
    pub(crate) admission: Arc<Admission>,
    /// Held while a replacement is loaded: one at a time.
    pub(crate) replacing: Arc<tokio::sync::Mutex<()>>,
    inner: Weak<Inner>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    breaker: Breaker,
    keep_alive: KeepAlive,
    last_used: Instant,
    /// What was asked for last.
    spec: Option<LaunchSpec>,
    expiry: Option<(SystemTime, AbortHandle)>,
    last_crash: Option<Crash>,
    /// The last end was a crash, and no load has succeeded since.
    crashed: bool,
    restarts: u32,
}

enum Phase {
    Idle,
    Loading(Arc<Load>),
    Ready(Arc<Instance>),
    Failed { spec: Box<LaunchSpec>, error: WorkerError, until: Instant, at: SystemTime },
}

/// What a request for the model has to do.
pub(crate) enum Next {
    /// Sit down.
    Seat(Seat),
    /// Wait for the load.
    Wait(Waiter),
    /// Wait for a load of something else under the same name, then ask again.
    WaitForOther(Waiter),
    /// Have the loaded one replaced, then ask again.
    Replace,
}

/// What [`Entry::clear`] found.
pub(crate) enum Cleared {
    Nothing,
    Load,
    Instance(Arc<Instance>),
}

impl Entry {
    pub(crate) fn new(inner: &Arc<Inner>, model: &str) -> Arc<Self> {
        Arc::new(Self {
            model: model.to_owned(),
            admission: Admission::new(model),
            replacing: Arc::default(),
            inner: Arc::downgrade(inner),
            state: Mutex::new(State {
                phase: Phase::Idle,
                breaker: Breaker::new(inner.config.restart),
                keep_alive: KeepAlive::default(),
                last_used: Instant::now(),
                spec: None,
                expiry: None,
                last_crash: None,
                crashed: false,
                restarts: 0,
            }),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a request for `spec` has to do now; starts the load if that is it.
    pub(crate) fn next(self: &Arc<Self>, inner: &Arc<Inner>, spec: &LaunchSpec) -> Result<Next, WorkerError> {
        let mut state = self.lock();
        state.keep_alive = spec.keep_alive;
        match &state.phase {
            Phase::Ready(instance) if instance.calls.ended().is_none() => {
                if !instance.spec.same_launch(spec) {
                    return Ok(Next::Replace);
                }
                let seat = Seat::take(instance);
                state.last_used = Instant::now();
                state.stop_clock();
                return Ok(Next::Seat(seat));
            }
            Phase::Loading(load) => {
                let waiter = Waiter::join(self, load);
                return Ok(if load.spec.same_launch(spec) { Next::Wait(waiter) } else { Next::WaitForOther(waiter) });
            }
            Phase::Failed { spec: failed, error, until, .. } if failed.same_launch(spec) && Instant::now() < *until => {
                return Err(error.clone());
            }
            Phase::Idle | Phase::Ready(_) | Phase::Failed { .. } => {}
        }
        let delay = match state.breaker.admit(Instant::now()) {
            Admit::Now => Duration::ZERO,
            Admit::After(delay) => delay,
            Admit::Open { until, crashes } => {
                let reason = state.last_crash.as_ref().map(|crash| crash.reason.clone()).unwrap_or_default();
                return Err(WorkerError::CircuitOpen { model: self.model.clone(), crashes, until: wall(until), reason });
            }
        };
        self.admission.set_slots(spec.slots);
        state.spec = Some(spec.clone());
        let load = Load::new(spec.clone(), inner.cancel.child_token());
        let waiter = Waiter::join(self, &load);
        let old = std::mem::replace(&mut state.phase, Phase::Loading(load.clone()));
        drop(state);
        drop(old);
        inner.handle.spawn(inner.clone().run_load(self.clone(), load, delay));
        Ok(Next::Wait(waiter))
    }

    /// Gives the load up if `last` says that nobody waits any more.
    pub(crate) fn give_up_if(&self, load: &Arc<Load>, last: impl FnOnce() -> bool) {
        let mut state = self.lock();
        if last() && matches!(&state.phase, Phase::Loading(current) if Arc::ptr_eq(current, load)) {
            let old = std::mem::replace(&mut state.phase, Phase::Idle);
            drop(state);
            drop(old);
            load.cancel.cancel();
        }
    }

    /// The load has succeeded. `None` if it was given up at the last moment: then the instance is to be ended.
    pub(crate) fn loaded(&self, load: &Arc<Load>, instance: &Arc<Instance>) -> Option<(Seat, bool)> {
        let mut state = self.lock();
        if !matches!(&state.phase, Phase::Loading(current) if Arc::ptr_eq(current, load)) {
            return None;
        }
        let seat = Seat::take(instance);
        let restarted = state.install(instance);
        self.admission.set_slots(instance.facts.slots);
        Some((seat, restarted))
    }

    /// A replacement is ready. Gives back the one it replaces.
    pub(crate) fn replaced(&self, instance: &Arc<Instance>) -> Option<Arc<Instance>> {
        let mut state = self.lock();
        let old = match &state.phase {
            Phase::Ready(old) => Some(old.clone()),
            Phase::Idle | Phase::Loading(_) | Phase::Failed { .. } => None,
        };
        state.stop_clock();
        state.install(instance);
        self.admission.set_slots(instance.facts.slots);
        old
    }

    /// The load has failed.
    pub(crate) fn load_failed(&self, load: &Arc<Load>, error: &WorkerError) {
        let mut state = self.lock();
        let crashed = state.note_crash(error);
        if matches!(&state.phase, Phase::Loading(current) if Arc::ptr_eq(current, load)) {
            let holds = match error {
                _ if crashed => None,
                WorkerError::Load { failure, .. } if failure.retry_ms > 0 => Some(Duration::from_millis(failure.retry_ms)),
                WorkerError::Load { .. } | WorkerError::Spawn { .. } | WorkerError::BuildMismatch { .. } => Some(REFUSAL_HOLDS),
                _ => None,
            };
            let phase = match holds {
                Some(holds) => Phase::Failed {
                    spec: Box::new(load.spec.clone()),
                    error: error.clone(),
                    until: Instant::now() + holds,
                    at: SystemTime::now(),
                },
                None => Phase::Idle,
            };
            let old = std::mem::replace(&mut state.phase, phase);
            drop(state);
            drop(old);
        }
    }

    /// A worker that had loaded is gone, unasked. True if it is to be started again without being asked.
    pub(crate) fn gone(&self, instance: &Arc<Instance>, error: &WorkerError) -> bool {
        let mut state = self.lock();
        state.note_crash(error);
        if !matches!(&state.phase, Phase::Ready(current) if Arc::ptr_eq(current, instance)) {
            return false;
        }
        state.stop_clock();
        let old = std::mem::replace(&mut state.phase, Phase::Idle);
        let restart = state.keep_alive == KeepAlive::Forever;
        drop(state);
        drop(old);
        restart
    }

    /// An answer ended well.
    pub(crate) fn answered(&self) {
        self.lock().breaker.answered();
    }

    /// The last seat of `instance` was given up: its clock starts.
    pub(crate) fn vacated(self: &Arc<Self>, instance: &Arc<Instance>) {
        let Some(inner) = self.inner.upgrade() else { return };
        inner.freed.notify_one();
        let mut state = self.lock();
        // Somebody may have sat down, or the model may be leaving, since the seat was counted.
        if instance.seats() > 0 || !matches!(&state.phase, Phase::Ready(current) if Arc::ptr_eq(current, instance)) {
            return;
        }
        state.last_used = Instant::now();
        state.stop_clock();
        let KeepAlive::For(stays) = state.keep_alive else { return };
        let (Some(at), Some(wake)) = (SystemTime::now().checked_add(stays), Instant::now().checked_add(stays)) else { return };
        let timer = inner.handle.spawn({
            let (entry, inner, instance) = (Arc::downgrade(self), Arc::downgrade(&inner), Arc::downgrade(instance));
            async move {
                tokio::time::sleep_until(wake).await;
                let (Some(entry), Some(inner), Some(instance)) = (entry.upgrade(), inner.upgrade(), instance.upgrade()) else { return };
                if entry.take_idle(&instance) {
                    inner.retire(instance, UnloadReason::Idle, Duration::ZERO);
                }
            }
        });
        state.expiry = Some((at, timer.abort_handle()));
    }

    /// Takes `instance` out if nobody sits on it.
    pub(crate) fn take_idle(&self, instance: &Arc<Instance>) -> bool {
        let mut state = self.lock();
        let idle = instance.seats() == 0 && matches!(&state.phase, Phase::Ready(current) if Arc::ptr_eq(current, instance));
        if idle {
            // The timer may be the caller: it must not be stopped here, it ends by itself.
            state.expiry = None;
            let old = std::mem::replace(&mut state.phase, Phase::Idle);
            drop(state);
            drop(old);
        }
        idle
    }

    /// If the model is loaded and idle: whether it was meant to stay, when it was last used, and the instance.
    pub(crate) fn idle(&self) -> Option<(bool, Instant, Arc<Instance>)> {
        let state = self.lock();
        match &state.phase {
            Phase::Ready(instance) if instance.seats() == 0 => {
                Some((state.keep_alive == KeepAlive::Forever, state.last_used, instance.clone()))
            }
            _ => None,
        }
    }

    /// The loaded instance.
    pub(crate) fn ready(&self) -> Option<Arc<Instance>> {
        match &self.lock().phase {
            Phase::Ready(instance) if instance.calls.ended().is_none() => Some(instance.clone()),
            _ => None,
        }
    }

    /// Takes out whatever is there, running or loading, and forgets past failures. A load is given up here; an instance is the caller's to end.
    pub(crate) fn clear(&self) -> Cleared {
        let mut state = self.lock();
        state.stop_clock();
        state.breaker.reset();
        state.crashed = false;
        let old = std::mem::replace(&mut state.phase, Phase::Idle);
        drop(state);
        match old {
            Phase::Ready(instance) => Cleared::Instance(instance),
            Phase::Loading(load) => {
                load.cancel.cancel();
                Cleared::Load
            }
            Phase::Idle | Phase::Failed { .. } => Cleared::Nothing,
        }
    }

    /// Forgets past failures.
    pub(crate) fn forgive(&self) {
        let mut state = self.lock();
        state.breaker.reset();
        state.crashed = false;
        if matches!(state.phase, Phase::Failed { .. }) {
            state.phase = Phase::Idle;
        }
    }

    /// For `ps`; nothing for a model that is not loaded and did not end badly.
    pub(crate) fn status(&self) -> Option<WorkerStatus> {
        let mut state = self.lock();
        let blocked = match state.breaker.admit(Instant::now()) {
            Admit::Open { until, .. } => Some(until),
            Admit::Now | Admit::After(_) => None,
        };
        let mut status = match &state.phase {
            Phase::Ready(instance) => instance_status(instance, WorkerState::Ready),
            Phase::Loading(load) => {
                let progress = load.progress().map_or(WorkerState::Starting, |progress| WorkerState::Loading { progress });
                let mut status = spec_status(&load.spec, progress, load.since);
                status.pid = load.pid();
                status
            }
            Phase::Failed { spec, error, until, at } if Instant::now() < *until => {
                spec_status(spec, WorkerState::Failed { reason: error.to_string(), until: wall(*until) }, *at)
            }
            Phase::Idle | Phase::Failed { .. } => {
                let crash = state.last_crash.as_ref()?;
                let reason = crash.reason.clone();
                let shown = match blocked {
                    Some(until) => WorkerState::Failed { reason, until: wall(until) },
                    None if state.crashed => WorkerState::Crashed { reason },
                    None => return None,
                };
                spec_status(state.spec.as_ref()?, shown, crash.at)
            }
        };
        status.restarts = state.restarts;
        status.last_crash = state.last_crash.clone();
        status.expires_at = state.expiry.as_ref().map(|(at, _)| *at);
        if let Phase::Ready(instance) = &state.phase {
            // What waits for its turn in the worker, beyond what the worker has seen yet.
            let taken = u32::try_from(instance.calls.len()).unwrap_or(u32::MAX);
            status.waiting = taken.saturating_sub(status.active).max(status.waiting);
        } else {
            status.waiting = u32::try_from(self.admission.taken()).unwrap_or(u32::MAX);
        }
        Some(status)
    }
}

impl State {
    /// Puts a loaded instance in. True if it is the first since a crash.
    fn install(&mut self, instance: &Arc<Instance>) -> bool {
        self.last_used = Instant::now();
        self.spec = Some(instance.spec.clone());
        self.phase = Phase::Ready(instance.clone());
        let restarted = std::mem::take(&mut self.crashed);
        self.restarts += u32::from(restarted);
        restarted
    }

    fn stop_clock(&mut self) {
        if let Some((_, timer)) = self.expiry.take() {
            timer.abort();
        }
    }

    /// Marks the breaker if `error` is an unexpected end of a worker.
    fn note_crash(&mut self, error: &WorkerError) -> bool {
        let last_lines = match error {
            WorkerError::Died(death) => death.last_lines.clone(),
            WorkerError::Hang(hang) => hang.last_lines.clone(),
            WorkerError::Protocol { .. } => String::new(),
            _ => return false,
        };
        self.breaker.crashed(Instant::now());
        self.crashed = true;
        self.last_crash = Some(Crash { at: SystemTime::now(), reason: error.to_string(), last_lines });
        true
    }
}

/// The same moment by the clock on the wall.
fn wall(at: Instant) -> SystemTime {
    SystemTime::now() + at.saturating_duration_since(Instant::now())
}
