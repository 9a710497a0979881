//! What is read from files and read again when they change.
//!
//! The files are looked at every second: by what the system says of them, which costs nothing and works on every file system, mounted secrets
//! included. What cannot be read again changes nothing: the old holds on, the log says why, and so do `/readyz` and `/metrics` until it is
//! mended. Nobody who is being served notices either.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::serve::ServeError;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

type Load<T> = dyn Fn(Option<&T>) -> Result<T, ServeError> + Send + Sync;

/// Something made from files.
pub(crate) struct Reloaded<T> {
    setting: &'static str,
    paths: Vec<PathBuf>,
    load: Box<Load<T>>,
    current: RwLock<Arc<T>>,
    /// The files as they were when they were last read. Locked while they are read, which may take long.
    seen: Mutex<Vec<Option<Stamp>>>,
    /// How that went.
    problem: Mutex<Option<String>>,
}

impl<T> Reloaded<T> {
    /// Reads it for the first time. `setting` names it for people; `load` gets what held before.
    pub(crate) fn open(
        setting: &'static str,
        paths: Vec<PathBuf>,
        load: impl Fn(Option<&T>) -> Result<T, ServeError> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, ServeError> {
        // Before it is read: a change in between is then seen at the next look.
        let seen = Mutex::new(stamps(&paths));
        let current = RwLock::new(Arc::new(load(None)?));
        Ok(Arc::new(Self { setting, paths, load: Box::new(load), current, seen, problem: Mutex::new(None) }))
    }

    /// As it holds now.
    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.setting, self.paths)
    }
}

/// A [`Reloaded`] of anything.
pub(crate) trait Watch: Send + Sync {
    /// The setting that names the files.
    fn setting(&self) -> &'static str;
    /// Reads the files again if they have changed.
    fn look(&self);
    /// Why what the files say now does not hold.
    fn problem(&self) -> Option<String>;
}

impl<T: Send + Sync> Watch for Reloaded<T> {
    fn setting(&self) -> &'static str {
        self.setting
    }

    fn look(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = stamps(&self.paths);
        if now == *seen {
            return;
        }
        *seen = now;
        let before = self.get();
        let problem = match (self.load)(Some(&before)) {
            Ok(new) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                tracing::info!("{} was read again", self.setting);
                None
            }
            Err(error) => {
                tracing::error!("{} is not taken over, what held before still holds: {error}", self.setting);
                Some(error.to_string())
            }
        };
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// All that a server reads from files.
#[derive(Clone, Default)]
pub(crate) struct Watched(pub(crate) Arc<[Arc<dyn Watch>]>);

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|file| file.setting())).finish()
    }
}

impl Watched {
    /// What does not hold, and why: by setting.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.iter().filter_map(|file| Some((file.setting(), file.problem()?)))
    }

    /// Looks at all of it for ever.
    pub(crate) async fn run(self) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.0.is_empty() {
            tick.tick().await;
            let watched = self.clone();
            // A file system that hangs must not hold up those who are being served.
            let looked = tokio::task::spawn_blocking(move || watched.0.iter().for_each(|file| file.look()));
            if let Err(error) = looked.await {
                tracing::error!("looking at the files of the server failed: {error}");
            }
        }
    }
}

/// What tells one state of a file from another, also where it was put in place by a rename.
#[derive(PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

fn stamps(paths: &[PathBuf]) -> Vec<Option<Stamp>> {
    paths.iter().map(|path| stamp(path)).collect()
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        length: metadata.len(),
        mode: metadata.mode(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_taken_over_and_a_broken_one_is_told_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        std::fs::write(&path, "1").unwrap();
        let file = path.clone();
        let number = Reloaded::open("number", vec![path.clone()], move |_| {
            let text = std::fs::read_to_string(&file).map_err(|error| ServeError::File { what: "number", path: file.clone(), error })?;
            text.parse::<u32>().map_err(|error| ServeError::Keys { path: file.clone(), reason: error.to_string() })
        })
        .unwrap();
        number.look();
        assert_eq!((*number.get(), number.problem()), (1, None));
        let steps: [(&dyn Fn(), u32, bool); 4] = [
            (&|| std::fs::write(&path, "22").unwrap(), 22, true),
            (&|| std::fs::write(&path, "x").unwrap(), 22, false),
            (&|| std::fs::remove_file(&path).unwrap(), 22, false),
            (&|| std::fs::write(&path, "333").unwrap(), 333, true),
        ];
        for (change, holds, fine) in steps {
            change();
            number.look();
            assert_eq!((*number.get(), number.problem().is_none()), (holds, fine));
        }
    }
}
