//! From a specification to a loaded model in a process of its own.
//!
//! Greeting, then the load with its progress. Whatever goes wrong, the process is gone and reaped before anybody hears of it, so that its
//! memory is free and a second try meets no remains of the first.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Inner;
use super::entry::Entry;
use super::instance::{Instance, Link, Ready};
use super::keeper;
use super::limits::Limits;
use super::load::Load;
use super::memory::Claim;
use super::process::Process;
use super::wire::{Wake, Wire};
use crate::death::{Cause, Death, Hang};
use crate::error::WorkerError;
use crate::protocol::{FromWorker, Hello, PROTOCOL_VERSION, ToWorker, build_id, encode};
use crate::spec::LaunchSpec;

/// Starts a worker and waits until its model is loaded.
pub(crate) async fn launch(inner: &Arc<Inner>, entry: &Arc<Entry>, load: &Arc<Load>, claim: Claim) -> Result<Arc<Instance>, WorkerError> {
    let spec = &load.spec;
    let failed = |reason: String| WorkerError::Spawn { model: spec.model.clone(), reason };
    let (process, socket) = Process::spawn(&inner.config, spec).await.map_err(|error| failed(error.to_string()))?;
    load.set_pid(process.pid());
    let (mut wire, outbox) = Wire::new(process, socket);
    match greet_and_load(inner, load, &mut wire, &outbox, &claim).await {
        Ok(ready) => {
            claim.measured(ready.stats);
            claim.loaded();
            let instance =
                Instance::new(entry, spec.clone(), ready, Some(wire.process.pid()), Link::Process(outbox), inner.cancel.child_token());
            inner.handle.spawn(keeper::keep(wire, instance.clone(), entry.clone(), Arc::downgrade(inner), inner.config.clone(), claim));
            Ok(instance)
        }
        Err(End::Error(error)) => {
            wire.kill().await;
            Err(error)
        }
        Err(End::Exited(cause)) => Err(WorkerError::Died(Box::new(death(spec, &mut wire, cause, load.activity()).await))),
        Err(End::Stalled(stalled)) => {
            wire.kill().await;
            Err(WorkerError::Hang(Box::new(Hang {
                model: spec.model.clone(),
                plugin: spec.plugin_id.clone(),
                plugin_version: spec.plugin_version.clone(),
                activity: load.activity(),
                stalled,
                last_lines: wire.process.last_lines().await,
            })))
        }
    }
}

/// Why a load ended without a model.
enum End {
    /// It is over and the reason is known.
    Error(WorkerError),
    /// The process ended.
    Exited(Cause),
    /// Nothing happened for this long.
    Stalled(Duration),
}

async fn greet_and_load(
    inner: &Inner,
    load: &Load,
    wire: &mut Wire,
    outbox: &mpsc::UnboundedSender<Vec<u8>>,
    claim: &Claim,
) -> Result<Ready, End> {
    let spec = &load.spec;
    let protocol = |reason: String| End::Error(WorkerError::Protocol { model: spec.model.clone(), reason });
    for frame in [
        encode(&Hello::ours()),
        encode(&ToWorker::Load {
            order: Box::new(spec.order(&inner.config.trust, inner.config.prefix_cache)),
            sandbox: Box::new(inner.config.sandbox.clone()),
        }),
    ] {
        let frame = frame.map_err(|error| protocol(error.to_string()))?;
        // A writer that is gone means a worker that is gone; the reader below tells.
        outbox.send(frame).ok();
    }

    let patience = inner.config.greeting_patience;
    match step::<Hello>(load, wire, patience, None).await? {
        hello if hello.magic != Hello::MAGIC => return Err(protocol("its first message is no greeting; is the program a worker?".into())),
        hello if !Hello::ours().agrees_with(&hello) => {
            return Err(End::Error(WorkerError::BuildMismatch {
                model: spec.model.clone(),
                host: build_id().to_owned(),
                host_protocol: PROTOCOL_VERSION,
                worker: hello.build,
                worker_protocol: hello.protocol,
            }));
        }
        _ => {}
    }

    load.set_progress(0.0);
    let mut limits = Limits::of(&inner.config, spec);
    let stall = inner.config.load_stall;
    let mut deadline = Instant::now() + stall;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match step::<FromWorker>(load, wire, left, Some(&mut limits)).await {
            // Measurements come from a thread that also lives when the plugin hangs: they are no progress.
            Ok(FromWorker::Stats(stats)) => claim.measured(stats),
            Ok(FromWorker::LoadProgress { fraction }) => {
                load.set_progress(fraction);
                deadline = Instant::now() + stall;
            }
            Ok(FromWorker::Ready { facts, stats, confinement }) => return Ok(Ready { facts: *facts, stats, confinement }),
            Ok(FromWorker::LoadFailed(failure)) => {
                // It ends by itself now; what it still logs belongs to the failure.
                wire.farewell().await;
                return Err(End::Error(WorkerError::Load {
                    model: spec.model.clone(),
                    plugin: spec.plugin_id.clone(),
                    version: spec.plugin_version.clone(),
                    failure: Box::new(failure),
                }));
            }
            Ok(
                FromWorker::Event { .. }
                | FromWorker::Embedded { .. }
                | FromWorker::Ranked { .. }
                | FromWorker::Encoded { .. }
                | FromWorker::Decoded { .. }
                | FromWorker::Failed(_),
            ) => {
                return Err(protocol("it spoke of requests before its model was loaded".into()));
            }
            Err(End::Stalled(_)) => return Err(End::Stalled(stall)),
            Err(end) => return Err(end),
        }
    }
}

/// The next message, within `patience`, unless the load is given up.
async fn step<M: serde::de::DeserializeOwned>(
    load: &Load,
    wire: &mut Wire,
    patience: Duration,
    limits: Option<&mut Limits>,
) -> Result<M, End> {
    let pid = wire.process.pid();
    let exceeded = async {
        match limits {
            Some(limits) => limits.exceeded(pid).await,
            None => std::future::pending().await,
        }
    };
    let model = || load.spec.model.clone();
    tokio::select! {
        wake = wire.next::<M>() => match wake {
            Wake::Message(message) => Ok(message),
            Wake::Exited(status) => Err(End::Exited(Cause::of(status))),
            Wake::HungUp => Err(End::Exited(Cause::HungUp)),
            Wake::Broken(error) => Err(End::Error(WorkerError::Protocol { model: model(), reason: error.to_string() })),
            Wake::Lost(error) => {
                Err(End::Error(WorkerError::Protocol { model: model(), reason: format!("it cannot be watched any more: {error}") }))
            }
        },
        reason = exceeded => {
            wire.kill().await;
            Err(End::Exited(Cause::Overran(reason)))
        }
        () = load.cancel.cancelled() => Err(End::Error(given_up(&load.spec))),
        () = sleep_until(Instant::now() + patience) => Err(End::Stalled(patience)),
    }
}

/// What a load says that was given up: to nobody, to those who waited when the model was unloaded (they begin another), or to those who waited
/// when the host went down.
pub(crate) fn given_up(spec: &LaunchSpec) -> WorkerError {
    WorkerError::Draining { model: spec.model.clone(), reason: "its load was given up".into() }
}

/// The report of an unexpected end.
pub(crate) async fn death(spec: &LaunchSpec, wire: &mut Wire, cause: Cause, activity: String) -> Death {
    Death {
        model: spec.model.clone(),
        plugin: spec.plugin_id.clone(),
        plugin_version: spec.plugin_version.clone(),
        pid: wire.process.pid(),
        cause,
        activity,
        last_lines: wire.process.last_lines().await,
        at: SystemTime::now(),
    }
}
