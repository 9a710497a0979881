//! The plugin's table: who it is, what it thinks of a device and of a model file, and how to open one.

use core::ffi::{c_char, c_void};

use crate::basic::{OnebitKeyValue, OnebitStr};
use crate::device::{OnebitDevice, OnebitProbeReport};
use crate::host::OnebitHost;
use crate::status::OnebitStatus;

/// A loaded model. Made by `open`, ended by `close`.
#[repr(C)]
pub struct OnebitModel {
    _opaque: [u8; 0],
}

/// Who the plugin is. All texts live until the process ends.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitInfo {
    /// `sizeof(OnebitInfo)` of the host.
    pub struct_size: usize,
    /// Same id as in the note and in `plugin.toml`.
    pub id: OnebitStr,
    /// Semantic version.
    pub version: OnebitStr,
    /// What it computes with, one line: `llama.cpp b11434, ggml 0.26.0`.
    pub computes_with: OnebitStr,
    /// Build facts: library versions, CPU features, shader features.
    pub facts: *const OnebitKeyValue,
    /// Entries of `facts`.
    pub n_facts: usize,
}

/// Input of `probe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitProbeArgs {
    /// `sizeof(OnebitProbeArgs)` of the host.
    pub struct_size: usize,
    /// `n_devices` pointers, borrowed for the call.
    pub devices: *const *const OnebitDevice,
    /// Entries of `devices`.
    pub n_devices: usize,
}

/// Output of `probe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitProbeOut {
    /// `sizeof(OnebitProbeOut)` of the host.
    pub struct_size: usize,
    /// One report per device, in the order asked. Owned by the plugin, valid until the next `probe`.
    pub reports: *const *const OnebitProbeReport,
    /// Entries of `reports`; must equal `n_devices`.
    pub n_reports: usize,
}

/// Input of `fit`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitFitArgs {
    /// `sizeof(OnebitFitArgs)` of the host.
    pub struct_size: usize,
    /// Path of the model file or folder.
    pub path: OnebitStr,
    /// The device it would run on.
    pub device: *const OnebitDevice,
    /// Positions in all sequences together; 0 = the trained context.
    pub context: u32,
    /// Sequences at a time; 0 = 1.
    pub sequences: u32,
    /// Settings of this plugin, from the manifest.
    pub options: *const OnebitKeyValue,
    /// Entries of `options`.
    pub n_options: usize,
}

/// Output of `fit`: an estimate from the file's header; no weight is read. Sizes in bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitFitOut {
    /// `sizeof(OnebitFitOut)` of the host.
    pub struct_size: usize,
    /// 1 = can serve, 0 = not, for `reason`.
    pub usable: u32,
    /// One of `ONEBIT_REASON_*`.
    pub reason_code: u32,
    /// One sentence for a person. Lives until the next `fit` on this thread.
    pub reason: OnebitStr,
    /// `general.architecture` or its like. Same lifetime.
    pub architecture: OnebitStr,
    /// The most used weight type. Same lifetime.
    pub quantisation: OnebitStr,
    /// Weights in host memory.
    pub weights_host: u64,
    /// Weights in device memory.
    pub weights_device: u64,
    /// State for `context` positions and `sequences` sequences, where the model computes.
    pub state: u64,
    /// Of `state`, what one position costs; 0 for recurrent models.
    pub state_per_token: u64,
    /// Compute buffers in host memory.
    pub scratch_host: u64,
    /// Compute buffers in device memory.
    pub scratch_device: u64,
    /// Positions the model was trained for.
    pub context_trained: u64,
    /// Weights counted, not bytes.
    pub parameters: u64,
}

/// Called by `open` on the calling thread, with 0.0 ..= 1.0, at least every 250 ms of work.
pub type OnebitProgress = Option<unsafe extern "C" fn(ctx: *mut c_void, fraction: f32)>;

/// Input of `open`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitOpenArgs {
    /// `sizeof(OnebitOpenArgs)` of the host.
    pub struct_size: usize,
    /// Path of the model file or folder.
    pub path: OnebitStr,
    /// The device that was chosen; computing elsewhere is not allowed.
    pub device: *const OnebitDevice,
    /// CPU threads the plugin may use; 0 = its own choice.
    pub threads: u32,
    /// Zero.
    pub reserved: u32,
    /// Settings of this plugin, from the manifest.
    pub options: *const OnebitKeyValue,
    /// Entries of `options`.
    pub n_options: usize,
    /// Becomes non-zero when the load is to stop; looked at at least every 50 ms. May be null.
    pub cancel: *const u32,
    /// May be null.
    pub progress: OnebitProgress,
    /// First argument of `progress`.
    pub progress_ctx: *mut c_void,
}

/// Output of `open`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitOpenOut {
    /// `sizeof(OnebitOpenOut)` of the host.
    pub struct_size: usize,
    /// The model. Untouched on failure.
    pub model: *mut OnebitModel,
    /// What it really computes on, for people and for the answers: `NVIDIA H200 (Vulkan)`. Lives until `close`.
    pub computes_on: OnebitStr,
    /// `general.architecture` or its like. Lives until `close`.
    pub architecture: OnebitStr,
    /// The most used weight type. Lives until `close`.
    pub quantisation: OnebitStr,
}

/// The plugin's table. Lives until the process ends. `info`, `probe`, `fit`, `open`, `close` and `extension` must be there.
///
/// Threads: `info`, `probe` and `fit` from any thread, one call at a time. `open` from any thread, also side by side. A model may be used
/// from any thread: functions that take it say whether calls may overlap, and calls into its sessions may overlap with them. What `open`
/// gave is ended by one `close`, on any thread, after everything made from it is gone.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitPlugin {
    /// `sizeof(OnebitPlugin)` of the plugin.
    pub struct_size: usize,
    /// ABI major the plugin was built for.
    pub abi_major: u32,
    /// ABI minor the plugin was built for.
    pub abi_minor: u32,
    /// Fills `out`.
    pub info: Option<unsafe extern "C" fn(out: *mut OnebitInfo) -> OnebitStatus>,
    /// Judges each device. May start drivers; runs in a process of its own, with a time limit.
    pub probe: Option<unsafe extern "C" fn(args: *const OnebitProbeArgs, out: *mut OnebitProbeOut) -> OnebitStatus>,
    /// Judges a model file for a device. Reads headers only. A file that cannot be served is `ONEBIT_OK` with `usable = 0`.
    pub fit: Option<unsafe extern "C" fn(args: *const OnebitFitArgs, out: *mut OnebitFitOut) -> OnebitStatus>,
    /// Loads. A failure leaves nothing behind.
    pub open: Option<unsafe extern "C" fn(args: *const OnebitOpenArgs, out: *mut OnebitOpenOut) -> OnebitStatus>,
    /// Frees a model. Everything made from it must have been released before. Null is allowed.
    pub close: Option<unsafe extern "C" fn(model: *mut OnebitModel)>,
    /// The table of a capability (`onebit.forward/1` → `OnebitForward`), or null. Lives until the process ends.
    /// What it offers may depend on the model.
    pub extension: Option<unsafe extern "C" fn(model: *mut OnebitModel, id: OnebitStr) -> *const c_void>,
}

/// Door 2, for any language: the one symbol a plugin exports. `host` lives until the process ends. Null, with `report_error` called,
/// when the plugin cannot live with this host. A second call gives the same table, and its `host` need not be kept.
pub type OnebitEntry = unsafe extern "C" fn(host: *const OnebitHost) -> *const OnebitPlugin;

/// Name of the exported function of door 2.
pub const ONEBIT_ENTRY_SYMBOL: &core::ffi::CStr = c"onebit_plugin_v1";

const _: () = assert!(core::mem::size_of::<c_char>() == 1);
