//! `cargo xtask stage`: builds everything in release mode and lays it out in `target/dist` as it is installed.
//!
//! Packages, tests and the README all use that tree. It is made beside the old one and swapped in, so that there is never half a tree.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::setup;
use crate::{cargo, dev_kit, paths, process, vulkan_sdk};

/// Options of `stage`.
#[derive(clap::Args, Clone, Default)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub setup: setup::Args,
}

/// The C++ libraries of this package go into the plugin's folder.
const GGML_PACKAGE: &str = "llama-cpp-sys-2";

/// Builds, stages, gives back the tree.
pub fn run(args: &Args) -> Result<PathBuf> {
    let tools = vulkan_sdk::find(args.setup.portable_shaders)?.context("the Vulkan tool-chain is not complete: run `cargo xtask setup`")?;
    // Two calls: cargo unites the features of what it builds together, and a changed feature of a build tool compiles all C++ anew.
    let since = process::begin(&format!("vulkan-ggml plugin (with {})", tools.describe()));
    let plugin = cargo::build(plugin_build(&tools, &["build", "--release", "-p", "onebit-plugin-vulkan-ggml"])?)?;
    process::done("built", since);
    let since = process::begin("host");
    let host = cargo::build(cargo::command(&["build", "--release", "-p", "onebit-host"])?)?;
    process::done("built", since);

    let since = process::begin("target/dist");
    let dist = paths::dist();
    let new = dist.with_extension("new");
    std::fs::create_dir_all(dist.parent().context("the tree has no parent")?)?;
    // Two stages at once would build in the same place; the second waits.
    let lock = std::fs::File::create(dist.with_extension("lock")).context("cannot lock the staged tree")?;
    lock.lock().context("cannot lock the staged tree")?;
    let _ = std::fs::remove_dir_all(&new);
    copy(host.artifact("onebit-host", "")?, &new.join("bin/onebit-host"))?;
    let ggml = new.join("lib/onebit/plugins/vulkan-ggml");
    stage_ggml(&plugin, &ggml)?;
    // As any author does, so that a host notices a file that was changed.
    process::output(Command::new(new.join("bin/onebit-host")).args(["plugin", "seal"]).arg(&ggml))?;
    stage_shared(&new.join("share/onebit"))?;
    dev_kit::stage(&new)?;
    verify(&new)?;
    swap(&new, &dist)?;
    process::done("staged", since);
    Ok(dist)
}

/// A cargo call for the plugin whose C++ needs the Vulkan tool-chain. Every call must be alike, or cargo compiles the C++ again.
pub fn plugin_build(tools: &vulkan_sdk::Tools, words: &[&str]) -> Result<Command> {
    let mut command = cargo::command(words)?;
    tools.apply(&mut command);
    Ok(command)
}

fn stage_ggml(built: &cargo::Built, folder: &Path) -> Result<()> {
    let source = paths::root().join("plugins/vulkan-ggml");
    let library = built.artifact("onebit_plugin_vulkan_ggml", "so")?;
    copy(&source.join("plugin.toml"), &folder.join("plugin.toml"))?;
    copy(library, &folder.join("libonebit_plugin_vulkan_ggml.so"))?;
    let out = built.out_dir(GGML_PACKAGE)?;
    let libraries = out.join("lib");
    let modules = out.join("backends");

    // Follow what is needed, so that nothing is shipped which nobody loads; modules are opened by name at run time.
    let mut todo = needed(library)?;
    let mut count = 0;
    for module in list(&modules)? {
        todo.extend(needed(&module)?);
        copy(&module, &folder.join(module.file_name().context("a module without a name")?))?;
        count += 1;
    }
    ensure!(count > 1, "{} holds {count} compute modules; expected one for each CPU level and one for Vulkan", modules.display());
    while let Some(name) = todo.pop() {
        let from = libraries.join(&name);
        let to = folder.join(&name);
        if from.exists() && !to.exists() {
            // Under the SONAME, and as a file: a link to `libllama.so.0.0.1` has no place in a plugin folder.
            copy(&from, &to)?;
            todo.extend(needed(&from)?);
        }
    }
    copy(&licence_of_llama_cpp()?, &folder.join("LICENSE.llama.cpp"))
}

fn stage_shared(folder: &Path) -> Result<()> {
    let root = paths::root();
    for manifest in list(&root.join("manifests"))? {
        if manifest.extension().is_some_and(|extension| extension == "toml") {
            copy(&manifest, &folder.join("manifests").join(manifest.file_name().unwrap_or_default()))?;
        }
    }
    for name in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        copy(&root.join(name), &folder.join("doc").join(name))?;
    }
    copy_tree(&root.join("docs"), &folder.join("doc/docs"))
}

/// What a user would meet at the first start is met here: a library that is taken from elsewhere or not found.
fn verify(dist: &Path) -> Result<()> {
    for plugin in list(&dist.join("lib/onebit/plugins"))? {
        verify_plugin(&plugin)?;
    }
    let version = process::output(process::as_a_user(Command::new(dist.join("bin/onebit-host")).arg("--version")))?;
    ensure!(
        version.contains(env!("CARGO_PKG_VERSION")),
        "the staged host says {version:?}, expected version {}",
        env!("CARGO_PKG_VERSION")
    );
    Ok(())
}

/// What lies beside the plugin's library must be found there (RUNPATH `$ORIGIN`). Modules that are opened later find by name what the library
/// has brought in already, so they may need nothing else from the folder; all other libraries must be installed.
fn verify_plugin(folder: &Path) -> Result<()> {
    let toml: toml::Table = std::fs::read_to_string(folder.join("plugin.toml"))?.parse()?;
    let library = folder.join(toml.get("library").and_then(toml::Value::as_str).context("plugin.toml names no library")?);
    let mut brought = vec![file_name(&library)];
    for (name, path) in resolved(&library)? {
        if folder.join(&name).exists() {
            let beside = Path::new(&path).parent() == Some(folder);
            ensure!(beside, "{} finds {name} at {path:?} and not beside itself: it was linked without RUNPATH $ORIGIN", library.display());
        }
        ensure!(path != "not found", "{} needs {name}, which is neither staged nor installed", library.display());
        brought.push(name);
    }
    for module in list(folder)?.iter().filter(|file| file_name(file).contains(".so") && !brought.contains(&file_name(file))) {
        for (name, path) in resolved(module)? {
            if folder.join(&name).exists() {
                ensure!(brought.contains(&name), "{} needs {name}, which the plugin's library does not bring in", module.display());
            } else {
                // Only the Vulkan module may lack its loader: it is opened if it can be, and the CPU works without.
                let optional = name.starts_with("libvulkan.");
                ensure!(path != "not found" || optional, "{} needs {name}, which is neither staged nor installed", module.display());
            }
        }
    }
    Ok(())
}

/// Needed libraries, and where the system's loader finds each.
fn resolved(file: &Path) -> Result<Vec<(String, String)>> {
    let text = process::output(process::as_a_user(Command::new("ldd").arg(file)))?;
    let path = |text: &str| text.split(" (0x").next().unwrap_or(text).trim().to_owned();
    Ok(text.lines().filter_map(|line| line.split_once("=>")).map(|(name, found)| (name.trim().to_owned(), path(found))).collect())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `DT_NEEDED`, as names.
fn needed(file: &Path) -> Result<Vec<String>> {
    let text = process::output(Command::new("readelf").arg("-d").arg(file))?;
    Ok(parse_needed(&text))
}

fn parse_needed(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned()))
        .collect()
}

/// The C++ sources come inside the crate; so does their licence.
fn licence_of_llama_cpp() -> Result<PathBuf> {
    let mut command = cargo::command(&["metadata", "--format-version", "1", "--locked"])?;
    let metadata: serde_json::Value = serde_json::from_str(&process::output(&mut command)?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata without packages")?;
    let package = packages.iter().find(|package| package["name"] == GGML_PACKAGE).context("llama-cpp-sys-2 is not in the lock file")?;
    let manifest = package["manifest_path"].as_str().context("a package without a path")?;
    Ok(Path::new(manifest).with_file_name("llama.cpp").join("LICENSE"))
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir().with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    Ok(paths)
}

/// A file; folders above the copy are made.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// A folder with everything below it.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for entry in list(from)? {
        let target = to.join(entry.file_name().unwrap_or_default());
        if entry.is_dir() { copy_tree(&entry, &target)? } else { copy(&entry, &target)? }
    }
    Ok(())
}

fn swap(new: &Path, dist: &Path) -> Result<()> {
    if !dist.exists() {
        return std::fs::rename(new, dist).context("cannot move the staged tree into place");
    }
    // One system call exchanges the two, so whoever looks sees the old tree or the new one.
    match rustix::fs::renameat_with(rustix::fs::CWD, new, rustix::fs::CWD, dist, rustix::fs::RenameFlags::EXCHANGE) {
        Ok(()) => Ok(std::fs::remove_dir_all(new)?),
        Err(error) => bail!("cannot exchange {} and {}: {error}", new.display(), dist.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_libraries_are_read_from_readelf() {
        let text = " 0x0000000000000001 (NEEDED)             Shared library: [libggml.so.0]\n 0x000000000000001d (RUNPATH)            Library runpath: [$ORIGIN]\n";
        assert_eq!(parse_needed(text), ["libggml.so.0"]);
    }
}
