//! What a worker may use at most, looked at from outside: a plugin that grows without end is ended before the machine is out of it.
//!
//! The kernel's own limits either count what is not meant (address space that drivers only reserve, files that exist in memory alone) or need
//! rights that a host started by a person has not (control groups). So the host looks, twice a second. It reads what the kernel says of the
//! process, never what the process says of itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::config::SupervisorConfig;
use crate::spec::LaunchSpec;

const LOOK: Duration = Duration::from_millis(500);

/// Threads of a worker. Compute libraries start one for each core and drivers a few dozen.
const THREADS: u64 = 4096;

/// Entries of a cache folder that are counted; more than that is too much whatever their size.
const ENTRIES: usize = 100_000;

/// The limits of one worker, and when they are looked at next.
pub(crate) struct Limits {
    memory: Option<u64>,
    cache: Option<(PathBuf, u64)>,
    look: Interval,
}

impl Limits {
    pub(crate) fn of(config: &SupervisorConfig, spec: &LaunchSpec) -> Self {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let allowed = u64::from(spec.needs.cache_mib) << 20;
        Self { memory: config.sandbox.memory, cache: config.sandbox.cache_of(&spec.plugin_id).map(|folder| (folder, allowed)), look }
    }

    /// Waits until the process is beyond a limit; says which. May be dropped and called again.
    pub(crate) async fn exceeded(&mut self, pid: u32) -> String {
        loop {
            self.look.tick().await;
            if let Some(reason) = self.beyond(pid) {
                return reason;
            }
        }
    }

    fn beyond(&self, pid: u32) -> Option<String> {
        // A process that is gone is noticed elsewhere.
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        let threads = number("Threads:").unwrap_or(0);
        if threads > THREADS {
            return Some(format!("it started {threads} threads, {THREADS} are allowed"));
        }
        // Mapped weights are the kernel's to take back; what the process made itself is not.
        let own = (number("RssAnon:").unwrap_or(0) + number("RssShmem:").unwrap_or(0)) << 10;
        if let Some(memory) = self.memory.filter(|memory| own > *memory) {
            return Some(format!("it used {own} bytes of memory, {memory} are allowed (sandbox.memory)"));
        }
        let (folder, allowed) = self.cache.as_ref()?;
        let kept = size(folder, &mut 0);
        (kept > *allowed).then(|| {
            // Empty, so that the next worker of this plugin is not ended for it.
            fs::remove_dir_all(folder).ok();
            format!("it kept {kept} bytes in its cache folder, {allowed} are allowed; the folder was emptied")
        })
    }
}

/// Bytes on the disk below a folder.
fn size(folder: &Path, entries: &mut usize) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0_u64;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        *entries += 1;
        if *entries > ENTRIES {
            return u64::MAX;
        }
        // Of the entry itself: a link is as large as its text.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes = bytes.saturating_add(metadata.blocks() * 512);
        if metadata.is_dir() {
            bytes = bytes.saturating_add(size(&entry.path(), entries));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(memory: Option<u64>, cache: Option<(PathBuf, u64)>) -> Limits {
        Limits { memory, cache, look: interval(LOOK) }
    }

    #[tokio::test]
    async fn a_process_beyond_a_limit_is_told_with_both_numbers() {
        let pid = std::process::id();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("deep")).unwrap();
        fs::write(dir.path().join("deep/file"), vec![1; 100_000]).unwrap();
        let cache = |allowed| Some((dir.path().to_owned(), allowed));
        assert_eq!(limits(Some(1 << 40), cache(1 << 20)).beyond(pid), None);
        let reason = limits(Some(1000), None).beyond(pid).unwrap();
        assert!(reason.contains("1000 are allowed (sandbox.memory)"), "{reason}");
        let reason = limits(None, cache(50_000)).beyond(pid).unwrap();
        assert!(reason.contains("50000 are allowed") && !dir.path().exists(), "{reason}");
        assert_eq!(limits(None, cache(0)).beyond(pid), None, "an empty folder is within every limit");
    }
}
