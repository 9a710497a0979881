//! What the fuzz targets in `tests/fuzz` need of this crate's insides. Not an interface: it may change with any commit.

use std::io::Cursor;

use object::read::ReadCache;

use crate::{check, elf};

/// What was read from the bytes of a shared library.
#[derive(Debug, PartialEq, Eq)]
pub struct ElfFacts {
    /// Text of the onebit note.
    pub note: Option<Vec<u8>>,
    /// Names of the libraries it needs.
    pub needed: Vec<String>,
    /// Folders it wants them looked for in.
    pub folders: Vec<String>,
}

/// The reader of shared libraries, over bytes instead of a file.
///
/// # Errors
/// One sentence about the damage.
pub fn elf(bytes: &[u8]) -> Result<ElfFacts, String> {
    let facts = elf::parse(&ReadCache::new(Cursor::new(bytes)))?;
    let folders = facts.runpath.unwrap_or_default().into_iter().chain(facts.rpath).collect();
    Ok(ElfFacts { note: facts.note, needed: facts.needed, folders })
}

/// The reader of exported names, over bytes instead of a file.
///
/// # Errors
/// A part of a sentence about the damage.
pub fn exports(bytes: &[u8]) -> Result<Vec<String>, String> {
    check::exported_names(&ReadCache::new(Cursor::new(bytes)))
}
