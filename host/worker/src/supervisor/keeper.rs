//! Watches one loaded worker to its end: passes its words on, sees crashes and hangs, ends it in good order.
//!
//! One task per worker. It owns the process: when the task is over, the process is gone, reaped, and its memory is given back to the ledger;
//! only after that does anybody hear of the end.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Inner;
use super::config::SupervisorConfig;
use super::entry::Entry;
use super::instance::Instance;
use super::launch::death;
use super::limits::Limits;
use super::memory::Claim;
use super::wire::{Wake, Wire};
use crate::death::{Cause, Hang};
use crate::error::WorkerError;
use crate::protocol::{FromWorker, ToWorker};

/// Why the watch ended.
enum End {
    /// It was asked to go.
    Asked,
    Died(Cause),
    Hang(Duration),
    Protocol(String),
}

/// Runs until the worker is gone.
pub(crate) async fn keep(
    mut wire: Wire,
    instance: Arc<Instance>,
    entry: Arc<Entry>,
    inner: Weak<Inner>,
    config: Arc<SupervisorConfig>,
    claim: Claim,
) {
    let mut limits = Limits::of(&config, &instance.spec);
    let end = watch(&mut wire, &instance, config.step_stall, &mut limits, &claim).await;
    let activity = instance.activity();
    let spec = &instance.spec;
    let error = match end {
        End::Asked => {
            let reason = "it was unloaded while the request ran".to_owned();
            instance.calls.end(&WorkerError::Draining { model: spec.model.clone(), reason });
            part(&mut wire, &instance, config.stop_patience).await;
            None
        }
        End::Died(cause) => Some(WorkerError::Died(Box::new(death(spec, &mut wire, cause, activity).await))),
        End::Hang(stalled) => {
            wire.kill().await;
            Some(WorkerError::Hang(Box::new(Hang {
                model: spec.model.clone(),
                plugin: spec.plugin_id.clone(),
                plugin_version: spec.plugin_version.clone(),
                activity,
                stalled,
                last_lines: wire.process.last_lines().await,
            })))
        }
        End::Protocol(reason) => {
            wire.kill().await;
            Some(WorkerError::Protocol { model: spec.model.clone(), reason })
        }
    };
    drop(wire);
    drop(claim);
    if let Some(error) = error {
        lost(&entry, &instance, &inner, &error);
    }
    instance.set_ended();
    if let Some(inner) = inner.upgrade() {
        inner.freed.notify_one();
    }
}

/// Tells everybody that a worker is gone unasked. The entry first: who hears of the end asks for a new worker at once.
pub(crate) fn lost(entry: &Arc<Entry>, instance: &Arc<Instance>, inner: &Weak<Inner>, error: &WorkerError) {
    tracing::error!(model = entry.model, pid = instance.pid, %error, "worker lost");
    let restart = entry.gone(instance, error);
    let inner = inner.upgrade();
    if let Some(inner) = &inner {
        inner.worker_lost(&instance.spec, error);
    }
    instance.calls.end(error);
    if let Some(inner) = inner.filter(|_| restart) {
        inner.restart(entry.clone(), instance.spec.clone());
    }
}

async fn watch(wire: &mut Wire, instance: &Instance, stall: Duration, limits: &mut Limits, claim: &Claim) -> End {
    let mut look = interval((stall / 8).clamp(Duration::from_millis(20), Duration::from_secs(1)));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let pid = wire.process.pid();
    loop {
        tokio::select! {
            wake = wire.next::<FromWorker>() => match wake {
                Wake::Message(FromWorker::Stats(stats)) => {
                    instance.measured(stats);
                    claim.measured(stats);
                }
                Wake::Message(FromWorker::Failed(error)) => {
                    wire.kill().await;
                    return End::Died(Cause::GaveUp(error.to_string()));
                }
                Wake::Message(message) => {
                    instance.beat();
                    if let Err(reason) = instance.calls.deliver(message) {
                        return End::Protocol(reason);
                    }
                }
                Wake::Exited(status) => return End::Died(Cause::of(status)),
                Wake::HungUp => return End::Died(Cause::HungUp),
                Wake::Broken(error) => return End::Protocol(error.to_string()),
                Wake::Lost(error) => return End::Protocol(format!("it cannot be watched any more: {error}")),
            },
            () = instance.stop.cancelled() => return End::Asked,
            reason = limits.exceeded(pid) => {
                wire.kill().await;
                return End::Died(Cause::Overran(reason));
            },
            _ = look.tick() => if let Some(stalled) = instance.stalled(stall) {
                return End::Hang(stalled);
            },
        }
    }
}

/// Ends a worker in good order: a message, then SIGTERM, then SIGKILL.
async fn part(wire: &mut Wire, instance: &Instance, patience: Duration) {
    // Fails only if the worker is gone already.
    instance.send(ToWorker::Shutdown).ok();
    if timeout(patience, wire.farewell()).await.is_ok() {
        return;
    }
    tracing::debug!(model = instance.spec.model, pid = instance.pid, "the worker does not end by itself: SIGTERM");
    wire.process.terminate();
    if timeout(patience, wire.farewell()).await.is_ok() {
        return;
    }
    tracing::warn!(model = instance.spec.model, pid = instance.pid, "the worker ignores SIGTERM: SIGKILL");
    wire.kill().await;
}
