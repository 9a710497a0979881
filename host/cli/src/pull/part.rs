//! `NAME.part`: what has arrived of a file, and what it was the beginning of.
//!
//! Beside it lies `NAME.part.json`, the stamp: address and version of the file it belongs to. A part is gone on with only if the stamp says
//! that it is the same file; otherwise it begins anew. The part is locked while somebody writes it, so two pulls never mix their bytes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::destination::{CHUNK, Destination, Expected, hex, write_failed};
use crate::exit::{Exit, Failure};

/// Which file a part is the beginning of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Where it comes from.
    pub source: String,
    /// The server's strong name for this version.
    pub etag: Option<String>,
    /// When this version was made, if there is no name.
    pub last_modified: Option<String>,
    /// What it must become.
    pub sha256: Option<String>,
}

impl Stamp {
    /// What a server compares in `If-Range`.
    pub fn validator(&self) -> Option<&str> {
        self.etag.as_deref().or(self.last_modified.as_deref())
    }
}

/// A locked part file, open at its end.
pub struct Part {
    destination: Destination,
    file: File,
    hasher: Sha256,
    length: u64,
    stamp: Stamp,
}

impl Part {
    /// Opens or makes it. What was there is kept if it belongs to `source`.
    pub fn open(destination: &Destination, source: &str, expected: &Expected) -> Result<Self, Failure> {
        let path = destination.part();
        let failed = |error: std::io::Error| write_failed(&path, &error);
        // A link here would let whoever can write to the folder choose another file to be overwritten.
        if std::fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(
                Failure::new(Exit::Other, format!("{} exists and is not a plain file", path.display())).next("Move it away and try again.")
            );
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::new(Exit::Other, format!("{} is being written by another pull", path.display()))
                    .next("Wait for it to end, or give this one another name with --as NAME."));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut part = Self { destination: destination.clone(), file, hasher: Sha256::new(), length: 0, stamp: Stamp::default() };
        let stamp = part.read_stamp();
        let same_bytes = |stamp: &Stamp| stamp.sha256.is_some() && stamp.sha256 == expected.sha256;
        match stamp {
            Some(stamp) if same_bytes(&stamp) || (stamp.source == source && stamp.validator().is_some()) => {
                part.stamp = Stamp { source: source.to_owned(), ..stamp };
                part.rehash()?;
            }
            _ => part.restart(Stamp { source: source.to_owned(), sha256: expected.sha256.clone(), ..Stamp::default() })?,
        }
        Ok(part)
    }

    fn stamp_path(&self) -> PathBuf {
        let mut path = self.destination.part().into_os_string();
        path.push(".json");
        path.into()
    }

    fn read_stamp(&self) -> Option<Stamp> {
        // A stamp that cannot be read says nothing; the part then begins anew, which is always right.
        let mut text = String::new();
        File::open(self.stamp_path()).ok()?.take(64 << 10).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn rehash(&mut self) -> Result<(), Failure> {
        let path = self.destination.part();
        let failed = |error: std::io::Error| Failure::io(format!("read {}", path.display()), &error);
        let mut buffer = vec![0; CHUNK];
        self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        loop {
            let count = match self.file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            self.hasher.update(&buffer[..count]);
            self.length += count as u64;
        }
    }

    /// Throws away what is there and begins a part of the file that `stamp` names.
    pub fn restart(&mut self, stamp: Stamp) -> Result<(), Failure> {
        let path = self.destination.part();
        let failed = |error: std::io::Error| write_failed(&path, &error);
        self.file.set_len(0).map_err(failed)?;
        self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        self.hasher = Sha256::new();
        self.length = 0;
        self.set_stamp(stamp)
    }

    /// Says which file this is the beginning of.
    pub fn set_stamp(&mut self, stamp: Stamp) -> Result<(), Failure> {
        let path = self.stamp_path();
        let text = serde_json::to_vec(&stamp).map_err(|error| Failure::new(Exit::Other, error))?;
        std::fs::write(&path, text).map_err(|error| write_failed(&path, &error))?;
        self.stamp = stamp;
        Ok(())
    }

    /// Adds bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|error| {
            // A write that failed may have written some of it; those bytes must not be counted twice.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            write_failed(&self.destination.part(), &error)
        })?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// What it belongs to.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Checks it and gives it its name. Returns the sha256.
    pub fn finish(self, expected: &Expected) -> Result<String, Failure> {
        let stamp = self.stamp_path();
        let found = hex(&self.hasher.finalize());
        let done = self.destination.finish(&self.file, &found, self.length, expected);
        // The stamp belongs to a part that is gone now, whether it was right or wrong.
        if !self.destination.part().exists() {
            let _ = std::fs::remove_file(stamp);
        }
        done.map(|()| found)
    }
}
