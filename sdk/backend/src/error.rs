//! Why a call failed, with the numbers that belong to it.
//!
//! One constructor per status, so that a number which the host shows to a person (positions, bytes) cannot be forgotten. The message is
//! one sentence: what happened, to what.

use onebit_plugin_api as abi;

/// A failure on its way to the host. Made by the constructors below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub(crate) code: abi::OnebitStatus,
    pub(crate) have: u64,
    pub(crate) need: u64,
    pub(crate) want: u64,
    pub(crate) free: u64,
    pub(crate) retry_ms: u64,
    pub(crate) message: String,
}

impl Error {
    fn plain(code: abi::OnebitStatus, message: impl Into<String>) -> Self {
        Self { code, have: 0, need: 0, want: 0, free: 0, retry_ms: 0, message: message.into() }
    }

    /// The caller broke a rule of the contract.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::plain(abi::ONEBIT_INVALID_ARGUMENT, message)
    }

    /// Understood, and this plugin, model or device cannot do it.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::plain(abi::ONEBIT_UNSUPPORTED, message)
    }

    /// The model file is damaged or is not what it says.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::plain(abi::ONEBIT_CORRUPT_MODEL, message)
    }

    /// A file could not be opened or read.
    pub fn io(message: impl Into<String>) -> Self {
        Self::plain(abi::ONEBIT_IO, message)
    }

    /// More positions than the context holds: `have` there are, `need` were asked for.
    pub fn context_overflow(have: u64, need: u64) -> Self {
        let message = format!("the context holds {have} positions, {need} are needed");
        Self { have, need, ..Self::plain(abi::ONEBIT_CONTEXT_OVERFLOW, message) }
    }

    /// No device memory: bytes asked for, bytes free as far as the driver tells (0 = unknown).
    pub fn out_of_device_memory(want: u64, free: u64, message: impl Into<String>) -> Self {
        Self { want, free, ..Self::plain(abi::ONEBIT_OUT_OF_DEVICE_MEMORY, message) }
    }

    /// No host memory: bytes asked for, bytes free as far as the system tells (0 = unknown).
    pub fn out_of_host_memory(want: u64, free: u64, message: impl Into<String>) -> Self {
        Self { want, free, ..Self::plain(abi::ONEBIT_OUT_OF_HOST_MEMORY, message) }
    }

    /// Try again after `retry_ms` milliseconds.
    pub fn busy(retry_ms: u64, message: impl Into<String>) -> Self {
        Self { retry_ms, ..Self::plain(abi::ONEBIT_BUSY, message) }
    }

    /// The cancel flag was seen.
    pub fn cancelled() -> Self {
        Self::plain(abi::ONEBIT_CANCELLED, "cancelled")
    }

    /// The device stopped answering; the host will replace the process.
    pub fn device_lost(message: impl Into<String>) -> Self {
        Self::plain(abi::ONEBIT_DEVICE_LOST, message)
    }

    /// The device that was asked for cannot be used.
    pub fn device_unavailable(message: impl Into<String>) -> Self {
        Self::plain(abi::ONEBIT_DEVICE_UNAVAILABLE, message)
    }

    /// A fault inside the plugin that has no better name.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::plain(abi::ONEBIT_INTERNAL, message)
    }

    /// The other side is too old or too new for this call: `have` and `need` are ABI minors.
    pub fn abi_mismatch(have: u32, need: u32, message: impl Into<String>) -> Self {
        Self { have: have.into(), need: need.into(), ..Self::plain(abi::ONEBIT_ABI_MISMATCH, message) }
    }

    /// The caller's buffer is too small, in the unit of the buffer.
    pub fn buffer_too_small(have: u64, need: u64) -> Self {
        let message = format!("the buffer holds {have}, {need} are needed");
        Self { have, need, ..Self::plain(abi::ONEBIT_BUFFER_TOO_SMALL, message) }
    }

    pub(crate) fn panic(message: impl Into<String>) -> Self {
        Self::plain(abi::ONEBIT_PANIC, message)
    }

    /// The status number, as in the ABI.
    pub fn code(&self) -> abi::OnebitStatus {
        self.code
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::io(error.to_string())
    }
}
