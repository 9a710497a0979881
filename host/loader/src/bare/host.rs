//! Hosts of other shapes: what an older, a newer and a sparing host hands to a plugin.

use core::ffi::c_void;

use onebit_plugin_api as abi;

use super::guarded::{GARBAGE, Guarded};
use crate::sink::host_table;
use crate::{Door, HostSink, LoadError, Plugin, PluginFile};

/// What a host's table looks like to the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostShape {
    /// As this host's own.
    Usual,
    /// All functions are null: not offered.
    NoFunctions,
    /// The table ends before its first function, and ABI minor is 0.
    Older,
    /// ABI minor is higher, the table is longer, and the functions that this ABI does not know end the process when they are called.
    Newer,
}

impl Plugin {
    /// Loads through this door, as a host of this shape would.
    pub fn load_shaped(file: &PluginFile, sink: HostSink, door: Door, shape: HostShape) -> Result<Self, LoadError> {
        let usual = host_table(sink);
        let size = size_of::<abi::OnebitHost>();
        let functions = core::mem::offset_of!(abi::OnebitHost, log);
        let (table, len) = match shape {
            HostShape::Usual => return Self::enter(file, usual, door),
            HostShape::NoFunctions => {
                (abi::OnebitHost { log: None, metric_add: None, metric_set: None, now_ns: None, report_error: None, ..*usual }, size)
            }
            HostShape::Older => (abi::OnebitHost { struct_size: functions, abi_minor: 0, ..*usual }, functions),
            HostShape::Newer => {
                (abi::OnebitHost { struct_size: size + 8 * UNKNOWN, abi_minor: abi::ONEBIT_ABI_MINOR + 7, ..*usual }, size + 8 * UNKNOWN)
            }
        };
        let memory = Guarded::new(len).map_err(|error| no_memory(file, &error))?;
        // SAFETY: a table is made of integers and pointers without padding.
        let bytes = unsafe { core::slice::from_raw_parts(core::ptr::from_ref(&table).cast::<u8>(), size) };
        memory.fill(&bytes[..len.min(size)]);
        if shape == HostShape::Newer {
            let trap: unsafe extern "C" fn() = unknown;
            let address = (trap as *const c_void).addr().to_ne_bytes();
            memory.fill(&[bytes, address.repeat(UNKNOWN).as_slice()].concat());
        }
        let host = memory.as_ptr().cast::<abi::OnebitHost>();
        // A host's table lives until the process ends.
        core::mem::forget(memory);
        Self::enter(file, host, door)
    }
}

/// Functions behind the known ones.
const UNKNOWN: usize = 4;

unsafe extern "C" fn unknown() {
    std::process::abort()
}

fn no_memory(file: &PluginFile, error: &std::io::Error) -> LoadError {
    let error = crate::PluginError::new(crate::Status::OUT_OF_HOST_MEMORY, format!("no memory for a host's table: {error}"));
    LoadError::Entry { id: file.toml.id.clone(), error }
}

const _: () = assert!(GARBAGE != 0, "garbage must not look like null");
