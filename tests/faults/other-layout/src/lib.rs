//! A plugin whose note promises this ABI, and whose frozen types have one field more: what a build against a changed plugin-api would be.
//!
//! Door 1 must refuse it by the layout before its entry is called; the entry aborts, so that a host which calls it cannot overlook that.

use core::ffi::c_void;

use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::sabi_types::VersionStrings;
use onebit_sdk::export::{Meta, Note, note, note_size};

/// As `OnebitStr`, and more.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct OnebitStr {
    /// As there.
    pub ptr: *const core::ffi::c_char,
    /// As there.
    pub len: usize,
    /// What nobody agreed on.
    pub capacity: usize,
}

/// As `OnebitFrozenTypes`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct OnebitFrozenTypes {
    /// As there.
    pub str: OnebitStr,
}

/// As `OnebitRoot`.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = OnebitRootRef)))]
pub struct OnebitRoot {
    /// As there.
    #[sabi(last_prefix_field)]
    pub entry: extern "C" fn(host: *const c_void) -> *const c_void,
    /// As there.
    pub witness: extern "C" fn() -> OnebitFrozenTypes,
}

impl RootModule for OnebitRootRef {
    abi_stable::declare_root_module_statics! {OnebitRootRef}
    const BASE_NAME: &'static str = "onebit_plugin";
    const NAME: &'static str = "onebit_plugin";
    const VERSION_STRINGS: VersionStrings = VersionStrings::new("1.1.0");
}

extern "C" fn entry(_host: *const c_void) -> *const c_void {
    std::process::abort()
}

extern "C" fn witness() -> OnebitFrozenTypes {
    std::process::abort()
}

#[abi_stable::export_root_module]
fn root() -> OnebitRootRef {
    OnebitRoot { entry, witness }.leak_into_prefix()
}

const META: Meta = Meta {
    id: "other-layout",
    version: env!("PLUGIN_VERSION"),
    capabilities: &[],
    licence: "MIT OR Apache-2.0",
    panic_unwinds: cfg!(panic = "unwind"),
};

#[used]
#[unsafe(link_section = ".note.onebit")]
static NOTE: Note<{ note_size(&META).next_multiple_of(4) }> = note(&META);
