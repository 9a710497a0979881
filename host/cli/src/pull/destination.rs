//! Where a pulled file goes, whether it is there already, whether there is room, and how it gets its name at the end.
//!
//! A file under its final name is always whole: bytes arrive in `NAME.part` and get the name by one `rename` after they were checked. What
//! had the name before is there until that moment.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::exit::{Exit, Failure};
use crate::output::bytes;

/// Left free on the disk beyond the file itself.
const MARGIN: u64 = 16 << 20;
/// Read and written at once.
pub const CHUNK: usize = 1 << 20;

/// What the bytes must be, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// Lower case hexadecimal.
    pub sha256: Option<String>,
    /// Bytes.
    pub size: Option<u64>,
    /// Bytes that are taken at most, if the size is not known beforehand.
    pub most: Option<u64>,
}

/// A name in a folder.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The folder; it exists.
    pub dir: PathBuf,
    /// The file's name.
    pub name: String,
}

impl Destination {
    /// Makes the folder if needed. The name is checked: one component, nothing hidden.
    pub fn new(dir: &Path, name: &str) -> Result<Self, Failure> {
        if let Err(problem) = plain_name(name) {
            return Err(Failure::new(Exit::Usage, format!("{name:?} cannot be the name of a model file: {problem}"))
                .next("Give another with --as NAME."));
        }
        std::fs::create_dir_all(dir).map_err(|error| {
            Failure::io(format!("make the models folder {}", dir.display()), &error)
                .next("Choose a folder you may write to with --models-dir DIR.")
        })?;
        Ok(Self { dir: dir.to_owned(), name: name.to_owned() })
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// Where its bytes arrive.
    pub fn part(&self) -> PathBuf {
        self.dir.join(format!("{}.part", self.name))
    }

    /// Whether the right file is there already. A wrong one is an error unless its sha256 is known (then the right one takes its place) or
    /// the user said so.
    pub fn already_there(&self, expected: &Expected, force: bool) -> Result<bool, Failure> {
        let path = self.path();
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(Failure::io(format!("look at {}", path.display()), &error)),
            Ok(metadata) if !metadata.is_file() => {
                return Err(Failure::new(Exit::Other, format!("{} exists and is not a file", path.display()))
                    .next("Move it away, or give another name with --as NAME."));
            }
            Ok(_) => {}
        }
        let Some(wanted) = &expected.sha256 else {
            if force {
                return Ok(false);
            }
            return Err(Failure::new(Exit::Other, format!("{} exists already", path.display())).next(
                "--force replaces it once the new file is complete; --as NAME keeps both; --sha256 HASH tells whether it is the right one.",
            ));
        };
        let found = sha256_of(&path)?;
        if found == *wanted {
            return Ok(true);
        }
        crate::output::note(format!(
            "{} is not the right file (sha256 {found}); it is replaced once the right one is complete",
            path.display()
        ));
        Ok(false)
    }

    /// Whether `more` bytes fit on the disk.
    pub fn check_space(&self, more: u64) -> Result<(), Failure> {
        let stat = rustix::fs::statvfs(&self.dir)
            .map_err(|error| Failure::io(format!("ask for the free space of {}", self.dir.display()), &error.into()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if more.saturating_add(MARGIN) > free {
            return Err(Failure::new(
                Exit::NoSpace,
                format!(
                    "{} needs {} more in {}, {} are free",
                    self.name,
                    bytes(more.saturating_add(MARGIN)),
                    self.dir.display(),
                    bytes(free)
                ),
            )
            .next("Nothing was written. Free some space, or choose a folder on another disk with --models-dir DIR."));
        }
        Ok(())
    }

    /// Gives the finished part its name. `found` is its sha256, `size` its length.
    pub fn finish(&self, part: &File, found: &str, size: u64, expected: &Expected) -> Result<(), Failure> {
        if let Err(failure) = self.verify(found, size, expected) {
            // Going on from wrong bytes can only end in wrong bytes.
            let _ = std::fs::remove_file(self.part());
            return Err(failure);
        }
        let (from, to) = (self.part(), self.path());
        let failed = |error: std::io::Error| Failure::io(format!("complete {}", to.display()), &error);
        part.sync_all().map_err(failed)?;
        std::fs::rename(&from, &to).map_err(failed)?;
        // The name is safe only when the folder is on the disk too.
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed)
    }

    fn verify(&self, found: &str, size: u64, expected: &Expected) -> Result<(), Failure> {
        let kept = if self.path().exists() { " The file that was there before is untouched." } else { "" };
        if let Some(wanted) = expected.size.filter(|wanted| *wanted != size) {
            return Err(Failure::new(Exit::Corrupt, format!("{} has {size} bytes, it must have {wanted}", self.name))
                .next(format!("The wrong file was removed.{kept} Try again, or pull from another source.")));
        }
        if let Some(wanted) = expected.sha256.as_ref().filter(|wanted| *wanted != found) {
            return Err(Failure::new(
                Exit::Corrupt,
                format!("{} is not the right file: its sha256 is {found}, it must be {wanted}", self.name),
            )
            .next(format!("The wrong file was removed.{kept} Try again, or pull from another source.")));
        }
        if self.name.to_ascii_lowercase().ends_with(".gguf") {
            let mut magic = [0; 4];
            let read = File::open(self.part()).and_then(|mut file| file.read_exact(&mut magic));
            if read.is_err() || &magic != b"GGUF" {
                return Err(Failure::new(Exit::Corrupt, format!("{} is not a GGUF file: it does not begin with \"GGUF\"", self.name))
                    .next(format!("The wrong file was removed.{kept} Look at what the source really offers.")));
            }
        }
        Ok(())
    }
}

/// Whether a name is one plain component.
pub fn plain_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name == "." || name == ".." {
        return Err("it is empty".into());
    }
    if name.starts_with('.') {
        return Err("it would be hidden".into());
    }
    if name.len() > 200 {
        return Err("it is longer than 200 bytes".into());
    }
    match name.chars().find(|c| *c == '/' || *c == '\\' || *c == ':' || c.is_control()) {
        Some(c) => Err(format!("it has {c:?} in it")),
        None => Ok(()),
    }
}

/// Reads a sha256 as people copy it.
pub fn sha256_text(text: &str) -> Result<String, String> {
    let text = text.trim().trim_start_matches("sha256:").to_ascii_lowercase();
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(text)
    } else {
        Err(format!("{text:?} is not a sha256: it has 64 hexadecimal digits"))
    }
}

/// Lower case hexadecimal.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of a whole file.
pub fn sha256_of(path: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::io(format!("read {}", path.display()), &error);
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// The failure for an error while writing a part.
pub fn write_failed(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::io(format!("write {}", path.display()), error);
    match failure.exit() {
        Exit::NoSpace => failure.next("What has arrived is kept. Free some space and run the same command again: it goes on where it stopped. Or choose a folder on another disk with --models-dir DIR."),
        Exit::Permission => failure.next("Choose a folder you may write to with --models-dir DIR."),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for name in ["", ".", "..", "../x", "a/b", "/x", "a\\b", ".hidden", "c:x", "a\nb"] {
            assert!(plain_name(name).is_err(), "{name:?}");
        }
        for name in ["a.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf", "модель.gguf", "a b.gguf"] {
            assert_eq!(plain_name(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn a_wrong_file_never_takes_the_place_of_a_working_one() {
        let dir = tempfile::tempdir().unwrap();
        let destination = Destination::new(dir.path(), "m.gguf").unwrap();
        std::fs::write(destination.path(), b"GGUF old").unwrap();
        for (bytes, expected) in [
            (&b"GGUF new"[..], Expected { sha256: Some("0".repeat(64)), ..Expected::default() }),
            (b"GGUF new", Expected { size: Some(9), ..Expected::default() }),
            (b"<html>", Expected::default()),
        ] {
            std::fs::write(destination.part(), bytes).unwrap();
            let part = File::open(destination.part()).unwrap();
            let failure = destination.finish(&part, &hex(&Sha256::digest(bytes)), bytes.len() as u64, &expected).unwrap_err();
            assert_eq!(failure.exit(), Exit::Corrupt);
            assert_eq!(std::fs::read(destination.path()).unwrap(), b"GGUF old");
            assert!(!destination.part().exists());
        }
    }
}
