//! Making, copying and removing models in folders as people have them.

use super::*;
use crate::folder::tests::tiny_gguf;

struct Place {
    root: tempfile::TempDir,
    paths: CatalogPaths,
    shelf: Shelf,
}

impl Place {
    /// An installed model `big:1` with its file, one `bare.gguf` without a manifest, and a user's folder that is not there yet.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["usr", "models/.blobs", "elsewhere"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let (manifest_dirs, models_dirs) = (vec![at("usr"), at("mine")], vec![at("models"), at("elsewhere")]);
        let paths = CatalogPaths { manifest_dirs, models_dirs, ..CatalogPaths::default() };
        let shelf = Shelf { manifests: Some(at("mine")), models: Some(at("models")) };
        let place = Self { root, paths, shelf };
        place.put(
            "usr/big.toml",
            "schema = 1\nname = \"big:1\"\naliases = [\"big\"]\n[model]\nfile = \"big.gguf\"\n[defaults]\ntemperature = 0.2\n",
        );
        place.put("models/big.gguf", tiny_gguf("llama"));
        place.put("models/bare.gguf", tiny_gguf("llama"));
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.at(name), content).unwrap();
    }

    fn has(&self, name: &str) -> bool {
        self.at(name).symlink_metadata().is_ok()
    }

    fn catalog(&self) -> Catalog {
        Catalog::load(&self.paths)
    }

    fn names(&self) -> Vec<String> {
        self.catalog().models().iter().map(|model| model.name.clone()).collect()
    }

    fn make(&self, name: &str, from: &str, system: &str) -> Result<(), ShelfError> {
        let chat = Chat { system: Some(system.to_owned()), ..Chat::default() };
        let weights = Weights::Of(from.to_owned());
        let recipe = Recipe { name: name.to_owned(), weights, chat, defaults: Defaults::default(), licence: None };
        self.shelf.make(&self.catalog(), &self.paths, recipe)
    }

    fn make_of_file(&self, name: &str, file: &str) -> Result<(), ShelfError> {
        let weights = Weights::File { name: file.to_owned(), sha256: "0".repeat(64), source: Vec::new() };
        let recipe = Recipe { name: name.to_owned(), weights, chat: Chat::default(), defaults: Defaults::default(), licence: None };
        self.shelf.make(&self.catalog(), &self.paths, recipe)
    }

    fn copy(&self, source: &str, name: &str) -> Result<(), ShelfError> {
        let catalog = self.catalog();
        self.shelf.copy(&catalog, &self.paths, catalog.model(source).unwrap(), name)
    }

    fn remove(&self, name: &str) -> Result<(), ShelfError> {
        let catalog = self.catalog();
        self.shelf.remove(&catalog, &self.paths, catalog.model(name).unwrap())
    }

    fn system(&self, name: &str) -> Option<String> {
        self.catalog().model(name).unwrap().manifest.as_ref().unwrap().chat.system.clone()
    }
}

fn protected(result: Result<(), ShelfError>, word: &str) {
    match result {
        Err(ShelfError::Protected(message)) => assert!(message.contains(word), "{message}"),
        other => panic!("{other:?} is not protected"),
    }
}

#[test]
fn a_model_is_made_from_another_and_keeps_what_that_says() {
    let place = Place::new();
    place.make("Pirate", "big", "Arr.").unwrap();
    let catalog = place.catalog();
    let made = catalog.model("pirate:latest").unwrap();
    let manifest = made.manifest.as_ref().unwrap();
    assert_eq!((manifest.defaults.temperature, manifest.chat.system.as_deref()), (Some(0.2), Some("Arr.")));
    assert!(manifest.aliases.is_empty() && made.file().is_some());
    assert_eq!(place.names(), ["Pirate", "bare", "big:1"]);
    // Again, in another spelling: one file for one name.
    place.make("pirate", "pirate", "Yo.").unwrap();
    assert_eq!((place.system("pirate").as_deref(), std::fs::read_dir(place.at("mine")).unwrap().count()), (Some("Yo."), 1));
    place.remove("pirate").unwrap();
    assert_eq!(place.names(), ["bare", "big:1"]);
    assert!(place.has("models/big.gguf"), "the file is the other's, too");
}

#[test]
fn an_installed_manifest_is_overridden_and_comes_back() {
    let place = Place::new();
    let installed = std::fs::read(place.at("usr/big.toml")).unwrap();
    place.make("big:1", "big:1", "Mine.").unwrap();
    assert_eq!(place.system("big:1").as_deref(), Some("Mine."));
    assert_eq!(place.names(), ["bare", "big:1"]);
    place.remove("big:1").unwrap();
    assert_eq!(place.system("big:1"), None);
    assert_eq!(std::fs::read(place.at("usr/big.toml")).unwrap(), installed);
    assert!(place.has("models/big.gguf"));
}

#[test]
fn a_file_without_a_manifest_keeps_its_name_when_it_is_shared() {
    let place = Place::new();
    place.copy("bare", "twin").unwrap();
    assert_eq!(place.names(), ["bare", "big:1", "twin"]);
    place.remove("bare").unwrap();
    assert_eq!(place.names(), ["big:1", "twin"]);
    assert!(place.has("models/bare.gguf"));
    place.remove("twin").unwrap();
    assert_eq!(place.names(), ["big:1"]);
    assert!(!place.has("models/bare.gguf"));
}

#[test]
fn what_somebody_else_wrote_is_neither_replaced_nor_removed() {
    let place = Place::new();
    std::fs::create_dir(place.at("mine")).unwrap();
    place.put("mine/hand.toml", "# By hand.\nschema = 1\nname = \"hand\"\n[model]\nfile = \"bare.gguf\"\n");
    protected(place.make("hand", "big", "x"), "hand.toml");
    protected(place.copy("big", "Hand:latest"), "hand.toml");
    protected(place.remove("hand"), "hand.toml");
    place.put("mine/new.made.toml", "# By hand, under a name that would be written.\n");
    protected(place.make("new", "big", "x"), "new.made.toml");
    std::os::unix::fs::symlink("nowhere", place.at("mine/link.made.toml")).unwrap();
    protected(place.make("link", "big", "x"), "link.made.toml");
    std::fs::remove_file(place.at("mine/link.made.toml")).unwrap();
    // One that was made belongs to whoever takes the mark out.
    place.make("made", "big", "x").unwrap();
    let text = std::fs::read_to_string(place.at("mine/made.made.toml")).unwrap();
    place.put("mine/made.made.toml", text.replace(MARK, "# Mine now."));
    protected(place.remove("made"), "made.made.toml");
}

#[test]
fn an_installed_model_is_not_removed_and_its_file_only_where_pull_puts_it() {
    let place = Place::new();
    place.copy("big", "user").unwrap();
    protected(place.remove("big:1"), "used by user");
    place.remove("user").unwrap();
    place.remove("big").unwrap();
    assert!(!place.has("models/big.gguf") && place.has("usr/big.toml"));
    protected(place.remove("big:1"), "usr/big.toml");
    place.put("elsewhere/far.gguf", tiny_gguf("llama"));
    protected(place.remove("far"), "outside");
    assert!(place.has("elsewhere/far.gguf"));
    // A link out of the folder is removed, not what it leads to.
    std::os::unix::fs::symlink(place.at("elsewhere/far.gguf"), place.at("models/near.gguf")).unwrap();
    place.remove("near").unwrap();
    assert!(place.has("elsewhere/far.gguf") && !place.has("models/near.gguf"));
    // A manifest that cannot be read might name any file.
    place.put("usr/broken.toml", "schema = 1\nname = \"broken\"\n[model]\nfiel = \"bare.gguf\"\n");
    protected(place.remove("bare"), "broken.toml");
}

#[test]
fn a_model_of_a_file_takes_its_file_along_and_a_new_one_takes_the_old_ones_place() {
    let place = Place::new();
    for file in ["sha256-a.gguf", "sha256-b.gguf"] {
        place.put(&format!("models/{file}"), tiny_gguf("llama"));
    }
    place.make_of_file("mine", "sha256-a.gguf").unwrap();
    place.make_of_file("mine", "sha256-b.gguf").unwrap();
    assert!(!place.has("models/sha256-a.gguf") && place.has("models/sha256-b.gguf"));
    place.copy("mine", "other").unwrap();
    place.remove("mine").unwrap();
    assert!(place.has("models/sha256-b.gguf"));
    place.remove("other").unwrap();
    assert!(!place.has("models/sha256-b.gguf"));
    std::fs::create_dir_all(place.at("models/ada/tiny")).unwrap();
    place.put("models/ada/other", "");
    place.put("models/ada/tiny/m.gguf", tiny_gguf("llama"));
    place.make_of_file("deep", "ada/tiny/m.gguf").unwrap();
    place.remove("deep").unwrap();
    assert!(!place.has("models/ada/tiny") && place.has("models/ada/other"));
    place.put("models/sha256-c.gguf", "no model");
    assert!(matches!(place.make_of_file("no", "sha256-c.gguf"), Err(ShelfError::Refused { .. })));
}

#[test]
fn a_name_never_leads_out_of_the_folder() {
    let place = Place::new();
    for name in ["../../etc/x", "/etc/x", "..", ".", ".hidden", "a/../b", "hf.co/owner/repo:Q4_K_M", "%2e%2e/x", "ünï", "a\\b", "-rf"] {
        place.copy("big", name).unwrap();
        assert!(place.catalog().model(name).is_some(), "{name}");
    }
    let outside: Vec<_> = std::fs::read_dir(place.root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(outside.len(), 4, "{outside:?}");
    let inside: Vec<String> =
        std::fs::read_dir(place.at("mine")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(inside.len() == 11 && inside.iter().all(|name| name.ends_with(".made.toml") && !name.starts_with('.')), "{inside:?}");
    for bad in ["", " ", "a b", "a\nb", "a\0b", &"x".repeat(201), &"ü".repeat(90)] {
        assert!(matches!(place.copy("big", bad), Err(ShelfError::Name { .. })), "{bad:?}");
    }
}

#[test]
fn what_would_be_no_manifest_is_not_written() {
    let place = Place::new();
    let chat = Chat { template: Some(" ".to_owned()), ..Chat::default() };
    let recipe = |chat, defaults| Recipe { name: "new".into(), weights: Weights::Of("big".into()), chat, defaults, licence: None };
    let hot = Defaults { temperature: Some(1000.0), ..Defaults::default() };
    let long = Chat { system: Some("x".repeat(TEXT_MAX)), ..Chat::default() };
    for recipe in [recipe(chat, Defaults::default()), recipe(Chat::default(), hot), recipe(long, Defaults::default())] {
        assert!(matches!(place.shelf.make(&place.catalog(), &place.paths, recipe), Err(ShelfError::Refused { .. })));
    }
    assert_eq!(place.names(), ["bare", "big:1"]);
    let nowhere = Shelf { manifests: None, ..place.shelf.clone() };
    let catalog = place.catalog();
    assert!(matches!(nowhere.copy(&catalog, &place.paths, catalog.model("big").unwrap(), "x"), Err(ShelfError::NoFolder)));
}

#[test]
fn what_amends_a_model_would_amend_its_replacement() {
    let place = Place::new();
    std::fs::create_dir_all(place.at("usr/big.toml.d")).unwrap();
    place.put("usr/big.toml.d/1.toml", "[chat]\nsystem = \"Amended.\"\n");
    protected(place.make("big:1", "big:1", "x"), "big.toml.d");
    place.copy("big:1", "copy").unwrap();
    assert_eq!(place.system("copy").as_deref(), Some("Amended."));
}
