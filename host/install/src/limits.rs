//! What a plugin may consist of. Real ones stay far below; an archive that does not is damaged or an attack, and is refused as a whole.

use std::path::{Component, Path};

use crate::InstallError;

/// Files and folders. Not more than the loader looks through.
const ENTRIES_MAX: usize = 4096;
/// Bytes of one file.
const FILE_MAX: u64 = 2 << 30;
/// Bytes of all files.
const TOTAL_MAX: u64 = 4 << 30;
/// Bytes of a path.
const PATH_MAX: usize = 512;
/// Bytes of a `plugin.toml`. Not more than the loader reads.
pub(crate) const TOML_MAX: u64 = 64 << 10;
/// Levels of folders. Not more than the loader looks through.
const DEPTH_MAX: usize = 8;

/// Counts what was taken so far.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    entries: usize,
    bytes: u64,
}

impl Budget {
    /// One more file or folder.
    pub(crate) fn entry(&mut self, name: &str) -> Result<(), InstallError> {
        self.entries += 1;
        if self.entries > ENTRIES_MAX {
            return Err(InstallError::Bounds(format!("more than {ENTRIES_MAX} files and folders (the next is {name:?})")));
        }
        Ok(())
    }

    /// How many bytes the next file may have.
    fn room(&self) -> u64 {
        FILE_MAX.min(TOTAL_MAX - self.bytes)
    }

    /// A file of that many bytes is about to be taken.
    pub(crate) fn file(&mut self, name: &str, bytes: u64) -> Result<(), InstallError> {
        if bytes > self.room() {
            return Err(InstallError::Bounds(format!(
                "{name:?} is too large: a file may have {} MiB, all together {} MiB",
                FILE_MAX >> 20,
                TOTAL_MAX >> 20
            )));
        }
        self.bytes += bytes;
        Ok(())
    }
}

/// A path that leads to a place inside, on every system and in every terminal. A slash at its end is taken away.
pub(crate) fn plain_path(name: &str) -> Result<&str, InstallError> {
    let unsafe_path = |why: &str| InstallError::Path { name: name.chars().take(200).collect(), why: why.to_owned() };
    let path = name.strip_suffix('/').unwrap_or(name);
    let path = path.strip_prefix("./").unwrap_or(path);
    if name.len() > PATH_MAX {
        return Err(unsafe_path("it is too long"));
    }
    if path.is_empty() || path == "." {
        return Ok("");
    }
    if name.chars().any(|c| c.is_control() || c == '\\') {
        return Err(unsafe_path("it has characters that no file name needs"));
    }
    if !Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
        || path.split('/').any(|part| part.is_empty() || part == ".")
    {
        return Err(unsafe_path("it does not lead into the plugin's folder"));
    }
    if path.split('/').count() > DEPTH_MAX {
        return Err(unsafe_path("it has too many levels"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_stay_inside_are_taken() {
        for good in ["plugin.toml", "a/b.so", "./a", "a/", "ü"] {
            assert!(plain_path(good).is_ok(), "{good:?}");
        }
        assert_eq!(plain_path("./").unwrap(), "");
        for bad in ["/etc/passwd", "../x", "a/../../x", "a/..", "a\\b", "a\nb", "a//b", "a/./b", "//x", "1/2/3/4/5/6/7/8/9"] {
            assert!(plain_path(bad).is_err(), "{bad:?}");
        }
        assert!(plain_path(&"x".repeat(600)).is_err());
    }

    #[test]
    fn the_budget_ends() {
        let mut budget = Budget::default();
        assert!(budget.file("x", FILE_MAX + 1).is_err());
        budget.file("x", FILE_MAX).unwrap();
        budget.file("y", FILE_MAX).unwrap();
        assert_eq!(budget.room(), 0);
        assert!(budget.file("z", 1).is_err());
        assert!((0..ENTRIES_MAX + 1).any(|_| budget.entry("e").is_err()));
    }
}
