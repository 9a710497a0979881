//! Whether a file is still the one that was hashed.
//!
//! Content cannot change without the time of the last change of the inode, and nobody can set that time: not with `touch`, not by renaming. So a
//! hash stays true as long as the stamp is the same. What could deceive it (setting the clock back, writing to the disk below the file system)
//! takes root, who needs no such detours.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// A change within this time of the last one may leave the stamp as it is: clocks of file systems tick every few milliseconds.
const TICK: Duration = Duration::from_millis(100);
/// The same where times have whole seconds only, or even ones.
const COARSE: Duration = Duration::from_secs(3);

/// Identity and times of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// Seconds and nanoseconds.
    changed: (i64, i64),
}

/// A file and what it hashed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Which file, in which state.
    pub stamp: Stamp,
    /// Lower case hexadecimal.
    pub sha256: String,
}

impl Stamp {
    /// Of an open file, or of what a path led to.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// File system and number of the file in it.
    pub(super) fn inode(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Whether a change from now on would show.
    pub fn settled(&self) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let Some((seconds, nanoseconds)) = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok()) else { return false };
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        let wait = if nanoseconds == 0 { COARSE } else { TICK };
        SystemTime::now().duration_since(changed).is_ok_and(|age| age > wait)
    }
}
