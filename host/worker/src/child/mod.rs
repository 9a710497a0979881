//! The worker process: maps one plugin, opens one model, answers over one socket, and ends.
//!
//! It trusts nothing it maps. The plugin's stdout and stderr are logs; the protocol runs over a descriptor that no plugin is told of. When the
//! host is gone the worker is gone, at once, even if the plugin hangs. It is the same program as the host, so the two always speak the same
//! protocol; should they not, the greeting says so.
//!
//! | file | idea |
//! |---|---|
//! | `process` | moves the descriptors, ties the life to the host's |
//! | `logging` | log lines as JSON on stderr |
//! | `opening` | greeting and order, before there is a second thread |
//! | `inbox`, `outbox` | the thread that reads the socket; how it is written |
//! | `load` | plugin, model, engine |
//! | `refusals` | what the sandbox refused, in the log |
//! | `serve` | requests to the engine, events back |

mod inbox;
mod load;
mod logging;
mod opening;
mod outbox;
mod process;
mod refusals;
mod serve;

use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onebit_loader::{CancelFlag, PluginFile};
use onebit_sandbox::Confinement;

pub(crate) use load::{Loaded, load};
pub(crate) use serve::{Outlet, Server};

use crate::protocol::{FromWorker, Hello, LoadFailure, LoadOrder, Stats, ToWorker};
use inbox::Inbox;
use onebit_confine::SandboxConfig;
use opening::Opening;
use outbox::Outbox;

/// How often the host hears of a load's progress at most.
const PROGRESS: Duration = Duration::from_millis(100);

/// What keeps a worker from serving at all. It goes to stderr, where the host finds it.
#[derive(Debug, thiserror::Error)]
enum ChildError {
    #[error("this command is started by onebit-host itself; descriptor 0 is not its socket: {0}")]
    NoSocket(std::io::Error),
    #[error("{what}: {error}")]
    System { what: &'static str, error: std::io::Error },
    #[error("the host greeted with {theirs:?}, this worker is {ours:?}: the program was replaced while the host ran; restart the host")]
    Build { ours: Box<Hello>, theirs: Box<Hello> },
    #[error("the host did not say what to load: {0}")]
    NoOrder(String),
}

/// The whole life of a worker process. The host's socket is descriptor 0.
///
/// Call it first thing in `main`: it moves stdin and stdout away and installs the log.
#[must_use]
pub fn worker_main() -> ExitCode {
    let socket = match process::settle() {
        Ok(socket) => socket,
        Err(error) => {
            // No log yet; stderr is all there is.
            eprintln!("onebit-host worker: {error}");
            return ExitCode::from(2);
        }
    };
    logging::install();
    match run(socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut socket: UnixStream) -> Result<(), ChildError> {
    let system = |what| move |error| ChildError::System { what, error };
    let Opening { order, sandbox, decoder } = Opening::with(&mut socket)?;
    // Still one thread: from here on the process can do no more than the plugin may.
    let prepared = prepare(&order, &sandbox);
    let reading = socket.try_clone().map_err(system("the socket cannot be shared between threads"))?;
    let outbox = Outbox::start(socket).map_err(system("the writing thread cannot be started"))?;
    let cancel = CancelFlag::new();
    let inbox = Inbox::start(reading, decoder, cancel.clone()).map_err(system("the reading thread cannot be started"))?;
    serve_order(&order, prepared, &inbox, &outbox, &cancel);
    outbox.close();
    Ok(())
}

/// A plugin whose files are checked, and what confines the process that will map it.
struct Prepared {
    file: PluginFile,
    confinement: Option<Confinement>,
}

fn prepare(order: &LoadOrder, sandbox: &SandboxConfig) -> Result<Prepared, LoadFailure> {
    let inspection = load::inspect(order)?;
    let devices = std::slice::from_ref(&order.device);
    let confinement = sandbox.enter(&inspection, Some(&order.model_path), devices, None).map_err(|error| load::unconfined(&error))?;
    Ok(Prepared { file: inspection.file, confinement })
}

fn serve_order(order: &LoadOrder, prepared: Result<Prepared, LoadFailure>, inbox: &Inbox, outbox: &Outbox, cancel: &CancelFlag) {
    tracing::info!(plugin = order.plugin_id, device = order.device.id, "loading");
    let outlet = outbox.outlet();
    let mut told: Option<Instant> = None;
    let mut progress = |fraction| {
        // A plugin may speak as often as it likes; the host hears ten times a second.
        if told.is_none_or(|at| at.elapsed() >= PROGRESS) {
            told = Some(Instant::now());
            outlet.push(FromWorker::LoadProgress { fraction });
            outlet.flush();
        }
    };
    let loaded = prepared.and_then(|Prepared { file, confinement }| Ok((load::open(&file, order, &mut progress, cancel)?, confinement)));
    let (Loaded { engine, facts }, confinement) = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => {
            refusals::tell();
            tracing::error!(status = failure.status, "{}", failure.message);
            outlet.push(FromWorker::LoadFailed(failure));
            return;
        }
    };
    let engine = Arc::new(engine);
    outbox.watch(engine.gauge());
    let server = match Server::start(engine, outlet.clone()) {
        Ok(server) => server,
        Err(error) => {
            outlet.push(FromWorker::LoadFailed(load::engine_failure("internal", format!("a thread cannot be started: {error}"))));
            return;
        }
    };
    let sandbox = confinement.as_ref().map_or_else(|| "exempted".to_owned(), ToString::to_string);
    tracing::info!(context = facts.context, slots = facts.slots, sandbox, "ready");
    outlet.push(FromWorker::Ready { facts: Box::new(facts), stats: Stats { progress: 0, ..process::measure() }, confinement });
    outlet.flush();
    while let Some(message) = inbox.next() {
        if matches!(message, ToWorker::Shutdown) {
            break;
        }
        server.handle(message);
    }
    refusals::tell();
    tracing::info!("ending");
}
