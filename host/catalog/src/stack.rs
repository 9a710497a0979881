//! Folders of manifests, stacked: which files make up each manifest, and their merged tree.
//!
//! Folders are given from the lowest (the vendor's) to the highest (the person's own). A file in a higher folder replaces the one of the
//! same name below it; `NAME.toml.d/*.toml` of all folders amends what is left, in the order of the file names whatever folder they are in;
//! an empty file or a link to `/dev/null` masks what lies below it, a drop-in too. Names are sorted, so that nothing depends on the
//! order in which a file system lists its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::document::{self, Document, Node};
use crate::problem::Problem;

/// Files of one folder that are looked at; more is a mistake in the path.
const FILES_MAX: usize = 10_000;

/// One manifest before its keys are looked at.
#[derive(Debug)]
pub(crate) struct Stacked {
    /// File name without `.toml`.
    pub stem: String,
    /// The file that counts.
    pub path: PathBuf,
    /// Drop-ins that were merged, in order.
    pub drop_ins: Vec<PathBuf>,
    /// The merged tree, or what is wrong with the files. The tree of the files that could be read comes along, for the names in it.
    pub tree: Result<Node, (Option<Node>, Vec<Problem>)>,
}

/// Reads all folders. Problems that belong to no manifest go into `problems`.
pub(crate) fn read(folders: &[PathBuf], problems: &mut Vec<Problem>) -> Vec<Stacked> {
    let mut mains: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut amending: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for folder in folders {
        for (name, path) in list(folder, problems) {
            if name.ends_with(".toml") {
                mains.insert(name, path);
            } else if let Some(main) = name.strip_suffix(".d").filter(|main| main.ends_with(".toml")) {
                let drop_ins = list(&path, problems).into_iter().filter(|(name, _)| name.ends_with(".toml"));
                amending.entry(main.to_owned()).or_default().extend(drop_ins);
            }
        }
    }
    for (main, drop_ins) in &amending {
        if !mains.contains_key(main) {
            for path in drop_ins.values() {
                problems.push(Problem::warning(path, None, format!("has no effect: there is no manifest {main} that it could amend")));
            }
        }
    }
    mains.into_iter().filter_map(|(name, path)| stack(name.trim_end_matches(".toml"), path, amending.get(&name))).collect()
}

fn stack(stem: &str, path: PathBuf, drop_ins: Option<&BTreeMap<String, PathBuf>>) -> Option<Stacked> {
    let mut problems = Vec::new();
    let mut tree = match document::read(&path) {
        Ok(Document::Mask) => return None,
        Ok(Document::Table(node)) => Some(node),
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
    let mut merged = Vec::new();
    for drop_in in drop_ins.into_iter().flat_map(BTreeMap::values) {
        match document::read(drop_in) {
            Ok(Document::Mask) => {}
            Ok(Document::Table(over)) => {
                match &mut tree {
                    Some(tree) => tree.amend(over),
                    None => tree = Some(over),
                }
                merged.push(drop_in.clone());
            }
            Err(problem) => problems.push(problem),
        }
    }
    let tree = match (tree, problems.is_empty()) {
        (Some(tree), true) => Ok(tree),
        (tree, _) => Err((tree, problems)),
    };
    Some(Stacked { stem: stem.to_owned(), path, drop_ins: merged, tree })
}

/// Names and paths in a folder, sorted. A folder that is not there is empty; hidden files and editors' backups are not looked at.
fn list(folder: &Path, problems: &mut Vec<Problem>) -> Vec<(String, PathBuf)> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            problems.push(Problem::warning(folder, None, format!("cannot be listed: {error}")));
            return Vec::new();
        }
    };
    let mut out = Vec::new();
    for entry in entries.map_while(Result::ok) {
        if out.len() == FILES_MAX {
            problems.push(Problem::warning(
                folder,
                None,
                format!("has more than {FILES_MAX} files; the rest is not looked at. Is this a folder of manifests?"),
            ));
            break;
        }
        // A name that is not UTF-8 cannot end in ".toml" as text; it is not ours.
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
        {
            out.push((name, entry.path()));
        }
    }
    out.sort();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Value;

    /// `path = text` creates a file, `path -> target` a link.
    fn folder(root: &Path, files: &[(&str, &str)]) {
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match content.strip_prefix("-> ") {
                Some(target) => std::os::unix::fs::symlink(target, path).unwrap(),
                None => std::fs::write(path, content).unwrap(),
            }
        }
    }

    struct Case {
        name: &'static str,
        files: &'static [(&'static str, &'static str)],
        /// `stem: a=…` of each manifest, with what its key `a` and `t.b` hold.
        expected: &'static [&'static str],
        problems: usize,
    }

    const CASES: &[Case] = &[
        Case { name: "folders that do not exist are empty", files: &[], expected: &[], problems: 0 },
        Case {
            name: "different names stand side by side, sorted",
            files: &[("etc/z.toml", "a = 1"), ("usr/b.toml", "a = 2"), ("usr/readme.txt", "x"), ("usr/.hidden.toml", "x")],
            expected: &["b: a=2", "z: a=1"],
            problems: 0,
        },
        Case {
            name: "the same name in a higher folder replaces the whole file",
            files: &[("usr/m.toml", "a = 1\n[t]\nb = 1"), ("etc/m.toml", "a = 2")],
            expected: &["m: a=2"],
            problems: 0,
        },
        Case {
            name: "a drop-in amends, wherever it is",
            files: &[("usr/m.toml", "a = 1\n[t]\nb = 1"), ("etc/m.toml.d/50-mine.toml", "[t]\nb = 2")],
            expected: &["m: a=1 b=2"],
            problems: 0,
        },
        Case {
            name: "drop-ins are sorted by name, not by folder",
            files: &[("usr/m.toml", "a = 1"), ("etc/m.toml.d/10.toml", "a = 10"), ("usr/m.toml.d/20.toml", "a = 20")],
            expected: &["m: a=20"],
            problems: 0,
        },
        Case {
            name: "a drop-in of the same name in a higher folder replaces the lower one",
            files: &[("usr/m.toml", "a = 1"), ("usr/m.toml.d/10.toml", "a = 10\n[t]\nb = 1"), ("etc/m.toml.d/10.toml", "a = 11")],
            expected: &["m: a=11"],
            problems: 0,
        },
        Case {
            name: "a link to /dev/null masks a manifest",
            files: &[("usr/m.toml", "a = 1"), ("etc/m.toml", "-> /dev/null"), ("etc/m.toml.d/1.toml", "a = 2")],
            expected: &[],
            problems: 0,
        },
        Case { name: "an empty file masks a manifest", files: &[("usr/m.toml", "a = 1"), ("etc/m.toml", "")], expected: &[], problems: 0 },
        Case {
            name: "a link to /dev/null masks a drop-in",
            files: &[("usr/m.toml", "a = 1"), ("usr/m.toml.d/1.toml", "a = 2"), ("etc/m.toml.d/1.toml", "-> /dev/null")],
            expected: &["m: a=1"],
            problems: 0,
        },
        Case { name: "a drop-in for nothing is said", files: &[("etc/m.toml.d/1.toml", "a = 2")], expected: &[], problems: 1 },
        Case {
            name: "a broken file above a good one is not replaced by the good one",
            files: &[("usr/m.toml", "a = 1"), ("etc/m.toml", "a = ")],
            expected: &["m: broken"],
            problems: 0,
        },
        Case {
            name: "a broken drop-in breaks its manifest",
            files: &[("usr/m.toml", "a = 1"), ("etc/m.toml.d/1.toml", "a = "), ("usr/n.toml", "a = 3")],
            expected: &["m: broken", "n: a=3"],
            problems: 0,
        },
        Case {
            name: "a dangling link is broken, not absent",
            files: &[("usr/m.toml", "a = 1"), ("etc/m.toml", "-> nowhere")],
            expected: &["m: broken"],
            problems: 0,
        },
    ];

    #[test]
    fn manifests_stack_as_the_table_says() {
        for case in CASES {
            let root = tempfile::tempdir().unwrap();
            folder(root.path(), case.files);
            let mut problems = Vec::new();
            let stacked = read(&[root.path().join("usr"), root.path().join("etc")], &mut problems);
            let found: Vec<String> = stacked
                .iter()
                .map(|stacked| match &stacked.tree {
                    Err(_) => format!("{}: broken", stacked.stem),
                    Ok(tree) => {
                        let read = |path: &str| match tree.get(path).map(|node| &node.value) {
                            Some(Value::Integer(number)) => format!(" {}={number}", path.trim_start_matches("t.")),
                            _ => String::new(),
                        };
                        format!("{}:{}{}", stacked.stem, read("a"), read("t.b"))
                    }
                })
                .collect();
            assert_eq!(found, case.expected, "{}", case.name);
            assert_eq!(problems.len(), case.problems, "{}: {problems:?}", case.name);
        }
    }
}
