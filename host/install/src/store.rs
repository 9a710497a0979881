//! A folder of plugins and what may be done with it: install, roll back, remove. Each is one exchange of names under a lock.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use onebit_loader::trust::{Reading, Severity, Trust, examine, sha256};
use onebit_loader::{Inspection, PluginToml, Refusal, inspect_under};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::InstallError;
use crate::limits::TOML_MAX;
use crate::record::{Record, now};
use crate::source;

const PREVIOUS: &str = ".previous";
const INSTALLED: &str = ".installed";
const STAGING: &str = ".staging-";

/// A folder that hosts look through, one plugin in each of its folders.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    trust: Trust,
}

/// What an install came to.
#[derive(Debug)]
pub enum Done {
    /// It is in its place.
    Installed(Box<Installed>),
    /// The very same files were there already.
    AlreadyThere(Box<Installed>),
}

/// A plugin in its place.
#[derive(Debug)]
pub struct Installed {
    /// What the host thinks of it.
    pub inspection: Inspection,
    /// Where it came from.
    pub record: Record,
    /// The version that was there before and is kept.
    pub replaced: Option<String>,
}

/// Two versions that changed places.
#[derive(Debug)]
pub struct RolledBack {
    /// Where the plugin lies.
    pub dir: PathBuf,
    /// The version in use now.
    pub version: String,
    /// The version that is kept now.
    pub from: Option<String>,
}

/// What is gone.
#[derive(Debug)]
pub struct Removed {
    /// Where it was.
    pub dir: PathBuf,
    /// Its version, as far as known.
    pub version: Option<String>,
}

impl Store {
    /// Plugins in `dir`, held to this policy.
    pub fn new(dir: PathBuf, trust: Trust) -> Self {
        Self { dir, trust }
    }

    /// Where they lie.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Installs from a folder or an archive. `said` is what the person gave: a path or an address. Nothing becomes visible before every
    /// check has passed.
    pub fn install(&self, from: &Path, said: &str) -> Result<Done, InstallError> {
        let _lock = self.lock()?;
        let staging =
            tempfile::Builder::new().prefix(STAGING).tempdir_in(&self.dir).map_err(InstallError::io("make a folder in", &self.dir))?;
        let raw = staging.path().join("raw");
        make_dir(&raw)?;
        let archive_sha256 = source::take(from, &raw)?;
        let root = root_of(&raw)?;
        let toml = read_toml(&root)?;
        // Under its own name, so that the inspection sees it as it will lie there.
        let staged = staging.path().join(&toml.id);
        std::fs::rename(&root, &staged).map_err(InstallError::io("move", &root))?;
        let inspection = self.check(&staged)?;
        let place = self.dir.join(&toml.id);
        let inspection = moved(inspection, &place);
        let record = Record {
            source: said.to_owned(),
            archive_sha256,
            library_sha256: sha256_of(&staged.join(&toml.library))?,
            version: toml.version.clone(),
            signer: inspection.trust.signer.clone(),
            installed_at: now(),
        };
        let there = match place.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(InstallError::io("look at", &place)(error)),
            Ok(metadata) if metadata.is_dir() => true,
            Ok(_) => return Err(InstallError::InTheWay(place)),
        };
        if there && same_files(&staged, &place)? {
            let record = Record::read(&self.record(&toml.id)).unwrap_or(record);
            return Ok(Done::AlreadyThere(Box::new(Installed { inspection, record, replaced: None })));
        }
        let replaced = if there { Some(version_of(&place).unwrap_or_else(|| "unknown".into())) } else { None };
        if there {
            self.replace(&toml.id, &staged, staging.path())?;
        } else {
            std::fs::rename(&staged, &place).map_err(InstallError::io("move the plugin to", &place))?;
        }
        sync(&self.dir)?;
        record.write(&self.record(&toml.id))?;
        Ok(Done::Installed(Box::new(Installed { inspection, record, replaced })))
    }

    /// Exchanges a plugin and its previous version. Done twice it leads back.
    pub fn rollback(&self, name: &str) -> Result<RolledBack, InstallError> {
        let _lock = self.lock()?;
        let (place, previous) = (self.place(name)?, self.dir.join(PREVIOUS).join(name));
        if !previous.is_dir() {
            return Err(InstallError::NoPrevious { name: name.to_owned(), dir: self.dir.clone() });
        }
        let inspection = self.check(&previous)?;
        let from = version_of(&place);
        exchange(&previous, &place)?;
        // The records follow their plugins; one that is missing stays missing on its new side.
        let (mine, kept) = (self.record(name), self.previous_record(name));
        let (was, is) = (Record::read(&mine), Record::read(&kept));
        put(&mine, is.as_ref())?;
        put(&kept, was.as_ref())?;
        sync(&self.dir)?;
        Ok(RolledBack { dir: place, version: inspection.file.toml.version, from })
    }

    /// Removes a plugin that was installed, and its previous version.
    pub fn remove(&self, name: &str) -> Result<Removed, InstallError> {
        let _lock = self.lock()?;
        let place = self.place(name)?;
        if Record::read(&self.record(name)).is_none() {
            return Err(InstallError::NotOurs { dir: place });
        }
        let version = version_of(&place);
        // Out of sight in one step; then taken apart where nobody looks.
        let staging =
            tempfile::Builder::new().prefix(STAGING).tempdir_in(&self.dir).map_err(InstallError::io("make a folder in", &self.dir))?;
        std::fs::rename(&place, staging.path().join(name)).map_err(InstallError::io("move", &place))?;
        let previous = self.dir.join(PREVIOUS).join(name);
        if previous.exists() {
            std::fs::rename(&previous, staging.path().join("previous")).map_err(InstallError::io("move", &previous))?;
        }
        put(&self.record(name), None)?;
        put(&self.previous_record(name), None)?;
        sync(&self.dir)?;
        Ok(Removed { dir: place, version })
    }

    /// The plugin's folder, if there is one.
    fn place(&self, name: &str) -> Result<PathBuf, InstallError> {
        let not_there = || InstallError::NotThere { name: name.to_owned(), dir: self.dir.clone() };
        let plain = !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        let place = self.dir.join(name);
        match place.symlink_metadata() {
            Ok(metadata) if plain && metadata.is_dir() => Ok(place),
            Ok(_) if plain => Err(InstallError::InTheWay(place)),
            _ => Err(not_there()),
        }
    }

    /// Every check that needs no code to run, the contents of all listed files included.
    fn check(&self, dir: &Path) -> Result<Inspection, InstallError> {
        let refused = |refusal: Refusal| InstallError::Refused(Box::new(refusal));
        let mut inspection = inspect_under(dir, &self.trust).map_err(refused)?;
        let examination = examine(dir, &self.trust, Reading::Everything);
        let rows: Vec<_> = examination.of(Severity::Refused, self.trust.mode).map(onebit_loader::trust::Problem::refusal).collect();
        if !rows.is_empty() {
            let toml = &inspection.file.toml;
            return Err(refused(Refusal { plugin: toml.id.clone(), version: Some(toml.version.clone()), rows }));
        }
        inspection.trust = examination;
        Ok(inspection)
    }

    /// The new one in, the old one to where it is kept, the one that was kept away with the staging folder.
    fn replace(&self, name: &str, staged: &Path, staging: &Path) -> Result<(), InstallError> {
        let place = self.dir.join(name);
        let previous = self.dir.join(PREVIOUS).join(name);
        make_dir(&self.dir.join(PREVIOUS))?;
        exchange(staged, &place)?;
        // From here on the new one is in use; what follows is tidying.
        if previous.exists() {
            std::fs::rename(&previous, staging.join("older")).map_err(InstallError::io("move", &previous))?;
        }
        std::fs::rename(staged, &previous).map_err(InstallError::io("keep the previous version as", &previous))?;
        put(&self.previous_record(name), Record::read(&self.record(name)).as_ref())
    }

    fn record(&self, name: &str) -> PathBuf {
        self.dir.join(INSTALLED).join(format!("{name}.json"))
    }

    fn previous_record(&self, name: &str) -> PathBuf {
        self.dir.join(PREVIOUS).join(format!("{name}.json"))
    }

    /// Makes the folder if need be, takes the lock, and clears away what an install that was killed has left.
    fn lock(&self) -> Result<File, InstallError> {
        make_dir(&self.dir)?;
        let path = self.dir.join(".lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(InstallError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(InstallError::Busy(self.dir.clone())),
            Err(TryLockError::Error(error)) => return Err(InstallError::io("lock", &path)(error)),
        }
        for entry in std::fs::read_dir(&self.dir).map_err(InstallError::io("list", &self.dir))?.map_while(Result::ok) {
            if entry.file_name().to_string_lossy().starts_with(STAGING) {
                std::fs::remove_dir_all(entry.path()).map_err(InstallError::io("remove", &entry.path()))?;
            }
        }
        Ok(file)
    }
}

/// The version that is kept besides the plugin in this folder.
pub fn previous_version(plugin_dir: &Path) -> Option<String> {
    version_of(&plugin_dir.parent()?.join(PREVIOUS).join(plugin_dir.file_name()?))
}

/// The folder with `plugin.toml`: the top, or the only folder there.
fn root_of(raw: &Path) -> Result<PathBuf, InstallError> {
    if raw.join("plugin.toml").is_file() {
        return Ok(raw.to_owned());
    }
    let entries =
        std::fs::read_dir(raw).and_then(|entries| entries.collect::<Result<Vec<_>, _>>()).map_err(InstallError::io("list", raw))?;
    match entries.as_slice() {
        [only] if only.path().join("plugin.toml").is_file() => Ok(only.path()),
        _ => Err(InstallError::NoPlugin),
    }
}

fn read_toml(dir: &Path) -> Result<PluginToml, InstallError> {
    let path = dir.join("plugin.toml");
    let mut text = String::new();
    File::open(&path).and_then(|file| file.take(TOML_MAX).read_to_string(&mut text)).map_err(InstallError::io("read", &path))?;
    PluginToml::parse(&text).map_err(|error| {
        let row = onebit_loader::RefusalRow {
            field: "plugin.toml".into(),
            host: "TOML of schema 1".into(),
            plugin: error,
            remedy: "ask its author for a plugin that `onebit-host plugin check` accepts".into(),
        };
        InstallError::Refused(Box::new(Refusal { plugin: "this".into(), version: None, rows: vec![row] }))
    })
}

fn version_of(dir: &Path) -> Option<String> {
    read_toml(dir).ok().map(|toml| toml.version)
}

/// The inspection of a folder, told of the place to which it moves.
fn moved(mut inspection: Inspection, place: &Path) -> Inspection {
    let file = &mut inspection.file;
    if let Ok(own) = file.library.strip_prefix(&file.dir) {
        file.library = place.join(own);
    }
    file.dir = place.to_owned();
    inspection
}

/// One system call, where the file system has it. Elsewhere (some network file systems) there is a moment without the plugin, and a failure in
/// the middle is taken back.
fn exchange(one: &Path, other: &Path) -> Result<(), InstallError> {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => return Ok(()),
        Err(Errno::INVAL | Errno::NOSYS) => {}
        Err(errno) => return Err(InstallError::io("exchange with its new version", other)(errno.into())),
    }
    let aside = one.with_extension("aside");
    std::fs::rename(other, &aside).map_err(InstallError::io("move", other))?;
    if let Err(error) = std::fs::rename(one, other) {
        return Err(match std::fs::rename(&aside, other) {
            Ok(()) => InstallError::io("move its new version to", other)(error),
            Err(second) => InstallError::io("move the plugin back from", &aside)(second),
        });
    }
    std::fs::rename(&aside, one).map_err(InstallError::io("move", &aside))
}

fn put(path: &Path, record: Option<&Record>) -> Result<(), InstallError> {
    match (record, std::fs::remove_file(path)) {
        (Some(record), _) => record.write(path),
        (None, Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(InstallError::io("remove", path)(error)),
        (None, _) => Ok(()),
    }
}

/// Names and contents of all files, by hash.
fn same_files(one: &Path, other: &Path) -> Result<bool, InstallError> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    hashes(one, one, &mut first)?;
    hashes(other, other, &mut second)?;
    first.sort();
    second.sort();
    Ok(first == second)
}

fn hashes(root: &Path, dir: &Path, into: &mut Vec<(PathBuf, String)>) -> Result<(), InstallError> {
    for entry in std::fs::read_dir(dir).map_err(InstallError::io("list", dir))? {
        let entry = entry.map_err(InstallError::io("list", dir))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(InstallError::io("look at", &path))?;
        let own = path.strip_prefix(root).unwrap_or(&path).to_owned();
        if kind.is_dir() {
            hashes(root, &path, into)?;
        } else if kind.is_file() {
            into.push((own, sha256_of(&path)?));
        } else {
            into.push((own, "not a file".into()));
        }
    }
    Ok(())
}

fn make_dir(path: &Path) -> Result<(), InstallError> {
    DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(InstallError::io("make the folder", path))
}

/// A rename is safe only when its folder is on the disk.
fn sync(dir: &Path) -> Result<(), InstallError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(InstallError::io("write", dir))
}

fn sha256_of(path: &Path) -> Result<String, InstallError> {
    File::open(path).and_then(|file| sha256(&file)).map_err(InstallError::io("read", path))
}
