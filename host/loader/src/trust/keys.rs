//! The public keys that this host trusts: files `*.pub`, as `minisign -G` writes them, in folders that only root or this user may change.
//!
//! A key may have a last day: `expires 2027-12-31` in its comment line. It is compared with today's date, not with the day of the signature: that
//! day is the signer's word, and whoever has stolen an old key would write an old day.

use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use minisign_verify::PublicKey;

use super::folder::Folder;
use super::place::{Owners, Ownership, check_way};
use super::{Problem, Severity};

/// Where the administrator puts keys.
pub const SYSTEM_KEYS: &str = "/etc/onebit/trust.d";

/// Bytes of a key file; real ones have some 110.
const KEY_MAX: u64 = 4096;

/// A key of a trusted folder.
pub(super) struct Key {
    /// File name without `.pub`.
    pub name: String,
    pub public: PublicKey,
    /// The day after which it is not trusted.
    pub last_day: Option<Date>,
}

/// Reads all keys. What cannot be used is a problem and never a reason to trust more.
pub(super) fn read(dirs: &[PathBuf], owners: &Owners, problems: &mut Vec<Problem>) -> Vec<Key> {
    let mut keys = Vec::new();
    for dir in dirs {
        match dir.canonicalize() {
            Ok(real) => read_folder(&real, owners, &mut keys, problems),
            // Nobody has to trust anybody.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => problems.push(Problem::KeyUnusable { path: dir.clone(), reason: error.to_string() }),
        }
    }
    keys
}

fn read_folder(dir: &Path, owners: &Owners, keys: &mut Vec<Key>, problems: &mut Vec<Problem>) {
    let unusable = |path: &Path, reason: String| Problem::KeyUnusable { path: path.to_owned(), reason };
    // Whoever may add a key here may sign for everybody.
    let looked = Folder::open(dir).and_then(|folder| {
        let mut weak = Vec::new();
        check_way(dir, owners, &mut weak);
        owners.check_own(dir, &folder.ownership()?, &mut weak);
        Ok((folder.entries()?.0, folder, weak))
    });
    let (entries, folder) = match looked {
        Err(error) => return problems.push(unusable(dir, error.to_string())),
        Ok((entries, folder, weak)) => match exploitable(&weak) {
            Some(reason) => return problems.push(unusable(dir, reason)),
            None => (entries, folder),
        },
    };
    for entry in entries {
        let Some(name) = entry.name.strip_suffix(".pub").filter(|name| !name.contains('/')) else { continue };
        match read_key(&folder, name, &entry.name, owners) {
            Ok(key) => keys.push(key),
            Err(reason) => problems.push(unusable(&dir.join(&entry.name), reason)),
        }
    }
}

fn read_key(folder: &Folder, name: &str, file_name: &str, owners: &Owners) -> Result<Key, String> {
    let file = folder.file(file_name).map_err(|shut| shut.to_string())?;
    let mut weak = Vec::new();
    owners.check_own(&folder.path().join(file_name), &Ownership::from(&file.metadata().map_err(|error| error.to_string())?), &mut weak);
    if let Some(reason) = exploitable(&weak) {
        return Err(reason);
    }
    let mut bytes = Vec::new();
    file.take(KEY_MAX).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    parse(name, &bytes)
}

/// A key that others could replace is as bad as a plugin that others could replace.
fn exploitable(problems: &[Problem]) -> Option<String> {
    problems.iter().find(|problem| problem.severity(super::Mode::Warn) == Severity::Refused).map(Problem::to_string)
}

fn parse(name: &str, bytes: &[u8]) -> Result<Key, String> {
    let text = core::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let public = PublicKey::decode(text).map_err(|_| "it is no minisign public key".to_owned())?;
    let comment = text.lines().next().unwrap_or_default();
    let last_day = match comment.split_once("expires ") {
        None => None,
        Some((_, rest)) => {
            let day = rest.split_whitespace().next().unwrap_or_default();
            Some(day.parse::<Date>().map_err(|_| format!("its comment says \"expires {day}\", which is no day such as 2027-12-31"))?)
        }
    };
    Ok(Key { name: name.to_owned(), public, last_day })
}

/// Today, UTC.
pub(super) fn today() -> Date {
    jiff::Timestamp::now().to_zoned_datetime(jiff::tz::TimeZone::UTC).date()
}
