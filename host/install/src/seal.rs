//! Sealing: what an author does before a plugin leaves the house. Every file of the folder is listed in its `plugin.toml` with its sha256, so
//! that whoever gets it can tell whether one was altered, and so that one signature of `plugin.toml` covers all.
//!
//! The rest of `plugin.toml` keeps its words and comments. A signature that was there is left alone and does not fit any more, if anything
//! changed: only the author has the key.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use onebit_loader::PluginToml;
use onebit_loader::trust::{SIGNATURE, hashes};
use toml_edit::{DocumentMut, Item, Table, value};

use crate::InstallError;
use crate::limits::TOML_MAX;

/// What sealing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Files that are listed.
    pub files: usize,
    /// Whether `plugin.toml` is another one than before.
    pub changed: bool,
    /// Whether there is a signature, which does not fit what was changed.
    pub signed: bool,
}

/// Lists the files of the plugin in `dir`; writes `plugin.toml` whole or not at all.
pub fn seal(dir: &Path) -> Result<Sealed, InstallError> {
    let path = dir.join("plugin.toml");
    let mut before = String::new();
    let file = fs::File::open(&path).map_err(InstallError::io("read", &path))?;
    file.take(TOML_MAX + 1).read_to_string(&mut before).map_err(InstallError::io("read", &path))?;
    let wrong = |why: String| InstallError::Toml { path: path.clone(), why };
    PluginToml::parse(&before).map_err(wrong)?;
    let mut toml: DocumentMut = before.parse().map_err(|error: toml_edit::TomlError| wrong(error.message().to_owned()))?;

    let hashes = hashes(dir).map_err(|problem| InstallError::Unsealable(Box::new(problem)))?;
    let mut table = Table::new();
    for (name, hash) in &hashes {
        table.insert(name, value(hash));
    }
    match toml.get_mut("sha256") {
        // What the author wrote above it stays.
        Some(Item::Table(old)) => {
            *table.decor_mut() = old.decor().clone();
            table.set_position(old.position());
            *old = table;
        }
        _ => {
            table.decor_mut().set_prefix("\n# Every file of this folder; a host loads none that is another one.\n");
            toml.insert("sha256", Item::Table(table));
        }
    }
    let after = toml.to_string();
    // Too many files for what hosts read of it, a name that has no place in it: found here, not by the first user.
    if after.len() as u64 > TOML_MAX {
        return Err(InstallError::Bounds(format!(
            "its plugin.toml would list {} files, more than its {TOML_MAX} bytes can name",
            hashes.len()
        )));
    }
    PluginToml::parse(&after).map_err(wrong)?;
    let changed = after != before;
    if changed {
        replace(&path, &after)?;
    }
    Ok(Sealed { files: hashes.len(), changed, signed: dir.join(SIGNATURE).exists() })
}

/// Whole or not at all, and as readable as before.
fn replace(path: &Path, text: &str) -> Result<(), InstallError> {
    let failed = || InstallError::io("write", path);
    let permissions = fs::metadata(path).map_err(failed())?.permissions();
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("."))).map_err(failed())?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().set_permissions(permissions)).map_err(failed())?;
    file.as_file().sync_all().map_err(failed())?;
    file.persist(path).map_err(|error| failed()(error.error))?;
    Ok(())
}
