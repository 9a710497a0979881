//! The bytes that were checked are the bytes that run.
//!
//! [`open`] opens the plugin's folder and, from it, every library that will be loaded, each once; checks and hashes are made on those
//! descriptors, and [`Verified::load`] gives the very same descriptors to the dynamic linker, as `/proc/self/fd/N`. A file that is put in a
//! library's place in between is never opened; that, and writing into the library itself, is noticed by the stamp and refused.
//!
//! The linker knows such a library by its descriptor only, so `$ORIGIN` in a RUNPATH leads nowhere. Libraries of the plugin's own folder are
//! therefore loaded first, in the order in which they need each other, by the same way; the linker then finds them by their SONAME. What else
//! a plugin opens itself while it runs (compute modules) it opens by path: such files are hashed here, before any code of the plugin runs.
//!
//! What remains: who may write to these files (root and this user, or the checks fail) could do so in the moment between the last look and
//! the mapping. They could as well change the host.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use libloading::os::unix::Library;

use super::folder::{Folder, Shut};
use super::place::Owners;
use super::stamp::Stamp;
use super::{Mode, Problem, Severity, hash, look};
use crate::elf::ElfFacts;
use crate::{LoadError, Note, PluginFile, Refusal, elf};

/// A plugin's libraries, open and checked.
pub(crate) struct Verified<'a> {
    file: &'a PluginFile,
    /// In the order of loading; the plugin's library is the last.
    libraries: Vec<Opened>,
}

struct Opened {
    name: String,
    file: File,
    stamp: Stamp,
}

/// Opens and checks. Nothing of the plugin runs.
pub(crate) fn open(file: &PluginFile) -> Result<Verified<'_>, LoadError> {
    let gone = |what: &str, error: String| replaced(file, what, error);
    let folder = Folder::open(&file.dir).map_err(|error| gone("folder", error.to_string()))?;
    let (examination, toml) = look(&folder, &file.trust, &Owners::of_this_process());
    let refused: Vec<&Problem> = examination.of(Severity::Refused, file.trust.mode).collect();
    if !refused.is_empty() {
        return Err(refuse(file, refused));
    }
    if toml.as_ref() != Some(&file.toml) {
        return Err(gone("plugin.toml", "another text".into()));
    }
    // By its real name: `library` may be a link, and the file itself is what has a hash.
    let own = file.library.strip_prefix(&file.dir).unwrap_or(&file.library).to_string_lossy();
    let libraries = file.beside.iter().map(String::as_str).chain([&*own]);
    let libraries = libraries.map(|name| open_library(file, &folder, name)).collect::<Result<Vec<_>, _>>()?;
    if let Some(library) = libraries.last() {
        check_note(file, &library.file)?;
    }
    // What the plugin opens by itself, later and by path.
    for (name, listed) in &file.toml.sha256 {
        let opened = folder.file(name).map_err(|shut| unreadable(file, &folder, name, &shut))?;
        let stamp = opened.metadata().map(|metadata| Stamp::of(&metadata)).ok();
        // Listed under the name of a link: what is loaded is what is compared.
        let loaded = libraries.iter().find(|library| Some(library.stamp) == stamp);
        if loaded.is_none_or(|library| library.name != *name) {
            compare(file, name, listed, loaded.map_or(&opened, |library| &library.file))?;
        }
    }
    Ok(Verified { file, libraries })
}

fn open_library(file: &PluginFile, folder: &Folder, name: &str) -> Result<Opened, LoadError> {
    let opened = folder.file(name).map_err(|shut| unreadable(file, folder, name, &shut))?;
    let stamp = opened.metadata().map(|metadata| Stamp::of(&metadata)).map_err(|error| unreadable(file, folder, name, &Shut::Io(error)))?;
    if let Some(listed) = file.toml.sha256.get(name) {
        compare(file, name, listed, &opened)?;
    }
    Ok(Opened { name: name.to_owned(), file: opened, stamp })
}

pub(super) fn compare(file: &PluginFile, name: &str, listed: &str, opened: &File) -> Result<(), LoadError> {
    // Who wants proof gets it anew each time; else the host's word about a file that has not changed since is as good.
    let seen = || file.seen.iter().find(|seen| opened.metadata().is_ok_and(|metadata| seen.stamp == Stamp::of(&metadata)));
    if file.trust.mode == Mode::Warn && seen().is_some_and(|seen| seen.sha256 == listed) {
        return Ok(());
    }
    let found = hash::sha256(opened).map_err(|error| replaced(file, name, error.to_string()))?;
    if found == listed {
        return Ok(());
    }
    Err(refuse(file, [&Problem::Altered { name: name.to_owned(), listed: listed.to_owned(), found }]))
}

/// The library may have been replaced since it was inspected, by an upgrade for example.
fn check_note(file: &PluginFile, library: &File) -> Result<(), LoadError> {
    let facts: Result<ElfFacts, String> = library.try_clone().map_err(|error| error.to_string()).and_then(elf::read_open);
    let note = facts.ok().and_then(|facts| facts.note).and_then(|note| Note::parse(&note).ok());
    if note.as_ref() == Some(&file.note) {
        return Ok(());
    }
    let found = note.map_or("no readable note".into(), |note| format!("{} {}", note.id, note.version));
    Err(replaced(file, "library", found))
}

impl Verified<'_> {
    /// Gives the libraries to the dynamic linker; the plugin's own one comes back. Their constructors run now.
    pub(crate) fn load(self) -> Result<Library, LoadError> {
        let file = self.file;
        let mut loaded = None;
        for library in self.libraries {
            let name = library.name.clone();
            let stamp = library.file.metadata().map(|metadata| Stamp::of(&metadata));
            if stamp.as_ref().ok() != Some(&library.stamp) {
                return Err(replaced(file, &name, "a file that was replaced or changed after it was checked".into()));
            }
            let opened = load_descriptor(library).map_err(|reason| LoadError::Open {
                id: file.toml.id.clone(),
                path: file.dir.join(&name).display().to_string(),
                reason,
            })?;
            if let Some(earlier) = loaded.replace(opened) {
                // Never closed: see the head of `door`.
                core::mem::forget(earlier);
            }
        }
        loaded.ok_or_else(|| replaced(file, "library", "no library at all".into()))
    }
}

/// Descriptors of loaded libraries. They stay open as long as the process: the linker tells libraries apart by their names, and the number of a
/// closed descriptor would be the name of the next file; and a plugin that asks where it lies (`dladdr`) is led there by its descriptor.
static HELD: Mutex<Vec<((u64, u64), OwnedFd)>> = Mutex::new(Vec::new());

fn load_descriptor(library: Opened) -> Result<Library, String> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let inode = library.stamp.inode();
    let known = held.iter().find(|(known, _)| *known == inode).map(|(_, fd)| fd.as_raw_fd());
    let fd = match known {
        Some(fd) => fd,
        None => {
            let fd = OwnedFd::from(library.file);
            let number = fd.as_raw_fd();
            held.push((inode, fd));
            number
        }
    };
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: this runs constructors of the library, which is why it happens only here, after all checks that need no code, and only in
    // processes that may die.
    unsafe { Library::open(Some(format!("/proc/self/fd/{fd}")), flags) }.map_err(|error| crate::door::error_chain(&error))
}

fn unreadable(file: &PluginFile, folder: &Folder, name: &str, shut: &Shut) -> LoadError {
    let path = folder.path().join(name);
    match shut {
        Shut::LeadsOut(to) => refuse(file, [&Problem::LeadsOut { name: name.to_owned(), to: to.clone(), loaded: true }]),
        Shut::NotRegular => refuse(file, [&Problem::NotRegular { name: name.to_owned(), loaded: true }]),
        Shut::Io(error) if error.kind() == io::ErrorKind::NotFound => replaced(file, name, "nothing there any more".into()),
        Shut::Io(error) => refuse(file, [&Problem::Unreadable { path, reason: error.to_string() }]),
    }
}

fn refuse<'a>(file: &PluginFile, problems: impl IntoIterator<Item = &'a Problem>) -> LoadError {
    let mut refusal = Refusal::new(file.toml.id.clone(), Some(file.toml.version.clone()));
    refusal.rows.extend(problems.into_iter().map(Problem::refusal));
    LoadError::Refused(Box::new(refusal))
}

/// What was inspected is not there any more.
fn replaced(file: &PluginFile, what: &str, found: String) -> LoadError {
    let mut refusal = Refusal::new(file.toml.id.clone(), Some(file.toml.version.clone()));
    let inspected = format!("{} {}, as inspected", file.note.id, file.note.version);
    refusal.row(what, inspected, found, "it was replaced meanwhile; try again");
    LoadError::Refused(Box::new(refusal))
}
