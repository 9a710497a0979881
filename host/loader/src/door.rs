//! From a file that passed inspection to a plugin's table: `dlopen`, one of the two doors, and the last checks before anything is used.
//!
//! Loaded with `RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE` and never closed: a library that started a thread or has thread-local destructors
//! cannot be unloaded soundly. To be rid of a plugin, end its process.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use abi_stable::library::{AbiHeaderRef, LibraryError, ROOT_MODULE_LOADER_NAME_WITH_NUL};
use libloading::os::unix::Library;
use onebit_plugin_api as abi;
use onebit_plugin_api::door::OnebitRootRef;

use crate::plugin::{call, read_info};
use crate::sink::{forget_report, take_any_report};
use crate::trust::verified;
use crate::{Info, LoadError, PluginFile, Refusal, raw};

/// Which way into the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The abi_stable root module, with its layout check.
    Rust,
    /// The C function `onebit_plugin_v1`.
    C,
}

pub(crate) struct Entered {
    pub(crate) table: abi::OnebitPlugin,
    /// Where the plugin keeps its table: the same for every entry of a process.
    pub(crate) address: usize,
    pub(crate) info: Info,
}

/// `dlopen` takes a lock of its own, and constructors of drivers take others: one load at a time keeps their order simple.
static LOADING: Mutex<()> = Mutex::new(());

pub(crate) fn enter(file: &PluginFile, host: *const abi::OnebitHost, door: Door) -> Result<Entered, LoadError> {
    let _lock = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    let library = verified::open(file)?.load()?;
    forget_report();
    // SAFETY: the note of the file says that it is a plugin of this ABI, so the doors have the types of the ABI.
    let table = unsafe {
        match door {
            Door::Rust => through_root_module(file, &library, host),
            Door::C => through_function(file, &library, host),
        }
    };
    // Never closed: see the head of this file.
    core::mem::forget(library);
    let table = table?;
    if table.is_null() {
        return Err(LoadError::Entry { id: file.toml.id.clone(), error: take_any_report() });
    }
    let address = table.addr();
    // SAFETY: the table lives until the process ends.
    let table = unsafe { raw::read_grown(table) };
    check_table(file, table, address)
}

fn refused(file: &PluginFile, field: &str, host: impl Into<String>, plugin: impl Into<String>, remedy: impl Into<String>) -> LoadError {
    let mut refusal = Refusal::new(file.toml.id.clone(), Some(file.toml.version.clone()));
    refusal.row(field, host, plugin, remedy);
    LoadError::Refused(Box::new(refusal))
}

pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// # Safety
///
/// If the library exports the name of door 1, it is an abi_stable library header.
unsafe fn through_root_module(
    file: &PluginFile,
    library: &Library,
    host: *const abi::OnebitHost,
) -> Result<*const abi::OnebitPlugin, LoadError> {
    // SAFETY: as promised; the symbol's address is the header's reference.
    let header = unsafe { library.get::<AbiHeaderRef>(ROOT_MODULE_LOADER_NAME_WITH_NUL.as_bytes()) }.map_err(|_| {
        refused(
            file,
            "door rust",
            "an abi_stable root module",
            "none, though the note says so",
            "build it with export_plugin!, or say doors=c",
        )
    })?;
    let root = header.upgrade().and_then(|header| header.init_root_module::<OnebitRootRef>()).map_err(|error| {
        refused(file, "layout", "the frozen types of this ABI", useful_line(&error), "build the plugin against this ABI's SDK")
    })?;
    Ok(root.entry()(host.cast::<c_void>()).cast())
}

/// # Safety
///
/// If the library exports the name of door 2, it is a function of that type.
unsafe fn through_function(
    file: &PluginFile,
    library: &Library,
    host: *const abi::OnebitHost,
) -> Result<*const abi::OnebitPlugin, LoadError> {
    let name = abi::ONEBIT_ENTRY_SYMBOL;
    // SAFETY: as promised.
    let entry = unsafe { library.get::<abi::OnebitEntry>(name.to_bytes_with_nul()) }.map_err(|_| {
        let symbol = name.to_string_lossy();
        refused(file, "door c", format!("a function {symbol}"), "none is exported", format!("export {symbol} with default visibility"))
    })?;
    // SAFETY: the host's table lives until the process ends.
    Ok(unsafe { entry(host) })
}

/// abi_stable answers with pages of type descriptions; the line that says what differs is enough for a person.
fn useful_line(error: &LibraryError) -> String {
    let kind = match error {
        LibraryError::AbiInstability(_) => "another layout",
        LibraryError::InvalidAbiHeader(_) => return "another version of abi_stable".into(),
        LibraryError::InvalidCAbi { .. } => return "another C calling convention".into(),
        LibraryError::IncompatibleVersionNumber { actual_version, .. } => return format!("root module {actual_version}"),
        LibraryError::RootModule { .. } => "a root module that failed to start",
        _ => "an unusable root module",
    };
    match first_difference(&error.to_string()) {
        Some(difference) => format!("{kind}: {difference}"),
        None => kind.to_owned(),
    }
}

/// abi_stable writes `Error:WHAT`, `Expected:`, an indented value, `Found:`, an indented value; the values may go on for lines.
fn first_difference(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim);
    let what = lines.find_map(|line| line.strip_prefix("Error:"))?;
    let rest: Vec<&str> = lines.collect();
    let value = |label: &str| {
        let after = rest.iter().position(|line| *line == label)? + 1;
        rest[after..].iter().find(|line| !line.is_empty()).map(|line| line.chars().take(60).collect::<String>())
    };
    Some(match (value("Expected:"), value("Found:")) {
        (Some(expected), Some(found)) => format!("{what}, {found} instead of {expected}"),
        _ => what.to_owned(),
    })
}

fn check_table(file: &PluginFile, table: Option<abi::OnebitPlugin>, address: usize) -> Result<Entered, LoadError> {
    const CORE: usize = core::mem::offset_of!(abi::OnebitPlugin, extension) + size_of::<usize>();
    let rebuild = "build the plugin again with a current SDK or header";
    let Some(table) = table else {
        return Err(refused(file, "table", "a struct with its own size in front", "null, misaligned, or no size", rebuild));
    };
    if table.struct_size < CORE {
        return Err(refused(file, "table size", format!("at least {CORE} bytes"), format!("{} bytes", table.struct_size), rebuild));
    }
    if table.abi_major != abi::ONEBIT_ABI_MAJOR {
        let (speaks, built) =
            (abi::ONEBIT_ABI_MAJOR.to_string(), format!("{} in its table, {} in its note", table.abi_major, file.note.abi_major));
        return Err(refused(file, "abi", speaks, built, rebuild));
    }
    let required = [
        ("info", table.info.is_some()),
        ("probe", table.probe.is_some()),
        ("fit", table.fit.is_some()),
        ("open", table.open.is_some()),
        ("close", table.close.is_some()),
        ("extension", table.extension.is_some()),
    ];
    if let Some((name, _)) = required.iter().find(|(_, there)| !there) {
        return Err(refused(file, name, "a function", "null", rebuild));
    }
    let info = read_info(&table).map_err(|error| LoadError::Entry { id: file.toml.id.clone(), error })?;
    for (field, note, said) in [("id", &file.note.id, &info.id), ("version", &file.note.version, &info.version)] {
        if note != said {
            return Err(refused(file, field, format!("note: {note}"), format!("info: {said}"), rebuild));
        }
    }
    Ok(Entered { table, address, info })
}

/// The tables of capabilities are checked like the plugin's own: its size must reach the last function that must be there.
///
/// # Safety
///
/// `table` is null, or a table of type `T`.
pub(crate) unsafe fn capability<T: abi::layout::Growable>(table: *const c_void) -> Option<T> {
    // SAFETY: as promised.
    unsafe { raw::read_grown(table.cast::<T>()) }
}

/// Asks a model for the table of a capability.
pub(crate) fn extension(table: &abi::OnebitPlugin, model: *mut abi::OnebitModel, id: &str) -> *const c_void {
    let mut found = core::ptr::null();
    let _ = call(|| {
        if let Some(extension) = table.extension {
            // SAFETY: a function of the table, a live model, a text that lives for the call.
            found = unsafe { extension(model, abi::OnebitStr::new(id)) };
        }
        abi::ONEBIT_OK
    });
    found
}
