//! Checks plugins, loads them, and gives the host safe handles to what they made.
//!
//! Order of the checks, each of which can only refuse: file and path → `plugin.toml` → the ELF note → needed libraries ([`inspect()`], no
//! code of the plugin runs) → `dlopen` → the door (layout check or C symbol) → the plugin's table ([`Plugin::load`]).
//!
//! This is the only crate of the host with `unsafe`: beyond it, what a plugin returns is checked data. What it must never do: unload a
//! library, trust a number that a plugin returned, load a plugin in the front process (a crash of a plugin is the crash of its process).

pub mod devices;
mod error;
mod inspect;
mod model;
mod note;
mod plugin;
mod plugin_toml;
mod refusal;
mod session;
mod sink;
mod types;

pub use error::{LoadError, PluginError, Status};
pub use inspect::{Inspection, PluginFile, inspect};
pub use model::{Embedder, ForwardModel, Model, Tokenizer};
pub use note::{Note, NoteError};
pub use plugin::{Door, Plugin};
pub use plugin_toml::{OptionKind, OptionSpec, PluginToml};
pub use refusal::{Refusal, RefusalRow};
pub use session::{Logits, Session};
pub use sink::{HostSink, LogLevel, Sink};
pub use types::{
    Allocation, Batch, CancelFlag, EmbedLimits, Encode, Fit, FitRequest, ForwardLimits, Info, Input, ModelDescription, OpenRequest,
    ProbeReport, Reason, SessionArgs, TokenInfo, Vocabulary,
};

/// ABI major this host speaks.
pub const ABI_MAJOR: u32 = onebit_plugin_api::ONEBIT_ABI_MAJOR;
/// Highest ABI minor this host speaks.
pub const ABI_MINOR: u32 = onebit_plugin_api::ONEBIT_ABI_MINOR;
