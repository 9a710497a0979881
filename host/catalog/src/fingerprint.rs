//! Whether a new look at the folders would find anything new.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::catalog::CatalogPaths;
use crate::folder::{self, Stamp};
use crate::plugins;

/// A number that changes when anything in the folders changes that a catalog is made of. Reads no file.
pub fn fingerprint(paths: &CatalogPaths) -> u64 {
    let mut stamps: BTreeMap<PathBuf, Option<Stamp>> = BTreeMap::new();
    let mut note = |path: &Path| {
        stamps.insert(path.to_owned(), std::fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata)));
    };
    for folder in &paths.manifest_dirs {
        folder::walk(folder, &mut note, &mut Vec::new());
    }
    for folder in &paths.models_dirs {
        folder::walk(
            folder,
            &mut |path| {
                if folder::is_gguf(path) {
                    note(path)
                }
            },
            &mut Vec::new(),
        );
    }
    for dir in paths.plugin_dirs.iter().flat_map(|folder| plugins::plugin_dirs(folder)) {
        folder::walk(&dir, &mut note, &mut Vec::new());
    }
    // A key that comes or goes changes what a signature is worth.
    for dir in &paths.trust.keys {
        folder::walk(dir, &mut note, &mut Vec::new());
    }
    let mut hasher = DefaultHasher::new();
    stamps.hash(&mut hasher);
    hasher.finish()
}
