//! Worker processes: the protocol between host and worker, the worker itself, and the supervisor that keeps workers.
//!
//! A plugin is foreign code. It runs in a process of its own, where its crash is a value ([`Death`]), its hang has an end, and its memory comes
//! back as a whole. The front process holds [`Lease`]s and never maps a plugin.

pub mod child;
mod death;
mod error;
#[doc(hidden)]
pub mod fuzzing {
    //! What the fuzz targets in `tests/fuzz` need. Not an interface: it may change with any commit.
    pub use crate::probe::fuzzing::probe_answer;
}
pub mod host;
pub mod probe;
pub mod protocol;
mod spec;
mod supervisor;
#[cfg(test)]
mod testing;

pub use death::{Cause, Death, Hang};
pub use error::WorkerError;
pub use host::{Host, HostConfig, HostError, LeaseOptions, ModelState, ModelSummary, PluginOutcome, PluginReport};
/// What models are made of.
pub use onebit_catalog::{Chat, Defaults, Purpose, Recipe, ShelfError, Weights, check_name};
pub use onebit_confine::SandboxConfig;
/// For whoever shows people what workers, plugins and model files say.
pub use onebit_loader::one_line;
pub use onebit_sandbox::Confinement;
pub use spec::{Isolation, KeepAlive, LaunchSpec, MemoryEstimate};
pub use supervisor::{
    Crash, Generation, Lease, Lifecycle, RestartPolicy, Supervisor, SupervisorConfig, UnloadReason, WorkerState, WorkerStatus,
};
