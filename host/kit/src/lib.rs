//! The conformance kit: what the contract promises, tested from the host's side against any plugin.
//!
//! One static table of cases ([`cases::all`]), each a law in a sentence and a function. Each runs in a process of its own, so that a crash, a
//! hang or an exit is the result of one case and of no other. [`fuzz::fuzz`] tries random operations on sequences and makes what fails small.
//!
//! Depends on the loader and the sandbox alone: what the kit sees and allows is what a host sees and allows. What it must never do: load a plugin in the process of its caller
//! (except by [`run_here`], for a debugger), know any plugin by name, or pass what it did not look at. A case that cannot be run is
//! skipped, and says why.

mod bench;
mod case;
pub mod cases;
mod child;
pub mod fuzz;
mod measure;
mod message;
mod page;
mod process;
mod rows;
mod run;

pub use case::{Case, Need, Number, State, Verdict};
pub use child::kit_case_main;
pub use message::{Setup, Way};
pub use page::page;
pub use process::{Program, ROLE};
pub use run::{Plan, Result as CaseResult, run, run_here, select};

/// How far two distributions may be apart and count as the same, where nothing else is said, in nats of relative entropy.
///
/// Batches of another size run other kernels, and state that lies elsewhere is added up in another order. On 4-bit weights, where activations
/// are rounded to 8 bits, that has been measured at up to 0.16. One token that is lost, doubled or at a wrong place is whole nats away in at
/// least one row.
pub const TOLERANCE: f64 = 0.5;

/// The kit itself could not do its work: says nothing about the plugin.
#[derive(Debug, thiserror::Error)]
pub enum KitError {
    /// A process could not be started or spoken to.
    #[error("cannot {doing}: {error}")]
    Process {
        /// What failed.
        doing: &'static str,
        /// Why.
        error: std::io::Error,
    },
    /// A message could not be written.
    #[error("cannot write a message for a process: {0}")]
    Message(String),
}
