//! SHA-256 of files, remembered as long as a file is the same one: same path, size, time of last change and inode.
//!
//! A plugin has tens of megabytes and a model tens of gigabytes; neither is hashed twice.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use onebit_catalog::Stamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cache::{Cache, hex};

const FILE: &str = "hashes.json";
/// Files that are remembered; beyond, all are forgotten (they cost a reading, not a right answer).
const MOST: usize = 2000;

/// Hashes of files.
#[derive(Debug)]
pub(crate) struct Hashes {
    cache: Cache,
    /// `None` = not read from the disk yet.
    known: Mutex<Option<BTreeMap<PathBuf, Known>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    bytes: u64,
    modified_ns: i128,
    inode: u64,
    sha256: String,
}

impl Known {
    fn is(&self, stamp: &Stamp) -> bool {
        (self.bytes, self.modified_ns, self.inode) == (stamp.bytes, stamp.modified_ns, stamp.inode)
    }
}

impl Hashes {
    pub(super) fn new(cache: Cache) -> Self {
        Self { cache, known: Mutex::new(None) }
    }

    /// Lower case hexadecimal. Reads the file if it is not the one that was hashed before.
    pub(crate) fn of(&self, path: &Path) -> std::io::Result<String> {
        let stamp = Stamp::of(&fs::metadata(path)?);
        if let Some(known) = self.with(|known| known.get(path).filter(|known| known.is(&stamp)).map(|known| known.sha256.clone())) {
            return Ok(known);
        }
        let sha256 = sha256(path)?;
        // If it changed while it was read, what was read is neither the old nor the new one.
        if Stamp::of(&fs::metadata(path)?) == stamp {
            let all = self.with(|known| {
                if known.len() >= MOST {
                    known.clear();
                }
                let Stamp { bytes, modified_ns, inode } = stamp;
                known.insert(path.to_owned(), Known { bytes, modified_ns, inode, sha256: sha256.clone() });
                known.clone()
            });
            self.cache.put(FILE, &all);
        }
        Ok(sha256)
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<PathBuf, Known>) -> T) -> T {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        work(known.get_or_insert_with(|| self.cache.get(FILE).unwrap_or_default()))
    }
}

fn sha256(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0_u8; 1 << 20];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(chunk.get(..count).unwrap_or(&[])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_hashed_once_and_again_when_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let cache = Cache::new(Some(dir.path().join("cache")));
        fs::write(&path, b"abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Hashes::new(cache.clone()).of(&path).unwrap(), abc);
        // A new process knows it from the disk: a lie there proves that the file was not read again.
        let text = fs::read_to_string(dir.path().join("cache").join(FILE)).unwrap();
        fs::write(dir.path().join("cache").join(FILE), text.replace(abc, "remembered")).unwrap();
        assert_eq!(Hashes::new(cache.clone()).of(&path).unwrap(), "remembered");
        fs::write(&path, b"abcd").unwrap();
        assert!(Hashes::new(cache).of(&path).unwrap().starts_with("88d4266f"));
    }
}
