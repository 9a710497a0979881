//! What is remembered between runs: small JSON files, each under the hash of everything its content depends on.
//!
//! The cache may be lost at any time and may be impossible to write (a read-only home, a full disk): then things are slower and nothing
//! else. A file that cannot be read is as good as none.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// Answers that are kept; one more, and all of a kind are forgotten: they cost a question, not a right answer.
const MOST: usize = 2000;
/// Largest file that is read.
const FILE_MAX: u64 = 4 << 20;

/// A folder of remembered answers.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// In `folder`; `None` = nothing is remembered.
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    pub(super) fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let path = self.folder.as_ref()?.join(name);
        let mut text = Vec::new();
        fs::File::open(&path).ok()?.take(FILE_MAX).read_to_end(&mut text).ok()?;
        match serde_json::from_slice(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "a remembered answer cannot be read; it will be asked for again");
                None
            }
        }
    }

    pub(super) fn put(&self, name: &str, value: &impl Serialize) {
        let Some(folder) = &self.folder else { return };
        if fs::read_dir(folder).is_ok_and(|entries| entries.count() > MOST) {
            self.clear("fit-");
        }
        if let Err(error) = write(folder, name, value) {
            tracing::debug!(folder = %folder.display(), %error, "an answer cannot be remembered; it will be asked for again next time");
        }
    }

    /// Forgets everything whose name begins with `prefix`.
    pub(super) fn clear(&self, prefix: &str) {
        let Some(entries) = self.folder.as_ref().and_then(|folder| fs::read_dir(folder).ok()) else {
            return;
        };
        for entry in entries.map_while(Result::ok) {
            if entry.file_name().to_string_lossy().starts_with(prefix)
                && let Err(error) = fs::remove_file(entry.path())
            {
                tracing::warn!(path = %entry.path().display(), %error, "a remembered answer cannot be removed");
            }
        }
    }
}

/// Whole or not at all: written beside its place, then moved there.
fn write(folder: &Path, name: &str, value: &impl Serialize) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let text = serde_json::to_vec(value)?;
    let beside = folder.join(format!(".{name}.{}", std::process::id()));
    let result = fs::File::create(&beside).and_then(|mut file| file.write_all(&text)).and_then(|()| fs::rename(&beside, folder.join(name)));
    if result.is_err() {
        // Nothing more can be done about a half-written file.
        fs::remove_file(&beside).ok();
    }
    result
}

/// The name of a question: a hash over everything the answer depends on. Parts cannot run into each other.
pub(super) fn key(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hex(&hasher.finalize())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing into a String cannot fail.
        write!(out, "{byte:02x}").ok();
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_remembered_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(dir.path().join("a/b")));
        assert_eq!(cache.get::<u32>("fit-1.json"), None);
        cache.put("fit-1.json", &7_u32);
        cache.put("hashes.json", &8_u32);
        assert_eq!(cache.get("fit-1.json"), Some(7_u32));
        cache.clear("fit-");
        assert_eq!(cache.get::<u32>("fit-1.json"), None);
        assert_eq!(cache.get("hashes.json"), Some(8_u32));
    }

    #[test]
    fn a_place_that_cannot_be_written_costs_nothing_but_time() {
        for folder in [None, Some(PathBuf::from("/proc/no/such/place")), Some(PathBuf::from("/dev/null/x"))] {
            let cache = Cache::new(folder);
            cache.put("x.json", &1_u32);
            cache.clear("x");
            assert_eq!(cache.get::<u32>("x.json"), None);
        }
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.json"), b"{\"half").unwrap();
        assert_eq!(Cache::new(Some(dir.path().to_owned())).get::<u32>("x.json"), None);
    }

    #[test]
    fn parts_of_a_key_do_not_run_into_each_other() {
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_eq!(key(&[]).len(), 64);
    }
}
