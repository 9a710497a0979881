//! SHA-256 of files, remembered as long as a file is the same one by its [`Stamp`].
//!
//! A plugin has tens of megabytes and a model tens of gigabytes; neither is hashed twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use onebit_loader::trust::{Seen, Stamp};

use super::cache::Cache;

const FILE: &str = "hashes.json";
/// Files that are remembered; beyond, all are forgotten (they cost a reading, not a right answer).
const MOST: usize = 2000;

/// Hashes of files.
#[derive(Debug)]
pub(crate) struct Hashes {
    cache: Cache,
    /// `None` = not read from the disk yet.
    known: Mutex<Option<BTreeMap<PathBuf, Seen>>>,
}

impl Hashes {
    pub(super) fn new(cache: Cache) -> Self {
        Self { cache, known: Mutex::new(None) }
    }

    /// Lower case hexadecimal. Reads the file if it is not the one that was hashed before.
    pub(crate) fn of(&self, path: &Path) -> std::io::Result<String> {
        self.seen(path).map(|seen| seen.sha256)
    }

    /// The hash, and the file that it is true of.
    pub(crate) fn seen(&self, path: &Path) -> std::io::Result<Seen> {
        let file = fs::File::open(path)?;
        let stamp = Stamp::of(&file.metadata()?);
        if let Some(known) = self.with(|known| known.get(path).filter(|known| known.stamp == stamp).cloned()) {
            return Ok(known);
        }
        let seen = Seen { stamp, sha256: onebit_loader::trust::sha256(&file)? };
        // If it changed while it was read, what was read is neither the old nor the new one.
        if stamp.settled() && Stamp::of(&file.metadata()?) == stamp {
            let all = self.with(|known| {
                if known.len() >= MOST {
                    known.clear();
                }
                known.insert(path.to_owned(), seen.clone());
                known.clone()
            });
            self.cache.put(FILE, &all);
        }
        Ok(seen)
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<PathBuf, Seen>) -> T) -> T {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        work(known.get_or_insert_with(|| self.cache.get(FILE).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written a moment ago is not remembered, because a second change might not show.
    fn settle(path: &Path) {
        while !Stamp::of(&fs::metadata(path).unwrap()).settled() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    #[test]
    fn a_file_that_was_just_written_is_not_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, b"abc").unwrap();
        let cache = Cache::new(Some(dir.path().join("cache")));
        Hashes::new(cache).of(&path).unwrap();
        assert!(!dir.path().join("cache").join(FILE).exists());
    }

    #[test]
    fn an_old_date_does_not_hide_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, b"abc").unwrap();
        settle(&path);
        let hashes = Hashes::new(Cache::new(None));
        let (first, modified) = (hashes.of(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
        fs::write(&path, b"xyz").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        assert_ne!(hashes.of(&path).unwrap(), first);
    }

    #[test]
    fn a_file_is_hashed_once_and_again_when_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let cache = Cache::new(Some(dir.path().join("cache")));
        fs::write(&path, b"abc").unwrap();
        settle(&path);
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
