//! Where a new plugin finds the SDK, or the C header: installed beside this program, in a clone of the repository, or in the repository
//! itself when the plugin is built.

use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};

/// Below the tree that a host is installed in. A small workspace of its own, laid out like the repository.
const INSTALLED: &str = "share/onebit/sdk";
/// Below an SDK, installed or cloned.
const CRATE: &str = "sdk/backend";
/// Below an SDK, installed or cloned.
const INCLUDE: &str = "plugin-api/include";

/// Where from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sdk {
    /// Installed with a host, in the tree that is named: `pkg-config` finds its header in `lib/pkgconfig`.
    Installed(PathBuf),
    /// A clone of the repository.
    Clone(PathBuf),
    /// The repository, when the plugin is built.
    Git,
}

impl Sdk {
    /// `asked`: `--sdk`. `prefix`: the tree this program is installed in.
    pub(super) fn find(asked: Option<&Path>, prefix: Option<&Path>) -> Result<Self, Failure> {
        match asked {
            Some(word) if word == "git" => Ok(Self::Git),
            Some(path) => {
                let real = path.canonicalize().map_err(|error| Failure::io(format!("look at {}", path.display()), &error))?;
                if !real.join(CRATE).join("Cargo.toml").is_file() || !real.join(INCLUDE).is_dir() {
                    return Err(Failure::new(Exit::NotFound, format!("{} holds no {CRATE} and {INCLUDE}", path.display()))
                        .next("Give a clone of the repository, or `--sdk git`."));
                }
                Ok(Self::Clone(real))
            }
            None => Ok(match prefix.filter(|prefix| prefix.join(INSTALLED).join(CRATE).join("Cargo.toml").is_file()) {
                Some(prefix) => Self::Installed(prefix.to_owned()),
                None => Self::Git,
            }),
        }
    }

    /// What stands behind `onebit-sdk =` in a Cargo.toml.
    pub(super) fn dependency(&self) -> Result<String, Failure> {
        let path = match self {
            Self::Git => return Ok(format!("{{ git = \"{}\" }}", env!("CARGO_PKG_REPOSITORY"))),
            Self::Installed(prefix) => prefix.join(INSTALLED).join(CRATE),
            Self::Clone(clone) => clone.join(CRATE),
        };
        let path = path.to_str().ok_or_else(|| Failure::new(Exit::Usage, format!("{} is not UTF-8", path.display())))?;
        Ok(format!("{{ path = {} }}", toml::Value::from(path)))
    }

    /// Lines of a Makefile that say where the header is, if that is known now.
    pub(super) fn make_lines(&self) -> Result<String, Failure> {
        let (path, line) = match self {
            Self::Git => return Ok(String::new()),
            Self::Installed(prefix) => (prefix.join("lib/pkgconfig"), "PKG_CONFIG_PATH := $(PKG_CONFIG_PATH):"),
            Self::Clone(clone) => (clone.join(INCLUDE), "ONEBIT_INCLUDE ?= "),
        };
        let text = path.to_str().filter(|text| !text.contains(['$', '#', '\\', '\'', '"', '\n', ':'])).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("the path {} has characters that a Makefile cannot hold", path.display()))
                .next("Give another one with --sdk, or `--sdk git`.")
        })?;
        Ok(format!("# As found by `onebit-host plugin new`.\n{line}{text}\n\n"))
    }

    /// For a README.
    pub(super) fn described(&self) -> String {
        match self {
            Self::Git => "taken from the repository".to_owned(),
            Self::Installed(prefix) => format!("the one that was installed with the host in {}", prefix.display()),
            Self::Clone(clone) => format!("the one of the clone in {}", clone.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_sdk_is_found_and_what_is_asked_for_comes_first() {
        let tree = tempfile::tempdir().expect("a folder");
        assert_eq!(Sdk::find(None, Some(tree.path())).expect("found"), Sdk::Git);
        assert_eq!(Sdk::find(Some(tree.path()), None).expect_err("no SDK").exit(), Exit::NotFound);
        for root in [tree.path().join(INSTALLED), tree.path().join("clone")] {
            std::fs::create_dir_all(root.join(CRATE)).expect("a folder");
            std::fs::create_dir_all(root.join(INCLUDE)).expect("a folder");
            std::fs::write(root.join(CRATE).join("Cargo.toml"), "").expect("a file");
        }
        let installed = Sdk::find(None, Some(tree.path())).expect("found");
        assert_eq!(installed, Sdk::Installed(tree.path().to_owned()));
        assert!(installed.dependency().expect("a line").ends_with("/share/onebit/sdk/sdk/backend\" }"));
        assert!(installed.make_lines().expect("lines").ends_with("/lib/pkgconfig\n\n"));
        let clone = Sdk::find(Some(&tree.path().join("clone")), Some(tree.path())).expect("found");
        assert!(clone.make_lines().expect("lines").contains("ONEBIT_INCLUDE ?= /"));
        assert_eq!(Sdk::find(Some(Path::new("git")), Some(tree.path())).expect("found"), Sdk::Git);
        assert!(Sdk::Git.dependency().expect("a line").contains("git = \"https://"));
    }

    #[test]
    fn a_path_that_a_makefile_would_read_otherwise_is_refused() {
        assert_eq!(Sdk::Clone("/home/a$b".into()).make_lines().expect_err("refused").exit(), Exit::Usage);
        assert_eq!(Sdk::Clone("/home/a\"b".into()).dependency().expect("a line"), "{ path = '/home/a\"b/sdk/backend' }");
    }
}
