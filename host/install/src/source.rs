//! What may be installed: a folder, or an archive in one of three forms. The form is told by the first bytes; a name proves nothing.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::InstallError;
use crate::limits::{Budget, plain_path};
use crate::unpack::{self, Target};

/// The form of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    TarGz,
    TarZst,
    Zip,
}

/// Copies or unpacks `from` into `target`. Of an archive its sha256 comes back.
pub(crate) fn take(from: &Path, target: &Path) -> Result<Option<String>, InstallError> {
    let metadata = std::fs::metadata(from).map_err(InstallError::io("look at", from))?;
    let mut target = Target::new(target);
    if metadata.is_dir() {
        copy_folder(from, "", &mut target)?;
        return Ok(None);
    }
    if !metadata.is_file() {
        return Err(InstallError::NoArchive { path: from.to_owned() });
    }
    let mut file = File::open(from).map_err(InstallError::io("open", from))?;
    let form = form(&mut file).map_err(InstallError::io("read", from))?.ok_or_else(|| InstallError::NoArchive { path: from.to_owned() })?;
    // Hashed and unpacked from one descriptor: what the person is told is what was taken.
    let sha256 = onebit_loader::trust::sha256(&file).map_err(InstallError::io("read", from))?;
    file.seek(SeekFrom::Start(0)).map_err(InstallError::io("read", from))?;
    match form {
        Form::TarGz => unpack::tar(flate2::read::MultiGzDecoder::new(file), &mut target)?,
        Form::TarZst => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(file).map_err(|error| InstallError::Damaged(error.to_string()))?;
            unpack::tar(decoder, &mut target)?;
        }
        Form::Zip => unpack::zip(file, &mut target)?,
    }
    Ok(Some(sha256))
}

fn form(file: &mut File) -> std::io::Result<Option<Form>> {
    let mut magic = Vec::new();
    file.take(4).read_to_end(&mut magic)?;
    Ok(match magic.as_slice() {
        [0x1f, 0x8b, ..] => Some(Form::TarGz),
        [0x28, 0xb5, 0x2f, 0xfd] => Some(Form::TarZst),
        [b'P', b'K', 3, 4] => Some(Form::Zip),
        _ => None,
    })
}

/// By the rules for archives: plain files and folders, no links.
fn copy_folder(from: &Path, prefix: &str, target: &mut Target<'_>) -> Result<(), InstallError> {
    let mut entries =
        std::fs::read_dir(from).and_then(|entries| entries.collect::<Result<Vec<_>, _>>()).map_err(InstallError::io("list", from))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let Some(own) = entry.file_name().to_str().map(str::to_owned) else {
            return Err(InstallError::Path { name: path.display().to_string(), why: "it is not UTF-8".into() });
        };
        let name = format!("{prefix}{own}");
        let metadata = entry.metadata().map_err(InstallError::io("look at", &path))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            target.folder(&name)?;
            copy_folder(&path, &format!("{name}/"), target)?;
        } else if kind.is_file() {
            let file = File::open(&path).map_err(InstallError::io("open", &path))?;
            target.file(&name, metadata.mode(), metadata.len(), file)?;
        } else {
            let kind = if kind.is_symlink() {
                "a link"
            } else if kind.is_fifo() || kind.is_socket() {
                "a pipe or a socket"
            } else {
                "a device"
            };
            return Err(InstallError::Kind { name, kind: kind.into() });
        }
    }
    Ok(())
}

/// Used by [`Target`]: the path is checked, and counted.
pub(crate) fn admit<'a>(budget: &mut Budget, name: &'a str) -> Result<&'a str, InstallError> {
    budget.entry(name)?;
    plain_path(name)
}
