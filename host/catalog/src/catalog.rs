//! The catalog: every model this host knows, whether it can be served, and what is wrong if not.
//!
//! Made from folders, all at once, and never changed afterwards: a new look is a new catalog. Nothing that is wrong with one file keeps
//! another from being used. A model whose manifest is broken is in the catalog, under its name, and answers with the problem.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::document::{Node, Value};
use crate::estimate::bytes;
use crate::folder::{self, Facts, Known, ModelFile, Stamp};
use crate::manifest::{Manifest, Serve};
use crate::names::{self, Names};
use crate::plugins::{self, Plugins};
use crate::problem::{Problem, Severity};
use crate::stack::{self, Stacked};

/// Where to look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogPaths {
    /// Folders of manifests, the weakest first.
    pub manifest_dirs: Vec<PathBuf>,
    /// Folders of model files; of two files with one name the one in the first folder is used.
    pub models_dirs: Vec<PathBuf>,
    /// Folders of plugins; of two copies of one version the one in the first folder is used.
    pub plugin_dirs: Vec<PathBuf>,
}

/// Whether a model can be served.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Its file is here and its header was read.
    Here(ModelFile),
    /// Its file is in none of the folders.
    Missing {
        /// What was looked for.
        file: PathBuf,
    },
    /// Its manifest or its file cannot be used.
    Broken(Vec<Problem>),
}

/// A model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEntry {
    /// The name to ask for.
    pub name: String,
    /// Other names that lead here.
    pub aliases: Vec<String>,
    /// `None` = the host found the file by itself, or the manifest is broken.
    pub manifest: Option<Manifest>,
    /// The manifest's file and its drop-ins, in order.
    pub manifest_files: Vec<PathBuf>,
    /// Whether it can be served.
    pub state: State,
}

impl ModelEntry {
    /// The file, if it is here.
    pub fn file(&self) -> Option<&ModelFile> {
        if let State::Here(file) = &self.state { Some(file) } else { None }
    }

    /// What its header says, if it is here.
    pub fn facts(&self) -> Option<&Facts> {
        self.file().and_then(|file| file.facts.as_ref().ok())
    }

    /// `gguf`, …: what the manifest says, else what the file's name says.
    pub fn format(&self) -> Option<&str> {
        let stated = self.manifest.as_ref().and_then(|manifest| manifest.format.as_deref());
        stated.or_else(|| self.file().is_some_and(|file| folder::is_gguf(&file.path)).then_some("gguf"))
    }

    /// The manifest's choices.
    pub fn serve(&self) -> &[Serve] {
        self.manifest.as_ref().map_or(&[], |manifest| &manifest.serve)
    }

    /// Why it cannot be served, whatever the plugins say; `None` if nothing is in the way.
    pub fn obstacle(&self) -> Option<String> {
        match &self.state {
            State::Here(_) => None,
            State::Missing { file } => {
                let pull = self.manifest.as_ref().is_some_and(|manifest| !manifest.source.is_empty());
                let what_to_do = match pull {
                    true => format!("`onebit-host pull {}` downloads it", self.name),
                    false => "put it into a models folder; its manifest names no source to download it from".to_owned(),
                };
                Some(format!("its file {} is not downloaded; {what_to_do}", file.display()))
            }
            State::Broken(problems) => Some(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
        }
    }

    pub(crate) fn about(&self) -> String {
        let Some(file) = self.file() else { return String::new() };
        let size = bytes(file.bytes);
        match &file.facts {
            Ok(facts) => format!(
                "{} {}, {size}, trained for {} positions",
                facts.architecture, facts.quantisation, facts.context_trained
            ),
            Err(_) => size,
        }
    }
}

/// Every model and every plugin.
#[derive(Debug, Default)]
pub struct Catalog {
    models: Vec<ModelEntry>,
    names: Names,
    plugins: Plugins,
    problems: Vec<Problem>,
}

impl Catalog {
    /// Looks through all folders.
    pub fn load(paths: &CatalogPaths) -> Self {
        Self::load_after(paths, &Self::default())
    }

    /// Looks again; headers of files that have not changed since `before` are not read again.
    pub fn load_after(paths: &CatalogPaths, before: &Self) -> Self {
        let known: Known<'_> = before
            .models
            .iter()
            .filter_map(ModelEntry::file)
            .map(|file| (file.path.as_path(), file))
            .collect();
        let mut catalog = Self {
            plugins: plugins::scan(&paths.plugin_dirs),
            ..Self::default()
        };
        let mut found = folder::scan(&paths.models_dirs, &known);
        catalog.problems.append(&mut found.problems);

        let mut claimed = Vec::new();
        for stacked in stack::read(&paths.manifest_dirs, &mut catalog.problems) {
            catalog.add_manifest(stacked, paths, &found.files, &known, &mut claimed);
        }
        for file in found.files {
            if !claimed.contains(&file.path) {
                catalog.add_file(file);
            }
        }
        catalog.models.sort_by(|a, b| a.name.cmp(&b.name));
        catalog.index();
        for problem in &catalog.problems {
            tracing::debug!(%problem, severity = ?problem.severity, "catalog");
        }
        catalog
    }

    /// All models, by name.
    pub fn models(&self) -> &[ModelEntry] {
        &self.models
    }

    /// The model of that name, alias or spelling.
    pub fn model(&self, name: &str) -> Option<&ModelEntry> {
        self.names.get(name).and_then(|at| self.models.get(at))
    }

    /// Names that `name` may have been meant to be, best first.
    pub fn suggest(&self, name: &str) -> Vec<String> {
        self.names.suggest(name)
    }

    /// All plugins.
    pub fn plugins(&self) -> &Plugins {
        &self.plugins
    }

    /// Everything that is wrong, also what some model answers with.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    fn add_manifest(&mut self, stacked: Stacked, paths: &CatalogPaths, files: &[ModelFile], known: &Known<'_>, claimed: &mut Vec<PathBuf>) {
        let Stacked {
            stem,
            path,
            drop_ins,
            tree,
        } = stacked;
        let manifest_files: Vec<PathBuf> = std::iter::once(path.clone()).chain(drop_ins).collect();
        let (tree, problems) = match tree {
            Ok(tree) => (Some(tree), Vec::new()),
            Err((tree, problems)) => (tree, problems),
        };
        let parsed = match &tree {
            Some(tree) if problems.is_empty() => Manifest::from_tree(&path, tree),
            _ => Err(problems),
        };
        match parsed {
            Ok(manifest) => {
                let state = locate(&manifest, paths, files, known, claimed);
                if let State::Broken(problems) = &state {
                    self.problems.extend(problems.iter().cloned());
                }
                self.models.push(ModelEntry {
                    name: manifest.name.clone(),
                    aliases: manifest.aliases.clone(),
                    manifest: Some(manifest),
                    manifest_files,
                    state,
                });
            }
            Err(problems) => {
                // What can be read of a broken manifest: its names, so that they answer with the problem; and its file, so that the host
                // does not serve that file by its own rules instead of the author's.
                let said = Said(tree.as_ref());
                if let Some(file) = said.text("model.file") {
                    claimed.extend(
                        files
                            .iter()
                            .filter(|found| is_named(found, Path::new(&file)))
                            .map(|found| found.path.clone()),
                    );
                }
                let name = said
                    .text("name")
                    .filter(|name| names::check(name).is_ok())
                    .unwrap_or_else(|| names::of_file(&stem));
                self.problems.extend(problems.iter().cloned());
                self.models.push(ModelEntry {
                    name,
                    aliases: said.names(),
                    manifest: None,
                    manifest_files,
                    state: State::Broken(problems),
                });
            }
        }
    }

    fn add_file(&mut self, file: ModelFile) {
        let name = names::of_file(&file.stem);
        if names::check(&name).is_err() {
            return self.problems.push(Problem::error(
                &file.path,
                None,
                "has no name that a model could have; rename the file",
            ));
        }
        let state = match &file.facts {
            Ok(_) => State::Here(file),
            Err(problem) => {
                self.problems.push(problem.clone());
                State::Broken(vec![problem.clone()])
            }
        };
        self.models.push(ModelEntry {
            aliases: names::tagged(&name).into_iter().collect(),
            name,
            manifest: None,
            manifest_files: Vec::new(),
            state,
        });
    }

    /// Gives every name to one model. Names of manifests come first, then those of files; a name that is taken is a problem.
    fn index(&mut self) {
        let order = |model: &ModelEntry| model.manifest_files.is_empty();
        let mut by_rank: Vec<usize> = (0..self.models.len()).collect();
        by_rank.sort_by_key(|&at| order(&self.models[at]));
        let mut homeless = Vec::new();
        for &at in &by_rank {
            let model = &self.models[at];
            if let Err(other) = self.names.add(&model.name, at) {
                let taken = source(&self.models[other]);
                self.problems.push(Problem::error(
                    &source(model),
                    None,
                    format!("the name {} is taken by {}; the model is not served", model.name, taken.display()),
                ));
                homeless.push(at);
            }
        }
        for &at in by_rank.iter().filter(|at| !homeless.contains(at)) {
            let mut kept = Vec::new();
            for alias in self.models[at].aliases.clone() {
                match self.names.add(&alias, at) {
                    Ok(()) => kept.push(alias),
                    // An alias that the host made up itself gives way silently: nobody asked for it.
                    Err(_) if self.models[at].manifest_files.is_empty() => {}
                    Err(other) => {
                        let message = format!(
                            "the alias {alias} is taken by {}; it has no effect",
                            source(&self.models[other]).display()
                        );
                        self.problems.push(Problem::warning(&source(&self.models[at]), None, message));
                    }
                }
            }
            self.models[at].aliases = kept;
        }
        if !homeless.is_empty() {
            let mut at = 0;
            self.models.retain(|_| {
                at += 1;
                !homeless.contains(&(at - 1))
            });
            // Positions have moved; there are no conflicts left.
            self.names = Names::default();
            for (at, model) in self.models.iter().enumerate() {
                for name in std::iter::once(&model.name).chain(&model.aliases) {
                    if self.names.add(name, at).is_err() {
                        tracing::error!(name, "a name has two models after conflicts were resolved");
                    }
                }
            }
        }
    }

    /// Whether anything at all is wrong that costs a model.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

/// The file that a model comes from, for messages.
fn source(model: &ModelEntry) -> PathBuf {
    model
        .manifest_files
        .first()
        .cloned()
        .or_else(|| model.file().map(|file| file.path.clone()))
        .unwrap_or_else(|| match &model.state {
            State::Broken(problems) => problems.first().map(|problem| problem.path.clone()).unwrap_or_default(),
            _ => PathBuf::from(&model.name),
        })
}

/// Finds a manifest's file: an absolute path as it stands; else below the models folders by its relative path, else by its name anywhere.
fn locate(manifest: &Manifest, paths: &CatalogPaths, files: &[ModelFile], known: &Known<'_>, claimed: &mut Vec<PathBuf>) -> State {
    let direct = if manifest.file.is_absolute() {
        vec![manifest.file.clone()]
    } else {
        paths.models_dirs.iter().map(|dir| dir.join(&manifest.file)).collect()
    };
    let direct = direct.into_iter().find(|path| path.symlink_metadata().is_ok());
    let file = match direct {
        Some(path) => files
            .iter()
            .find(|found| found.path == path)
            .cloned()
            .unwrap_or_else(|| other_format(manifest, &path, known)),
        None => match files
            .iter()
            .find(|found| !manifest.file.is_absolute() && is_named(found, &manifest.file))
        {
            Some(found) => found.clone(),
            None => {
                return State::Missing {
                    file: manifest.file.clone(),
                };
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

fn is_named(found: &ModelFile, file: &Path) -> bool {
    file.file_name().is_some() && found.path.file_name() == file.file_name()
}

/// A file outside the models folders, or of a format whose headers are the plugin's business.
fn other_format(manifest: &Manifest, path: &Path, known: &Known<'_>) -> ModelFile {
    if folder::is_gguf(path) || manifest.format.as_deref() == Some("gguf") {
        return folder::look(path, known);
    }
    let problem = |message: String| Err(Problem::error(path, None, message));
    let (bytes, stamp, facts) = match std::fs::metadata(path) {
        Err(error) => (
            0,
            Stamp {
                bytes: 0,
                modified_ns: 0,
                inode: 0,
            },
            problem(format!("cannot be read: {error}")),
        ),
        Ok(metadata) => {
            let facts = match &manifest.architecture {
                Some(architecture) => Ok(Facts {
                    architecture: architecture.clone(),
                    quantisation: String::new(),
                    context_trained: 0,
                    parameters: 0,
                    vocabulary: 0,
                    chat_template: false,
                    licence: manifest.licence.clone(),
                }),
                None => problem("is not a GGUF file; its manifest must say `model.format` and `model.architecture`".to_owned()),
            };
            (metadata.len(), Stamp::of(&metadata), facts)
        }
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    ModelFile {
        path: path.to_owned(),
        stem,
        bytes,
        stamp,
        facts,
    }
}

/// What can be read of a broken manifest.
struct Said<'a>(Option<&'a Node>);

impl Said<'_> {
    fn text(&self, path: &str) -> Option<String> {
        match &self.0?.get(path)?.value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        match self.0.and_then(|tree| tree.get("aliases")).map(|node| &node.value) {
            Some(Value::List(list)) => list
                .iter()
                .filter_map(|node| {
                    if let Value::Text(text) = &node.value {
                        Some(text.clone())
                    } else {
                        None
                    }
                })
                .filter(|name| names::check(name).is_ok())
                .collect(),
            _ => Vec::new(),
        }
    }
}

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
    let mut hasher = DefaultHasher::new();
    stamps.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
