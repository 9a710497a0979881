//! Where things lie: the clone, the per-user cache, the staged tree.
//!
//! Build outputs go to the cache and not into the clone, so that a second clone takes minutes instead of an hour.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Root of this clone.
pub fn root() -> PathBuf {
    // xtask lies one folder below the root, and cargo bakes that path in when it builds xtask in this very clone.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

fn xdg(variable: &str, below_home: &str) -> Result<PathBuf> {
    // The specification says that a relative path in these variables is to be ignored.
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute()) {
        return Ok(path);
    }
    let home = std::env::var_os("HOME").with_context(|| format!("neither {variable} nor HOME is set: set one of them"))?;
    Ok(PathBuf::from(home).join(below_home))
}

/// `$XDG_CACHE_HOME/onebit`.
pub fn cache() -> Result<PathBuf> {
    Ok(xdg("XDG_CACHE_HOME", ".cache")?.join("onebit"))
}

/// Where the host looks for models by default: `$XDG_DATA_HOME/onebit/models`.
pub fn models() -> Result<PathBuf> {
    Ok(xdg("XDG_DATA_HOME", ".local/share")?.join("onebit/models"))
}

/// Cargo's build outputs: `CARGO_TARGET_DIR` if it is set, else a folder in the cache.
pub fn cargo_target() -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(path) => Ok(std::path::absolute(path)?),
        None => Ok(cache()?.join("target")),
    }
}

/// The tree laid out as installed.
pub fn dist() -> PathBuf {
    root().join("target/dist")
}

/// Tools that xtask installed for itself.
pub fn tools() -> Result<PathBuf> {
    Ok(cache()?.join("tools"))
}
