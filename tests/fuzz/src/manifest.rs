//! A model's manifest: the tree with its origins, and the manifest that is read from it.

use std::path::Path;

use onebit_catalog::{Manifest, document};

use crate::law;

/// A file that amends itself stays what it is, and every problem is a sentence.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A folder that is not there: a template file that a manifest names cannot be found.
    let path = Path::new("/nowhere/m.toml");
    let tree = match document::parse(path, text) {
        Ok(tree) => tree,
        Err(problem) => return law::is_a_sentence(&problem.to_string()),
    };
    let mut amended = tree.clone();
    amended.amend(tree.clone());
    // As text, because a NaN is not equal to itself.
    assert_eq!(format!("{amended:?}"), format!("{tree:?}"));
    match Manifest::from_tree(path, &tree) {
        Ok(manifest) => assert!(!manifest.name.is_empty()),
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            problems.iter().for_each(|problem| law::is_a_sentence(&problem.to_string()));
        }
    }
}
