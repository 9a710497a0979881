//! One model of the catalog, and whether anything but a plugin is in its way.

use std::path::PathBuf;

use crate::estimate::bytes;
use crate::folder::{self, Facts, ModelFile};
use crate::manifest::{Manifest, Serve};
use crate::problem::Problem;

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
            Ok(facts) => format!("{} {}, {size}, trained for {} positions", facts.architecture, facts.quantisation, facts.context_trained),
            Err(_) => size,
        }
    }
}
