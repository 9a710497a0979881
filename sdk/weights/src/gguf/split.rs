//! Models in several files: `name-00001-of-00003.gguf` and its siblings.

use std::path::{Path, PathBuf};

use super::error::GgufError;
use super::header::Gguf;

/// Most parts a set may have; real sets stay below 200.
const MOST_PARTS: u64 = 1000;

/// Which part of a set a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// From 0.
    pub index: u64,
    /// Files in the set, at least 2.
    pub count: u64,
}

impl Gguf {
    /// Which part of a set this file is; `None` for a model in one file.
    pub fn split(&self) -> Result<Option<Split>, GgufError> {
        let count = self.unsigned("split.count")?.unwrap_or(0);
        let index = self.unsigned("split.no")?.unwrap_or(0);
        Ok((count > 1).then_some(Split { index, count }))
    }

    /// Opens and checks every file of the model at `path`, which must be its first. One file gives one header.
    pub fn open_all(path: &Path) -> Result<Vec<Self>, GgufError> {
        let first = Self::open(path)?;
        let Some(split) = first.split()? else {
            return Ok(vec![first]);
        };
        let problem = |problem: String| GgufError::Parts { path: path.to_owned(), problem };
        if split.index != 0 {
            return Err(problem(format!("this is part {} of {}; give the first part", split.index + 1, split.count)));
        }
        if split.count > MOST_PARTS {
            return Err(problem(format!("claims to be one of {} parts; at most {MOST_PARTS} are read", split.count)));
        }
        let mut all = vec![first];
        for index in 1..split.count {
            let sibling = Self::part_path(path, index, split.count)
                .ok_or_else(|| problem(format!("is part 1 of {}, but is not named NAME-00001-of-{:05}.gguf", split.count, split.count)))?;
            let part = Self::open(&sibling)?;
            if part.split()? != Some(Split { index, count: split.count }) {
                return Err(GgufError::Parts {
                    path: sibling,
                    problem: format!("does not say that it is part {} of {}", index + 1, split.count),
                });
            }
            all.push(part);
        }
        Ok(all)
    }

    /// Where part `index` (from 0) of `count` lies, given the first part's path; `None` when that is not named like a first part.
    pub fn part_path(first: &Path, index: u64, count: u64) -> Option<PathBuf> {
        let name = first.file_name()?.to_str()?;
        let stem = name.strip_suffix(&format!("-00001-of-{count:05}.gguf"))?;
        Some(first.with_file_name(format!("{stem}-{:05}-of-{count:05}.gguf", index + 1)))
    }
}
