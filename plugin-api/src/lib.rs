//! The contract between onebit-host and its plugins.
//!
//! Everything here is C-shaped: fixed-width integers, pointers, `ptr + len` slices, opaque handles, tables of functions. The C header
//! `include/onebit_plugin.h` is generated from this crate, so a plugin can be written in any language that speaks C. Rust authors use
//! `onebit-sdk`, which puts safe traits over these types.
//!
//! The rules (see `STYLE.md` beside this crate):
//!
//! * A struct that begins with `struct_size` may grow at its end. The side that allocates it sets `struct_size`; the other side reads a
//!   field only if it lies within that size. Absent means zero means default.
//! * A struct without `struct_size` is frozen for the whole ABI major.
//! * Every call is `status = f(handle, const Args *in, Out *out)`. A function pointer that is null is "not offered".
//! * Who allocates frees. A borrowed pointer says how long it lives.
//! * On a status other than [`ONEBIT_OK`](status::ONEBIT_OK) the plugin has called [`OnebitHost::report_error`](host::OnebitHost) on the
//!   same thread, before it returned.
//! * No function of a plugin may unwind, exit the process, or write to a file descriptor that it did not open.
//!
//! What this crate must never have: a dependency on the host, a Rust-only type on the border, an allocation.
#![no_std]

pub mod basic;
pub mod device;
pub mod embed;
pub mod forward;
pub mod host;
pub mod layout;
pub mod note;
pub mod plugin;
pub mod rerank;
pub mod status;
pub mod tokenize;

#[cfg(feature = "stable-abi")]
pub mod door;

pub use basic::*;
pub use device::*;
pub use embed::*;
pub use forward::*;
pub use host::*;
pub use note::*;
pub use plugin::*;
pub use rerank::*;
pub use status::*;
pub use tokenize::*;

/// Breaking changes. Host and plugin must agree exactly.
pub const ONEBIT_ABI_MAJOR: u32 = 1;
/// Additions. A plugin states the lowest minor it can live with; a host serves every minor up to its own.
pub const ONEBIT_ABI_MINOR: u32 = 1;
