//! From settings to a [`Host`]: the catalog, the probes and the supervisor, without a server around them.

use std::time::Duration;

use onebit_catalog::KeepAlive;
use onebit_worker::{Host, HostConfig, SandboxConfig, SupervisorConfig};
use tokio::runtime::Runtime;

use super::{Invocation, catalog_paths};
use crate::exit::Failure;
use crate::settings::{PrefixCache, table};

/// What "forever" is to a clock: ten years.
pub const VERY_LONG: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// What a host is told, from the settings that all commands share.
pub fn config(invocation: &Invocation<'_>) -> Result<HostConfig, Failure> {
    let settings = &invocation.settings;
    let stall = settings.get(&table::STALL_TIMEOUT)?.0.unwrap_or(VERY_LONG);
    let paths = catalog_paths(invocation)?;
    Ok(HostConfig {
        plugin_dirs: paths.plugin_dirs,
        own_manifests: super::own_manifests(invocation)?,
        manifest_dirs: paths.manifest_dirs,
        models_dirs: paths.models_dirs,
        trust: paths.trust,
        cache_dir: Some(settings.get(&table::CACHE_DIR)?),
        device: settings.get(&table::DEVICE)?,
        context: settings.get(&table::CONTEXT)?,
        slots: settings.get(&table::SLOTS)?,
        threads: settings.get(&table::THREADS)?,
        keep_alive: match settings.get(&table::KEEP_ALIVE)?.0 {
            Some(span) => KeepAlive::For(span),
            None => KeepAlive::Forever,
        },
        supervisor: SupervisorConfig {
            max_queue: settings.get(&table::MAX_QUEUE)? as usize,
            max_loaded: settings.get(&table::MAX_LOADED)?.map(|count| count as usize),
            memory_budget: settings.get(&table::MEMORY_BUDGET)?.map(|bytes| bytes.0),
            load_stall: stall,
            step_stall: stall,
            prefix_cache: settings.get(&table::PREFIX_CACHE)? != PrefixCache::Off,
            sandbox: sandbox(invocation)?,
            ..SupervisorConfig::default()
        },
        ..HostConfig::default()
    })
}

/// What the processes of plugins may do.
pub fn sandbox(invocation: &Invocation<'_>) -> Result<SandboxConfig, Failure> {
    let settings = &invocation.settings;
    Ok(SandboxConfig {
        require: settings.get(&table::SANDBOX_REQUIRE)?,
        exempt: settings.get(&table::SANDBOX_EXEMPT)?,
        network: settings.get(&table::SANDBOX_NETWORK)?,
        read: settings.get(&table::SANDBOX_READ)?,
        memory: settings.get(&table::SANDBOX_MEMORY)?.map(|bytes| bytes.0),
        environment: settings.get(&table::SANDBOX_ENVIRONMENT)?,
        caches: Some(settings.get(&table::CACHE_DIR)?.join("plugins")),
    })
}

/// A runtime with few threads: the front only waits and copies, and each thread costs memory (a stack, an arena of the allocator). On one or
/// two cores, which a model needs both, a second thread is only woken to find nothing to do: three switches of threads for every token.
pub fn runtime() -> Result<Runtime, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.div_ceil(2).min(2))
        .max_blocking_threads(8)
        .thread_name("front")
        .enable_all()
        .build()
        .map_err(|error| Failure::io("start the runtime", &error))
}

/// A host on a runtime of its own. Looks through the folders; asks nobody yet.
pub fn with_runtime(config: HostConfig, runtime: Runtime) -> Result<(Runtime, Host), Failure> {
    let inside = runtime.enter();
    let host = Host::start(config)?;
    drop(inside);
    Ok((runtime, host))
}

/// A host for a command that only asks.
pub fn asking(invocation: &Invocation<'_>) -> Result<(Runtime, Host), Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| Failure::io("start the runtime", &error))?;
    with_runtime(config(invocation)?, runtime)
}
