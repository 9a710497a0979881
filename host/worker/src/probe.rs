//! Asking plugins what they can do, where their crash is a value.
//!
//! ```text
//! prober ─ memory ─ cache (disk) ─ ask ══socket══▶ child: `onebit-host probe`: dlopen, one question, one answer, end
//! ```
//!
//! The host never loads a plugin to look at it. Each question runs in a process of its own with a time limit; the answer, a crash or a hang
//! is remembered under the hash of everything it depends on, so that a host with a warm cache starts no process at all.

mod ask;
mod cache;
mod child;
mod fingerprint;
pub(crate) mod fuzzing;
mod hashes;
mod message;
mod prober;

pub use ask::ProbeConfig;
pub use child::probe_main;
pub use message::Probed;
pub(crate) use prober::FitAsked;
pub use prober::{Failure, Prober, Remembered};
