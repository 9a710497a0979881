//! All checks that need no code of the plugin to run: files and paths, `plugin.toml`, the ELF note, needed libraries.
//!
//! A later check runs only if the earlier ones made it meaningful, but facts of one kind are compared all at once, so that a person sees
//! every row that must change, not one per attempt.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::trust::{self, Examination, Problem, Reading, Seen, Severity, Trust};
use crate::{ABI_MAJOR, ABI_MINOR, Note, PluginToml, Refusal, beside, elf, needed, plugin_toml};

/// Target triple of this host.
const TARGET: &str = env!("ONEBIT_TARGET");

/// A plugin whose file, note and `plugin.toml` agree and suit this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginFile {
    /// Its folder, canonical.
    pub dir: PathBuf,
    /// `plugin.toml`.
    pub toml: PluginToml,
    /// The ELF note.
    pub note: Note,
    /// Its library, canonical.
    pub library: PathBuf,
    /// Libraries of the folder that it needs, as paths from the folder, in the order in which they must be loaded.
    pub beside: Vec<String>,
    /// The policy under which it was inspected, and is loaded.
    pub trust: Trust,
    /// Files that the host has hashed before, so that a load need not read them again. Empty = it reads them.
    pub seen: Vec<Seen>,
}

/// What [`inspect()`] found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspection {
    /// The plugin.
    pub file: PluginFile,
    /// Shared libraries it needs, and where each was found.
    pub needed: Vec<(String, PathBuf)>,
    /// Sentences for a person; nothing that forbids the use.
    pub warnings: Vec<String>,
    /// What is known of its origin, and what is not as it should be and still allowed.
    pub trust: Examination,
}

/// Reads a plugin's folder, under the policy that holds if nobody says otherwise. No code of the plugin runs.
pub fn inspect(plugin_dir: &Path) -> Result<Inspection, Refusal> {
    inspect_under(plugin_dir, &Trust::default())
}

/// Reads a plugin's folder. No code of the plugin runs.
pub fn inspect_under(plugin_dir: &Path, trust: &Trust) -> Result<Inspection, Refusal> {
    let folder_name = plugin_dir.file_name().unwrap_or(plugin_dir.as_os_str()).to_string_lossy().into_owned();
    let refuse = |field: &str, host: &str, plugin: String, remedy: String| Refusal::one(folder_name.as_str(), field, host, plugin, remedy);
    let dir = plugin_dir.canonicalize().map_err(|error| {
        refuse(
            "folder",
            "a folder that can be read",
            format!("{}: {error}", plugin_dir.display()),
            "check the path and its permissions".into(),
        )
    })?;
    if !dir.is_dir() {
        return Err(refuse("folder", "a folder", format!("{} is a file", dir.display()), "give the folder that holds plugin.toml".into()));
    }
    let toml_path = dir.join("plugin.toml");
    check_file(&dir, &toml_path).map_err(|[host, plugin, remedy]| refuse("plugin.toml", &host, plugin, remedy))?;
    let text = read_toml(&toml_path).map_err(|error| refuse("plugin.toml", "TOML of schema 1", error, "correct the file".into()))?;
    let toml = PluginToml::parse(&text).map_err(|error| refuse("plugin.toml", "TOML of schema 1", error, "correct the file".into()))?;

    let mut refusal = Refusal::new(toml.id.clone(), Some(toml.version.clone()));
    let library = dir.join(&toml.library);
    if let Err([host, plugin, remedy]) = check_file(&dir, &library) {
        refusal.row("library", host, plugin, remedy);
        return Err(refusal);
    }
    let examination = trust::examine(&absolute(plugin_dir), trust, Reading::Names);
    refusal.rows.extend(examination.of(Severity::Refused, trust.mode).map(Problem::refusal));
    if !refusal.rows.is_empty() {
        return Err(refusal);
    }
    let library = library.canonicalize().map_err(|error| refuse("library", "a file", error.to_string(), "check the file".into()))?;

    let facts = match elf::read(&library) {
        Ok(facts) => facts,
        Err(error) => {
            let found = format!("{} {error}", toml.library);
            refusal.row("library", "a 64-bit ELF shared object", found, "install the plugin again; the file is damaged or of another kind");
            return Err(refusal);
        }
    };
    if facts.machine != elf::own_machine() {
        let (own, theirs) = (elf::machine_name(elf::own_machine()), elf::machine_name(facts.machine));
        refusal.row("machine", own, theirs, "install the plugin's build for this machine");
        return Err(refusal);
    }
    let Some(note) = &facts.note else {
        let remedy = "build it with export_plugin! or ONEBIT_PLUGIN_NOTE, and keep section .note.onebit when stripping";
        refusal.row("note", "an ELF note of owner onebit", format!("{} has none", toml.library), remedy);
        return Err(refusal);
    };
    if facts.notes > 1 {
        refusal.row(
            "note",
            "one ELF note of owner onebit",
            format!("{} has {}", toml.library, facts.notes),
            "link one plugin into the library",
        );
        return Err(refusal);
    }
    let note = match Note::parse(note) {
        Ok(note) => note,
        Err(error) => {
            refusal.row("note", "key=value lines of version 1", error.to_string(), "build the plugin again with a current SDK or header");
            return Err(refusal);
        }
    };
    compare_with_host(&note, &mut refusal);
    compare_with_toml(&note, &toml, &mut refusal);
    let needed = match needed::walk(&library, &facts) {
        Ok(needed) => needed,
        Err(error) => {
            refusal.row("needed libraries", "a list that ends", error, "install the plugin again");
            return Err(refusal);
        }
    };
    for missing in &needed.missing {
        refusal.row("needed library", "not found", format!("{}, for {}", missing.name, missing.wanted_by), needed::remedy(missing));
    }
    if !refusal.rows.is_empty() {
        return Err(refusal);
    }
    let beside = beside::order(&dir, &facts.needed, &needed, &mut refusal);
    beside::check_elsewhere(&dir, &needed, trust, &mut refusal);
    if !refusal.rows.is_empty() {
        return Err(refusal);
    }
    let mut warnings = Vec::new();
    if folder_name != toml.id {
        warnings.push(format!("the plugin {} lies in a folder named {folder_name}", toml.id));
    }
    let needed = needed.found.into_iter().map(|found| (found.name, found.path)).collect();
    let file = PluginFile { dir, toml, note, library, beside, trust: trust.clone(), seen: Vec::new() };
    Ok(Inspection { file, needed, warnings, trust: examination })
}

/// As it was given, links and all: who may turn a link on the way may choose the plugin.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The text of a `plugin.toml`, bounded.
pub(crate) fn read_toml(path: &Path) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    let read = file.take(plugin_toml::MAX_TOML + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if read as u64 > plugin_toml::MAX_TOML {
        return Err(format!("longer than {} bytes", plugin_toml::MAX_TOML));
    }
    Ok(text)
}

/// What the host wants, what there is, what to do.
type Row = [String; 3];

/// A regular file, whose real place is in the plugin's folder.
fn check_file(dir: &Path, path: &Path) -> Result<(), Row> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let real = path.canonicalize().map_err(|error| {
        [
            "a file in the plugin's folder".into(),
            format!("{name}: {error}"),
            format!("install the plugin again; {} is not there", path.display()),
        ]
    })?;
    if !real.starts_with(dir) {
        return Err([
            "a file in the plugin's folder".into(),
            format!("{name} leads to {}", real.display()),
            "put the file itself into the plugin's folder".into(),
        ]);
    }
    let kind =
        fs::metadata(&real).map_err(|error| ["a file that can be read".into(), format!("{name}: {error}"), "check permissions".into()])?;
    if !kind.is_file() {
        return Err(["a regular file".into(), format!("{name} is none"), "install the plugin again".into()]);
    }
    Ok(())
}

fn compare_with_host(note: &Note, refusal: &mut Refusal) {
    let speaks = format!("{ABI_MAJOR}.0 to {ABI_MAJOR}.{ABI_MINOR}");
    let built = format!("{}.{}", note.abi_major, note.abi_built_minor);
    if note.abi_major > ABI_MAJOR {
        refusal.row("abi", speaks, built, format!("install a newer onebit-host, or the plugin's build for ABI {ABI_MAJOR}"));
    } else if note.abi_major < ABI_MAJOR {
        refusal.row("abi", speaks, built, format!("install the plugin's build for ABI {ABI_MAJOR}, or an older onebit-host"));
    } else if note.abi_min_minor > ABI_MINOR {
        let wants = format!("{built}, wants a host of {}.{} or newer", note.abi_major, note.abi_min_minor);
        refusal.row("abi", speaks, wants, "install a newer onebit-host, or an older build of the plugin");
    }
    if !same_target(TARGET, &note.target) {
        refusal.row("target", TARGET, note.target.as_str(), "install the plugin's build for this system");
    }
    if note.has_rust_door() && note.panic != "unwind" {
        refusal.row("panic", "unwind, for Rust plugins", note.panic.as_str(), "build the plugin with panic = \"unwind\"");
    }
}

fn compare_with_toml(note: &Note, toml: &PluginToml, refusal: &mut Refusal) {
    let mut differ = |field: &str, in_toml: String, in_note: String| {
        if in_toml != in_note {
            refusal.row(
                field,
                format!("plugin.toml: {in_toml}"),
                format!("note: {in_note}"),
                "install the plugin again; its parts do not belong together",
            );
        }
    };
    let sorted = |ids: &[String]| ids.iter().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
    differ("id", toml.id.clone(), note.id.clone());
    differ("version", toml.version.clone(), note.version.clone());
    differ("abi", toml.abi.clone(), format!("{}.{}", note.abi_major, note.abi_built_minor));
    differ("capabilities", sorted(&toml.capabilities), sorted(&note.capabilities));
}

/// Same architecture, system and libc; the vendor does not matter, and may be left out as Debian does.
fn same_target(host: &str, plugin: &str) -> bool {
    let parts = |triple: &str| -> Option<[String; 3]> {
        let parts: Vec<&str> = triple.split('-').collect();
        match parts.as_slice() {
            [arch, system, libc] | [arch, _, system, libc] => Some([(*arch).into(), (*system).into(), (*libc).into()]),
            _ => None,
        }
    };
    host == plugin || parts(host).is_some_and(|host| Some(host) == parts(plugin))
}

#[cfg(test)]
mod tests {
    use super::same_target;

    #[test]
    fn the_vendor_of_a_target_does_not_matter_but_the_libc_does() {
        assert!(same_target("x86_64-unknown-linux-gnu", "x86_64-linux-gnu"));
        assert!(same_target("x86_64-unknown-linux-gnu", "x86_64-pc-linux-gnu"));
        assert!(!same_target("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl"));
        assert!(!same_target("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"));
        assert!(!same_target("x86_64-unknown-linux-gnu", ""));
    }
}
