//! The few small types that every other one is made of. They have no `struct_size`: they are frozen for the ABI major, and abi_stable
//! compares their layout when a Rust plugin is loaded.

use core::ffi::c_char;

/// UTF-8 text, not NUL-terminated. `ptr` may be null when `len` is 0. Lifetime: stated by the field or argument that carries it.
#[repr(C)]
#[derive(Clone, Copy)]
#[cfg_attr(feature = "stable-abi", derive(abi_stable::StableAbi))]
pub struct OnebitStr {
    /// First byte; may be null when `len` is 0.
    pub ptr: *const c_char,
    /// Bytes.
    pub len: usize,
}

impl OnebitStr {
    /// The empty text.
    pub const EMPTY: Self = Self { ptr: core::ptr::null(), len: 0 };

    /// Borrows `text`; the caller keeps it alive as long as the receiving side may look.
    pub const fn new(text: &str) -> Self {
        Self { ptr: text.as_ptr().cast(), len: text.len() }
    }
}

/// A name and its value, both borrowed for the call unless the field says otherwise.
#[repr(C)]
#[derive(Clone, Copy)]
#[cfg_attr(feature = "stable-abi", derive(abi_stable::StableAbi))]
pub struct OnebitKeyValue {
    /// Name, for example `llama.cpp`.
    pub key: OnebitStr,
    /// Value, for example `b11434`.
    pub value: OnebitStr,
}
