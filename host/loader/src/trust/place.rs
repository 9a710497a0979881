//! Who could change what lies at a path: owners and permissions of it and of every folder on the way.
//!
//! Whoever may write into a folder may replace what is in it, so one weak parent makes all checks below it worthless. A link on the way is
//! followed here step by step, because whoever may replace the link chooses the plugin.
//!
//! Trusted are users who can run code as this user anyway: root, this user, the owner of the file system's root, and the owner of the
//! program that is running. Access lists need no look of their own: where one lets somebody write, the group's bits say so.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::Problem;

/// Links that are followed on one way, as the kernel does.
const LINKS_MAX: usize = 40;

const WORLD: u32 = 0o002;
const GROUP: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// The users whose files are trusted.
#[derive(Debug, Clone)]
pub(crate) struct Owners {
    own: u32,
    trusted: Vec<u32>,
}

/// Who owns a file, and who may do what with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ownership {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl From<&Metadata> for Ownership {
    fn from(metadata: &Metadata) -> Self {
        Self { uid: metadata.uid(), gid: metadata.gid(), mode: metadata.mode() }
    }
}

impl From<&rustix::fs::Stat> for Ownership {
    fn from(stat: &rustix::fs::Stat) -> Self {
        Self { uid: stat.st_uid, gid: stat.st_gid, mode: stat.st_mode }
    }
}

/// Effective user of this process.
pub(super) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this program has rights that its caller has not: set-user-id, set-group-id or file capabilities.
pub fn elevated() -> bool {
    // SAFETY: reads a number that the kernel has left for this process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

impl Owners {
    pub(crate) fn of_this_process() -> Self {
        let owner = |path: &str| std::fs::metadata(path).ok().map(|metadata| metadata.uid());
        let own = own_uid();
        Self { own, trusted: [Some(0), Some(own), owner("/"), owner("/proc/self/exe")].into_iter().flatten().collect() }
    }

    #[cfg(test)]
    pub(crate) fn only(own: u32) -> Self {
        Self { own, trusted: vec![own] }
    }

    fn check_owner(&self, path: &Path, facts: &Ownership, problems: &mut Vec<Problem>) {
        if !self.trusted.contains(&facts.uid) {
            problems.push(Problem::ForeignOwner { path: path.to_owned(), uid: facts.uid });
        }
    }

    /// A file or folder of the plugin itself: nobody else may write, also not into a sticky folder, where one could add a module.
    pub(super) fn check_own(&self, path: &Path, facts: &Ownership, problems: &mut Vec<Problem>) {
        self.check_owner(path, facts, problems);
        let mode = facts.mode & 0o7777;
        if mode & WORLD != 0 {
            problems.push(Problem::WorldWritable { path: path.to_owned(), mode });
        } else if mode & GROUP != 0 && !self.private_group(facts) {
            problems.push(Problem::GroupWritable { path: path.to_owned(), mode, gid: facts.gid });
        }
    }

    /// A folder above the plugin. In a sticky one others cannot touch what is there.
    fn check_parent(&self, path: &Path, facts: &Ownership, problems: &mut Vec<Problem>) {
        let mode = facts.mode & 0o7777;
        let shared = mode & WORLD != 0 || (mode & GROUP != 0 && !self.private_group(facts));
        if shared && mode & STICKY != 0 {
            // Its owner may replace entries in spite of the sticky bit.
            self.check_owner(path, facts, problems);
            problems.push(Problem::SharedParent { path: path.to_owned() });
        } else {
            self.check_own(path, facts, problems);
        }
    }

    /// A group nobody else is in: root's, or the one with the user's own number that many systems give each user (with a umask of 002).
    fn private_group(&self, facts: &Ownership) -> bool {
        facts.gid == 0 || (facts.gid == self.own && facts.uid == self.own)
    }
}

/// Checks every folder and link on the way to `path`, which must be absolute, but not its end.
pub(crate) fn check_way(path: &Path, owners: &Owners, problems: &mut Vec<Problem>) {
    let unreadable =
        |path: &Path, reason: String, problems: &mut Vec<Problem>| problems.push(Problem::Unreadable { path: path.to_owned(), reason });
    let parts = |path: &Path| -> Vec<OsString> {
        let kept = |part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        };
        path.components().filter_map(kept).collect()
    };
    let mut left: VecDeque<OsString> = parts(path).into();
    let mut here = PathBuf::from("/");
    let mut links = 0;
    loop {
        match std::fs::symlink_metadata(&here) {
            Ok(metadata) if metadata.is_symlink() => {
                // Its permissions mean nothing; who owns it may change it.
                owners.check_owner(&here, &Ownership::from(&metadata), problems);
                links += 1;
                let target = match std::fs::read_link(&here) {
                    Ok(_) if links > LINKS_MAX => return unreadable(&here, format!("more than {LINKS_MAX} links on the way"), problems),
                    Ok(target) => target,
                    Err(error) => return unreadable(&here, error.to_string(), problems),
                };
                here = if target.is_absolute() { PathBuf::from("/") } else { here.parent().unwrap_or(Path::new("/")).to_owned() };
                for part in parts(&target).into_iter().rev() {
                    left.push_front(part);
                }
                continue;
            }
            Ok(_) if left.is_empty() => return,
            Ok(metadata) => owners.check_parent(&here, &Ownership::from(&metadata), problems),
            Err(error) => return unreadable(&here, error.to_string(), problems),
        }
        match left.pop_front() {
            Some(part) if part == ".." => {
                // `here` is free of links, so the parent is what the kernel takes.
                here.pop();
            }
            Some(part) => here.push(part),
            None => return,
        }
    }
}
