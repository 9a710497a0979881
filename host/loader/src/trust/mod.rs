//! Trust: whether others could have changed a plugin, and whether it is what its author made.
//!
//! Three questions, each with its own kind of answer:
//!
//! | question | looked at | file |
//! |---|---|---|
//! | who could change it? | owners and permissions of the folder, its files, its parents; links | `place`, `folder` |
//! | is it whole? | `[sha256]` of `plugin.toml` | `hash` |
//! | who made it? | `plugin.toml.minisig`, keys in `trust.d` | `signature`, `keys` |
//!
//! [`examine`] gives all problems as data; [`Problem::severity`] says which forbid the use under which policy. What it must never do: run
//! anything, follow a link out of the folder, or trust a key that others could replace. The bytes that run are checked once more, on the
//! descriptors that are loaded; see `verified`.

mod folder;
mod hash;
mod keys;
mod place;
mod problem;
mod signature;
mod stamp;
pub(crate) mod verified;

use std::collections::BTreeMap;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{iter, thread};

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

pub use hash::sha256;
pub use keys::SYSTEM_KEYS;
pub use place::elevated;
pub use problem::{Problem, Severity};
pub use signature::{SIGNATURE, Signer};
pub use stamp::{Seen, Stamp};

use crate::{PluginToml, plugin_toml};
use folder::{Entry, Folder, Shut};
use place::{Owners, Ownership};

const PLUGIN_TOML: &str = "plugin.toml";

/// How much proof a plugin must bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// What others could exploit and what contradicts itself is refused; missing proof is reported.
    #[default]
    Warn,
    /// A plugin without hashes of all its files and a signature by a trusted key is refused.
    Strict,
}

/// The policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// How much proof.
    pub mode: Mode,
    /// Folders of trusted public keys (`*.pub`).
    pub keys: Vec<PathBuf>,
}

impl Default for Trust {
    fn default() -> Self {
        Self { mode: Mode::Warn, keys: vec![SYSTEM_KEYS.into()] }
    }
}

/// How much of a plugin is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Names, owners, `plugin.toml` and its signature: microseconds. Whether a file was altered stays open.
    Names,
    /// All files that `plugin.toml` lists, too.
    Everything,
}

/// What [`examine`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Examination {
    /// Everything that is not as it should be, also what the policy lets pass.
    pub problems: Vec<Problem>,
    /// Whose signature fits.
    pub signer: Option<Signer>,
    /// Whether `plugin.toml` lists hashes.
    pub hashes: bool,
}

impl Examination {
    /// Problems of this severity.
    pub fn of(&self, severity: Severity, mode: Mode) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(move |problem| problem.severity(mode) == severity)
    }
}

/// Looks at a plugin's folder as a stranger could have left it. `dir` is absolute.
pub fn examine(dir: &Path, trust: &Trust, reading: Reading) -> Examination {
    examine_for(dir, trust, reading, &Owners::of_this_process())
}

/// The sha256 of every file that a `plugin.toml` of this folder should list. Fails on what a plugin's folder may not hold.
pub fn hashes(dir: &Path) -> Result<BTreeMap<String, String>, Problem> {
    let unreadable = |path: &Path, error: io::Error| Problem::Unreadable { path: path.to_owned(), reason: error.to_string() };
    let folder = dir.canonicalize().and_then(|real| Folder::open(&real)).map_err(|error| unreadable(dir, error))?;
    let (entries, more) = folder.entries().map_err(|error| unreadable(dir, error))?;
    if more {
        return Err(Problem::Crowded { seen: entries.len() });
    }
    let mut hashes = BTreeMap::new();
    for Entry { name, kind, .. } in entries {
        match kind {
            FileType::Directory => continue,
            FileType::RegularFile | FileType::Symlink => {}
            _ => return Err(Problem::NotRegular { name, loaded: true }),
        }
        let file = folder.file(&name).map_err(|shut| match shut {
            Shut::LeadsOut(to) => Problem::LeadsOut { name: name.clone(), to, loaded: true },
            other => Problem::Unreadable { path: folder.path().join(&name), reason: other.to_string() },
        })?;
        // A link inside the folder needs no hash: what it leads to has one.
        if kind == FileType::RegularFile && ![PLUGIN_TOML, SIGNATURE].contains(&name.as_str()) {
            let hash = hash::sha256(&file).map_err(|error| unreadable(&folder.path().join(&name), error))?;
            hashes.insert(name, hash);
        }
    }
    Ok(hashes)
}

/// Looks at one file that is no part of a plugin: who could change it?
pub(crate) fn examine_file(path: &Path) -> Vec<Problem> {
    let owners = Owners::of_this_process();
    let mut problems = Vec::new();
    place::check_way(path, &owners, &mut problems);
    match std::fs::metadata(path) {
        Ok(metadata) => owners.check_own(path, &Ownership::from(&metadata), &mut problems),
        Err(error) => problems.push(Problem::Unreadable { path: path.to_owned(), reason: error.to_string() }),
    }
    problems
}

fn examine_for(dir: &Path, trust: &Trust, reading: Reading, owners: &Owners) -> Examination {
    // The way as it was given: a link on it may be turned by whoever owns it.
    let mut found = Examination::default();
    place::check_way(dir, owners, &mut found.problems);
    match dir.canonicalize().and_then(|real| Folder::open(&real)) {
        Err(error) => found.problems.push(Problem::Unreadable { path: dir.to_owned(), reason: error.to_string() }),
        Ok(folder) => {
            let (looked, toml) = look(&folder, trust, owners);
            found = Examination { problems: once(found.problems.into_iter().chain(looked.problems)), ..looked };
            if let Some(toml) = toml.filter(|_| reading == Reading::Everything) {
                check_contents(&folder, &toml, &mut found.problems);
            }
        }
    }
    found
}

/// Everything that needs no reading of libraries, from an open folder. `None`: `plugin.toml` cannot be read or understood, which is for others
/// to say.
fn look(folder: &Folder, trust: &Trust, owners: &Owners) -> (Examination, Option<PluginToml>) {
    let mut found = Examination::default();
    place::check_way(folder.path(), owners, &mut found.problems);
    let (ownership, (entries, more)) = match folder.ownership().and_then(|ownership| Ok((ownership, folder.entries()?))) {
        Ok(looked) => looked,
        Err(error) => {
            found.problems.push(Problem::Unreadable { path: folder.path().to_owned(), reason: error.to_string() });
            return (found, None);
        }
    };
    owners.check_own(folder.path(), &ownership, &mut found.problems);
    if more {
        found.problems.push(Problem::Crowded { seen: entries.len() });
    }
    let read = read_toml(folder);
    check_entries(folder, &entries, read.as_ref().map(|(toml, _)| toml), owners, &mut found.problems);
    let toml = read.map(|(toml, bytes)| {
        check_hashes_listed(&toml, &entries, &mut found);
        found.signer = check_signature(folder, &bytes, trust, owners, &mut found.problems);
        toml
    });
    (Examination { problems: once(found.problems), ..found }, toml)
}

/// A way may pass a folder twice.
fn once(problems: impl IntoIterator<Item = Problem>) -> Vec<Problem> {
    let mut once: Vec<Problem> = Vec::new();
    for problem in problems {
        if !once.contains(&problem) {
            once.push(problem);
        }
    }
    once
}

/// `None`: it cannot be read or understood, which is for others to say.
fn read_toml(folder: &Folder) -> Option<(PluginToml, Vec<u8>)> {
    let bytes = folder.read(PLUGIN_TOML, plugin_toml::MAX_TOML).ok()??;
    Some((PluginToml::parse(core::str::from_utf8(&bytes).ok()?).ok()?, bytes))
}

/// Whether this is a thing that gets loaded, as far as its name tells.
fn is_loaded(name: &str, toml: Option<&PluginToml>) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let library = file.ends_with(".so") || file.contains(".so.");
    library || name == PLUGIN_TOML || toml.is_some_and(|toml| toml.library == name || toml.sha256.contains_key(name))
}

fn check_entries(folder: &Folder, entries: &[Entry], toml: Option<&PluginToml>, owners: &Owners, problems: &mut Vec<Problem>) {
    for Entry { name, kind, ownership } in entries {
        let loaded = is_loaded(name, toml);
        match kind {
            FileType::RegularFile | FileType::Directory => owners.check_own(&folder.path().join(name), ownership, problems),
            FileType::Symlink => match folder.file(name) {
                Err(Shut::LeadsOut(to)) => problems.push(Problem::LeadsOut { name: name.clone(), to, loaded }),
                Err(Shut::Io(error)) if loaded => {
                    problems.push(Problem::Unreadable { path: folder.path().join(name), reason: error.to_string() });
                }
                _ => {}
            },
            _ => problems.push(Problem::NotRegular { name: name.clone(), loaded }),
        }
    }
}

fn check_hashes_listed(toml: &PluginToml, entries: &[Entry], found: &mut Examination) {
    found.hashes = !toml.sha256.is_empty();
    if !found.hashes {
        return found.problems.push(Problem::NoHashes);
    }
    let missing = toml.sha256.keys().filter(|name| !entries.iter().any(|entry| entry.name == **name));
    found.problems.extend(missing.map(|name| Problem::ListedMissing { name: name.clone() }));
    // A link inside the folder needs no hash: what it leads to has one.
    let files = entries.iter().filter(|entry| entry.kind == FileType::RegularFile).map(|entry| entry.name.as_str());
    let unlisted = files.filter(|name| ![PLUGIN_TOML, SIGNATURE].contains(name) && !toml.sha256.contains_key(*name));
    found.problems.extend(unlisted.map(|name| Problem::Unlisted { name: name.to_owned() }));
}

fn check_signature(folder: &Folder, toml: &[u8], trust: &Trust, owners: &Owners, problems: &mut Vec<Problem>) -> Option<Signer> {
    match folder.read(SIGNATURE, signature::SIGNATURE_MAX) {
        Ok(None) => {
            problems.push(Problem::Unsigned);
            None
        }
        Ok(Some(bytes)) => {
            let keys = keys::read(&trust.keys, owners, problems);
            signature::verify(toml, &bytes, &keys, problems)
        }
        Err(shut) => {
            problems.push(Problem::SignatureDamaged { reason: shut.to_string() });
            None
        }
    }
}

/// Hashes are nearly all the time that a check takes, so files do not wait for each other; the largest is the first, because all wait for it.
fn check_contents(folder: &Folder, toml: &PluginToml, problems: &mut Vec<Problem>) {
    let size = |name: &str| folder.file(name).ok().and_then(|file| file.metadata().ok()).map(|data| data.len());
    let hash = |name: &str| {
        let file = folder.file(name).map_err(|shut| shut.to_string())?;
        hash::sha256(&file).map_err(|error| error.to_string())
    };
    let mut files: Vec<_> = toml.sha256.iter().collect();
    files.sort_by_cached_key(|(name, _)| size(name));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(files.len());
    let files = Mutex::new(files);
    let next = || files.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut hashed = thread::scope(|scope| {
        let work = || iter::from_fn(next).map(|(name, listed)| (name, listed, hash(name))).collect::<Vec<_>>();
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect::<Vec<_>>()
    });
    hashed.sort_by_key(|(name, ..)| *name);
    for (name, listed, found) in hashed {
        match found {
            Ok(found) if found == *listed => {}
            Ok(found) => problems.push(Problem::Altered { name: name.clone(), listed: listed.clone(), found }),
            // That it is missing was said; a link out too.
            Err(_) if !folder.path().join(name).exists() => {}
            Err(reason) => problems.push(Problem::Unreadable { path: folder.path().join(name), reason }),
        }
    }
}

#[cfg(test)]
mod tests;
