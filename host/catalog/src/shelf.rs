//! Models that are made, copied and removed while the host runs: each is one manifest in the user's own folder, written whole and given its
//! name by one rename.
//!
//! What it must never do: change a file that it has not written itself. Manifests of packages stay as they are (one of the same name in the
//! user's folder takes their place, and gives it back when it goes); files that a person wrote are neither replaced nor removed. What is
//! written here begins with [`MARK`], and whoever takes that line out makes the file their own. A model's file is removed only from the
//! folder that `pull` writes into, and only if no manifest uses it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::catalog::{Catalog, CatalogPaths};
use crate::document;
use crate::entry::{ModelEntry, State};
use crate::folder;
use crate::manifest::{Chat, Defaults, Manifest};
use crate::names;
use crate::problem::Problem;
use crate::written;

/// The first line of every file that is written here.
pub const MARK: &str = "# Made on request. Without this line the file is yours: requests then neither replace nor remove it.";

/// Bytes of a manifest; more is not read.
const TEXT_MAX: usize = 1 << 20;
/// Bytes of a file's name without its ending; file systems take 255.
const STEM_MAX: usize = 200;

/// Why a model was not made, copied or removed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ShelfError {
    /// A name that no model may have.
    #[error("{name:?} cannot be the name of a model: it {problem}")]
    Name {
        /// As it was given.
        name: String,
        /// The rest of the sentence.
        problem: String,
    },
    /// It was to be made from a model that is not there.
    #[error("there is no model {0:?}")]
    Unknown(String),
    /// What would be written is no manifest.
    #[error("{name} is not made: {}", .problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; "))]
    Refused {
        /// The model.
        name: String,
        /// What is wrong with it.
        problems: Vec<Problem>,
    },
    /// It belongs to somebody else.
    #[error("{0}")]
    Protected(String),
    /// There is no place to write to.
    #[error(
        "there is no folder of manifests to write into: this server has no home; start it with --manifest-dir DIR, a folder that it may write to"
    )]
    NoFolder,
    /// The system does not let us.
    #[error("cannot {what} {}: {error}", path.display())]
    Io {
        /// A verb.
        what: &'static str,
        /// Which file or folder.
        path: PathBuf,
        /// Why not.
        error: std::sync::Arc<std::io::Error>,
    },
}

fn io(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> ShelfError {
    move |error| ShelfError::Io { what, path: path.to_owned(), error: std::sync::Arc::new(error) }
}

/// What a model is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// What it is called.
    pub name: String,
    /// Whose weights it has.
    pub weights: Weights,
    /// Instead of what the weights bring along.
    pub chat: Chat,
    /// The same.
    pub defaults: Defaults,
    /// The same.
    pub licence: Option<String>,
}

/// Where the weights of a new model come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Weights {
    /// From a model of the catalog, with all that its manifest says.
    Of(String),
    /// From a file in the models folder that is written into.
    File {
        /// Its name there.
        name: String,
        /// Lower case hexadecimal.
        sha256: String,
        /// Where `pull` gets it again.
        source: Vec<String>,
    },
}

/// The folders that may be written to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shelf {
    /// Manifests: the strongest of the catalog's folders.
    pub manifests: Option<PathBuf>,
    /// Model files: where `pull` puts them.
    pub models: Option<PathBuf>,
}

impl Shelf {
    /// Makes a model, in place of one of that name that was made before.
    pub fn make(&self, catalog: &Catalog, paths: &CatalogPaths, recipe: Recipe) -> Result<(), ShelfError> {
        let (mut manifest, origin) = match &recipe.weights {
            Weights::Of(name) => {
                let entry = catalog.model(name).ok_or_else(|| ShelfError::Unknown(name.clone()))?;
                (self.manifest_of(entry)?, Some(entry))
            }
            Weights::File { name, sha256, source } => {
                let file = self.models.as_ref().map_or_else(|| PathBuf::from(name), |dir| dir.join(name));
                let found = folder::look(&file, &folder::Known::new());
                if let Err(problem) = found.facts {
                    return Err(ShelfError::Refused { name: recipe.name, problems: vec![problem] });
                }
                let manifest =
                    Manifest { sha256: Some(sha256.clone()), bytes: Some(found.bytes), source: source.clone(), ..bare(name.into()) };
                (manifest, None)
            }
        };
        manifest.name = recipe.name;
        manifest.aliases = Vec::new();
        manifest.chat = over(recipe.chat, manifest.chat);
        manifest.defaults = recipe.defaults.over(manifest.defaults);
        manifest.licence = recipe.licence.or(manifest.licence);
        self.put(catalog, paths, &manifest, origin)
    }

    /// Gives a model a second name, under which it may be changed and removed by itself.
    pub fn copy(&self, catalog: &Catalog, paths: &CatalogPaths, source: &ModelEntry, name: &str) -> Result<(), ShelfError> {
        let mut manifest = self.manifest_of(source)?;
        manifest.name = name.to_owned();
        manifest.aliases = Vec::new();
        self.put(catalog, paths, &manifest, Some(source))
    }

    /// Removes a model that was made here, or whose file `pull` may get again.
    pub fn remove(&self, catalog: &Catalog, paths: &CatalogPaths, entry: &ModelEntry) -> Result<(), ShelfError> {
        let Some(main) = entry.manifest_files.first() else {
            return match self.unshared(catalog, entry) {
                Ok(files) => self.erase_files(&files),
                Err(why) => Err(ShelfError::Protected(format!("{} is not removed: {why}", entry.name))),
            };
        };
        if !self.is_in_folder(main) {
            // A package brought the manifest. What can go is the file that it describes; then the model is as it was before it was pulled.
            return match self.unshared(catalog, entry) {
                Ok(files) => self.erase_files(&files),
                Err(why) => Err(ShelfError::Protected(format!(
                    "{} is not removed: it was installed with its manifest {}, and {why}; an empty file {} in a folder of your own hides it",
                    entry.name,
                    main.display(),
                    main.file_name().unwrap_or_default().to_string_lossy(),
                ))),
            };
        }
        self.must_be_ours(main, &entry.name)?;
        erase(std::slice::from_ref(main))?;
        self.erase_left(catalog, paths, entry)
    }

    /// Removes the file of a model whose manifest is gone, unless somebody else's manifest names it.
    fn erase_left(&self, before: &Catalog, paths: &CatalogPaths, entry: &ModelEntry) -> Result<(), ShelfError> {
        let Some(file) = entry.file() else { return Ok(()) };
        let after = Catalog::load_after(paths, before);
        // What no manifest names is in the catalog as a file by itself.
        let left = after.models().iter().find(|model| {
            model.manifest_files.is_empty() && named_file(model, self.models.as_deref()).is_some_and(|path| path == file.path)
        });
        left.map_or(Ok(()), |left| self.unshared(&after, left).map_or(Ok(()), |files| self.erase_files(&files)))
    }

    /// Removes files of models, and folders that nothing is left in.
    fn erase_files(&self, files: &[PathBuf]) -> Result<(), ShelfError> {
        erase(files)?;
        for file in files {
            let inside = |dir: &&Path| self.models.as_deref().is_some_and(|models| *dir != models && dir.starts_with(models));
            // A folder that is not empty stays.
            file.ancestors().skip(1).take_while(inside).take_while(|dir| std::fs::remove_dir(dir).is_ok()).for_each(drop);
        }
        Ok(())
    }

    /// Writes a manifest. `origin`: whose file it shares.
    fn put(&self, catalog: &Catalog, paths: &CatalogPaths, manifest: &Manifest, origin: Option<&ModelEntry>) -> Result<(), ShelfError> {
        let path = self.place(catalog, &manifest.name, origin)?;
        let text = checked(&path, manifest)?;
        // A file without a manifest is a model by itself only until a manifest names it. Its name must not go with that.
        if let Some(origin) = origin.filter(|origin| origin.manifest_files.is_empty() && !same(&origin.name, &manifest.name)) {
            let own = Manifest { name: origin.name.clone(), aliases: origin.aliases.clone(), ..self.manifest_of(origin)? };
            let path = self.place(catalog, &origin.name, Some(origin))?;
            write(&path, &checked(&path, &own)?)?;
        }
        write(&path, &text)?;
        let replaced = catalog.models().iter().find(|model| model.manifest_files.first() == Some(&path));
        replaced.map_or(Ok(()), |replaced| self.erase_left(catalog, paths, replaced))
    }

    /// Where the manifest of that name is written, if it may be.
    fn place(&self, catalog: &Catalog, name: &str, origin: Option<&ModelEntry>) -> Result<PathBuf, ShelfError> {
        let dir = self.manifests.as_ref().ok_or(ShelfError::NoFolder)?;
        let named = |problem: String| ShelfError::Name { name: name.chars().take(STEM_MAX).collect(), problem };
        names::check(name).map_err(named)?;
        let stem = stem(name);
        if stem.len() > STEM_MAX {
            return Err(named(format!("is too long for a file's name; {STEM_MAX} plain letters fit")));
        }
        let Some(there) = catalog.models().iter().find(|model| same(&model.name, name)) else {
            let path = dir.join(format!("{stem}.toml"));
            self.must_be_ours(&path, name)?;
            return Ok(path);
        };
        match there.manifest_files.as_slice() {
            [] if origin.is_some_and(|origin| origin.name == there.name) => {
                let path = dir.join(format!("{stem}.toml"));
                self.must_be_ours(&path, name).map(|()| path)
            }
            [] => Err(ShelfError::Protected(format!(
                "the name {name} belongs to the file {}; choose another name, or remove that model first",
                there.file().map(|file| file.path.display().to_string()).unwrap_or_default()
            ))),
            [main] if self.is_in_folder(main) => self.must_be_ours(main, name).map(|()| main.clone()),
            // The user's file takes the place of the installed one by having its name.
            [main] => Ok(dir.join(main.file_name().unwrap_or_default())),
            [_, drop_in, ..] => Err(ShelfError::Protected(format!(
                "{name} is amended by {}, which would change what is made too; choose another name",
                drop_in.display()
            ))),
        }
    }

    fn is_in_folder(&self, manifest: &Path) -> bool {
        self.manifests.as_deref() == manifest.parent()
    }

    fn must_be_ours(&self, path: &Path, name: &str) -> Result<(), ShelfError> {
        // A link that leads nowhere is somebody's, too.
        if path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            return Ok(());
        }
        let mut first = String::new();
        let read = std::fs::File::open(path).and_then(|file| BufReader::new(file.take(MARK.len() as u64 + 1)).read_line(&mut first));
        if read.is_ok() && first.trim_end() == MARK {
            return Ok(());
        }
        Err(ShelfError::Protected(format!(
            "{name} is described by {}, which was not made by a request and is not changed by one; edit or remove the file yourself",
            path.display()
        )))
    }

    /// What describes this model, also where it has no manifest yet.
    fn manifest_of(&self, entry: &ModelEntry) -> Result<Manifest, ShelfError> {
        if let Some(manifest) = &entry.manifest {
            return Ok(manifest.clone());
        }
        let Some(file) = entry.file() else {
            let problems = if let State::Broken(problems) = &entry.state { problems.clone() } else { Vec::new() };
            return Err(ShelfError::Refused { name: entry.name.clone(), problems });
        };
        let inside = self.models.as_ref().and_then(|dir| file.path.strip_prefix(dir).ok());
        Ok(Manifest { name: entry.name.clone(), bytes: Some(file.bytes), ..bare(inside.unwrap_or(&file.path).to_owned()) })
    }

    /// The files of a model, if they lie where `pull` puts them and are used by this model alone; else why they must stay.
    fn unshared(&self, catalog: &Catalog, entry: &ModelEntry) -> Result<Vec<PathBuf>, String> {
        let Some(path) = named_file(entry, self.models.as_deref()) else {
            return Err("its file is not here".to_owned());
        };
        let inside = |dir: &Path| Some(path.parent()?.canonicalize().ok()?.starts_with(dir.canonicalize().ok()?));
        if !self.models.as_deref().and_then(inside).unwrap_or(false) {
            return Err(format!("its file {} lies outside the folder that `onebit-host pull` writes into", path.display()));
        }
        let real = path.canonicalize().ok();
        for other in catalog.models().iter().filter(|other| other.name != entry.name) {
            if other.manifest.is_none() && !other.manifest_files.is_empty() {
                return Err(format!("{} cannot be read, so nobody knows whether it uses the same file", other.manifest_files[0].display()));
            }
            if named_file(other, self.models.as_deref()).is_some_and(|file| file.canonicalize().ok() == real) {
                return Err(format!("its file {} is used by {}, too", path.display(), other.name));
            }
        }
        Ok(folder::parts(&path))
    }
}

/// The file of an entry, also where it cannot be used.
fn named_file(entry: &ModelEntry, models: Option<&Path>) -> Option<PathBuf> {
    if let Some(file) = entry.file() {
        return Some(file.path.clone());
    }
    let by_manifest = entry.manifest.as_ref().and_then(|manifest| models.map(|dir| dir.join(&manifest.file)));
    let by_problem = match &entry.state {
        State::Broken(problems) if entry.manifest_files.is_empty() => problems.first().map(|problem| problem.path.clone()),
        _ => None,
    };
    by_manifest.or(by_problem).filter(|path| path.symlink_metadata().is_ok())
}

/// Names nothing but a file.
fn bare(file: PathBuf) -> Manifest {
    Manifest {
        name: String::new(),
        aliases: Vec::new(),
        description: None,
        file,
        sha256: None,
        bytes: None,
        source: Vec::new(),
        format: None,
        architecture: None,
        licence: None,
        chat: Chat::default(),
        defaults: Defaults::default(),
        serve: Vec::new(),
        settings: Vec::new(),
    }
}

fn over(new: Chat, old: Chat) -> Chat {
    Chat {
        template: new.template.or(old.template),
        system: new.system.or(old.system),
        tool_format: new.tool_format.or(old.tool_format),
        reasoning_format: new.reasoning_format.or(old.reasoning_format),
    }
}

fn same(a: &str, b: &str) -> bool {
    names::fold(a) == names::fold(b)
}

/// A name as a file's name: one file for all spellings of a name, and nothing in it that leads anywhere.
fn stem(name: &str) -> String {
    let mut out = String::new();
    for byte in names::fold(name).bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => out.push(char::from(byte)),
            b'.' if !out.is_empty() => out.push('.'),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    // So that no package's file has the same name by chance.
    out + ".made"
}

/// The text, if it is read as what it says.
fn checked(path: &Path, manifest: &Manifest) -> Result<String, ShelfError> {
    let refused = |problem: Problem| ShelfError::Refused { name: manifest.name.clone(), problems: vec![problem] };
    let text = written::text(MARK, manifest).map_err(|error| refused(Problem::error(path, None, error.to_string())))?;
    if text.len() > TEXT_MAX {
        return Err(refused(Problem::error(path, None, format!("its manifest has {} bytes; {TEXT_MAX} are allowed", text.len()))));
    }
    let tree = document::parse(path, &text).map_err(refused)?;
    match Manifest::from_tree(path, &tree) {
        Ok(_) => Ok(text),
        Err(problems) => Err(ShelfError::Refused { name: manifest.name.clone(), problems }),
    }
}

fn write(path: &Path, text: &str) -> Result<(), ShelfError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir).map_err(io("make the folder", dir))?;
    let failed = io("write", path);
    // As any file that a program of the user makes; temporary files are otherwise for their owner alone.
    let mode = std::fs::Permissions::from_mode(0o666);
    // A hidden name: half a manifest is not looked at.
    let mut file = tempfile::Builder::new().prefix(".made-").permissions(mode).tempfile_in(dir).map_err(&failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(&failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    std::fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(&failed)
}

fn erase(files: &[PathBuf]) -> Result<(), ShelfError> {
    for file in files {
        match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io("remove", file)(error)),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "shelf_tests.rs"]
mod tests;
