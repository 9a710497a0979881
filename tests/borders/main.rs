//! The borders between the crates, read from `cargo metadata` and the sources: who may name what.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A foreign crate, and the only packages that may depend on it.
const ONLY: &[(&str, &[&str])] = &[
    ("axum", &["onebit-http"]),
    ("tower-http", &["onebit-http"]),
    ("utoipa", &["onebit-http"]),
    ("libloading", &["onebit-loader"]),
    ("landlock", &["onebit-sandbox"]),
    ("seccompiler", &["onebit-sandbox"]),
    // The last is a plugin of the tests whose layout is wrong on purpose.
    ("abi_stable", &["onebit-plugin-api", "onebit-loader", "onebit-sdk", "onebit-fault-other-layout"]),
    // The loader lists devices (in a child process), the plugin matches them to the ones its library sees.
    ("ash", &["onebit-loader", "onebit-plugin-vulkan-ggml"]),
    // Archives and signatures are read where strangers' files come in, and nowhere else.
    ("tar", &["onebit-install"]),
    ("minisign-verify", &["onebit-loader"]),
    ("llama-cpp-sys-2", &["onebit-plugin-vulkan-ggml"]),
    ("minijinja", &["onebit-http"]),
    ("rusqlite", &["onebit-http"]),
    ("llguidance", &["onebit-engine"]),
];

/// A package of ours, and the packages of ours that it must not depend on.
const NEVER: &[(&str, &[&str])] = &[
    (
        "onebit-plugin-api",
        &["onebit-sdk", "onebit-loader", "onebit-engine", "onebit-catalog", "onebit-worker", "onebit-http", "onebit-host"],
    ),
    ("onebit-sdk", &["onebit-loader", "onebit-engine", "onebit-catalog", "onebit-worker", "onebit-http", "onebit-host"]),
    ("onebit-weights", &["onebit-plugin-api", "onebit-loader", "onebit-engine", "onebit-worker", "onebit-http", "onebit-host"]),
    ("onebit-plugin-vulkan-ggml", &["onebit-loader", "onebit-engine", "onebit-catalog", "onebit-worker", "onebit-http", "onebit-host"]),
    ("onebit-loader", &["onebit-engine", "onebit-catalog", "onebit-worker", "onebit-http", "onebit-host"]),
    ("onebit-install", &["onebit-engine", "onebit-catalog", "onebit-worker", "onebit-http", "onebit-host"]),
    (
        "onebit-sandbox",
        &["onebit-plugin-api", "onebit-loader", "onebit-engine", "onebit-catalog", "onebit-worker", "onebit-http", "onebit-host"],
    ),
    ("onebit-confine", &["onebit-engine", "onebit-catalog", "onebit-worker", "onebit-http", "onebit-host"]),
    ("onebit-engine", &["onebit-catalog", "onebit-worker", "onebit-http", "onebit-host"]),
    ("onebit-catalog", &["onebit-engine", "onebit-worker", "onebit-http", "onebit-host"]),
    ("onebit-kit", &["onebit-engine", "onebit-catalog", "onebit-worker", "onebit-http", "onebit-host"]),
    ("onebit-worker", &["onebit-kit", "onebit-http", "onebit-host"]),
    ("onebit-http", &["onebit-host"]),
];

/// Folders where `unsafe` may be written.
const UNSAFE: &[&str] = &["plugin-api", "sdk/backend", "host/loader", "plugins", "tests/faults"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Name, and names of what it depends on outside tests.
fn packages() -> Vec<(String, Vec<String>)> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap();
            (name(package), dependencies.iter().filter(|dependency| dependency["kind"] != "dev").map(name).collect())
        })
        .collect()
}

#[test]
fn foreign_crates_stay_in_their_rooms() {
    let mut wrong = Vec::new();
    for (package, dependencies) in packages() {
        for (foreign, allowed) in ONLY {
            if dependencies.iter().any(|name| name == foreign) && !allowed.contains(&package.as_str()) {
                wrong.push(format!("{package} depends on {foreign}; only {allowed:?} may"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn our_crates_depend_downwards_only() {
    let packages = packages();
    let mut wrong = Vec::new();
    for (package, forbidden) in NEVER {
        let Some((_, dependencies)) = packages.iter().find(|(name, _)| name == package) else { panic!("there is no {package} any more") };
        for name in dependencies.iter().filter(|name| forbidden.contains(&name.as_str())) {
            wrong.push(format!("{package} depends on {name}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn unsafe_is_written_where_it_is_allowed_and_says_why() {
    let root = root();
    let mut sources = Vec::new();
    for folder in ["host", "plugin-api", "plugins", "sdk", "tests", "xtask"] {
        rust_files(&root.join(folder), &mut sources);
    }
    assert!(sources.len() > 50, "only {} sources found", sources.len());
    let mut wrong = Vec::new();
    for file in sources {
        let text = std::fs::read_to_string(&file).unwrap();
        let short = file.strip_prefix(&root).unwrap();
        let allowed = UNSAFE.iter().any(|folder| short.starts_with(folder));
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let block = ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"].iter().any(|form| code.contains(form));
            if block && !allowed && !code.contains('"') {
                wrong.push(format!("{}:{}: {}", short.display(), at + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn no_file_names_a_folder_of_one_machine() {
    // Such a path has no meaning for a reader, and works for nobody else.
    let root = root();
    let mut files = Vec::new();
    all_files(&root, &mut files);
    assert!(files.len() > 100, "only {} files found", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        for (at, line) in text.lines().enumerate() {
            if ["/work", "/root"].iter().any(|start| begins_path(line, &format!("{start}/"))) {
                wrong.push(format!("{}:{}: {}", file.strip_prefix(&root).unwrap().display(), at + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whether an absolute path in `line` begins with `start` (and `$here/root/…` does not).
fn begins_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| !line[..at].ends_with(|before: char| before.is_alphanumeric() || "_.-}/~".contains(before)))
}

fn all_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // What is built, and what tools keep in hidden folders, is not the project's text.
            let hidden = name.to_string_lossy().starts_with('.') && name != ".ci" && name != ".cargo";
            if name != "target" && !hidden {
                all_files(&path, into);
            }
        } else if name != ".git" {
            // In a second work tree that is a file, which names the first.
            into.push(path);
        }
    }
}
