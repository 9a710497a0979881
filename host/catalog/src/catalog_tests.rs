//! The catalog over folders as people leave them.

use std::os::unix::fs::symlink;

use super::*;
use crate::fingerprint::fingerprint;
use crate::folder::tests::tiny_gguf;

struct Folders {
    root: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["usr", "etc", "models", "plugins"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }

    fn put(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    fn paths(&self) -> CatalogPaths {
        let at = |name: &str| self.root.path().join(name);
        CatalogPaths {
            manifest_dirs: vec![at("usr"), at("etc")],
            models_dirs: vec![at("models")],
            plugin_dirs: vec![at("plugins")],
            ..CatalogPaths::default()
        }
    }

    fn load(&self) -> Catalog {
        Catalog::load(&self.paths())
    }
}

fn manifest(name: &str, file: &str) -> String {
    format!("schema = 1\nname = \"{name}\"\naliases = [\"{name}-alias\"]\n[model]\nfile = \"{file}\"\nsource = \"hf:a/b/{file}\"\n")
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.models().iter().map(|model| model.name.as_str()).collect()
}

#[test]
fn files_without_a_manifest_are_models_too() {
    let folders = Folders::new().put("models/sub/SmolLM2.Q4_1.gguf", tiny_gguf("llama")).put("models/readme.txt", "x");
    let catalog = folders.load();
    assert_eq!(names(&catalog), ["smollm2.q4_1"]);
    let model = catalog.model("SmolLM2:Q4_1").unwrap();
    assert_eq!((model.format(), model.facts().unwrap().architecture.as_str()), (Some("gguf"), "llama"));
    assert_eq!(catalog.suggest("smollm"), ["smollm2.q4_1", "smollm2:q4_1"]);
}

#[test]
fn a_manifest_claims_its_file_wherever_it_lies_below_the_models_folders() {
    let folders = Folders::new().put("usr/smol.toml", manifest("smol:1", "Smol.gguf")).put("models/a/b/Smol.gguf", tiny_gguf("llama"));
    let catalog = folders.load();
    assert_eq!(names(&catalog), ["smol:1"]);
    assert!(matches!(catalog.model("smol:1-alias").unwrap().state, State::Here(_)));
    assert!(catalog.problems().is_empty(), "{:?}", catalog.problems());
}

#[test]
fn a_file_that_is_not_here_comes_with_what_gets_it() {
    let folders = Folders::new().put("usr/smol.toml", manifest("smol:1", "Smol.gguf"));
    let catalog = folders.load();
    let obstacle = catalog.model("smol:1").unwrap().obstacle().unwrap();
    assert_eq!(obstacle, "its file Smol.gguf is not downloaded; `onebit-host pull smol:1` downloads it");
    assert!(!catalog.has_errors());
}

#[test]
fn a_broken_manifest_answers_under_its_names_and_its_file_is_not_served_by_other_rules() {
    let broken = manifest("smol:1", "Smol.gguf").replace("source", "soruce");
    let folders = Folders::new()
        .put("usr/smol.toml", &broken)
        .put("usr/unreadable.toml", "name = \n")
        .put("usr/good.toml", manifest("good", "Good.gguf"))
        .put("models/Smol.gguf", tiny_gguf("llama"))
        .put("models/Good.gguf", tiny_gguf("llama"));
    let catalog = folders.load();
    assert_eq!(names(&catalog), ["good", "smol:1", "unreadable"]);
    for name in ["smol:1", "smol:1-alias", "unreadable"] {
        let obstacle = catalog.model(name).unwrap().obstacle().unwrap();
        assert!(obstacle.contains(".toml:"), "{name}: {obstacle}");
    }
    assert!(catalog.model("smol:1").unwrap().obstacle().unwrap().contains("did you mean `model.source`?"));
    assert_eq!(catalog.model("good").unwrap().obstacle(), None);
    assert_eq!(catalog.problems().len(), 2);
}

#[test]
fn a_broken_drop_in_in_a_higher_folder_does_not_leave_the_lower_file_in_force() {
    let folders = Folders::new()
        .put("usr/smol.toml", manifest("smol:1", "Smol.gguf"))
        .put("etc/smol.toml.d/10.toml", "[defaults]\ntemprature = 1\n")
        .put("models/Smol.gguf", tiny_gguf("llama"));
    let obstacle = folders.load().model("smol:1").unwrap().obstacle().unwrap();
    assert!(obstacle.contains("10.toml:2") && obstacle.contains("`defaults.temperature`"), "{obstacle}");
}

#[test]
fn damaged_model_files_answer_with_their_problem_and_the_others_work() {
    let folders = Folders::new()
        .put("usr/smol.toml", manifest("smol:1", "Smol.gguf"))
        .put("models/Smol.gguf", b"GGUF")
        .put("models/empty.gguf", b"")
        .put("models/good.gguf", tiny_gguf("llama"));
    std::fs::create_dir(folders.root.path().join("models/x.gguf")).unwrap();
    symlink("nowhere", folders.root.path().join("models/dangling.gguf")).unwrap();
    symlink(folders.root.path().join("models"), folders.root.path().join("linked")).unwrap();
    let mut paths = folders.paths();
    paths.models_dirs = vec![folders.root.path().join("linked")];
    let catalog = Catalog::load(&paths);
    assert_eq!(names(&catalog), ["dangling", "empty", "good", "smol:1", "x"]);
    assert_eq!(catalog.models().iter().filter(|model| model.obstacle().is_none()).count(), 1);
    assert_eq!(catalog.problems().len(), 4, "{:?}", catalog.problems());
}

#[test]
fn a_file_of_another_size_is_not_the_one_that_was_meant() {
    let text = manifest("smol:1", "Smol.gguf").replace("source", "bytes = 7\nsource");
    let folders = Folders::new().put("usr/smol.toml", text).put("models/Smol.gguf", tiny_gguf("llama"));
    let obstacle = folders.load().model("smol:1").unwrap().obstacle().unwrap();
    assert!(obstacle.contains("its manifest says 7"), "{obstacle}");
}

#[test]
fn a_name_belongs_to_one_model_and_the_other_is_named() {
    let folders = Folders::new()
        .put("usr/a.toml", manifest("smol", "A.gguf"))
        .put("usr/b.toml", manifest("SMOL", "B.gguf"))
        .put("usr/c.toml", manifest("other", "C.gguf").replace("other-alias", "smol"))
        .put("models/smol.gguf", tiny_gguf("llama"));
    let catalog = folders.load();
    assert_eq!(catalog.models().len(), 2, "{:?}", names(&catalog));
    assert_eq!(catalog.model("smol").unwrap().manifest_files.len(), 1);
    let said: Vec<String> = catalog.problems().iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said.iter().all(|text| text.contains("is taken by")), "{said:?}");
    assert!(catalog.model("other").is_some_and(|model| model.aliases.is_empty()));
}

#[test]
fn a_change_in_any_folder_changes_the_fingerprint() {
    let folders =
        Folders::new().put("usr/a.toml", "x").put("models/a.gguf", b"x").put("plugins/p/plugin.toml", "x").put("plugins/p/lib.so", "x");
    let mut last = fingerprint(&folders.paths());
    assert_eq!(last, fingerprint(&folders.paths()));
    for name in [
        "usr/a.toml",
        "etc/b.toml",
        "usr/a.toml.d/1.toml",
        "models/a.gguf",
        "models/sub/b.gguf",
        "plugins/p/plugin.toml",
        "plugins/p/lib.so",
        "plugins/q/plugin.toml",
    ] {
        let folders_path = folders.root.path().join(name);
        std::fs::create_dir_all(folders_path.parent().unwrap()).unwrap();
        std::fs::write(folders_path, "longer than before").unwrap();
        let next = fingerprint(&folders.paths());
        assert_ne!(next, last, "{name}");
        last = next;
    }
    std::fs::write(folders.root.path().join("models/notes.txt"), "x").unwrap();
    assert_eq!(last, fingerprint(&folders.paths()));
}

#[test]
fn the_manifests_that_we_ship_are_right() {
    let shipped = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests"));
    let catalog = Catalog::load(&CatalogPaths { manifest_dirs: vec![shipped], ..CatalogPaths::default() });
    assert_eq!(catalog.problems(), []);
    let model = catalog.model("smollm2-135m-instruct-q4_1").unwrap();
    assert_eq!(model.name, "smollm2:135m");
    assert!(model.obstacle().unwrap().contains("onebit-host pull smollm2:135m"));
}
