//! What the host gives to a plugin. Every function may be called from any thread of the plugin, at any time until the process ends.

use core::ffi::c_void;

use crate::basic::OnebitStr;
use crate::status::OnebitError;

/// Log levels of [`OnebitHost::log`].
pub const ONEBIT_LOG_ERROR: u32 = 1;
/// Something a person should know.
pub const ONEBIT_LOG_WARN: u32 = 2;
/// Milestones.
pub const ONEBIT_LOG_INFO: u32 = 3;
/// For the author of the plugin.
pub const ONEBIT_LOG_DEBUG: u32 = 4;

/// The host's table. Lives until the process ends. A null function is not offered: check before the call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitHost {
    /// `sizeof(OnebitHost)` of the host.
    pub struct_size: usize,
    /// ABI major of the host.
    pub abi_major: u32,
    /// ABI minor of the host.
    pub abi_minor: u32,
    /// First argument of every function here.
    pub ctx: *mut c_void,
    /// `level`, the part of the plugin that speaks, one line without a line end. Texts are borrowed for the call.
    pub log: Option<unsafe extern "C" fn(ctx: *mut c_void, level: u32, target: OnebitStr, message: OnebitStr)>,
    /// Adds to a counter. The host prefixes the name with the plugin's id.
    pub metric_add: Option<unsafe extern "C" fn(ctx: *mut c_void, name: OnebitStr, value: f64)>,
    /// Sets a gauge. The host prefixes the name with the plugin's id.
    pub metric_set: Option<unsafe extern "C" fn(ctx: *mut c_void, name: OnebitStr, value: f64)>,
    /// Monotonic clock, nanoseconds.
    pub now_ns: Option<unsafe extern "C" fn(ctx: *mut c_void) -> u64>,
    /// States why the call in progress on this thread is about to fail. The last report before the return counts.
    pub report_error: Option<unsafe extern "C" fn(ctx: *mut c_void, error: *const OnebitError)>,
}
