//! What a plugin's failure looks like to the host: the typed status, its numbers and the plugin's sentence.

use onebit_plugin_api as abi;
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// A status number of the ABI. Numbers that this host does not know are kept and named `unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Status(pub u32);

/// One row per status: number, constant, name.
macro_rules! statuses {
    ($($name:ident = $abi:ident, $text:literal;)*) => {
        impl Status {
            $(
                #[doc = concat!("`", stringify!($abi), "`")]
                pub const $name: Self = Self(abi::$abi);
            )*

            /// Stable name, for messages and metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    _ => "unknown",
                }
            }
        }
    };
}

statuses! {
    OK = ONEBIT_OK, "ok";
    INVALID_ARGUMENT = ONEBIT_INVALID_ARGUMENT, "invalid_argument";
    UNSUPPORTED = ONEBIT_UNSUPPORTED, "unsupported";
    CORRUPT_MODEL = ONEBIT_CORRUPT_MODEL, "corrupt_model";
    IO = ONEBIT_IO, "io";
    CONTEXT_OVERFLOW = ONEBIT_CONTEXT_OVERFLOW, "context_overflow";
    OUT_OF_DEVICE_MEMORY = ONEBIT_OUT_OF_DEVICE_MEMORY, "out_of_device_memory";
    OUT_OF_HOST_MEMORY = ONEBIT_OUT_OF_HOST_MEMORY, "out_of_host_memory";
    BUSY = ONEBIT_BUSY, "busy";
    CANCELLED = ONEBIT_CANCELLED, "cancelled";
    DEVICE_LOST = ONEBIT_DEVICE_LOST, "device_lost";
    DEVICE_UNAVAILABLE = ONEBIT_DEVICE_UNAVAILABLE, "device_unavailable";
    INTERNAL = ONEBIT_INTERNAL, "internal";
    PANIC = ONEBIT_PANIC, "panic";
    ABI_MISMATCH = ONEBIT_ABI_MISMATCH, "abi_mismatch";
    BUFFER_TOO_SMALL = ONEBIT_BUFFER_TOO_SMALL, "buffer_too_small";
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.name() {
            "unknown" => write!(f, "unknown status {}", self.0),
            name => f.write_str(name),
        }
    }
}

/// A call into a plugin failed, or the plugin broke the contract (then `status` is [`Status::INTERNAL`] and the message says which rule).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{status}: {message}")]
pub struct PluginError {
    /// What kind of failure.
    pub status: Status,
    /// What there is; unit depends on `status` (positions, ABI minors, buffer units).
    pub have: u64,
    /// What was needed; unit as `have`.
    pub need: u64,
    /// Bytes asked for.
    pub want: u64,
    /// Bytes free.
    pub free: u64,
    /// Milliseconds after which to try again, for [`Status::BUSY`].
    pub retry_ms: u64,
    /// One sentence for a person.
    pub message: String,
}

impl PluginError {
    /// A failure without numbers.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, have: 0, need: 0, want: 0, free: 0, retry_ms: 0, message: message.into() }
    }

    /// The plugin broke the contract: which rule.
    pub(crate) fn broken(rule: impl core::fmt::Display) -> Self {
        Self::new(Status::INTERNAL, format!("the plugin broke the contract: {rule}"))
    }
}

/// A plugin that passed [`inspect`](crate::inspect()) could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The dynamic linker refused the library.
    #[error("plugin {id}: the dynamic linker refused {path}: {reason}")]
    Open {
        /// The plugin.
        id: String,
        /// Its library.
        path: String,
        /// The linker's words.
        reason: String,
    },
    /// What the library holds does not agree with this host or with its own note.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The plugin's entry function refused the host.
    #[error("plugin {id} refused to start: {error}")]
    Entry {
        /// The plugin.
        id: String,
        /// Its words.
        error: PluginError,
    },
}
