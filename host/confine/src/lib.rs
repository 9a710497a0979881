//! From the host's configuration and a plugin's wishes to what its process may still do.
//!
//! Every process that will run a plugin (worker, probe, case of the kit) confines itself after the plugin's files were checked and before any of
//! its code runs, while it has one thread. A plugin that asks for more than computing gets it only if the configuration names it.

use std::ffi::OsString;
use std::fs::{DirBuilder, read_dir};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use onebit_loader::Inspection;
use onebit_loader::devices::{Device, DeviceKind};
use onebit_sandbox::{Confinement, Devices, Policy};
use serde::{Deserialize, Serialize};

/// The host's word about the processes of plugins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SandboxConfig {
    /// A plugin does not run where the kernel lacks a layer of the sandbox.
    pub require: bool,
    /// Plugins that run with all the rights of the host.
    pub exempt: Vec<String>,
    /// Plugins that get the network if they ask for it.
    pub network: Vec<String>,
    /// Files and folders that every plugin may read besides.
    pub read: Vec<PathBuf>,
    /// Bytes of memory of its own that a worker may use; `None` = as much as the machine gives.
    pub memory: Option<u64>,
    /// Names of environment variables that every plugin gets besides.
    pub environment: Vec<String>,
    /// Where the folders lie in which plugins may keep what they ask to keep; `None` = they keep nothing.
    pub caches: Option<PathBuf>,
}

/// Why a process was not confined, and does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// The sandbox itself.
    #[error(transparent)]
    Sandbox(#[from] onebit_sandbox::Error),
    /// What the kernel of this machine lacks, one sentence each.
    #[error("the sandbox is required (sandbox.require) and does not hold on this machine: {}", .0.join("; "))]
    Incomplete(Vec<String>),
    /// The system did not take the handler of refused calls.
    #[error("the sandbox cannot count what it refuses: {0}")]
    Handler(std::io::Error),
}

impl SandboxConfig {
    /// Whether this plugin may run where nothing confines it: inside the host.
    pub fn allows_unconfined(&self, plugin: &str) -> bool {
        !self.require || self.exempts(plugin)
    }

    /// The plugins that are named, and where: a misspelt one would change nothing without a word.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let exempt = self.exempt.iter().map(|plugin| ("sandbox.exempt", plugin.as_str()));
        exempt.chain(self.network.iter().map(|plugin| ("sandbox.network", plugin.as_str())))
    }

    fn exempts(&self, plugin: &str) -> bool {
        self.exempt.iter().any(|name| name == plugin)
    }

    /// The environment of a plugin's process: of the host's own what is about computing, then the plugin's. A place to keep things is named
    /// also where nothing may be kept: a home that is not there is what libraries can deal with.
    pub fn environment(&self, plugin: &str, own: &[(String, String)]) -> Vec<(OsString, OsString)> {
        let own = own.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        if self.exempts(plugin) {
            return std::env::vars_os().chain(own).collect();
        }
        let home = self.cache_of(plugin).unwrap_or_else(|| PathBuf::from("/nonexistent"));
        let places = ["HOME", "XDG_CACHE_HOME"].map(|name| (OsString::from(name), home.clone().into_os_string()));
        onebit_sandbox::scrubbed(std::env::vars_os(), &self.environment).into_iter().chain(places).chain(own).collect()
    }

    /// The folder of its own in which a plugin may keep things.
    pub fn cache_of(&self, plugin: &str) -> Option<PathBuf> {
        self.caches.as_ref().map(|caches| caches.join(plugin))
    }

    /// Confines this process for this plugin. `None` = the configuration exempts it. In `scratch` the process may keep files of its own.
    ///
    /// # Errors
    /// When the sandbox is required and incomplete, or cannot be put up.
    pub fn enter(
        &self,
        inspection: &Inspection,
        model: Option<&Path>,
        devices: &[Device],
        scratch: Option<&Path>,
    ) -> Result<Option<Confinement>, ConfineError> {
        let plugin = &inspection.file.toml;
        if self.exempts(&plugin.id) {
            tracing::warn!(plugin = plugin.id, "not confined: the configuration exempts it (sandbox.exempt)");
            return Ok(None);
        }
        let granted = self.network.contains(&plugin.id);
        if plugin.needs.network && !granted {
            tracing::warn!(plugin = plugin.id, "asks for the network and does not get it; sandbox.network = [\"{}\"] gives it", plugin.id);
        }
        let policy = Policy {
            read: self.readable(inspection, model),
            write: self.made_cache(plugin).into_iter().chain(scratch.map(Path::to_owned)).collect(),
            devices: Devices {
                graphics: devices.iter().any(|device| device.kind == DeviceKind::Vulkan),
                accelerators: devices.iter().any(|device| device.kind == DeviceKind::Accel),
            },
            network: plugin.needs.network && granted,
        };
        onebit_loader::count_refused_calls().map_err(ConfineError::Handler)?;
        let confinement = onebit_sandbox::enter(&policy)?;
        if self.require && !confinement.holds() {
            return Err(ConfineError::Incomplete(confinement.missing));
        }
        for sentence in &confinement.missing {
            tracing::warn!(plugin = plugin.id, "the sandbox is weaker here: {sentence}");
        }
        Ok(Some(confinement))
    }

    fn readable(&self, inspection: &Inspection, model: Option<&Path>) -> Vec<PathBuf> {
        let libraries = inspection.needed.iter().map(|(_, path)| path.clone());
        // A plugin opens some of its libraries by name when it runs.
        let searched = std::env::var_os("LD_LIBRARY_PATH");
        let searched = searched.iter().flat_map(std::env::split_paths).filter(|path| path.is_dir());
        [inspection.file.dir.clone()]
            .into_iter()
            .chain(model.into_iter().flat_map(parts_of))
            .chain(self.read.iter().cloned())
            .chain(libraries)
            .chain(searched)
            // The plugin's signature is looked at once more when it is loaded.
            .chain(inspection.file.trust.keys.iter().filter(|path| path.is_dir()).cloned())
            .collect()
    }

    /// A cache that cannot be made costs speed and nothing else.
    fn made_cache(&self, plugin: &onebit_loader::PluginToml) -> Option<PathBuf> {
        let path = self.cache_of(&plugin.id).filter(|_| plugin.needs.cache_mib > 0)?;
        match DirBuilder::new().recursive(true).mode(0o700).create(&path) {
            Ok(()) => Some(path),
            Err(error) => {
                tracing::warn!(plugin = plugin.id, path = %path.display(), %error, "the plugin keeps nothing: its cache folder cannot be made");
                None
            }
        }
    }
}

/// A model that lies in several files is named by its first: `x-00001-of-00003.gguf`. The others lie beside it.
fn parts_of(model: &Path) -> Vec<PathBuf> {
    let name = model.file_name().unwrap_or_default().to_string_lossy();
    let Some((stem, _)) = name.split_once("-00001-of-") else { return vec![model.to_owned()] };
    let beside = read_dir(model.parent().unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let is_part = |name: &str| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('-') && rest.contains("-of-"));
    beside.filter(|entry| entry.file_name().to_str().is_some_and(is_part)).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_of_a_split_model_may_be_read_and_nothing_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "b.gguf", "a-notes.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let mut parts = parts_of(&dir.path().join("a-00001-of-00002.gguf"));
        parts.sort();
        assert_eq!(parts, ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"].map(|name| dir.path().join(name)));
        assert_eq!(parts_of(&dir.path().join("b.gguf")), [dir.path().join("b.gguf")]);
    }

    #[test]
    fn a_plugin_gets_its_own_variables_and_a_home_that_is_its_cache() {
        let config = SandboxConfig { caches: Some("/caches".into()), ..SandboxConfig::default() };
        let environment = config.environment("x", &[("MINE".into(), "1".into())]);
        let value = |name: &str| environment.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.to_str().unwrap());
        assert_eq!((value("MINE"), value("HOME"), value("XDG_CACHE_HOME")), (Some("1"), Some("/caches/x"), Some("/caches/x")));
        assert_eq!(value("PATH"), None);
        let all = SandboxConfig { exempt: vec!["x".into()], ..config }.environment("x", &[]);
        assert!(all.iter().any(|(name, _)| name == "PATH"));
    }
}
