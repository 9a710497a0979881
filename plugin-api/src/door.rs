//! Door 1, for Rust plugins: an abi_stable root module.
//!
//! It carries one function, which hands out the same table as door 2, and a witness of the frozen types, so that abi_stable compares
//! their layout with ours before anything is called. Structs that may grow (`struct_size`) are opaque pointers to abi_stable: it would
//! refuse an older plugin under a newer host as soon as a checked struct has grown. Nothing else of abi_stable crosses the border.

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
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
    // The version of the ABI, not of this crate: abi_stable refuses another major, and under 1.0 a newer minor too, which would shut out
    // every older plugin with each release of this crate.
    const VERSION_STRINGS: VersionStrings = VersionStrings::new(ROOT_VERSION);
}

/// `ONEBIT_ABI_MAJOR` as abi_stable wants it. Its minor and patch are not compared, so they stay zero.
const ROOT_VERSION: &str = "1.0.0";

const _: () = assert!(crate::ONEBIT_ABI_MAJOR == 1, "ROOT_VERSION must follow ONEBIT_ABI_MAJOR");
