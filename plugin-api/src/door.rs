//! Door 1, for Rust plugins: an abi_stable root module.
//!
//! It carries one function, which hands out the same table as door 2, and a witness of the frozen types, so that abi_stable compares
//! their layout with ours before anything is called. Structs that may grow (`struct_size`) are opaque pointers to abi_stable: it would
//! refuse an older plugin under a newer host as soon as a checked struct has grown. Nothing else of abi_stable crosses the border.

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::package_version_strings;
use abi_stable::sabi_types::VersionStrings;
use core::ffi::c_void;

use crate::basic::{OnebitKeyValue, OnebitStr};

/// The types whose layout is checked. Never reordered, never extended within an ABI major.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct OnebitFrozenTypes {
    /// See [`OnebitStr`].
    pub str: OnebitStr,
    /// See [`OnebitKeyValue`].
    pub key_value: OnebitKeyValue,
}

/// The root module.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = OnebitRootRef)))]
pub struct OnebitRoot {
    /// `const OnebitPlugin *entry(const OnebitHost *host)`, as door 2; pointers are opaque to abi_stable.
    #[sabi(last_prefix_field)]
    pub entry: extern "C" fn(host: *const c_void) -> *const c_void,
    /// Never called; its type is what is compared.
    pub witness: extern "C" fn() -> OnebitFrozenTypes,
}

impl RootModule for OnebitRootRef {
    abi_stable::declare_root_module_statics! {OnebitRootRef}
    const BASE_NAME: &'static str = "onebit_plugin";
    const NAME: &'static str = "onebit_plugin";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

// abi_stable compares this crate's version twice: for the root module, and for every type in the layout check. It takes versions of one
// major for compatible, under 1.0 those of one minor. So the crate carries the version of the ABI.
const _: () = {
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    assert!(version[0] == b'0' + crate::ONEBIT_ABI_MAJOR as u8 && version[1] == b'.', "the crate's major must be the ABI's");
    assert!(version[2] == b'0' + crate::ONEBIT_ABI_MINOR as u8 && version[3] == b'.', "the crate's minor must be the ABI's");
};
