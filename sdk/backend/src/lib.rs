//! Write a backend plugin for onebit-host in safe Rust.
//!
//! A plugin is a `cdylib` with one type that implements [`Plugin`] and one line, [`export_plugin!`]. The macro emits the ELF note that a
//! host reads before it loads anything, both doors (the abi_stable root module and the C function), and a guard around every entry: a
//! panic becomes a status with its message and never crosses the border.
//!
//! ```
//! use onebit_sdk::*;
//!
//! struct Mine;
//!
//! impl Plugin for Mine {
//!     fn new(host: Host) -> Result<Self, Error> {
//!         host.log(Level::Info, "mine", "ready");
//!         Ok(Self)
//!     }
//!     fn info(&self) -> Info {
//!         Info { computes_with: "patience".into(), facts: Vec::new() }
//!     }
//!     fn probe(&self, devices: &[Device]) -> Vec<ProbeReport> {
//!         let judge = |device: &Device| match device.kind {
//!             DeviceKind::Cpu => ProbeReport::usable(100, MemoryKinds { host: true, device: false }),
//!             _ => ProbeReport::refused(Reason::WrongKind, "mine computes on the CPU"),
//!         };
//!         devices.iter().map(judge).collect()
//!     }
//!     fn fit(&self, _: &FitRequest<'_>) -> Result<Fit, Error> {
//!         Ok(Fit::refused(Reason::UnsupportedModel, "mine knows no model yet"))
//!     }
//!     fn open(&self, _: &OpenRequest<'_>, _: &mut dyn FnMut(f32), _: Cancel<'_>) -> Result<Box<dyn Model>, Error> {
//!         Err(Error::unsupported("mine knows no model yet"))
//!     }
//! }
//!
//! export_plugin!(Mine, { id: "mine", version: "0.1.0", capabilities: [FORWARD, TOKENIZE], licence: "MIT" });
//! # fn main() {}
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
mod rerank;
mod tokenize;

pub use device::{Device, DeviceKind, MemoryKinds, ProbeReport, Reason};
pub use embed::{EmbedLimits, Embedder};
pub use error::Error;
pub use forward::{Allocation, Batch, Forward, ForwardLimits, Input, Session, SessionArgs};
pub use host::{Host, Level};
pub use plugin::{Cancel, Fit, FitRequest, Info, Model, ModelDescription, OpenRequest, Options, Plugin, Verdict};
pub use rerank::{RerankLimits, Reranker};
pub use tokenize::{Encode, TokenInfo, Tokenizer, Vocabulary};

/// Capability id of [`Forward`].
pub const FORWARD: &str = onebit_plugin_api::ONEBIT_FORWARD_1;
/// Capability id of [`Tokenizer`].
pub const TOKENIZE: &str = onebit_plugin_api::ONEBIT_TOKENIZE_1;
/// Capability id of [`Embedder`].
pub const EMBED: &str = onebit_plugin_api::ONEBIT_EMBED_1;
/// Capability id of [`Reranker`].
pub const RERANK: &str = onebit_plugin_api::ONEBIT_RERANK_1;
