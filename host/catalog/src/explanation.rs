//! Why a model is served by what serves it: every step of the choice, as data and as text.

use std::fmt;
use std::path::PathBuf;

use onebit_loader::Needs;
use onebit_loader::devices::Device;
use serde::Serialize;

use crate::estimate::{Estimate, Free, bytes};
use crate::manifest::Isolation;
use crate::settings::Setting;

/// What became of one plugin on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It serves the model.
    Chosen,
    /// It would have been used if nothing better had been there.
    Spare,
    /// It cannot serve the model.
    No,
}

/// One plugin on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Which `[[serve]]` of the manifest, from 1; `None` = the host looked for itself.
    pub entry: Option<usize>,
    /// Id of the plugin.
    pub plugin: String,
    /// Its version; `None` if none that would do is installed.
    pub version: Option<String>,
    /// Id of the device; `None` if there is none of the kind.
    pub device: Option<String>,
    /// The device, for people.
    pub device_name: Option<String>,
    /// What became of it.
    pub verdict: Verdict,
    /// One sentence.
    pub reason: String,
    /// The plugin's score for the device.
    pub score: Option<u32>,
    /// Positions per request.
    pub context: Option<u32>,
    /// What it would need, bytes.
    pub estimate: Option<Estimate>,
    /// What there was, bytes.
    pub free: Option<Free>,
}

/// What was chosen: everything that a worker must be told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// Folder of the plugin.
    pub plugin_dir: PathBuf,
    /// Its id.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// The device.
    pub device: Device,
    /// Settings for the plugin.
    pub options: Vec<(String, String)>,
    /// What it asks for beyond computing, from `plugin.toml`.
    pub needs: Needs,
    /// Environment of its process, from `plugin.toml`.
    pub environment: Vec<(String, String)>,
    /// Where it runs.
    pub isolation: Isolation,
    /// The file to open.
    pub model_path: PathBuf,
    /// Positions per request.
    pub context: u32,
    /// Requests side by side.
    pub slots: u32,
    /// CPU threads; `None` = the plugin's own choice.
    pub threads: Option<u32>,
    /// What it will need.
    pub estimate: Estimate,
    /// Set when something that was to be tried before could not be used: what, and why.
    pub fallback_note: Option<String>,
}

/// A choice and the way to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The model.
    pub model: String,
    /// Its file.
    pub file: Option<PathBuf>,
    /// What the file is: `llama Q4_1, 93.8 MiB, trained for 8192 positions`.
    pub about: String,
    /// Files that say how to serve it: the manifest, then its drop-ins.
    pub manifest: Vec<PathBuf>,
    /// Values of the manifest and where each was written.
    pub settings: Vec<Setting>,
    /// How many positions and slots, and why.
    pub context_rule: String,
    /// Why nothing could even be tried.
    pub obstacle: Option<String>,
    /// What was tried, in order.
    pub steps: Vec<Step>,
    /// The outcome.
    pub choice: Option<Choice>,
}

impl Explanation {
    /// Why the model cannot be served, in one line; `None` if it can.
    pub fn refusal(&self) -> Option<String> {
        if self.choice.is_some() {
            return None;
        }
        if let Some(obstacle) = &self.obstacle {
            return Some(obstacle.clone());
        }
        let said: Vec<String> = self.steps.iter().map(Step::short).collect();
        Some(if said.is_empty() { "no plugin could be tried".to_owned() } else { said.join("; ") })
    }
}

impl Step {
    /// `vulkan-ggml 0.1.0 on cpu: reason`.
    pub(crate) fn short(&self) -> String {
        let mut out = self.plugin.clone();
        for (word, value) in [(" ", &self.version), (" on ", &self.device)] {
            if let Some(value) = value {
                out += word;
                out += value;
            }
        }
        format!("{out}: {}", self.reason)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.model)?;
        if let Some(file) = &self.file {
            writeln!(f, "  file      {} ({})", file.display(), self.about)?;
        }
        for (index, path) in self.manifest.iter().enumerate() {
            writeln!(f, "  {}  {}", if index == 0 { "manifest" } else { "amended " }, path.display())?;
        }
        if self.manifest.is_empty() {
            writeln!(f, "  manifest  none; served by any plugin that reads the file")?;
        }
        if !self.settings.is_empty() {
            writeln!(f, "  settings")?;
            let width = self.settings.iter().map(|setting| setting.key.len()).max().unwrap_or(0);
            for Setting { key, value, origin } in &self.settings {
                writeln!(f, "    {key:<width$} = {}    # {origin}", abridged(value))?;
            }
        }
        if !self.context_rule.is_empty() {
            writeln!(f, "  context   {}", self.context_rule)?;
        }
        if let Some(obstacle) = &self.obstacle {
            writeln!(f, "  cannot be served: {obstacle}")?;
        }
        if !self.steps.is_empty() {
            writeln!(f, "  tried")?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            let verdict = match step.verdict {
                Verdict::Chosen => "yes  ",
                Verdict::Spare => "spare",
                Verdict::No => "no   ",
            };
            write!(f, "  {:>3}. {verdict} {}", index + 1, step.short())?;
            if let Some(entry) = step.entry {
                write!(f, " [choice {entry} of the manifest]")?;
            }
            writeln!(f)?;
            if let (Some(name), Some(device)) = (&step.device_name, &step.device)
                && name != device
            {
                writeln!(f, "             {name}")?;
            }
            if let Some(estimate) = &step.estimate {
                write!(
                    f,
                    "             needs {} weights + {} state + {} to compute = {} of memory",
                    bytes(estimate.weights),
                    bytes(estimate.state),
                    bytes(estimate.scratch),
                    bytes(estimate.host)
                )?;
                if estimate.device > 0 {
                    write!(f, " + {} of device memory", bytes(estimate.device))?;
                }
                let free = step.free.unwrap_or_default();
                let known = |free: Option<u64>| free.map_or_else(|| "unknown".to_owned(), bytes);
                write!(f, "; free: {}", known(free.host))?;
                if free.device.is_some() {
                    write!(f, ", device {}", known(free.device))?;
                }
                writeln!(f)?;
            }
        }
        match &self.choice {
            Some(choice) => {
                writeln!(f, "  served by {} {} on {} ({})", choice.plugin, choice.version, choice.device.id, choice.device.name)?;
                if let Some(note) = &choice.fallback_note {
                    writeln!(f, "  note      {note}")?;
                }
                Ok(())
            }
            None if self.obstacle.is_none() => writeln!(f, "  cannot be served by any plugin here"),
            None => Ok(()),
        }
    }
}

/// A template may have thousands of characters; the trace shows where it is, not what it says.
fn abridged(value: &str) -> String {
    const MOST: usize = 100;
    match value.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}… ({} characters)", value.get(..at).unwrap_or(value), value.chars().count()).replace('\n', "\\n"),
        None => value.replace('\n', "\\n"),
    }
}
