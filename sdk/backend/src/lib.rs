//! Write a backend plugin for onebit-host in safe Rust.
//!
//! A plugin is a `cdylib` with one type that implements [`Plugin`] and one line, [`export_plugin!`]. The macro emits the ELF note that a
//! host reads before it loads anything, both doors (the abi_stable root module and the C function), and a guard around every entry: a
//! panic becomes a status with its message and never crosses the border.
//!
//! ```ignore
//! struct Mine { host: Host }
//! impl Plugin for Mine { /* new, info, probe, fit, open */ }
//! onebit_sdk::export_plugin!(Mine, {
//!     id: "mine",
//!     version: env!("CARGO_PKG_VERSION"),
//!     capabilities: [onebit_sdk::FORWARD, onebit_sdk::TOKENIZE],
//!     licence: "MIT",
//! });
//! ```
//!
//! What is allowed on which thread follows from the traits: a [`Model`] is shared between threads, a [`Session`] moves between them but
//! is used by one at a time. What this crate must never do: know the host, write to a file descriptor, let a panic out.

mod device;
mod embed;
mod error;
#[doc(hidden)]
pub mod export;
mod forward;
mod host;
mod plugin;
mod tokenize;

pub use device::{Device, DeviceKind, MemoryKinds, ProbeReport, Reason};
pub use embed::{EmbedLimits, Embedder};
pub use error::Error;
pub use forward::{Allocation, Batch, Forward, ForwardLimits, Input, Session, SessionArgs};
pub use host::{Host, Level};
pub use plugin::{Cancel, Fit, FitRequest, Info, Model, ModelDescription, OpenRequest, Options, Plugin, Verdict};
pub use tokenize::{Encode, TokenInfo, Tokenizer, Vocabulary};

/// Capability id of [`Forward`].
pub const FORWARD: &str = onebit_plugin_api::ONEBIT_FORWARD_1;
/// Capability id of [`Tokenizer`].
pub const TOKENIZE: &str = onebit_plugin_api::ONEBIT_TOKENIZE_1;
/// Capability id of [`Embedder`].
pub const EMBED: &str = onebit_plugin_api::ONEBIT_EMBED_1;
