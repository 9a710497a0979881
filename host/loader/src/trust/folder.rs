//! A plugin's folder, held open: files are found from its descriptor, never by a path that somebody could turn in between.
//!
//! Links are followed by hand and only inside the folder. An absolute link leads out even if its target lies inside: it would lead elsewhere as
//! soon as the folder is moved.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::place::Ownership;

/// Entries of a plugin's folder that are looked at, folders below it included.
const ENTRIES_MAX: usize = 4096;
/// Levels of folders.
const DEPTH_MAX: usize = 8;
/// Links that are followed on one way.
const LINKS_MAX: usize = 16;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// Why a file of the folder is not open.
#[derive(Debug)]
pub(crate) enum Shut {
    /// It leads there.
    LeadsOut(PathBuf),
    /// It is a pipe, a socket, a device or a folder.
    NotRegular,
    /// The system said no.
    Io(io::Error),
}

impl From<rustix::io::Errno> for Shut {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// One entry, as it lies there.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Path from the folder: `lib/libx.so`.
    pub name: String,
    /// What it is.
    pub kind: FileType,
    /// Of the entry itself; of a link they mean nothing.
    pub ownership: Ownership,
}

impl Folder {
    /// Opens a folder that is no link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Where it was when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn ownership(&self) -> io::Result<Ownership> {
        Ok(Ownership::from(&rustix::fs::fstat(&self.fd)?))
    }

    /// Opens a regular file in it, by its path from here.
    pub(crate) fn file(&self, name: &str) -> Result<File, Shut> {
        let mut left: VecDeque<OsString> = parts(Path::new(name)).ok_or_else(|| Shut::LeadsOut(name.into()))?.into();
        // The folders from here to where the way has come, each open.
        let mut way: Vec<OwnedFd> = Vec::new();
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            if part == ".." {
                if way.pop().is_none() {
                    return Err(Shut::LeadsOut(self.path.join(name)));
                }
                continue;
            }
            let here = way.last().map_or(self.fd.as_fd(), AsFd::as_fd);
            let stat = rustix::fs::statat(here, &part, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink => {
                    links += 1;
                    let target = PathBuf::from(OsString::from_vec(rustix::fs::readlinkat(here, &part, Vec::new())?.into_bytes()));
                    let Some(parts) = parts(&target).filter(|_| links <= LINKS_MAX) else { return Err(Shut::LeadsOut(target)) };
                    parts.into_iter().rev().for_each(|part| left.push_front(part));
                }
                FileType::Directory if !left.is_empty() => {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    way.push(rustix::fs::openat(here, &part, flags, Mode::empty())?);
                }
                FileType::RegularFile if left.is_empty() => {
                    // It may have become a pipe meanwhile: opening one would wait for somebody to write.
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    let file = File::from(rustix::fs::openat(here, &part, flags, Mode::empty())?);
                    return if file.metadata().map_err(Shut::Io)?.is_file() { Ok(file) } else { Err(Shut::NotRegular) };
                }
                FileType::RegularFile => return Err(Shut::Io(io::ErrorKind::NotADirectory.into())),
                _ => return Err(Shut::NotRegular),
            }
        }
        Err(Shut::NotRegular)
    }

    /// Reads a small file. `None` = it is not there.
    pub(crate) fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, Shut> {
        let file = match self.file(name) {
            Ok(file) => file,
            Err(Shut::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(shut) => return Err(shut),
        };
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).map_err(Shut::Io)?;
        if bytes.len() as u64 > most {
            return Err(Shut::Io(io::Error::other(format!("longer than {most} bytes"))));
        }
        Ok(Some(bytes))
    }

    /// Everything in it, by name; the flag says whether there is more than was looked at.
    pub(crate) fn entries(&self) -> io::Result<(Vec<Entry>, bool)> {
        let mut entries = Vec::new();
        let mut open = vec![(String::new(), self.fd.try_clone()?, 0_usize)];
        let mut more = false;
        while let Some((prefix, fd, depth)) = open.pop() {
            for entry in Dir::read_from(&fd)? {
                let entry = entry?;
                if [c".", c".."].contains(&entry.file_name()) {
                    continue;
                }
                if entries.len() == ENTRIES_MAX {
                    return Ok((sorted(entries), true));
                }
                let stat = rustix::fs::statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                let kind = FileType::from_raw_mode(stat.st_mode);
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                if kind == FileType::Directory {
                    if depth == DEPTH_MAX {
                        more = true;
                    } else {
                        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                        open.push((format!("{name}/"), rustix::fs::openat(&fd, entry.file_name(), flags, Mode::empty())?, depth + 1));
                    }
                }
                entries.push(Entry { name, kind, ownership: Ownership::from(&stat) });
            }
        }
        Ok((sorted(entries), more))
    }
}

impl std::fmt::Display for Shut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::LeadsOut(to) => write!(f, "it leads to {}", to.display()),
            Self::NotRegular => f.write_str("it is not a regular file"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

/// The steps of a relative path; `None` = it is absolute.
fn parts(path: &Path) -> Option<Vec<OsString>> {
    let step = |part: Component<'_>| match part {
        Component::Normal(name) => Some(Some(name.to_owned())),
        Component::ParentDir => Some(Some("..".into())),
        Component::CurDir => Some(None),
        Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().map(step).collect::<Option<Vec<_>>>().map(|parts| parts.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_inside_and_nowhere_else() {
        let dir = tempfile::tempdir().expect("a folder");
        let plugin = dir.path().join("plugin");
        std::fs::create_dir_all(plugin.join("lib/deep")).expect("folders");
        std::fs::write(plugin.join("lib/x"), "x").expect("a file");
        std::fs::write(dir.path().join("outside"), "outside").expect("a file");
        for (target, link) in [
            ("lib/x", "in"),
            ("../../lib/./x", "lib/deep/up"),
            ("lib", "folder"),
            ("../outside", "out"),
            ("lib/../../plugin/lib/x", "around"),
            ("loop", "loop"),
        ] {
            symlink(target, plugin.join(link)).expect("a link");
        }
        symlink(plugin.join("lib/x"), plugin.join("absolute")).expect("a link");
        let folder = Folder::open(&plugin).expect("open");
        for good in ["lib/x", "in", "lib/deep/up", "folder/x"] {
            assert_eq!(folder.read(good, 10).expect("readable"), Some(b"x".to_vec()), "{good}");
        }
        for out in ["out", "around", "absolute", "loop", "../outside", "/etc/hostname"] {
            assert!(matches!(folder.file(out), Err(Shut::LeadsOut(_))), "{out}");
        }
        for other in ["lib", "", "."] {
            assert!(matches!(folder.file(other), Err(Shut::NotRegular)), "{other:?}");
        }
        assert_eq!(folder.read("nothing", 10).expect("no error"), None);
        assert!(matches!(folder.read("lib/x", 0), Err(Shut::Io(_))));
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a folder");
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("pipe"), Mode::RUSR | Mode::WUSR).expect("a pipe");
        assert!(matches!(Folder::open(dir.path()).expect("open").file("pipe"), Err(Shut::NotRegular)));
    }
}
