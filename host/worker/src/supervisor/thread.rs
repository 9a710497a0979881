//! The engine inside the host: the same server behind the same lease, without a process around it.
//!
//! For embedding and for measuring what the process border costs. There is no net here: a plugin that crashes takes the host along, and one that
//! hangs can be given up but not ended; its thread stays.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use onebit_engine::Health;
use onebit_loader::CancelFlag;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Inner;
use super::config::SupervisorConfig;
use super::entry::Entry;
use super::instance::{Instance, Link, Ready};
use super::keeper::lost;
use super::load::Load;
use super::memory::Claim;
use crate::child::{Loaded, Outlet, Server, load as load_model};
use crate::death::{Cause, Death, Hang};
use crate::error::WorkerError;
use crate::protocol::{FromWorker, LoadFailure, Stats};

/// How often an engine in this process is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Hands messages to the instance, on the engine's own thread.
#[derive(Default)]
struct Direct(OnceLock<Weak<Instance>>);

impl Outlet for Direct {
    fn push(&self, message: FromWorker) {
        let Some(instance) = self.0.get().and_then(Weak::upgrade) else { return };
        instance.beat();
        if let Err(reason) = instance.calls.deliver(message) {
            // Both sides are this program: only a fault of our own gets here.
            tracing::error!(model = instance.spec.model, reason, "the engine answered what was not asked");
        }
    }
}

/// Loads the model on a thread and waits for it.
pub(crate) async fn launch(inner: &Arc<Inner>, entry: &Arc<Entry>, load: &Arc<Load>, claim: Claim) -> Result<Arc<Instance>, WorkerError> {
    let spec = &load.spec;
    if !inner.config.sandbox.allows_unconfined(&spec.plugin_id) {
        let reason = "inside the host nothing confines a plugin, and the sandbox is required (sandbox.require); leave out isolation = \"in-process\"";
        return Err(WorkerError::Spawn { model: spec.model.clone(), reason: reason.into() });
    }
    let cancel = CancelFlag::new();
    let (sender, outcome) = oneshot::channel();
    load.set_progress(0.0);
    let thread = std::thread::Builder::new().name("in-process-load".into()).spawn({
        let (load, cancel) = (load.clone(), cancel.clone());
        let order = load.spec.order(&inner.config.trust, inner.config.prefix_cache);
        move || {
            let outcome = load_model(&order, &mut |fraction| load.set_progress(fraction), &cancel);
            // Nobody waits any more: the model is dropped here.
            sender.send(outcome).ok();
        }
    });
    if let Err(error) = thread {
        return Err(WorkerError::Spawn { model: spec.model.clone(), reason: error.to_string() });
    }
    let loaded = tokio::select! {
        outcome = outcome => outcome.map_err(|_| WorkerError::Spawn { model: spec.model.clone(), reason: "the loading thread panicked".into() })?,
        () = load.cancel.cancelled() => {
            cancel.set();
            return Err(super::launch::given_up(spec));
        }
    };
    let failed = |failure: LoadFailure| WorkerError::Load {
        model: spec.model.clone(),
        plugin: spec.plugin_id.clone(),
        version: spec.plugin_version.clone(),
        failure: Box::new(failure),
    };
    let Loaded { engine, facts } = loaded.map_err(failed)?;
    let outlet = Arc::new(Direct::default());
    let server = Server::start(Arc::new(engine), outlet.clone())
        .map_err(|error| WorkerError::Spawn { model: spec.model.clone(), reason: error.to_string() })?;
    let server = Arc::new(server);
    // It shares the host's memory and cannot be measured apart: the estimate stays.
    claim.measured(Stats { rss_bytes: spec.estimate.host_bytes, ..Stats::default() });
    claim.loaded();
    let stop = inner.cancel.child_token();
    let ready = Ready { facts, stats: Stats::default(), confinement: None };
    let instance = Instance::new(entry, spec.clone(), ready, None, Link::Thread(server.clone()), stop);
    // Set once, before the first request can be sent.
    outlet.0.set(Arc::downgrade(&instance)).ok();
    inner.handle.spawn(keep(instance.clone(), server, entry.clone(), Arc::downgrade(inner), inner.config.clone(), claim));
    Ok(instance)
}

async fn keep(
    instance: Arc<Instance>,
    server: Arc<Server>,
    entry: Arc<Entry>,
    inner: Weak<Inner>,
    config: Arc<SupervisorConfig>,
    claim: Claim,
) {
    let spec = &instance.spec;
    let stall = config.step_stall;
    let mut look = interval(LOOK.min(stall / 4).max(Duration::from_millis(10)));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let error = loop {
        tokio::select! {
            () = instance.stop.cancelled() => break None,
            _ = look.tick() => {
                let gauge = server.engine().gauge();
                let load = gauge.load();
                instance.measured(Stats { active: load.active, waiting: load.waiting, progress: gauge.progress().steps, ..Stats::default() });
                if let Health::Failed(error) = gauge.health() {
                    break Some(WorkerError::Died(Box::new(Death {
                        model: spec.model.clone(),
                        plugin: spec.plugin_id.clone(),
                        plugin_version: spec.plugin_version.clone(),
                        pid: std::process::id(),
                        cause: Cause::GaveUp(error.to_string()),
                        activity: instance.activity(),
                        last_lines: String::new(),
                        at: std::time::SystemTime::now(),
                    })));
                }
                if let Some(stalled) = instance.stalled(stall) {
                    break Some(WorkerError::Hang(Box::new(Hang {
                        model: spec.model.clone(),
                        plugin: spec.plugin_id.clone(),
                        plugin_version: spec.plugin_version.clone(),
                        activity: instance.activity(),
                        stalled,
                        last_lines: String::new(),
                    })));
                }
            }
        }
    };
    match error {
        Some(error) => lost(&entry, &instance, &inner, &error),
        None => {
            instance.calls.end(&WorkerError::Draining { model: spec.model.clone(), reason: "it was unloaded while the request ran".into() })
        }
    }
    // The instance may be held by a late lease; the engine must not wait for that.
    instance.unlink();
    let (done, stopped) = oneshot::channel();
    let stopper = std::thread::Builder::new().name("in-process-stop".into()).spawn(move || {
        // Waits for the step that is being computed.
        drop(server);
        done.send(()).ok();
    });
    if stopper.is_err() || timeout(config.unload_patience, stopped).await.is_err() {
        tracing::error!(model = spec.model, "an engine inside the host does not stop; its threads and memory stay until the host ends");
    }
    drop(claim);
    instance.set_ended();
    if let Some(inner) = inner.upgrade() {
        inner.freed.notify_one();
    }
}
