//! Where things are when nobody says otherwise: beside the program, in the system, in the user's folders.
//!
//! The tree the program was installed in comes from its own path with links resolved, so that an unpacked archive works from anywhere. A
//! user folder is used only if the environment names it (`XDG_…` or `HOME`): a service without a home has none, and the current directory
//! is never searched.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::service::Service;

/// This program for its child roles, also after its file was replaced by another version.
pub const SELF: &str = "/proc/self/exe";

/// The folders of this process.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The tree it is installed in (`…` of `…/bin/onebit-host`).
    pub prefix: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME/onebit`.
    pub config: Option<PathBuf>,
    /// `$XDG_DATA_HOME/onebit`.
    pub data: Option<PathBuf>,
    /// `$XDG_STATE_HOME/onebit`.
    pub state: Option<PathBuf>,
    /// `$XDG_CACHE_HOME/onebit`.
    pub cache: Option<PathBuf>,
    /// Set if user folders are not used, except the cache's: what lies there is no code, and may be thrown away.
    pub service: Option<Service>,
}

impl Places {
    /// Of this process.
    pub fn of_this_process() -> std::io::Result<Self> {
        let program = std::env::current_exe()?.canonicalize()?;
        Ok(Self::from(&program, Service::of_this_process(), |name| std::env::var_os(name)))
    }

    fn from(program: &Path, service: Option<Service>, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        // The base directory specification says to ignore relative paths.
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let folder = |name: &str, below_home: &str| {
            absolute(name).or_else(|| home.as_ref().map(|home| home.join(below_home))).map(|base| base.join("onebit"))
        };
        let prefix = program.parent().filter(|bin| bin.ends_with("bin")).and_then(Path::parent).map(Path::to_owned);
        let personal = |name: &str, below_home: &str| folder(name, below_home).filter(|_| service.is_none());
        Self {
            prefix,
            config: personal("XDG_CONFIG_HOME", ".config"),
            data: personal("XDG_DATA_HOME", ".local/share"),
            state: personal("XDG_STATE_HOME", ".local/state"),
            cache: folder("XDG_CACHE_HOME", ".cache").filter(|_| service != Some(Service::Elevated)),
            service,
        }
    }

    /// Configuration files, the weakest first.
    pub fn config_files(&self) -> Vec<PathBuf> {
        std::iter::once(PathBuf::from("/etc/onebit/config.toml")).chain(self.config.iter().map(|dir| dir.join("config.toml"))).collect()
    }

    /// Folders of models. The first is where `pull` puts them.
    pub fn models_dirs(&self) -> Vec<PathBuf> {
        self.data.iter().map(|dir| dir.join("models")).chain([PathBuf::from("/var/lib/onebit/models")]).collect()
    }

    /// Folders of manifests, the weakest first.
    pub fn manifest_dirs(&self) -> Vec<PathBuf> {
        let system = ["/usr/lib/onebit/models.d", "/usr/local/lib/onebit/models.d", "/run/onebit/models.d", "/etc/onebit/models.d"];
        let beside = self.prefix.iter().map(|prefix| prefix.join("share/onebit/manifests"));
        distinct(beside.chain(system.map(PathBuf::from)).chain(self.own_manifests()))
    }

    /// The user's own folder of manifests.
    pub fn own_manifests(&self) -> Option<PathBuf> {
        self.config.as_ref().map(|dir| dir.join("models.d"))
    }

    /// Folders of plugins, searched in this order.
    pub fn plugin_dirs(&self) -> Vec<PathBuf> {
        let user = self.data.iter().map(|dir| dir.join("plugins"));
        let beside = self.prefix.iter().map(|prefix| prefix.join("lib/onebit/plugins"));
        distinct(user.chain(beside).chain(["/usr/local/lib/onebit/plugins", "/usr/lib/onebit/plugins"].map(PathBuf::from)))
    }

    /// Folders of keys that the user trusts, besides the system's.
    pub fn key_dirs(&self) -> Vec<PathBuf> {
        self.config.iter().map(|dir| dir.join("trust.d")).collect()
    }

    /// What is kept between runs, and is not a file of the user's.
    pub fn state_dir(&self) -> PathBuf {
        self.state.clone().unwrap_or_else(|| PathBuf::from("/var/lib/onebit"))
    }

    /// What is kept between runs and may be thrown away.
    pub fn cache_dir(&self) -> PathBuf {
        self.cache.clone().unwrap_or_else(|| PathBuf::from("/var/cache/onebit"))
    }
}

/// The paths as given, each once (an installation in `/usr` names its own folders a second time).
pub fn distinct(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !seen.contains(&path) {
            seen.push(path);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(program: &str, variables: &[(&str, &str)]) -> Places {
        Places::from(Path::new(program), None, |name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn an_unpacked_tree_finds_its_own_folders() {
        let places = places("/opt/onebit/bin/onebit-host", &[("HOME", "/home/ada")]);
        assert!(places.plugin_dirs().contains(&PathBuf::from("/opt/onebit/lib/onebit/plugins")));
        assert_eq!(places.manifest_dirs()[0], PathBuf::from("/opt/onebit/share/onebit/manifests"));
        assert_eq!(places.manifest_dirs().last(), Some(&PathBuf::from("/home/ada/.config/onebit/models.d")));
        assert_eq!(places.models_dirs()[0], PathBuf::from("/home/ada/.local/share/onebit/models"));
    }

    #[test]
    fn an_installation_in_usr_names_no_folder_twice() {
        let dirs = places("/usr/bin/onebit-host", &[]).plugin_dirs();
        assert_eq!(dirs, ["/usr/lib/onebit/plugins", "/usr/local/lib/onebit/plugins"].map(PathBuf::from));
    }

    #[test]
    fn a_service_without_a_home_has_no_user_folders() {
        let places = places("/usr/bin/onebit-host", &[]);
        assert_eq!(places.models_dirs(), [PathBuf::from("/var/lib/onebit/models")]);
        assert_eq!(places.config_files(), [PathBuf::from("/etc/onebit/config.toml")]);
    }

    #[test]
    fn a_service_takes_nothing_from_a_home_that_it_is_given() {
        let variable = |name: &str| (name == "HOME").then(|| OsString::from("/home/ada"));
        let of = |service| Places::from(Path::new("/usr/bin/onebit-host"), service, variable);
        assert!(of(None).plugin_dirs().contains(&PathBuf::from("/home/ada/.local/share/onebit/plugins")));
        for service in [Service::Unit, Service::SystemUser(990), Service::Elevated] {
            let places = of(Some(service));
            let all =
                [places.plugin_dirs(), places.manifest_dirs(), places.models_dirs(), places.config_files(), places.key_dirs()].concat();
            assert!(all.iter().all(|path| !path.starts_with("/home")), "{service:?}: {all:?}");
            assert_eq!(places.cache.is_some(), service != Service::Elevated);
        }
    }

    #[test]
    fn relative_xdg_paths_are_ignored() {
        let places = places("/usr/bin/onebit-host", &[("HOME", "/home/ada"), ("XDG_DATA_HOME", "data")]);
        assert_eq!(places.data, Some(PathBuf::from("/home/ada/.local/share/onebit")));
    }
}
