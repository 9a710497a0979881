//! The catalog: every model this host knows, whether it can be served, and what is wrong if not.
//!
//! Made from folders, all at once, and never changed afterwards: a new look is a new catalog. Nothing that is wrong with one file keeps
//! another from being used. A model whose manifest is broken is in the catalog, under its name, and answers with the problem.

use std::path::{Path, PathBuf};

use onebit_loader::trust::Trust;

use crate::document::{Node, Value};
use crate::entry::{ModelEntry, State};
use crate::folder::{self, Known, ModelFile};
use crate::locate::{is_named, locate};
use crate::manifest::Manifest;
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
    /// How much proof of its origin a plugin must bring.
    pub trust: Trust,
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
        let known: Known<'_> = before.models.iter().filter_map(ModelEntry::file).map(|file| (file.path.as_path(), file)).collect();
        let mut catalog = Self { plugins: plugins::scan(&paths.plugin_dirs, &paths.trust), ..Self::default() };
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
        let Stacked { stem, path, drop_ins, tree } = stacked;
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
                    claimed.extend(files.iter().filter(|found| is_named(found, Path::new(&file))).map(|found| found.path.clone()));
                }
                let name = said.text("name").filter(|name| names::check(name).is_ok()).unwrap_or_else(|| names::of_file(&stem));
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
            return self.problems.push(Problem::error(&file.path, None, "has no name that a model could have; rename the file"));
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
                        let message = format!("the alias {alias} is taken by {}; it has no effect", source(&self.models[other]).display());
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
    model.manifest_files.first().cloned().or_else(|| model.file().map(|file| file.path.clone())).unwrap_or_else(|| match &model.state {
        State::Broken(problems) => problems.first().map(|problem| problem.path.clone()).unwrap_or_default(),
        _ => PathBuf::from(&model.name),
    })
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
                .filter_map(|node| if let Value::Text(text) = &node.value { Some(text.clone()) } else { None })
                .filter(|name| names::check(name).is_ok())
                .collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
