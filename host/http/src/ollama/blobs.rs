//! Files that were uploaded, by their digests, until a model is made of them.
//!
//! They lie in a hidden folder of the models folder, so that becoming a model is one rename on one disk. Bytes arrive under a name that
//! nobody asks for and get their own only if they are what the digest says. An upload that breaks off takes its bytes along; one whose
//! server was killed leaves a file that nobody has locked, and the next upload removes it, together with files that no model was made of
//! within a day.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use crate::errors::{ApiError, Kind};
use crate::keys::hex;

/// Inside the models folder.
const FOLDER: &str = ".blobs";
/// How names of files begin that are not whole yet.
const ARRIVING: &str = "arriving-";
/// Left free on the disk.
const MARGIN: u64 = 64 << 20;
/// How long a file waits for a model.
const UNUSED: Duration = Duration::from_secs(86_400);

/// `sha256:` and 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest(String);

impl Digest {
    /// Reads it; nothing else becomes part of a path.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:").or_else(|| text.strip_prefix("sha256-"))?;
        (hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| Self(hex.to_ascii_lowercase()))
    }

    /// The digits.
    pub fn hex(&self) -> &str {
        &self.0
    }

    /// The file of a model that was made of it.
    pub fn model_file(&self) -> String {
        format!("sha256-{}.gguf", self.0)
    }
}

/// The folder.
#[derive(Debug)]
pub struct Blobs {
    models: PathBuf,
}

impl Blobs {
    /// In a models folder.
    pub fn new(models: &Path) -> Self {
        Self { models: models.to_owned() }
    }

    fn dir(&self) -> PathBuf {
        self.models.join(FOLDER)
    }

    fn waiting(&self, digest: &Digest) -> PathBuf {
        self.dir().join(format!("sha256-{}", digest.hex()))
    }

    fn used(&self, digest: &Digest) -> PathBuf {
        self.models.join(digest.model_file())
    }

    /// How many bytes such a file has, if it is here.
    pub fn length(&self, digest: &Digest) -> Option<u64> {
        [self.waiting(digest), self.used(digest)].iter().find_map(|path| Some(std::fs::metadata(path).ok()?.len()))
    }

    /// Begins an upload of so many bytes, where that is known.
    pub fn begin(&self, length: Option<u64>) -> Result<Upload, ApiError> {
        let dir = self.dir();
        std::fs::create_dir_all(&dir).map_err(|error| failed("make the folder", &dir, &error))?;
        sweep(&dir);
        check_space(&dir, length.unwrap_or(0))?;
        let file = tempfile::Builder::new().prefix(ARRIVING).tempfile_in(&dir).map_err(|error| failed("write to", &dir, &error))?;
        file.as_file().lock().map_err(|error| failed("lock a file in", &dir, &error))?;
        Ok(Upload { dir, file, hasher: Sha256::new() })
    }

    /// Keeps an upload under its digest, if it is that.
    pub fn keep(&self, upload: Upload, digest: &Digest) -> Result<(), ApiError> {
        let found = hex(&upload.hasher.finalize().into());
        if found != digest.hex() {
            return Err(ApiError::invalid(
                "digest",
                format!("the bytes have the sha256 {found}, not the one in the path; nothing was kept"),
            ));
        }
        let path = self.waiting(digest);
        upload.file.as_file().sync_all().map_err(|error| failed("write", &path, &error))?;
        upload.file.persist(&path).map_err(|error| failed("write", &path, &error.error))?;
        File::open(&upload.dir).and_then(|dir| dir.sync_all()).map_err(|error| failed("write to", &upload.dir, &error))
    }

    /// Puts a file where models are. `None`: it is not here. True: it was not there before.
    pub fn adopt(&self, digest: &Digest) -> Result<Option<bool>, ApiError> {
        let (from, to) = (self.waiting(digest), self.used(digest));
        match std::fs::rename(&from, &to) {
            Ok(()) => Ok(Some(true)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(to.exists().then_some(false)),
            Err(error) => Err(failed("make a model of", &from, &error)),
        }
    }

    /// Takes back a file of which no model could be made.
    pub fn give_back(&self, digest: &Digest) {
        if let Err(error) = std::fs::rename(self.used(digest), self.waiting(digest)) {
            tracing::warn!(file = %self.used(digest).display(), %error, "a file that is no model stays among the models");
        }
    }
}

/// Bytes on their way.
#[derive(Debug)]
pub struct Upload {
    dir: PathBuf,
    file: NamedTempFile,
    hasher: Sha256,
}

impl Upload {
    /// Adds some.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ApiError> {
        check_space(&self.dir, bytes.len() as u64)?;
        self.file.write_all(bytes).map_err(|error| failed("write", self.file.path(), &error))?;
        self.hasher.update(bytes);
        Ok(())
    }
}

/// Whether `more` bytes fit on the disk.
fn check_space(dir: &Path, more: u64) -> Result<(), ApiError> {
    let stat = rustix::fs::statvfs(dir).map_err(|error| failed("ask for the free space of", dir, &error.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if more.saturating_add(MARGIN) <= free {
        return Ok(());
    }
    Err(ApiError::new(
        Kind::NoSpace,
        format!("{more} bytes do not fit: {} has {free} bytes free, of which {MARGIN} stay free; nothing was kept", dir.display()),
    ))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> ApiError {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Kind::NoSpace,
        _ => Kind::StoreFailed,
    };
    ApiError::new(kind, format!("the server cannot {what} {}: {error}", path.display()))
}

fn sweep(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.map_while(Result::ok) {
        let path = entry.path();
        let abandoned = if entry.file_name().to_string_lossy().starts_with(ARRIVING) {
            File::open(&path).is_ok_and(|file| file.try_lock().is_ok())
        } else {
            entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > UNUSED))
        };
        if abandoned && let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(file = %path.display(), %error, "what an upload left behind cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_digest_becomes_a_name() {
        let hex = "0123456789abcdefABCDEF".to_owned() + &"0".repeat(42);
        let read = Digest::parse(&format!("sha256:{hex}")).unwrap();
        assert_eq!((read.hex(), Digest::parse(&format!("sha256-{hex}"))), (hex.to_lowercase().as_str(), Some(read.clone())));
        for bad in ["", "sha256:", &hex, "sha256:../../etc/passwd", "md5:0", &format!("sha256:{hex}0"), &format!("sha256:{}é", &hex[..62])]
        {
            assert_eq!(Digest::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn bytes_are_kept_only_if_they_are_what_they_should_be() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        let digest = Digest(hex(&Sha256::digest(b"GGUF").into()));
        let upload = || {
            let mut upload = blobs.begin(Some(4)).unwrap();
            upload.write(b"GG").unwrap();
            upload.write(b"UF").unwrap();
            upload
        };
        assert_eq!(blobs.length(&digest), None);
        assert_eq!(blobs.keep(upload(), &Digest("0".repeat(64))).unwrap_err().kind, Kind::InvalidValue);
        drop(upload());
        assert_eq!(std::fs::read_dir(blobs.dir()).unwrap().count(), 0, "what broke off is gone");
        blobs.keep(upload(), &digest).unwrap();
        assert_eq!((blobs.length(&digest), blobs.adopt(&digest).unwrap()), (Some(4), Some(true)));
        // It is still here, under the name that models have.
        assert_eq!((blobs.length(&digest), blobs.adopt(&digest).unwrap()), (Some(4), Some(false)));
        blobs.give_back(&digest);
        assert_eq!((blobs.length(&digest), dir.path().join(digest.model_file()).exists()), (Some(4), false));
        assert_eq!(blobs.adopt(&Digest("1".repeat(64))).unwrap(), None);
        assert_eq!(blobs.begin(Some(u64::MAX / 2)).unwrap_err().kind, Kind::NoSpace);
    }

    #[test]
    fn what_a_killed_server_left_behind_is_removed_and_what_arrives_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        let arriving = blobs.begin(None).unwrap();
        let (killed, old, fresh) = (blobs.dir().join("arriving-killed"), blobs.dir().join("sha256-old"), blobs.dir().join("sha256-fresh"));
        for path in [&killed, &old, &fresh] {
            std::fs::write(path, b"x").unwrap();
        }
        let long_ago = std::time::SystemTime::now() - 2 * UNUSED;
        File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        drop(blobs.begin(None).unwrap());
        assert!(arriving.file.path().exists() && fresh.exists() && !killed.exists() && !old.exists());
    }
}
