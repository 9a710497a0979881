//! The supervisor's settings: limits and patience. Every number a person may want to change is here and nowhere else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use onebit_loader::trust::Trust;

use onebit_confine::SandboxConfig;

/// Limits and patience. `Default` is what `onebit-host serve` uses.
#[derive(Debug, Clone)]
pub struct SupervisorConfig {
    /// The program that becomes a worker; `None` = this very program, even if its file was replaced meanwhile.
    pub exe: Option<PathBuf>,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// How much proof of its origin a plugin must bring to be loaded.
    pub trust: Trust,
    /// Requests that may wait for one model besides those being computed.
    pub max_queue: usize,
    /// Models loaded at a time; `None` = as many as fit.
    pub max_loaded: Option<usize>,
    /// Bytes all models together may use of the machine's memory; `None` = what the system has.
    pub memory_budget: Option<u64>,
    /// How long a load waits for busy models to become idle so that one can be evicted.
    pub memory_patience: Duration,
    /// How long a new worker may take until it greets.
    pub greeting_patience: Duration,
    /// How long a load may stand still.
    pub load_stall: Duration,
    /// How long a worker with requests may stand still.
    pub step_stall: Duration,
    /// How long running answers may go on when their model is unloaded or replaced.
    pub unload_patience: Duration,
    /// How long a worker has between the request to end and SIGTERM, and again until SIGKILL.
    pub stop_patience: Duration,
    /// State of requests that have ended is kept for those that begin alike.
    pub prefix_cache: bool,
    /// What the processes of plugins may do.
    pub sandbox: SandboxConfig,
    /// Crashes and backoff.
    pub restart: RestartPolicy,
}

impl Default for SupervisorConfig {
    fn default() -> Self {
        Self {
            exe: None,
            args: vec![OsString::from("worker")],
            trust: Trust::default(),
            max_queue: 512,
            max_loaded: None,
            memory_budget: None,
            memory_patience: Duration::from_secs(60),
            greeting_patience: Duration::from_secs(10),
            load_stall: Duration::from_secs(120),
            step_stall: Duration::from_secs(120),
            unload_patience: Duration::from_secs(30),
            stop_patience: Duration::from_secs(1),
            prefix_cache: true,
            sandbox: SandboxConfig::default(),
            restart: RestartPolicy::default(),
        }
    }
}

/// How a model that crashes is started again.
#[derive(Debug, Clone, Copy)]
pub struct RestartPolicy {
    /// Wait after the first crash; doubles with each further one.
    pub first_delay: Duration,
    /// Longest wait.
    pub longest_delay: Duration,
    /// So many crashes …
    pub crashes: usize,
    /// … within this time switch the model off …
    pub window: Duration,
    /// … for this long.
    pub open_for: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_millis(100),
            longest_delay: Duration::from_secs(30),
            crashes: 5,
            window: Duration::from_secs(60),
            open_for: Duration::from_secs(60),
        }
    }
}
