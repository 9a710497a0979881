//! What a plugin's author needs of an installed host: the C header, its pkg-config file, and the sources of the Rust SDK.
//!
//! The SDK is laid out as a small workspace of its own, with the paths of this repository, so that a plugin anywhere on the machine can name it
//! as a path dependency. Its manifest is made from this repository's, so that versions cannot drift.

use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::paths;
use crate::stage::{copy, copy_tree};

/// The crates of the SDK, the one that a plugin depends on last.
const CRATES: &[&str] = &["plugin-api", "sdk/backend"];

/// Lays out everything below `prefix`, the tree that is staged.
pub fn stage(prefix: &Path) -> Result<()> {
    let root = paths::root();
    copy(&root.join("plugin-api/include/onebit_plugin.h"), &prefix.join("include/onebit_plugin.h"))?;
    write(&prefix.join("lib/pkgconfig/onebit-plugin.pc"), &pkg_config()?)?;
    let sdk = prefix.join("share/onebit/sdk");
    for part in CRATES {
        for name in ["src", "include"].map(|folder| Path::new(part).join(folder)) {
            if root.join(&name).is_dir() {
                copy_tree(&root.join(&name), &sdk.join(&name))?;
            }
        }
        for name in ["build.rs", "CHANGELOG.md", "STYLE.md"].map(|file| Path::new(part).join(file)) {
            if root.join(&name).is_file() {
                copy(&root.join(&name), &sdk.join(&name))?;
            }
        }
        write(&sdk.join(part).join("Cargo.toml"), &without_tests(&root.join(part).join("Cargo.toml"))?)?;
    }
    write(&sdk.join("Cargo.toml"), &workspace()?)?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        copy(&root.join(licence), &sdk.join(licence))?;
    }
    Ok(())
}

/// Relative to itself, so that the tree works wherever it is unpacked.
fn pkg_config() -> Result<String> {
    let manifest = read(&paths::root().join("plugin-api/Cargo.toml"))?;
    let version = manifest["package"]["version"].as_str().context("the plugin ABI has no version")?;
    Ok(format!(
        "prefix=${{pcfiledir}}/../..\nincludedir=${{prefix}}/include\n\nName: onebit-plugin\nDescription: The plugin ABI of onebit-host\n\
         URL: {}\nVersion: {version}\nCflags: -I${{includedir}}\n",
        env!("CARGO_PKG_REPOSITORY")
    ))
}

/// A crate's manifest without what only its own tests need.
fn without_tests(manifest: &Path) -> Result<String> {
    let mut manifest = read(manifest)?;
    manifest.remove("dev-dependencies");
    Ok(toml::to_string(&manifest)?)
}

/// This repository's manifest, cut down to the crates of the SDK and what these depend on.
fn workspace() -> Result<String> {
    let root = read(&paths::root().join("Cargo.toml"))?;
    let whole = root["workspace"].as_table().context("this repository is no workspace")?;
    let mut wanted = Table::new();
    for part in CRATES {
        let manifest = read(&paths::root().join(part).join("Cargo.toml"))?;
        for name in manifest.get("dependencies").and_then(Value::as_table).into_iter().flat_map(Table::keys) {
            let described =
                whole["dependencies"].get(name).with_context(|| format!("{part} needs {name}, which the workspace does not name"))?;
            wanted.insert(name.clone(), described.clone());
        }
    }
    let mut workspace = Table::new();
    workspace.insert("resolver".into(), whole["resolver"].clone());
    workspace.insert("members".into(), CRATES.iter().map(|part| Value::from(*part)).collect::<Vec<_>>().into());
    workspace.insert("package".into(), whole["package"].clone());
    workspace.insert("dependencies".into(), wanted.into());
    Ok(toml::to_string(&Table::from_iter([("workspace".to_owned(), Value::from(workspace))]))?)
}

fn read(path: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.parse().with_context(|| format!("{} is no TOML", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::create_dir_all(path.parent().context("a file without a folder")?)?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process;

    /// What a plugin does with it is tested from outside; here, that nothing is missing when this repository is not around.
    #[test]
    fn the_sdk_is_a_workspace_of_its_own_and_the_header_is_found_wherever_the_tree_lies() {
        let tree = tempfile::tempdir().expect("a folder");
        let moved = tree.path().join("moved here");
        stage(&tree.path().join("tree")).expect("staged");
        std::fs::rename(tree.path().join("tree"), &moved).expect("moved");
        let manifest = moved.join("share/onebit/sdk/Cargo.toml");
        let mut cargo = Command::new(env!("CARGO"));
        let listed =
            process::output(cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"]).arg(manifest));
        let listed: serde_json::Value = serde_json::from_str(&listed.expect("metadata")).expect("JSON");
        let names: Vec<_> = listed["packages"].as_array().expect("packages").iter().map(|package| package["name"].as_str()).collect();
        assert_eq!(names, [Some("onebit-plugin-api"), Some("onebit-sdk")]);
        let mut pkg_config = Command::new("pkg-config");
        let variable = pkg_config.env("PKG_CONFIG_PATH", moved.join("lib/pkgconfig")).args(["--variable", "includedir", "onebit-plugin"]);
        let folder = process::output(variable).expect("pkg-config");
        // Written for a shell.
        let folder = folder.trim().replace("\\ ", " ");
        assert!(Path::new(&folder).join("onebit_plugin.h").is_file(), "{folder}");
    }
}
