//! Checks plugins, loads them, and gives the host safe handles to what they made.
//!
//! Order of the checks, each of which can only refuse: file and path → `plugin.toml` → the ELF note → needed libraries ([`inspect()`], no
//! code of the plugin runs) → `dlopen` → the door (layout check or C symbol) → the plugin's table ([`Plugin::load`]).
//!
//! This is the only crate of the host with `unsafe`: beyond it, what a plugin returns is checked data. What it must never do: unload a
//! library, trust a number that a plugin returned, load a plugin in the front process (a crash of a plugin is the crash of its process).

pub mod bare;
mod beside;
pub mod check;
pub mod devices;
mod door;
mod elf;
mod embedder;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod inspect;
mod ld_cache;
mod model;
mod needed;
mod note;
mod plugin;
mod plugin_toml;
mod raw;
mod refusal;
mod refused_calls;
mod reranker;
mod session;
mod sink;
mod text;
mod tokenizer;
pub mod trust;
mod types;

pub use door::Door;
pub use embedder::Embedder;
pub use error::{LoadError, PluginError, Status};
pub use inspect::{Inspection, PluginFile, inspect, inspect_under};
pub use model::{ForwardModel, Model};
pub use note::{Note, NoteError};
pub use plugin::Plugin;
pub use plugin_toml::{Needs, OptionKind, OptionSpec, PluginToml, is_plugin_id};
pub use refusal::{Refusal, RefusalRow};
pub use refused_calls::{count_refused_calls, refused_calls};
pub use reranker::Reranker;
pub use session::{Logits, Session};
pub use sink::{HostSink, LogLevel, Sink};
pub use text::one_line;
pub use tokenizer::Tokenizer;
pub use types::{
    Allocation, Batch, CancelFlag, EmbedLimits, Encode, Fit, FitRequest, ForwardLimits, Info, Input, ModelDescription, OpenRequest,
    ProbeReport, Reason, RerankLimits, SessionArgs, TokenInfo, Vocabulary,
};

/// ABI major this host speaks.
pub const ABI_MAJOR: u32 = onebit_plugin_api::ONEBIT_ABI_MAJOR;
/// Highest ABI minor this host speaks.
pub const ABI_MINOR: u32 = onebit_plugin_api::ONEBIT_ABI_MINOR;
