//! The static note: what a host reads from the file before any code of the plugin runs.
//!
//! ELF section `.note.onebit`, a standard note (`Elf64_Nhdr`): owner `onebit\0\0`, type [`ONEBIT_NOTE_TYPE`], description = UTF-8 text of
//! `key=value` lines. Text, because the note must be readable by every host for ever, from any language's macro, with `readelf -n`.
//!
//! Keys: `note=1`, `abi_major`, `abi_min_minor` (the lowest host minor it can live with), `abi_built_minor`, `id`, `version` (semver),
//! `capabilities` (comma-separated ids), `target` (triple), `panic` (`unwind` | `none`), `licence` (SPDX), `doors` (`c`, `rust` or `c,rust`).
//! A reader ignores keys it does not know, and NUL bytes at the end. The section must be allocated (`SHF_ALLOC`), so that it lies in a
//! `PT_NOTE` segment: readers go by segments, as the dynamic linker does.

/// Owner of the note, padded to 8 bytes.
pub const ONEBIT_NOTE_OWNER: &[u8; 8] = b"onebit\0\0";
/// `n_type` of the note.
pub const ONEBIT_NOTE_TYPE: u32 = 1;
/// Name of the section.
pub const ONEBIT_NOTE_SECTION: &str = ".note.onebit";
/// The longest description a host reads, bytes.
pub const ONEBIT_NOTE_MAX: usize = 4096;
