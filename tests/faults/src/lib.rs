//! Small real plugins for tests: builds them on demand and lays them out as installed.
//!
//! | name | language | what it is |
//! |---|---|---|
//! | `ngram` | Rust, through the SDK | honest: a byte-level trigram model with exact state |
//! | `ngram-c` | C, through the header | the same model, bit for bit |
//! | `scripted` | Rust, through the SDK | honest: says what its model file says |
//! | `faulty` | Rust, through the SDK | fails as told: panic, segfault, hang, exit, … |
//! | `unlawful` | Rust, through the SDK | breaks one law of the contract as told by `ONEBIT_FAULT` |
//! | `other-layout` | Rust, by hand | was built against frozen types of another layout |
//! | `liar` | C, through the header | breaks the contract as told by `ONEBIT_LIE`: sizes, tables, counts |
//!
//! ```ignore
//! let plugins = tempfile::tempdir()?;
//! let dir = onebit_faults::install(onebit_faults::Which::Ngram, plugins.path())?;   // plugins/ngram/{plugin.toml, *.so}
//! let model = onebit_faults::ngram_model(plugins.path())?;                          // plugins/story.ngram
//! ```
//!
//! The two honest ones are what `onebit-host plugin new` writes: their sources lie in `sdk/templates` and nowhere else.
//!
//! The Rust ones are built by `cargo build` with the variables of the test that asks, so they land in its own target folder, whatever
//! that is; the C ones by `$CC` or `cc`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A plugin for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Honest, Rust.
    Ngram,
    /// Honest, C.
    NgramC,
    /// Honest, says what it is told, Rust.
    Scripted,
    /// Fails as told, Rust.
    Faulty,
    /// Breaks one law of the contract as told, Rust.
    Unlawful,
    /// Breaks the contract as told, C.
    Liar,
    /// Of another layout of the frozen types, Rust.
    OtherLayout,
}

impl Which {
    /// Plugin id, and name of its folder.
    pub fn id(self) -> &'static str {
        match self {
            Self::Ngram => "ngram",
            Self::NgramC => "ngram-c",
            Self::Scripted => "scripted",
            Self::Faulty => "faulty",
            Self::Unlawful => "unlawful",
            Self::Liar => "liar",
            Self::OtherLayout => "other-layout",
        }
    }

    /// What stands in its `plugin.toml`, for this build of it.
    pub fn toml_of(self, library: &Path) -> String {
        let library = library.file_name().unwrap_or_default().to_string_lossy();
        let marks = [("@NAME@", self.id()), ("@VERSION@", env!("CARGO_PKG_VERSION")), ("@LIBRARY@", &*library)];
        marks.iter().fold(self.toml().to_owned(), |text, (mark, value)| text.replace(mark, value))
    }

    fn toml(self) -> &'static str {
        match self {
            Self::Ngram => include_str!("../../../sdk/templates/rust/plugin.toml.in"),
            Self::NgramC => include_str!("../../../sdk/templates/c/plugin.toml.in"),
            Self::Scripted => include_str!("../scripted/plugin.toml"),
            Self::Faulty => include_str!("../faulty/plugin.toml"),
            Self::Unlawful => include_str!("../unlawful/plugin.toml"),
            Self::Liar => include_str!("../c/liar.toml"),
            Self::OtherLayout => include_str!("../other-layout/plugin.toml"),
        }
    }
}

/// Builds a plugin and puts it into `plugins/<id>/`, as it would be installed. Returns that folder.
pub fn install(which: Which, plugins: &Path) -> io::Result<PathBuf> {
    let dir = plugins.join(which.id());
    fs::create_dir_all(&dir)?;
    // Tests of several processes share a folder: each file is made beside it and moved in whole, and one that is right stays.
    let making = plugins.with_extension(format!("{}-{}", which.id(), std::process::id()));
    fs::create_dir_all(&making)?;
    let library = match which {
        Which::Ngram => build_rust("ngram", &making)?,
        Which::Scripted => build_rust("onebit-fault-scripted", &making)?,
        Which::Faulty => build_rust("onebit-fault-faulty", &making)?,
        Which::Unlawful => build_rust("onebit-fault-unlawful", &making)?,
        Which::OtherLayout => build_rust("onebit-fault-other-layout", &making)?,
        Which::NgramC => build_c("ngram.c", &making.join("libngram_c.so"), &[])?,
        Which::Liar => build_c("liar.c", &making.join("libliar.so"), &[])?,
    };
    let toml = making.join("plugin.toml");
    fs::write(&toml, which.toml_of(&library))?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
    for (file, mode) in [(&toml, 0o644), (&library, 0o755)] {
        fs::set_permissions(file, fs::Permissions::from_mode(mode))?;
        let place = dir.join(file.file_name().unwrap_or_default());
        if fs::read(&place).ok() != Some(fs::read(file)?) {
            fs::rename(file, &place)?;
        }
    }
    fs::remove_dir_all(&making)?;
    Ok(dir)
}

/// Writes a small model for `ngram` and `ngram-c` into `dir` and returns its path. Greedily it answers `Hello` with ` you.` and ends.
pub fn ngram_model(dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join("story.ngram");
    fs::write(&path, include_str!("../../../sdk/templates/common/story.ngram"))?;
    Ok(path)
}

/// Writes a model for `scripted`: after this text in the prompt, that is said.
pub fn script(dir: &Path, name: &str, lines: &[(&str, &str)]) -> io::Result<PathBuf> {
    let path = dir.join(format!("{name}.script"));
    let line = |(after, say): &(&str, &str)| serde_json::json!({"after": after, "say": say}).to_string() + "\n";
    fs::write(&path, lines.iter().map(line).collect::<String>())?;
    Ok(path)
}

/// Writes a model for `unlawful`.
pub fn unlawful_model(dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join("model.unlawful");
    fs::write(&path, "law1\n")?;
    Ok(path)
}

/// Writes a model file for `faulty` whose name says what goes wrong, for example `panic-forward`.
pub fn faulty_model(dir: &Path, fault: &str) -> io::Result<PathBuf> {
    let path = dir.join(format!("{fault}.fault"));
    fs::write(&path, "fault\n")?;
    Ok(path)
}

/// Where the sources of these plugins lie.
fn sources() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn build_rust(package: &str, dir: &Path) -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--package", package, "--message-format", "json-render-diagnostics"])
        .current_dir(sources())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("building {package} failed:\n{}", String::from_utf8_lossy(&output.stderr))));
    }
    let built = String::from_utf8_lossy(&output.stdout);
    let library = built.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).find_map(|message| {
        let of_package = message["reason"] == "compiler-artifact" && message["target"]["name"] == package.replace('-', "_");
        let files = message["filenames"].as_array()?;
        files.iter().filter_map(|file| file.as_str()).find(|file| of_package && file.ends_with(".so")).map(PathBuf::from)
    });
    let library = library.ok_or_else(|| io::Error::other(format!("cargo named no library of {package}")))?;
    let place = dir.join(library.file_name().unwrap_or_default());
    fs::copy(&library, &place)?;
    Ok(place)
}

/// Compiles one of the C plugins, or a C file of a test's own, against the header. `ngram.c` is the honest one, whose sources are several files.
pub fn build_c(source: &str, library: &Path, flags: &[&str]) -> io::Result<PathBuf> {
    if source != "ngram.c" {
        return compile(source, &[sources().join("c").join(source)], library, flags);
    }
    let parts = sources().join("../../sdk/templates/c/src");
    let mut files = fs::read_dir(parts)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    compile(source, &files, library, &[&[r#"-DPLUGIN_ID="ngram-c""#], flags].concat())
}

fn compile(what: &str, files: &[PathBuf], library: &Path, flags: &[&str]) -> io::Result<PathBuf> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
    let output = Command::new(compiler)
        .args(["-std=c11", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .arg("-I")
        .arg(sources().join("../../plugin-api/include"))
        .arg(format!("-DPLUGIN_VERSION=\"{}\"", env!("CARGO_PKG_VERSION")))
        .arg("-I")
        .arg(sources().join("../../sdk/templates/c/src"))
        .args(flags)
        .args(files)
        .arg("-o")
        .arg(library)
        .arg("-lm")
        .output()?;
    if output.status.success() {
        Ok(library.to_owned())
    } else {
        Err(io::Error::other(format!("compiling {what} failed:\n{}", String::from_utf8_lossy(&output.stderr))))
    }
}
