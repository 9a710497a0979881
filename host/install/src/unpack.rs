//! Unpacking within bounds: every entry is judged before anything of it is written, and one that is not plain refuses the whole archive.
//!
//! Archives are read entry by entry; their own unpacking functions, which would make links and set permissions, are not used. Files are made
//! anew and never opened if they exist, so no entry can write through what another has made.

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::InstallError;
use crate::limits::Budget;
use crate::source::admit;

/// Set-user-id, set-group-id.
const SET_ID: u32 = 0o6000;
const EXECUTABLE: u32 = 0o111;

/// Where files are made, and what was made so far.
pub(crate) struct Target<'a> {
    dir: &'a Path,
    budget: Budget,
    /// In lower case: `A` and `a` are one file on some disks.
    names: HashSet<String>,
}

impl<'a> Target<'a> {
    pub(crate) fn new(dir: &'a Path) -> Self {
        Self { dir, budget: Budget::default(), names: HashSet::new() }
    }

    /// A folder. One that is there already is no error: archives name folders twice, or not at all.
    pub(crate) fn folder(&mut self, name: &str) -> Result<(), InstallError> {
        let name = admit(&mut self.budget, name)?;
        self.make_folder(&self.dir.join(name))
    }

    fn make_folder(&self, path: &Path) -> Result<(), InstallError> {
        DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(InstallError::io("make", path))
    }

    /// A file of `size` bytes, on the disk when this returns.
    pub(crate) fn file(&mut self, name: &str, mode: u32, size: u64, content: impl Read) -> Result<(), InstallError> {
        let plain = admit(&mut self.budget, name)?;
        if mode & SET_ID != 0 {
            return Err(InstallError::Kind { name: name.to_owned(), kind: "a file that would run with the rights of its owner".into() });
        }
        if plain.is_empty() || !self.names.insert(plain.to_lowercase()) {
            return Err(InstallError::Path { name: name.to_owned(), why: "it is there twice".into() });
        }
        self.budget.file(name, size)?;
        let path = self.dir.join(plain);
        self.make_folder(path.parent().unwrap_or(self.dir))?;
        let mode = if mode & EXECUTABLE == 0 { 0o644 } else { 0o755 };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).map_err(InstallError::io("make", &path))?;
        // One byte more tells that the size was a lie.
        let written = io::copy(&mut content.take(size + 1), &mut file).map_err(|error| match error.raw_os_error() {
            Some(_) => InstallError::io("write", &path)(error),
            None => InstallError::Damaged(format!("{name}: {error}")),
        })?;
        if written != size {
            return Err(InstallError::Damaged(format!("{name} has another size than {size} bytes, which it should have")));
        }
        file.sync_all().map_err(InstallError::io("write", &path))
    }
}

/// Every entry of a tar stream.
pub(crate) fn tar(stream: impl Read, target: &mut Target<'_>) -> Result<(), InstallError> {
    let damaged = |error: io::Error| InstallError::Damaged(error.to_string());
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        let name = core::str::from_utf8(&entry.path_bytes()).map(str::to_owned);
        let Ok(name) = name else {
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            return Err(InstallError::Path { name, why: "it is not UTF-8".into() });
        };
        let mode = entry.header().mode().map_err(damaged)?;
        match entry.header().entry_type() {
            tar::EntryType::Regular | tar::EntryType::Continuous => target.file(&name, mode, entry.size(), entry)?,
            tar::EntryType::Directory => target.folder(&name)?,
            tar::EntryType::XGlobalHeader => {}
            kind => {
                let kind = match kind {
                    tar::EntryType::Symlink | tar::EntryType::Link => "a link",
                    tar::EntryType::Char | tar::EntryType::Block => "a device",
                    tar::EntryType::Fifo => "a pipe",
                    _ => "of a kind that has no place in a plugin",
                };
                return Err(InstallError::Kind { name, kind: kind.into() });
            }
        }
    }
    Ok(())
}

/// Every entry of a zip file.
pub(crate) fn zip(file: File, target: &mut Target<'_>) -> Result<(), InstallError> {
    const KIND: u32 = 0o170_000;
    const REGULAR: u32 = 0o100_000;
    const FOLDER: u32 = 0o040_000;
    let damaged = |error: zip::result::ZipError| InstallError::Damaged(error.to_string());
    let mut archive = zip::ZipArchive::new(file).map_err(damaged)?;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(damaged)?;
        let name = entry.name().map_err(damaged)?.into_owned();
        let mode = entry.unix_mode().unwrap_or(if entry.is_dir() { FOLDER | 0o755 } else { REGULAR | 0o644 });
        match mode & KIND {
            _ if entry.is_dir() => target.folder(&name)?,
            // Made on a system that knows no kinds.
            0 | REGULAR => target.file(&name, mode, entry.size(), entry)?,
            FOLDER => target.folder(&name)?,
            0o120_000 => return Err(InstallError::Kind { name, kind: "a link".into() }),
            _ => return Err(InstallError::Kind { name, kind: "of a kind that has no place in a plugin".into() }),
        }
    }
    Ok(())
}
