//! Landlock: every file is closed but the ones the policy opens.
//!
//! Nothing may be executed as a program: no rule grants it. Mapping a library to run its code is reading, which is why the folders of
//! libraries are readable.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, Scope, make_bitflags,
};

use crate::Error;
use crate::policy::{self, Policy};

/// The newest version whose rights are asked for; an older kernel takes what it knows of them.
const KNOWN: ABI = ABI::V6;

/// What a folder to read in gives.
const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
/// What a folder to write in gives: plain files and folders, no links, sockets or nodes.
const WRITE: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir | Refer});
/// What a device node, or a folder of them, gives.
const DEVICE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | IoctlDev});
/// What the harmless nodes give.
const NODE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile});
/// Of the rights above, those that make sense for what is no folder.
const OF_FILES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev});

/// Restricts this thread and all that it will start; gives back the kernel's version of Landlock, 0 = none.
pub(crate) fn restrict(policy: &Policy) -> Result<u32, Error> {
    let mut rules = Rules { ruleset: created(policy.network)? };
    for path in policy.read.iter() {
        rules.must(path, READ)?;
    }
    for path in policy.write.iter() {
        rules.must(path, WRITE)?;
    }
    let network = if policy.network { policy::NETWORK } else { &[] };
    for path in policy::SYSTEM.iter().chain(network) {
        rules.may(Path::new(path), READ)?;
    }
    for path in policy::NODES {
        rules.may(Path::new(path), NODE)?;
    }
    for pattern in policy::nodes(policy.devices) {
        for path in expand(pattern) {
            rules.may(&path, DEVICE)?;
        }
    }
    let status = rules.ruleset.restrict_self().map_err(|error| refused(&error))?;
    Ok(version(&status.landlock))
}

/// The kernel's version of Landlock, 0 = none. A thread restricts itself to find out, and ends.
pub(crate) fn offered() -> u32 {
    let trial = std::thread::spawn(|| created(false).and_then(|ruleset| ruleset.restrict_self().map_err(|error| refused(&error))));
    trial.join().ok().and_then(Result::ok).map_or(0, |status| version(&status.landlock))
}

fn version(status: &LandlockStatus) -> u32 {
    match status {
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            kernel_abi.and_then(|abi| u32::try_from(abi).ok()).unwrap_or(*effective_abi as u32)
        }
        _ => 0,
    }
}

fn refused(error: &dyn core::fmt::Display) -> Error {
    Error::Kernel { layer: "file rules (Landlock)", reason: error.to_string() }
}

fn created(network: bool) -> Result<RulesetCreated, Error> {
    let mut ruleset = Ruleset::default();
    let handled = (|| {
        ruleset = core::mem::take(&mut ruleset).handle_access(AccessFs::from_all(KNOWN))?.scope(Scope::from_all(KNOWN))?;
        if !network {
            ruleset = core::mem::take(&mut ruleset).handle_access(AccessNet::from_all(KNOWN))?;
        }
        core::mem::take(&mut ruleset).create()
    })();
    handled.map_err(|error: landlock::RulesetError| refused(&error))
}

struct Rules {
    ruleset: RulesetCreated,
}

impl Rules {
    /// What the host named must be there: a plugin without its model would fail in words that nobody understands.
    fn must(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), Error> {
        let opened = PathFd::new(path).map_err(|error| Error::Path { path: path.display().to_string(), reason: error.to_string() })?;
        self.add(path, opened, rights)
    }

    /// What the tables name is there or not.
    fn may(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), Error> {
        match PathFd::new(path) {
            Ok(opened) => self.add(path, opened, rights),
            Err(_) => Ok(()),
        }
    }

    fn add(&mut self, path: &Path, opened: PathFd, rights: BitFlags<AccessFs>) -> Result<(), Error> {
        let rights = if path.is_dir() { rights } else { rights & OF_FILES };
        (&mut self.ruleset).add_rule(PathBeneath::new(opened, rights)).map(|_| ()).map_err(|error| refused(&error))
    }
}

/// A path, or all entries of its folder that begin like it.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some(prefix) = pattern.strip_suffix('*') else { return vec![PathBuf::from(pattern)] };
    let folder = Path::new(prefix).parent().unwrap_or(Path::new("/"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.as_os_str().as_encoded_bytes().starts_with(prefix.as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_the_rest_of_a_name() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["card0", "card1", "other"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let mut found = expand(&format!("{}/card*", dir.path().display()));
        found.sort();
        assert_eq!(found, [dir.path().join("card0"), dir.path().join("card1")]);
        assert_eq!(expand("/dev/null"), [PathBuf::from("/dev/null")]);
    }

    #[test]
    fn the_kernel_of_this_machine_has_landlock() {
        // A machine without it cannot run the tests of the sandbox, and must not pass them.
        assert!(offered() > 0, "this kernel has no Landlock; the sandbox cannot be tested here");
    }
}
