//! Answers of plugins, each asked once: from memory, from the disk, or from a process of its own.
//!
//! A failure is an answer too: a plugin that crashed or hung is not tried again until it, a driver or the host changes, or until somebody
//! says [`Prober::forget`]. If a plugin fails over all devices together, it is asked about each alone, so that one bad driver does not take
//! the processor away.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use onebit_catalog::{PluginEntry, Stamp};
use onebit_loader::devices::{Device, DeviceKind, DeviceList};
use onebit_loader::trust::{Seen, Trust};
use onebit_loader::{Fit, ProbeReport, Reason};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ask::{ProbeConfig, Silence, ask};
use super::cache::{Cache, key};
use super::fingerprint;
use super::hashes::Hashes;
use super::message::{Answer, Probed, Question};

/// Something that was asked, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered<T> {
    /// When.
    pub at: SystemTime,
    /// The answer, or how the plugin failed.
    pub answer: Result<T, Failure>,
}

/// How a plugin failed when it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// One sentence.
    pub reason: String,
    /// The signal that ended its process: `SIGSEGV`.
    pub signal: Option<String>,
    /// Whether it is remembered until something changes. What was the host's own failure is not.
    pub remembered: bool,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl Failure {
    /// Of the plugin, without a signal.
    fn said(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), signal: None, remembered: true }
    }

    /// Of the host.
    fn passing(reason: String) -> Self {
        Self { reason, signal: None, remembered: false }
    }
}

/// A question about a model file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FitAsked<'a> {
    pub(crate) path: &'a Path,
    pub(crate) stamp: Stamp,
    pub(crate) device: &'a Device,
    pub(crate) context: u32,
    pub(crate) sequences: u32,
    pub(crate) options: &'a [(String, String)],
}

/// Asks plugins and remembers.
#[derive(Debug)]
pub struct Prober {
    config: ProbeConfig,
    cache: Cache,
    hashes: Hashes,
    /// One question at a time: two that start the same driver at once only slow each other down.
    asking: Mutex<()>,
    devices: Mutex<Option<Listed>>,
    probes: Mutex<HashMap<String, Remembered<Probed>>>,
    fits: Mutex<HashMap<String, Remembered<Fit>>>,
}

#[derive(Debug, Clone)]
struct Listed {
    key: String,
    list: Arc<DeviceList>,
    /// `None` = from the disk: what it says of free memory is old.
    at: Option<Instant>,
}

impl Prober {
    /// Remembers in `cache_dir`; `None` = only in memory.
    pub fn new(config: ProbeConfig, cache_dir: Option<PathBuf>) -> Self {
        let cache = Cache::new(cache_dir.map(|dir| dir.join("probe")));
        Self {
            config,
            hashes: Hashes::new(cache.clone()),
            cache,
            asking: Mutex::default(),
            devices: Mutex::default(),
            probes: Mutex::default(),
            fits: Mutex::default(),
        }
    }

    /// The devices of this machine. Their free memory is only as new as the list; see [`Self::devices_within`].
    pub fn devices(&self) -> Arc<DeviceList> {
        self.devices_within(Duration::MAX)
    }

    /// The devices; if there is one whose free memory only its driver knows, the list is not older than `age`.
    pub fn devices_within(&self, age: Duration) -> Arc<DeviceList> {
        let wanted = fingerprint::of_machine();
        let mut listed = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let remembered = listed.clone().filter(|listed| listed.key == wanted).or_else(|| {
            let list: DeviceList = self.cache.get(&format!("devices-{wanted}.json"))?;
            Some(Listed { key: wanted.clone(), list: Arc::new(list), at: None })
        });
        if let Some(known) = remembered {
            let changing = known.list.devices.iter().any(|device| device.kind != DeviceKind::Cpu && !device.software && !device.integrated);
            if !changing || age == Duration::MAX || known.at.is_some_and(|at| at.elapsed() <= age) {
                let list = Arc::clone(&known.list);
                *listed = Some(known);
                return list;
            }
        }
        let list = Arc::new(self.list());
        if list.notes.iter().all(|note| !note.starts_with(LIST_FAILED)) {
            self.cache.clear("devices-");
            self.cache.put(&format!("devices-{wanted}.json"), &*list);
        }
        *listed = Some(Listed { key: wanted, list: Arc::clone(&list), at: Some(Instant::now()) });
        list
    }

    fn list(&self) -> DeviceList {
        let answer = self.ask(&Question::Devices, &std::env::vars_os().collect());
        let failure = match answer {
            Ok(Answer::Devices(list)) => return list,
            Ok(_) => "it answered another question".to_owned(),
            Err(silence) => silence.to_string(),
        };
        // A driver that crashes while it is listed takes the list with it. The processor is there all the same.
        tracing::warn!(%failure, "the devices could not be listed; only the processor is used");
        DeviceList { devices: vec![processor()], notes: vec![format!("{LIST_FAILED}: {failure}")] }
    }

    /// What a plugin says of itself and of the devices, in their order.
    pub fn probe(&self, plugin: &PluginEntry, devices: &[Device]) -> Remembered<Probed> {
        let name = match self.plugin_key(plugin) {
            Ok(plugin_key) => format!("plugin-{}.json", key(&[&plugin_key, &fingerprint::of_devices(devices)])),
            Err(error) => return now(Err(Failure::passing(format!("its files cannot be read: {error}")))),
        };
        self.remembered(&self.probes, &name, || self.probe_now(plugin, devices))
    }

    fn probe_now(&self, plugin: &PluginEntry, devices: &[Device]) -> Result<Probed, Outcome> {
        let together = self.probe_these(plugin, devices);
        let Err(Outcome::Failed(failure)) = &together else {
            return together;
        };
        if devices.len() < 2 {
            return together;
        }
        tracing::info!(plugin = plugin.id(), %failure, "a plugin failed over all devices together; it is asked about each alone");
        let mut info = None;
        let mut reports = Vec::new();
        for device in devices {
            match self.probe_these(plugin, std::slice::from_ref(device)) {
                Ok(mut probed) => {
                    reports.append(&mut probed.reports);
                    info.get_or_insert(probed.info);
                }
                Err(Outcome::Failed(failure)) => reports.push(failed_report(format!("the plugin {failure}"))),
                Err(Outcome::Host(reason)) => return Err(Outcome::Host(reason)),
            }
        }
        match info {
            Some(info) => Ok(Probed { info, reports }),
            None => together,
        }
    }

    fn probe_these(&self, plugin: &PluginEntry, devices: &[Device]) -> Result<Probed, Outcome> {
        let question = Question::Probe {
            plugin_dir: plugin.dir.clone(),
            trust: policy(plugin),
            seen: self.seen(plugin),
            devices: devices.to_vec(),
            sandbox: self.config.sandbox.clone(),
        };
        match self.ask(&question, &self.environment(plugin)) {
            Ok(Answer::Probed(probed)) if probed.reports.len() == devices.len() => Ok(probed),
            Ok(Answer::Failed(reason)) => Err(Outcome::Failed(Failure::said(reason))),
            Ok(_) => Err(Outcome::Failed(Failure::said("answered another question"))),
            Err(silence) => Err(silence.into()),
        }
    }

    /// What a plugin says of a model file.
    pub(crate) fn fit(&self, plugin: &PluginEntry, asked: &FitAsked<'_>) -> Result<Fit, String> {
        let plugin_key = self.plugin_key(plugin).map_err(|error| format!("its files cannot be read: {error}"))?;
        let FitAsked { path, stamp, device, context, sequences, options } = *asked;
        let parts = [
            plugin_key,
            fingerprint::of_devices(std::slice::from_ref(device)),
            path.to_string_lossy().into_owned(),
            format!("{stamp:?} {context} {sequences} {options:?}"),
        ];
        let name = format!("fit-{}.json", key(&parts.iter().map(String::as_str).collect::<Vec<_>>()));
        let question = || {
            let question = Question::Fit {
                plugin_dir: plugin.dir.clone(),
                trust: policy(plugin),
                seen: self.seen(plugin),
                device: Box::new(device.clone()),
                path: path.to_owned(),
                context,
                sequences,
                options: options.to_vec(),
                sandbox: self.config.sandbox.clone(),
            };
            match self.ask(&question, &self.environment(plugin)) {
                Ok(Answer::Fit(fit)) => Ok(fit),
                Ok(Answer::Failed(reason)) => Err(Outcome::Failed(Failure::said(reason))),
                Ok(_) => Err(Outcome::Failed(Failure::said("answered another question"))),
                Err(silence) => Err(silence.into()),
            }
        };
        self.remembered(&self.fits, &name, question).answer.map_err(|failure| failure.reason)
    }

    fn environment(&self, plugin: &PluginEntry) -> Environment {
        self.config.sandbox.environment(plugin.id(), &own_variables(plugin))
    }

    /// The files that a plugin's `plugin.toml` lists, as they are now. What cannot be read is left out: the load will say so.
    pub(crate) fn seen(&self, plugin: &PluginEntry) -> Vec<Seen> {
        let file = &plugin.inspection.file;
        file.toml.sha256.keys().filter_map(|name| self.hashes.seen(&file.dir.join(name)).ok()).collect()
    }

    /// SHA-256 of a file, remembered as long as the file is the same.
    pub(crate) fn sha256(&self, path: &Path) -> std::io::Result<String> {
        self.hashes.of(path)
    }

    /// Forgets every answer, failures too.
    pub fn forget(&self) {
        for prefix in ["devices-", "plugin-", "fit-"] {
            self.cache.clear(prefix);
        }
        *self.devices.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.probes.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.fits.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// From memory, from the disk, or by asking. What says nothing about the plugin is not remembered.
    fn remembered<T: Clone + Serialize + DeserializeOwned>(
        &self,
        memory: &Mutex<HashMap<String, Remembered<T>>>,
        name: &str,
        question: impl FnOnce() -> Result<T, Outcome>,
    ) -> Remembered<T> {
        let lock = || memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(name) {
            return known.clone();
        }
        if let Some(known) = self.cache.get::<Remembered<T>>(name) {
            lock().insert(name.to_owned(), known.clone());
            return known;
        }
        let remembered = match question() {
            Ok(answer) => now(Ok(answer)),
            Err(Outcome::Failed(failure)) => now(Err(failure)),
            Err(Outcome::Host(reason)) => return now(Err(Failure::passing(reason))),
        };
        lock().insert(name.to_owned(), remembered.clone());
        self.cache.put(name, &remembered);
        remembered
    }

    fn ask(&self, question: &Question, environment: &Environment) -> Result<Answer, Silence> {
        let _one_at_a_time = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        let answer = ask(&self.config, question, environment);
        tracing::debug!(?question, ok = answer.is_ok(), took_ms = start.elapsed().as_millis(), "probe");
        answer
    }

    /// Hash of everything in the plugin's folder, of this host, and of the rules under which it loads plugins.
    fn plugin_key(&self, plugin: &PluginEntry) -> std::io::Result<String> {
        let mut parts = vec![fingerprint::of_host(), format!("{:?}", self.config.sandbox), format!("{:?}", policy(plugin))];
        let mut paths = Vec::new();
        files_below(&plugin.dir, 0, &mut paths)?;
        paths.sort();
        for path in paths {
            parts.push(path.strip_prefix(&plugin.dir).unwrap_or(&path).display().to_string());
            parts.push(self.hashes.of(&path)?);
        }
        Ok(key(&parts.iter().map(String::as_str).collect::<Vec<_>>()))
    }
}

/// Levels of folders below a plugin's folder that are looked at, as the loader does.
const DEPTH_MAX: usize = 8;

/// Links to folders are not followed: they could lead anywhere.
fn files_below(dir: &Path, depth: usize, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let folder = std::fs::symlink_metadata(&path)?.is_dir();
        if folder && depth < DEPTH_MAX {
            files_below(&path, depth + 1, into)?;
        } else if path.is_file() {
            into.push(path);
        }
    }
    Ok(())
}

/// Beginning of the note in a list that could not be made. Such a list is not remembered on the disk.
const LIST_FAILED: &str = "the devices could not be listed";

/// Why there is no answer.
enum Outcome {
    /// The plugin's fault: worth remembering.
    Failed(Failure),
    /// The host's: not.
    Host(String),
}

impl From<Silence> for Outcome {
    fn from(silence: Silence) -> Self {
        match silence {
            Silence::Host(_) => Self::Host(silence.to_string()),
            Silence::Died { ref cause, .. } => Self::Failed(Failure { signal: cause.signal(), ..Failure::said(silence.to_string()) }),
            _ => Self::Failed(Failure::said(silence.to_string())),
        }
    }
}

fn now<T>(answer: Result<T, Failure>) -> Remembered<T> {
    Remembered { at: SystemTime::now(), answer }
}

/// The policy that let it into the catalog is the one under which it is loaded.
fn policy(plugin: &PluginEntry) -> Trust {
    plugin.inspection.file.trust.clone()
}

/// The variables of a process, all of them.
type Environment = Vec<(OsString, OsString)>;

fn own_variables(plugin: &PluginEntry) -> Vec<(String, String)> {
    plugin.inspection.file.toml.environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn failed_report(text: String) -> ProbeReport {
    ProbeReport { usable: false, score: 0, reason: Reason::Failed, text, exclusive: false, memory_host: false, memory_device: false }
}

/// The processor, as far as it is known without a list.
fn processor() -> Device {
    Device {
        id: "cpu".into(),
        kind: DeviceKind::Cpu,
        name: "processor".into(),
        driver: String::new(),
        firmware: String::new(),
        uuid: [0; 16],
        vendor_id: 0,
        device_id: 0,
        memory_total: 0,
        memory_free: 0,
        integrated: false,
        software: false,
    }
}
