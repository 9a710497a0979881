//! `cargo xtask abi-diff`: what changed in the plugin ABI between two revisions, and whether any of it breaks a plugin that exists.
//!
//! Compares the `plugin-api/abi.json` of two git revisions, so nothing of either is built. Without revisions: the snapshot that was kept
//! with the fixtures of the last minor, against the working tree. A plugin is broken by what the rules of growth forbid: anything that was
//! there and moved, changed its size, type or value, or is gone; growth of a struct that cannot say its size; and an addition under
//! the number of a minor that was given away already.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{paths, process};

/// Options of `abi-diff`.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// A git revision; default: the minor whose plugins were kept last, in tests/abi/fixtures.
    old: Option<String>,
    /// A git revision; default: the working tree.
    new: Option<String>,
}

/// Where the snapshot of the working tree lies, from the root.
const SNAPSHOT: &str = "plugin-api/abi.json";

/// As `plugin-api/tests/snapshot.rs` writes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Snapshot {
    major: u32,
    minor: u32,
    pointer_bytes: u32,
    structs: BTreeMap<String, Struct>,
    functions: BTreeMap<String, String>,
    constants: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Struct {
    size: u64,
    align: u64,
    growable: bool,
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Field {
    name: String,
    offset: u64,
    size: u64,
    #[serde(rename = "type")]
    kind: String,
}

/// One difference.
#[derive(Debug, PartialEq)]
enum Change {
    /// Plugins of before do not notice.
    Added(String),
    /// Plugins of before are broken.
    Break(String),
}

/// The command.
pub fn run(args: &Args) -> Result<()> {
    let (old_name, old) = match &args.old {
        Some(revision) => (revision.clone(), of_revision(revision)?),
        None => {
            let file = newest_fixture(&paths::root().join("tests/abi/fixtures"))?;
            (shown(&file), read(&file)?)
        }
    };
    let (new_name, new) = match &args.new {
        Some(revision) => (revision.clone(), of_revision(revision)?),
        None => ("the working tree".to_owned(), read(&paths::root().join(SNAPSHOT))?),
    };
    println!("plugin ABI {}.{} ({old_name}) → {}.{} ({new_name})", old.major, old.minor, new.major, new.minor);
    report(&compare(&old, &new))
}

/// Every kept minor against the working tree; what `cargo xtask test` does.
pub fn against_all_minors() -> Result<()> {
    let new = read(&paths::root().join(SNAPSHOT))?;
    for (_, file) in fixtures(&paths::root().join("tests/abi/fixtures"))? {
        let old = read(&file)?;
        if old.major == new.major {
            println!("plugin ABI {}.{} ({}) → {}.{}", old.major, old.minor, shown(&file), new.major, new.minor);
            report(&compare(&old, &new))?;
        }
    }
    Ok(())
}

fn report(changes: &[Change]) -> Result<()> {
    for change in changes {
        match change {
            Change::Added(what) => println!("  + {what}"),
            Change::Break(what) => println!("  ! {what}"),
        }
    }
    let breaks = changes.iter().filter(|change| matches!(change, Change::Break(_))).count();
    match (breaks, changes.len()) {
        (0, 0) => println!("  the same"),
        (0, n) => println!("  {n} additions, no break"),
        (n, _) => bail!("{n} breaks: give back what is gone, add what is new at the end, or raise the major (docs/abi/POLICY.md)"),
    }
    Ok(())
}

fn shown(file: &Path) -> String {
    file.strip_prefix(paths::root()).unwrap_or(file).display().to_string()
}

fn read(file: &Path) -> Result<Snapshot> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no snapshot of the ABI", file.display()))
}

fn of_revision(revision: &str) -> Result<Snapshot> {
    let mut git = Command::new("git");
    git.current_dir(paths::root()).arg("show").arg(format!("{revision}:{SNAPSHOT}"));
    let text = process::output(&mut git).with_context(|| format!("the revision {revision} has no {SNAPSHOT}"))?;
    serde_json::from_str(&text).with_context(|| format!("{SNAPSHOT} of {revision} is no snapshot of the ABI"))
}

/// The kept minors with their snapshots, the oldest first.
fn fixtures(folder: &Path) -> Result<BTreeMap<(u32, u32), PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let minor = |name: &str| name.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        if let Some(version) = minor(&entry.file_name().to_string_lossy()) {
            found.insert(version, entry.path().join("abi.json"));
        }
    }
    Ok(found)
}

fn newest_fixture(folder: &Path) -> Result<PathBuf> {
    let last = fixtures(folder)?.pop_last();
    last.map(|(_, file)| file).with_context(|| format!("{} holds no minor; name a revision", folder.display()))
}

/// Everything that differs.
fn compare(old: &Snapshot, new: &Snapshot) -> Vec<Change> {
    let mut changes = Vec::new();
    if old.pointer_bytes != new.pointer_bytes {
        changes.push(Change::Break(format!("pointers of {} bytes, before {}", new.pointer_bytes, old.pointer_bytes)));
    }
    for (name, before) in &old.structs {
        match new.structs.get(name) {
            None => changes.push(Change::Break(format!("{name} is gone"))),
            Some(after) => compare_struct(name, before, after, &mut changes),
        }
    }
    for name in new.structs.keys().filter(|name| !old.structs.contains_key(*name)) {
        changes.push(Change::Added(format!("struct {name}")));
    }
    compare_texts("function", &old.functions, &new.functions, &mut changes);
    compare_texts("constant", &old.constants, &new.constants, &mut changes);
    if new.major != old.major {
        // A new major is a new contract: nothing above breaks it. What remains is worth reading.
        changes.iter_mut().for_each(|change| {
            if let Change::Break(what) = change {
                *change = Change::Added(format!("{what} (allowed: the major is {} now)", new.major));
            }
        });
    } else if new.minor < old.minor {
        changes.push(Change::Break(format!("the minor went back from {} to {}", old.minor, new.minor)));
    } else if new.minor == old.minor && changes.iter().any(|change| matches!(change, Change::Added(_))) {
        changes.push(Change::Break(format!("something was added, and the minor is still {}: raise ONEBIT_ABI_MINOR", new.minor)));
    }
    changes
}

fn compare_struct(name: &str, old: &Struct, new: &Struct, changes: &mut Vec<Change>) {
    let mut breaks = |what: String| changes.push(Change::Break(what));
    if old.growable != new.growable {
        breaks(format!("{name} {} struct_size", if new.growable { "got a" } else { "lost its" }));
    }
    if old.align != new.align {
        breaks(format!("{name} is aligned to {} bytes, before to {}", new.align, old.align));
    }
    if new.size < old.size || (new.size > old.size && !old.growable) {
        let why = if old.growable { "" } else { "; it has no struct_size, so it is frozen for the major" };
        breaks(format!("{name} has {} bytes, before {}{why}", new.size, old.size));
    }
    for (index, field) in old.fields.iter().enumerate() {
        let same_name = new.fields.iter().find(|candidate| candidate.name == field.name);
        let same_place = new.fields.iter().find(|candidate| candidate.offset == field.offset && candidate.size == field.size);
        match (same_name, same_place) {
            (Some(after), _) if after == field && new.fields.get(index) == Some(field) => {}
            (Some(after), _) if after.offset != field.offset => {
                breaks(format!("{name}.{} moved from byte {} to {}", field.name, field.offset, after.offset));
            }
            (Some(after), _) if after.size != field.size => {
                breaks(format!("{name}.{} has {} bytes, before {}", field.name, after.size, field.size));
            }
            (Some(after), _) if after.kind != field.kind => {
                breaks(format!("{name}.{} is `{}`, before `{}`", field.name, after.kind, field.kind));
            }
            (Some(_), _) => breaks(format!("{name}.{} stands at another place in the list", field.name)),
            (None, Some(after)) => breaks(format!("{name}.{} is called {} now", field.name, after.name)),
            (None, None) => breaks(format!("{name}.{} is gone", field.name)),
        }
    }
    let old_names = |field: &&Field| !old.fields.iter().any(|before| before.name == field.name);
    for field in new.fields.iter().filter(old_names) {
        if field.offset >= old.size {
            changes.push(Change::Added(format!("{name}.{}: `{}`", field.name, field.kind)));
        } else if !old.fields.iter().any(|before| before.offset == field.offset && before.size == field.size) {
            changes.push(Change::Break(format!("{name}.{} is new and does not stand at the end", field.name)));
        }
    }
}

fn compare_texts(what: &str, old: &BTreeMap<String, String>, new: &BTreeMap<String, String>, changes: &mut Vec<Change>) {
    for (name, before) in old {
        match new.get(name) {
            None => changes.push(Change::Break(format!("{what} {name} is gone"))),
            Some(after) if after != before => changes.push(Change::Break(format!("{what} {name} is {after}, before {before}"))),
            Some(_) => {}
        }
    }
    changes.extend(
        new.iter().filter(|(name, _)| !old.contains_key(*name)).map(|(name, value)| Change::Added(format!("{what} {name} = {value}"))),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Snapshot {
        read(&paths::root().join(SNAPSHOT)).unwrap()
    }

    /// What one change of today's ABI is called.
    fn changed(change: impl FnOnce(&mut Snapshot)) -> Vec<Change> {
        let mut new = now();
        change(&mut new);
        compare(&now(), &new)
    }

    fn table<'s>(snapshot: &'s mut Snapshot, name: &str) -> &'s mut Struct {
        snapshot.structs.get_mut(name).unwrap()
    }

    #[track_caller]
    fn breaks(words: &str, change: impl FnOnce(&mut Snapshot)) {
        let changes = changed(change);
        let found = changes.iter().any(|change| matches!(change, Change::Break(what) if what.contains(words)));
        assert!(found, "{words:?} is not among {changes:?}");
    }

    /// A function at the end of a table.
    fn grow(snapshot: &mut Snapshot) {
        let forward = table(snapshot, "OnebitForward");
        let field = Field { name: "seq_swap".into(), offset: forward.size, size: 8, kind: "OnebitStatus (*)(OnebitSession *)".into() };
        forward.size += 8;
        forward.fields.push(field);
    }

    #[test]
    fn the_same_is_the_same() {
        assert_eq!(changed(|_| ()), []);
    }

    #[test]
    fn growth_at_the_end_under_a_new_minor_is_an_addition() {
        let changes = changed(|new| {
            grow(new);
            new.minor += 1;
            new.constants.insert("ONEBIT_NEW".into(), "16".into());
            let copy = new.structs["OnebitLogits"].clone();
            new.structs.insert("OnebitNew".into(), copy);
        });
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert!(changes.iter().all(|change| matches!(change, Change::Added(_))), "{changes:?}");
    }

    #[test]
    fn an_addition_without_a_new_minor_is_a_break() {
        breaks("raise ONEBIT_ABI_MINOR", grow);
        let (mut newer, older) = (now(), now());
        newer.minor += 1;
        assert!(matches!(compare(&newer, &older).as_slice(), [Change::Break(what)] if what.contains("went back")));
    }

    #[test]
    fn every_kind_of_break_is_caught() {
        breaks("OnebitBatch is gone", |new| drop(new.structs.remove("OnebitBatch")));
        breaks("OnebitBatch.tokens is gone", |new| {
            let fields = &mut table(new, "OnebitBatch").fields;
            fields.retain(|field| field.name != "tokens");
        });
        breaks("OnebitBatch.reserved is called urgent now", |new| {
            table(new, "OnebitBatch")
                .fields
                .iter_mut()
                .filter(|field| field.name == "reserved")
                .for_each(|field| field.name = "urgent".into());
        });
        breaks("OnebitSeqArgs.p0 moved from byte 16 to 20", |new| {
            let fields = &mut table(new, "OnebitSeqArgs").fields;
            let at = fields.iter().position(|field| field.name == "p0").unwrap();
            fields.swap(at, at + 1);
            (fields[at].offset, fields[at + 1].offset) = (16, 20);
        });
        breaks("OnebitLogits.rows has 8 bytes, before 4", |new| {
            table(new, "OnebitLogits").fields.iter_mut().filter(|field| field.name == "rows").for_each(|field| field.size = 8);
        });
        breaks("OnebitSeqArgs.delta is `uint32_t`, before `int32_t`", |new| {
            table(new, "OnebitSeqArgs")
                .fields
                .iter_mut()
                .filter(|field| field.name == "delta")
                .for_each(|field| field.kind = "uint32_t".into());
        });
        breaks("OnebitForward.forward is `OnebitStatus (*)(OnebitSession *)`", |new| {
            let forward = table(new, "OnebitForward").fields.iter_mut().find(|field| field.name == "forward").unwrap();
            forward.kind = "OnebitStatus (*)(OnebitSession *)".into();
        });
        breaks("OnebitStr has 24 bytes, before 16; it has no struct_size", |new| table(new, "OnebitStr").size = 24);
        breaks("OnebitBatch has 56 bytes, before 64", |new| table(new, "OnebitBatch").size = 56);
        breaks("OnebitBatch is aligned to 16 bytes", |new| table(new, "OnebitBatch").align = 16);
        breaks("OnebitBatch lost its struct_size", |new| table(new, "OnebitBatch").growable = false);
        breaks("constant ONEBIT_BUSY is 9, before 8", |new| drop(new.constants.insert("ONEBIT_BUSY".into(), "9".into())));
        breaks("constant ONEBIT_FORWARD_1 is gone", |new| drop(new.constants.remove("ONEBIT_FORWARD_1")));
        breaks("function OnebitEntry is", |new| drop(new.functions.insert("OnebitEntry".into(), "void (*)(void)".into())));
        breaks("pointers of 4 bytes", |new| new.pointer_bytes = 4);
    }

    #[test]
    fn a_function_in_the_middle_of_a_table_is_a_break() {
        breaks("OnebitForward.seq_shift moved", |new| {
            let forward = table(new, "OnebitForward");
            let at = forward.fields.iter().position(|field| field.name == "seq_shift").unwrap();
            let place = forward.fields[at].offset;
            forward.fields[at..].iter_mut().for_each(|field| field.offset += 8);
            forward.fields.insert(at, Field { name: "seq_swap".into(), offset: place, size: 8, kind: "void (*)(void)".into() });
            forward.size += 8;
            new.minor += 1;
        });
    }

    #[test]
    fn a_new_major_may_break_and_says_what() {
        let changes = changed(|new| {
            new.major += 1;
            new.structs.remove("OnebitBatch");
        });
        assert!(matches!(changes.as_slice(), [Change::Added(what)] if what.starts_with("OnebitBatch is gone (allowed")), "{changes:?}");
    }
}
