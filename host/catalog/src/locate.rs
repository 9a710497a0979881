//! From a manifest to its file.

use std::path::{Path, PathBuf};

use onebit_weights::Purpose;

use crate::catalog::CatalogPaths;
use crate::entry::State;
use crate::folder::{self, Facts, Known, ModelFile, Stamp};
use crate::manifest::Manifest;
use crate::problem::Problem;

/// Finds a manifest's file: an absolute path as it stands; else below the models folders by its relative path, else by its name anywhere.
pub(crate) fn locate(
    manifest: &Manifest,
    paths: &CatalogPaths,
    files: &[ModelFile],
    known: &Known<'_>,
    claimed: &mut Vec<PathBuf>,
) -> State {
    let direct = if manifest.file.is_absolute() {
        vec![manifest.file.clone()]
    } else {
        paths.models_dirs.iter().map(|dir| dir.join(&manifest.file)).collect()
    };
    let direct = direct.into_iter().find(|path| path.symlink_metadata().is_ok());
    let file = match direct {
        Some(path) => files.iter().find(|found| found.path == path).cloned().unwrap_or_else(|| other_format(manifest, &path, known)),
        None => match files.iter().find(|found| !manifest.file.is_absolute() && is_named(found, &manifest.file)) {
            Some(found) => found.clone(),
            None => {
                return State::Missing { file: manifest.file.clone() };
            }
        },
    };
    claimed.push(file.path.clone());
    match (&file.facts, manifest.bytes) {
        (Err(problem), _) => State::Broken(vec![problem.clone()]),
        (Ok(_), Some(bytes)) if bytes != file.bytes => {
            let message = format!(
                "has {} bytes, its manifest says {bytes}; it is another file or was cut off. `onebit-host pull {}` gets it again",
                file.bytes, manifest.name
            );
            State::Broken(vec![Problem::error(&file.path, None, message)])
        }
        (Ok(_), _) => State::Here(file),
    }
}

pub(crate) fn is_named(found: &ModelFile, file: &Path) -> bool {
    file.file_name().is_some() && found.path.file_name() == file.file_name()
}

/// A file outside the models folders, or of a format whose headers are the plugin's business.
fn other_format(manifest: &Manifest, path: &Path, known: &Known<'_>) -> ModelFile {
    if folder::is_gguf(path) || manifest.format.as_deref() == Some("gguf") {
        return folder::look(path, known);
    }
    let problem = |message: String| Err(Problem::error(path, None, message));
    let (bytes, stamp, facts) = match std::fs::metadata(path) {
        Err(error) => (0, Stamp { bytes: 0, modified_ns: 0, inode: 0 }, problem(format!("cannot be read: {error}"))),
        Ok(metadata) => {
            let facts = match &manifest.architecture {
                Some(architecture) => Ok(Facts {
                    architecture: architecture.clone(),
                    quantisation: String::new(),
                    context_trained: 0,
                    parameters: 0,
                    vocabulary: 0,
                    chat_template: false,
                    purpose: Purpose::Write,
                    licence: manifest.licence.clone(),
                }),
                None => problem("is not a GGUF file; its manifest must say `model.format` and `model.architecture`".to_owned()),
            };
            (metadata.len(), Stamp::of(&metadata), facts)
        }
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    ModelFile { path: path.to_owned(), stem, bytes, stamp, facts }
}
