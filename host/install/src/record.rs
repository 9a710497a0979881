//! Where an installed plugin came from: a small JSON file outside the plugin's folder, because the folder is the author's and may be sealed by
//! hashes.

use std::io::{Read, Write};
use std::path::Path;

use onebit_loader::trust::Signer;
use serde::{Deserialize, Serialize};

use crate::InstallError;

/// Bytes of a record that are read.
const RECORD_MAX: u64 = 64 << 10;

/// Seconds since 1970 as text for people and programs: `2026-11-30T19:00:00Z`.
pub type Times = String;

/// What is remembered of an install.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// A path or an address.
    pub source: String,
    /// Of the archive, if it was one.
    pub archive_sha256: Option<String>,
    /// Of the library.
    pub library_sha256: String,
    /// By its `plugin.toml`.
    pub version: String,
    /// Whose signature fitted, if any did.
    pub signer: Option<Signer>,
    /// When.
    pub installed_at: Times,
}

impl Record {
    /// `None`: there is none that can be read.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let mut text = Vec::new();
        std::fs::File::open(path).ok()?.take(RECORD_MAX).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Whole or not at all.
    pub(crate) fn write(&self, path: &Path) -> Result<(), InstallError> {
        let failed = || InstallError::io("write", path);
        let dir = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir).map_err(failed())?;
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed()(error.into()))?;
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed())?;
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(failed())?;
        file.persist(path).map_err(|error| failed()(error.error))?;
        Ok(())
    }
}

/// Now, to the second.
pub(crate) fn now() -> Times {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now).to_string()
}
