//! What a call can end with. Numbers are stable for ever; details travel in [`OnebitError`].

use crate::basic::OnebitStr;

/// Result of every call.
pub type OnebitStatus = u32;

/// Done.
pub const ONEBIT_OK: OnebitStatus = 0;
/// The caller broke a rule of the contract (null where not allowed, index out of range).
pub const ONEBIT_INVALID_ARGUMENT: OnebitStatus = 1;
/// Understood, and this plugin, model or device cannot do it.
pub const ONEBIT_UNSUPPORTED: OnebitStatus = 2;
/// The model file is damaged or is not what it says.
pub const ONEBIT_CORRUPT_MODEL: OnebitStatus = 3;
/// A file could not be opened or read.
pub const ONEBIT_IO: OnebitStatus = 4;
/// More positions than the context holds. `have` = positions there are, `need` = positions asked for.
pub const ONEBIT_CONTEXT_OVERFLOW: OnebitStatus = 5;
/// `want` and `free` in bytes, as far as the driver tells.
pub const ONEBIT_OUT_OF_DEVICE_MEMORY: OnebitStatus = 6;
/// `want` and `free` in bytes, as far as the system tells.
pub const ONEBIT_OUT_OF_HOST_MEMORY: OnebitStatus = 7;
/// Try again after `retry_ms`.
pub const ONEBIT_BUSY: OnebitStatus = 8;
/// The cancel flag was seen.
pub const ONEBIT_CANCELLED: OnebitStatus = 9;
/// The device stopped answering; the process must be replaced.
pub const ONEBIT_DEVICE_LOST: OnebitStatus = 10;
/// The device that was asked for cannot be used. Never answered by computing elsewhere.
pub const ONEBIT_DEVICE_UNAVAILABLE: OnebitStatus = 11;
/// A fault inside the plugin that has no better name.
pub const ONEBIT_INTERNAL: OnebitStatus = 12;
/// A panic was caught at the plugin's border.
pub const ONEBIT_PANIC: OnebitStatus = 13;
/// The other side is too old or too new for this call. `have` and `need` are ABI minors.
pub const ONEBIT_ABI_MISMATCH: OnebitStatus = 14;
/// The caller's buffer is too small. `have` = its size, `need` = the size to come back with, in the unit of the buffer.
pub const ONEBIT_BUFFER_TOO_SMALL: OnebitStatus = 15;

/// Details of a failure. Borrowed for the call of [`report_error`](crate::host::OnebitHost::report_error); the host copies.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitError {
    /// `sizeof(OnebitError)` of the plugin.
    pub struct_size: usize,
    /// Same number that the call returns.
    pub code: OnebitStatus,
    /// Zero.
    pub reserved: u32,
    /// What there is; unit depends on `code`.
    pub have: u64,
    /// What was needed; unit depends on `code`.
    pub need: u64,
    /// Bytes asked for.
    pub want: u64,
    /// Bytes free.
    pub free: u64,
    /// When to try again, for `BUSY`.
    pub retry_ms: u64,
    /// One sentence for a person: what happened, to what.
    pub message: OnebitStr,
}
