//! Calling cargo: one target folder outside the clone, an environment that does not depend on how xtask itself was started, and the
//! JSON messages from which `stage` learns where things were built.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{paths, process};

/// `cargo WORDS…` in the clone, with the shared target folder.
pub fn command(words: &[&str]) -> Result<Command> {
    let target = paths::cargo_target()?;
    // Until this program ends: tests run what was built there.
    static CLAIM: Mutex<Option<File>> = Mutex::new(None);
    let mut held = CLAIM.lock().unwrap_or_else(PoisonError::into_inner);
    if held.is_none() {
        *held = Some(claim(&target, &paths::root())?);
    }
    bare(words, &target)
}

/// Makes sure that what lies in `target` of the workspace's own crates was built from `clone`.
///
/// Cargo does not tell crates of two clones apart: it counts their paths from the workspace's root, and whatever was built after a file was
/// written counts as built from it. So where another clone built last, the crates of the workspace are built anew. The dependencies, which
/// take nearly all the time, stay. While the claim is held no other clone gets one, and waits.
fn claim(target: &Path, clone: &Path) -> Result<File> {
    std::fs::create_dir_all(target)?;
    let (note, path) = (target.join("clone"), target.join("clone.lock"));
    let clone = clone.as_os_str().as_encoded_bytes();
    let lock = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
    loop {
        // Shared: several programs of one clone may build and run, cargo keeps them apart.
        lock.lock_shared()?;
        if std::fs::read(&note).is_ok_and(|last| last == clone) {
            return Ok(lock);
        }
        lock.unlock()?;
        if lock.try_lock().is_err() {
            eprintln!("    another clone uses {}; waiting until it is done", target.display());
            lock.lock()?;
        }
        take_over(target, &note, clone)?;
        lock.unlock()?;
    }
}

fn take_over(target: &Path, note: &Path, clone: &[u8]) -> Result<()> {
    if ["debug", "release"].iter().any(|profile| target.join(profile).exists()) {
        for profile in ["dev", "release"] {
            process::run(bare(&["clean", "--quiet", "--workspace", "--profile", profile], target)?.stdout(Stdio::null()))?;
        }
    }
    std::fs::write(note, clone).with_context(|| format!("cannot write {}", note.display()))
}

fn bare(words: &[&str], target: &Path) -> Result<Command> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(words).current_dir(paths::root()).env("CARGO_TARGET_DIR", target);
    // What the outer cargo set for xtask itself. Build scripts watch some of it, and would run again for nothing.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"].iter().any(|prefix| text.starts_with(prefix)) || text == "CARGO"
        {
            command.env_remove(&name);
        }
    }
    process::as_a_user(&mut command);
    Ok(command)
}

/// What a build made.
#[derive(Debug, Default)]
pub struct Built {
    /// Executables and shared libraries, by name of the cargo target.
    pub artifacts: Vec<(String, PathBuf)>,
    /// Name of the package to its build script's `OUT_DIR`.
    pub out_dirs: Vec<(String, PathBuf)>,
}

impl Built {
    /// The file that target `name` became, with this extension (empty = an executable).
    pub fn artifact(&self, name: &str, extension: &str) -> Result<&PathBuf> {
        self.artifacts
            .iter()
            .find(|(target, path)| target == name && path.extension().unwrap_or_default() == extension)
            .map(|(_, path)| path)
            .with_context(|| format!("cargo built no {name} with extension {extension:?}"))
    }

    /// Where the build script of `package` wrote.
    pub fn out_dir(&self, package: &str) -> Result<&PathBuf> {
        self.out_dirs
            .iter()
            .find(|(name, _)| name == package)
            .map(|(_, path)| path)
            .with_context(|| format!("{package} ran no build script"))
    }
}

#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact {
        target: Target,
        filenames: Vec<PathBuf>,
        executable: Option<PathBuf>,
    },
    BuildScriptExecuted {
        package_id: String,
        out_dir: PathBuf,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Runs a `cargo build`; its progress goes to the terminal, its messages are read here.
pub fn build(mut command: Command) -> Result<Built> {
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", process::shown(&command)))?;
    let mut built = Built::default();
    let stdout = child.stdout.take().context("no pipe to cargo")?;
    for line in BufReader::new(stdout).lines() {
        match serde_json::from_str(&line?) {
            Ok(Message::CompilerArtifact { target, filenames, executable }) => {
                let files = filenames.into_iter().chain(executable);
                built.artifacts.extend(files.map(|path| (target.name.clone(), path)));
            }
            Ok(Message::BuildScriptExecuted { package_id, out_dir }) => built.out_dirs.push((package_name(&package_id), out_dir)),
            Ok(Message::Other) | Err(_) => {}
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{}` ended with {status}", process::shown(&command));
    }
    Ok(built)
}

/// `registry+…#llama-cpp-sys-2@0.1.161` and `path+…/xtask#0.1.0` to the name.
fn package_name(id: &str) -> String {
    let (source, fragment) = id.rsplit_once('#').unwrap_or(("", id));
    match fragment.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => source.rsplit('/').next().unwrap_or(fragment).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names_come_from_both_forms_of_an_id() {
        assert_eq!(package_name("registry+https://example.invalid/index#llama-cpp-sys-2@0.1.161"), "llama-cpp-sys-2");
        assert_eq!(package_name("path+file:///home/a/onebit/xtask#0.1.0"), "xtask");
    }

    #[test]
    fn what_another_clone_built_of_our_crates_goes_and_its_dependencies_stay() {
        let target = tempfile::tempdir().unwrap();
        let built = |name: &str| target.path().join("debug/.fingerprint").join(name);
        let build = || ["onebit-sdk-0123456789abcdef", "serde-0123456789abcdef"].map(|name| std::fs::create_dir_all(built(name)).unwrap());
        let first = claim(target.path(), Path::new("/clones/a")).unwrap();
        build();
        let second = claim(target.path(), Path::new("/clones/a")).unwrap();
        assert!(built("onebit-sdk-0123456789abcdef").exists());
        // Another clone waits until both are done.
        std::thread::scope(|scope| {
            let other = scope.spawn(|| claim(target.path(), Path::new("/clones/b")).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(200));
            drop(first);
            std::thread::sleep(std::time::Duration::from_millis(200));
            assert!(!other.is_finished() && built("onebit-sdk-0123456789abcdef").exists());
            drop(second);
            drop(other.join().unwrap());
        });
        assert!(!built("onebit-sdk-0123456789abcdef").exists() && built("serde-0123456789abcdef").exists());
    }

    #[test]
    fn messages_that_we_do_not_know_are_passed_over() {
        assert!(matches!(serde_json::from_str(r#"{"reason":"build-finished","success":true}"#), Ok(Message::Other)));
    }
}
