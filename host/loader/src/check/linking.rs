//! How a library was linked: its entry, what else it exports, which of its memory can be written and run.

use std::path::Path;

use abi_stable::library::ROOT_MODULE_LOADER_NAME;
use onebit_plugin_api as abi;

use super::{Findings, codes, exports, some_of};
use crate::Note;
use crate::elf::{ElfFacts, RUN};

/// What a linker itself puts into every library that has no list of exports.
const OF_THE_LINKER: &[&str] = &["_init", "_fini", "_edata", "_end", "__bss_start"];
/// Bytes from which a library is called large.
const LARGE: u64 = 256 << 20;

/// The plugin's own library: it exports the doors that its note promises, and nothing else.
pub(super) fn judge_doors(path: &Path, note: Option<&Note>, findings: &mut Findings) {
    let exported = match exports::read(path) {
        Ok(exported) => exported,
        Err(error) => {
            findings.add_in(path, &codes::LIBRARY, format!("its symbols cannot be read: {error}"), "install the plugin again");
            return;
        }
    };
    let c_door = abi::ONEBIT_ENTRY_SYMBOL.to_str().unwrap_or_default();
    let doors = [
        (
            c_door,
            note.is_some_and(Note::has_c_door),
            "export the function, with ONEBIT_EXPORT as the header declares it, or say so in the note",
        ),
        (ROOT_MODULE_LOADER_NAME, note.is_some_and(Note::has_rust_door), "build it with export_plugin!, or write doors=c into the note"),
    ];
    for (symbol, _, remedy) in doors.iter().filter(|(symbol, promised, _)| *promised && !exported.iter().any(|name| name == symbol)) {
        findings.add_in(path, &codes::DOOR_MISSING, format!("the note promises {symbol}, which is not exported"), *remedy);
    }
    let foreign = |name: &&String| doors.iter().all(|(door, ..)| door != name) && !OF_THE_LINKER.contains(&name.as_str());
    let more: Vec<&String> = exported.iter().filter(foreign).collect();
    if !more.is_empty() {
        findings.add_in(
            path,
            &codes::EXPORTED_SYMBOLS,
            format!("exports beyond its entry: {}", some_of(&more)),
            "compile with -fvisibility=hidden; for libraries that are linked in, -Wl,--exclude-libs,ALL or a version script with `local: *`",
        );
    }
}

/// Any library of the folder.
pub(super) fn judge(path: &Path, facts: &ElfFacts, findings: &mut Findings) {
    let mut found = |code, what: &str, remedy: &str| findings.add_in(path, code, what, remedy);
    if facts.text_relocations {
        found(&codes::TEXT_RELOCATIONS, "relocations in code", "compile all of it with -fPIC");
    }
    match facts.stack {
        None => {
            found(&codes::EXECUTABLE_STACK, "nothing says what it needs of the stack, so it can be run", "link with -Wl,-z,noexecstack")
        }
        Some(flags) if flags & RUN != 0 => {
            let remedy = "link with -Wl,-z,noexecstack; write .section .note.GNU-stack,\"\",@progbits into assembly files";
            found(&codes::EXECUTABLE_STACK, "asks for a stack that can be run", remedy);
        }
        Some(_) => {}
    }
    if facts.writable_code {
        let remedy = "link without -N and --omagic, and without a linker script that puts code and data together";
        found(&codes::WRITABLE_CODE, "a segment can be written and run", remedy);
    }
    if !facts.relro {
        found(&codes::NO_RELRO, "linked without RELRO", "link with -Wl,-z,relro,-z,now");
    } else if !facts.bind_now {
        found(&codes::LAZY_BINDING, "symbols are bound lazily", "link with -Wl,-z,now");
    }
    if facts.debug_info {
        found(&codes::DEBUG_INFO, "holds debug information", "strip --strip-debug, or strip = \"debuginfo\" in Cargo.toml");
    }
    if let Ok(size) = path.metadata().map(|metadata| metadata.len())
        && size > LARGE
    {
        found(&codes::LARGE, &format!("has {} MiB", size >> 20), "strip it, and leave out what no machine of its users needs");
    }
}
