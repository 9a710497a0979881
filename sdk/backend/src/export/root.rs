//! Door 1: the abi_stable root module. It carries one function, which hands out the same table as door 2.

use core::ffi::c_void;

use abi_stable::library::{__call_root_module_loader, CheckTypeLayout, LibHeader, RootModuleResult};
use abi_stable::prefix_type::PrefixTypeTrait;
use onebit_plugin_api::door::{OnebitFrozenTypes, OnebitRoot, OnebitRootRef};
use onebit_plugin_api::{OnebitKeyValue, OnebitStr};

use super::plugin::{Exported, enter};

extern "C" fn entry<P: Exported>(host: *const c_void) -> *const c_void {
    // SAFETY: a host that uses this door gives its table, as door 2 demands.
    unsafe { enter::<P>(host.cast()) }.cast()
}

extern "C" fn witness() -> OnebitFrozenTypes {
    OnebitFrozenTypes { str: OnebitStr::EMPTY, key_value: OnebitKeyValue { key: OnebitStr::EMPTY, value: OnebitStr::EMPTY } }
}

fn root<P: Exported>() -> OnebitRootRef {
    OnebitRoot { entry: entry::<P>, witness }.leak_into_prefix()
}

extern "C" fn constructor<P: Exported>() -> RootModuleResult {
    // abi_stable catches what unwinds in here.
    __call_root_module_loader(root::<P>)
}

/// What abi_stable looks for in a library.
pub const fn lib_header<P: Exported>() -> LibHeader {
    // SAFETY: the constructor's pointer comes from an `OnebitRootRef`.
    unsafe { LibHeader::from_constructor::<OnebitRootRef>(constructor::<P>, CheckTypeLayout::Yes) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_doors_have_their_names() {
        assert_eq!(abi_stable::library::ROOT_MODULE_LOADER_NAME, "_1as_0lib_1header_0root_bmodule_bloader");
        assert_eq!(onebit_plugin_api::ONEBIT_ENTRY_SYMBOL, c"onebit_plugin_v1");
    }
}
