//! `cargo xtask abi-fixture`: the honest plugins of the current ABI minor, built as somebody would ship them, and kept in the repository.
//!
//! Run it once, when a minor is released; from then on `tests/abi` loads these very files in every test run, and no later host may fail
//! them. It refuses to write a minor again: a fixture that is built anew says nothing about the plugins that were shipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use onebit_faults::Which;

use crate::{cargo, paths, process};

/// The command.
pub fn run() -> Result<()> {
    let root = paths::root();
    let snapshot = root.join("plugin-api/abi.json");
    let parsed: serde_json::Value = serde_json::from_str(&fs::read_to_string(&snapshot)?)?;
    let minor = root.join("tests/abi/fixtures").join(format!("{}.{}", parsed["major"], parsed["minor"]));
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = minor.join(&target);
    if folder.exists() {
        bail!("{} exists already: a minor that was released stays as it is", folder.display());
    }
    let kept = minor.join("abi.json");
    if kept.exists() && fs::read(&kept)? != fs::read(&snapshot)? {
        bail!("the ABI has changed since {} was kept; raise ONEBIT_ABI_MINOR first", kept.display());
    }
    let work = paths::cargo_target()?.join("abi-fixture");
    fs::create_dir_all(&work)?;
    for (which, library) in [(Which::Ngram, rust(&work)?), (Which::NgramC, c(&work)?)] {
        let place = folder.join(which.id());
        fs::create_dir_all(&place)?;
        fs::copy(&library, place.join(library.file_name().context("a library without a name")?))?;
        fs::write(place.join("plugin.toml"), which.toml_of(&library))?;
        println!("{}: {} KiB", place.strip_prefix(&root)?.display(), library.metadata()?.len().div_ceil(1024));
    }
    onebit_faults::ngram_model(&minor)?;
    fs::copy(&snapshot, &kept)?;
    Ok(())
}

/// Small, and without the folders of whoever built it.
fn rust(work: &Path) -> Result<PathBuf> {
    let mut command = cargo::command(&["build", "--package", "ngram", "--release"])?;
    for setting in ["opt-level='s'", "lto=true", "codegen-units=1", "strip=true", "panic='unwind'", "debug=false"] {
        command.arg("--config").arg(format!("profile.release.{setting}"));
    }
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let remap = |from: &str, to: &str| format!("--remap-path-prefix={from}={to}");
    let flags = [remap(&paths::root().to_string_lossy(), "onebit"), remap(&home.context("neither CARGO_HOME nor HOME is set")?, "cargo")];
    command.env("CARGO_TARGET_DIR", work).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")).env_remove("RUSTFLAGS");
    Ok(cargo::build(command)?.artifact("ngram", "so")?.clone())
}

fn c(work: &Path) -> Result<PathBuf> {
    let library = work.join("libngram_c.so");
    onebit_faults::build_c("ngram.c", &library, &["-Os", "-g0", "-s"])?;
    process::run(Command::new("strip").arg("--strip-unneeded").arg(&library))?;
    Ok(library)
}
