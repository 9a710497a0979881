//! `plugin check`: everything that can be said about a plugin without running it, for its author and for whoever wants to install it.
//!
//! What forbids the use is judged by [`inspect_under()`], the same function that every load goes through, and by [`crate::trust`]; what they say
//! becomes findings here. The rest of this folder finds what is allowed and still wrong. All findings are told at once, as far as the files can
//! be read.

pub mod codes;
mod description;
mod exports;
mod linking;
mod runpath;
mod trusted;

use std::path::{Path, PathBuf};

use serde::Serialize;

pub use codes::{Code, Severity};
pub(crate) use exports::parse as exported_names;

use crate::elf::{self, ElfFacts};
use crate::trust::Trust;
use crate::{Inspection, Note, PluginToml, Refusal, RefusalRow, inspect_under, one_line};

/// Libraries of one folder that are looked at.
const MAX_LIBRARIES: usize = 256;

/// One thing that is not as it should be.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// `P021`.
    pub code: &'static str,
    /// `exported-symbols`.
    pub id: &'static str,
    /// How serious.
    pub severity: Severity,
    /// What was found, where.
    pub sentence: String,
    /// What to do.
    pub remedy: String,
}

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The plugin's id if it is known, else the name of its folder.
    pub plugin: String,
    /// Its version, if known.
    pub version: Option<String>,
    /// What a load of it would see.
    #[serde(skip)]
    pub inspected: Result<Inspection, Refusal>,
    /// The most serious first.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The severity of the worst finding.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Findings on their way into a report.
#[derive(Default)]
struct Findings(Vec<Found>);

struct Found {
    code: &'static Code,
    severity: Severity,
    /// Libraries it was found in; none if it is not about one.
    files: Vec<String>,
    what: String,
    remedy: String,
}

impl Findings {
    fn add(&mut self, code: &'static Code, what: impl Into<String>, remedy: impl Into<String>) {
        self.add_as(code, code.severity, what, remedy);
    }

    /// For what is more or less serious by policy or circumstance.
    fn add_as(&mut self, code: &'static Code, severity: Severity, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Found { code, severity, files: Vec::new(), what: what.into(), remedy: remedy.into() });
    }

    /// The same in several libraries is one finding: twenty modules that were linked alike have one thing to be changed.
    fn add_in(&mut self, file: &Path, code: &'static Code, what: impl Into<String>, remedy: impl Into<String>) {
        let (what, remedy) = (what.into(), remedy.into());
        let same = |found: &&mut Found| found.code == code && found.what == what && found.remedy == remedy && !found.files.is_empty();
        match self.0.iter_mut().find(same) {
            Some(found) => found.files.push(file_name(file)),
            None => self.0.push(Found { code, severity: code.severity, files: vec![file_name(file)], what, remedy }),
        }
    }

    /// The most serious first. Texts of files are made harmless for terminals here, once.
    fn done(mut self) -> Vec<Finding> {
        self.0.sort_by_key(|found| (core::cmp::Reverse(found.severity), found.code.number));
        let finding = |Found { code, severity, files, what, remedy }: Found| Finding {
            code: code.number,
            id: code.id,
            severity,
            sentence: one_line(&if files.is_empty() { what } else { format!("{}: {what}", some_of(&files)) }),
            remedy: one_line(&remedy),
        };
        self.0.into_iter().map(finding).collect()
    }
}

/// The first names of a list, and how many there are if that is not all.
fn some_of(names: &[impl AsRef<str>]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown}, … ({} in all)", names.len()) } else { shown }
}

/// Looks at a plugin's folder under a policy. Reads all of it, so that altered files are found, too.
pub fn check(plugin_dir: &Path, trust: &Trust) -> Report {
    let mut findings = Findings::default();
    let inspected = inspect_under(plugin_dir, trust);
    let problems = trusted::judge(plugin_dir, trust, &mut findings);
    let (plugin, version, toml, library) = match &inspected {
        Ok(inspection) => {
            for warning in &inspection.warnings {
                findings.add(&codes::FOLDER_NAME, warning, format!("rename the folder to {}", inspection.file.toml.id));
            }
            let file = &inspection.file;
            (file.toml.id.clone(), Some(file.toml.version.clone()), Some(file.toml.clone()), Some(file.library.clone()))
        }
        Err(refusal) => {
            rows(refusal, &problems, &mut findings);
            let toml = crate::inspect::read_toml(&plugin_dir.join("plugin.toml")).ok().and_then(|text| PluginToml::parse(&text).ok());
            let library = toml.as_ref().and_then(|toml| plugin_dir.join(&toml.library).canonicalize().ok());
            (refusal.plugin.clone(), refusal.version.clone(), toml, library)
        }
    };
    let own = library.as_ref().and_then(|path| elf::read(path).ok().map(|facts| (path, facts)));
    let note = own.as_ref().and_then(|(_, facts)| facts.note.as_deref()).and_then(|note| Note::parse(note).ok());
    if let Some(toml) = &toml {
        description::judge(toml, note.as_ref(), &mut findings);
    }
    if let Some((path, facts)) = &own {
        linking::judge_doors(path, note.as_ref(), &mut findings);
        judge_library(path, facts, &mut findings);
    }
    for path in beside(plugin_dir, library.as_deref()) {
        match elf::read(&path) {
            Ok(facts) => judge_library(&path, &facts, &mut findings),
            Err(error) => findings.add_in(&path, &codes::DAMAGED_BESIDE, error, "install the plugin again"),
        }
    }
    Report { plugin, version, inspected, findings: findings.done() }
}

/// What is asked of every library in the folder, the plugin's own and those that it brings along. Exported symbols are not: a library that others
/// are linked to must have some.
fn judge_library(path: &Path, facts: &ElfFacts, findings: &mut Findings) {
    linking::judge(path, facts, findings);
    runpath::judge(path, facts, findings);
}

/// The code of each row of a refusal, by what was compared. Those about trust are findings already.
fn rows(refusal: &Refusal, problems: &[RefusalRow], findings: &mut Findings) {
    for row in refusal.rows.iter().filter(|row| !problems.contains(row)) {
        let code = match row.field.as_str() {
            "folder" => &codes::FOLDER,
            "plugin.toml" => &codes::PLUGIN_TOML,
            "machine" => &codes::MACHINE,
            "note" => &codes::NOTE,
            "abi" => &codes::ABI,
            "target" => &codes::TARGET,
            "panic" => &codes::PANIC,
            "id" => &codes::ID,
            "version" => &codes::VERSION,
            "capabilities" => &codes::CAPABILITIES,
            "needed library" | "owner" | "permissions" => &codes::NEEDED_LIBRARY,
            "needed libraries" => &codes::NEEDED_LIST,
            _ => &codes::LIBRARY,
        };
        findings.add(code, format!("{}: {}; wanted is {}", row.field, row.plugin, row.host), &row.remedy);
    }
}

/// Other shared libraries of the folder, by name.
fn beside(plugin_dir: &Path, own: Option<&Path>) -> Vec<PathBuf> {
    let named = |path: &PathBuf| file_name(path).ends_with(".so") || file_name(path).contains(".so.");
    let entries = std::fs::read_dir(plugin_dir).into_iter().flatten().flatten().map(|entry| entry.path());
    // A link leads to a file that is looked at itself, or out of the folder, which is somebody else's finding.
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| named(path) && path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())).collect();
    paths.retain(|path| own.is_none_or(|own| path.file_name() != own.file_name()));
    paths.sort();
    paths.truncate(MAX_LIBRARIES);
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
