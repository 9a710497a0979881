//! The file of keys, changed as a person would change it: comments and order stay, and what `serve` would refuse is never written.
//!
//! A change is a new file that takes the old one's place, with its mode and owner, so that a server never reads half of one and a service's
//! group can read it afterwards. Two changes at a time wait for each other at the folder.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use onebit_http::keys::{self, KeyEntry};
use rustix::fs::{FlockOperation, flock};
use toml_edit::{ArrayOfTables, DocumentMut, Item};

use crate::exit::{Exit, Failure};

/// The file, which need not be there yet.
pub(super) struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its keys; none where there is no file.
    pub(super) fn entries(&self) -> Result<Vec<KeyEntry>, Failure> {
        if self.absent()? { Ok(Vec::new()) } else { Ok(keys::read(&self.path)?) }
    }

    /// Lets `change` work on the keys, as they were read and as they are written (in the same order), and puts the outcome in place.
    pub(super) fn change(&self, change: impl FnOnce(&[KeyEntry], &mut ArrayOfTables) -> Result<(), Failure>) -> Result<(), Failure> {
        // A link is followed: what takes its place would leave the file it names as it was.
        let real = if self.absent()? { self.path.clone() } else { self.io("find", self.path.canonicalize())? };
        let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let lock = self.io("lock the folder of", File::open(folder))?;
        self.io("lock the folder of", flock(&lock, FlockOperation::LockExclusive).map_err(std::io::Error::from))?;
        let before = if self.absent()? { None } else { Some(self.io("look at", std::fs::metadata(&real))?) };
        let entries = self.entries()?;
        let text = if before.is_some() { self.io("read", std::fs::read_to_string(&real))? } else { String::new() };
        let mut document: DocumentMut = text.trim_start_matches('\u{feff}').parse().map_err(|_| self.unusable("cannot be read as TOML"))?;
        let written = document.entry("key").or_insert(Item::ArrayOfTables(ArrayOfTables::new())).as_array_of_tables_mut();
        change(&entries, written.ok_or_else(|| self.unusable("has its keys in one line; write each as a [[key]] of its own"))?)?;
        let text = document.to_string();
        keys::parse(&text).map_err(|reason| self.unusable(&reason))?;

        let mut new = self.io("write beside", tempfile::NamedTempFile::new_in(folder))?;
        self.io("write", new.write_all(text.as_bytes()))?;
        if let Some(before) = &before {
            let made = self.io("look at", new.as_file().metadata())?;
            if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
                self.io("keep the owner of", fchown(new.as_file(), Some(before.uid()), Some(before.gid())))?;
            }
        }
        let mode = before.map_or(0o600, |before| before.mode() & 0o777);
        self.io("keep the mode of", new.as_file().set_permissions(Permissions::from_mode(mode)))?;
        self.io("write", new.as_file().sync_all())?;
        self.io("replace", new.persist(&real).map_err(|error| error.error))?;
        Ok(())
    }

    fn absent(&self) -> Result<bool, Failure> {
        match std::fs::metadata(&self.path) {
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
            Err(error) => self.io("look at", Err(error)),
        }
    }

    fn io<T>(&self, what: &str, result: std::io::Result<T>) -> Result<T, Failure> {
        result.map_err(|error| Failure::io(format!("{what} {}", self.path.display()), &error).next("No key was added or removed."))
    }

    fn unusable(&self, reason: &str) -> Failure {
        Failure::new(Exit::Usage, format!("the file of API keys {} {reason}", self.path.display())).next("No key was added or removed.")
    }
}
