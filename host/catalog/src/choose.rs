//! The choice: which plugin on which device serves a model, and why not another.
//!
//! A manifest's `[[serve]]` entries are tried in order; without any, every plugin that reads the file's format is, the best score first.
//! For each device that is meant the plugin is asked; what it refuses, and what does not fit into free memory, is passed over with the
//! reason. Nothing here starts a process or reads a file: the answers come through [`Answers`], so the same answers give the same choice.
//!
//! What this must never do: take another device than one that was meant, or pass over something without saying so in the choice.

use onebit_loader::ProbeReport;
use onebit_loader::devices::{Device, DeviceKind};

use crate::answers::{Answers, FitQuestion};
use crate::context;
use crate::device::Selector;
use crate::entry::{ModelEntry, State};
use crate::estimate::{Estimate, bytes, shortage};
use crate::explanation::{Choice, Explanation, Step, Verdict};
use crate::manifest::{Isolation, Serve};
use crate::options;
use crate::plugins::PluginEntry;
use crate::wishes::Wishes;

/// Chooses.
pub fn choose(model: &ModelEntry, plugins: &[PluginEntry], wishes: &Wishes, answers: &dyn Answers) -> Explanation {
    let size = context::Size::of(model, wishes);
    let mut explanation = Explanation {
        model: model.name.clone(),
        file: model.file().map(|file| file.path.clone()),
        about: model.about(),
        manifest: model.manifest_files.clone(),
        settings: model.manifest.as_ref().map(|manifest| manifest.settings.clone()).unwrap_or_default(),
        context_rule: size.to_string(),
        obstacle: None,
        steps: Vec::new(),
        choice: None,
    };
    let State::Here(file) = &model.state else {
        explanation.obstacle = Some(model.obstacle().unwrap_or_default());
        return explanation;
    };
    let mut search = Search { model, path: &file.path, plugins, wishes, answers, size, explanation };
    match model.serve() {
        [] => search.all_plugins(),
        entries => entries.iter().enumerate().for_each(|(index, entry)| search.entry(index, entry)),
    }
    search.explanation
}

struct Search<'a> {
    model: &'a ModelEntry,
    path: &'a std::path::Path,
    plugins: &'a [PluginEntry],
    wishes: &'a Wishes,
    answers: &'a dyn Answers,
    size: context::Size,
    explanation: Explanation,
}

/// A plugin on a device, about to be judged.
struct Candidate<'a> {
    entry: Option<usize>,
    plugin: &'a PluginEntry,
    device: &'a Device,
    report: ProbeReport,
    options: Vec<(String, String)>,
    isolation: Isolation,
}

impl<'a> Search<'a> {
    /// One `[[serve]]` of the manifest.
    fn entry(&mut self, index: usize, serve: &Serve) {
        if self.explanation.choice.is_some() && !self.wishes.thorough {
            return;
        }
        let entry = Some(index + 1);
        let refuse = |version: Option<&PluginEntry>, reason: String| Step {
            entry,
            version: version.map(|plugin| plugin.version.to_string()),
            ..step(&serve.plugin, reason)
        };
        if !self.wishes.failed.is_empty() && !serve.fallback && !self.failed_entry(serve) {
            self.explanation
                .steps
                .push(refuse(None, "is not declared as a fallback (`fallback = true`), so it does not take over from what failed".into()));
            return;
        }
        let Some(plugin) = self.plugins.iter().find(|plugin| plugin.id() == serve.plugin && serve.version.matches(&plugin.version)) else {
            self.explanation.steps.push(refuse(None, self.not_installed(serve)));
            return;
        };
        if let Err(reason) = options::check(plugin, serve) {
            self.explanation.steps.push(refuse(Some(plugin), reason));
            return;
        }
        let options: Vec<(String, String)> = serve.options.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        match self.devices(plugin, &serve.device) {
            Err(reason) => self.explanation.steps.push(refuse(Some(plugin), reason)),
            Ok(devices) => {
                for (device, report) in devices {
                    self.judge(Candidate { entry, plugin, device, report, options: options.clone(), isolation: serve.isolation });
                }
            }
        }
    }

    /// Without a manifest's word: every plugin that reads the format, newest version only, best score first.
    fn all_plugins(&mut self) {
        let format = self.model.format();
        let mut candidates = Vec::new();
        let mut last: Option<&str> = None;
        let mut readers = 0;
        for plugin in self.plugins.iter().filter(|plugin| format.is_some_and(|format| plugin.reads(format))) {
            // Sorted by id, the newest first.
            if last == Some(plugin.id()) {
                continue;
            }
            last = Some(plugin.id());
            readers += 1;
            match self.devices(plugin, &Selector::Any) {
                Err(reason) => self.explanation.steps.push(Step { version: Some(plugin.version.to_string()), ..step(plugin.id(), reason) }),
                Ok(devices) => candidates.extend(devices.into_iter().map(|(device, report)| Candidate {
                    entry: None,
                    plugin,
                    device,
                    report,
                    options: Vec::new(),
                    isolation: Isolation::Worker,
                })),
            }
        }
        if readers == 0 {
            let format = format.unwrap_or("unknown");
            self.explanation.obstacle =
                Some(format!("no installed plugin reads files of the format {format} (`onebit-host plugin list --why` shows all plugins)"));
            return;
        }
        // Stable: equal scores stay in the order of ids and devices.
        candidates.sort_by_key(|candidate| std::cmp::Reverse((candidate.report.usable, candidate.report.score)));
        for candidate in candidates {
            self.judge(candidate);
        }
    }

    /// Devices that are meant, the plugin's favourite first, with its word about each.
    fn devices(&self, plugin: &PluginEntry, selector: &Selector) -> Result<Vec<(&'a Device, ProbeReport)>, String> {
        let devices = self.answers.devices();
        let meant: Vec<usize> = (0..devices.len()).filter(|&at| selector.both(&self.wishes.device, &devices[at])).collect();
        if meant.is_empty() {
            return Err(self.no_device(selector));
        }
        let reports = self.answers.probe(plugin)?;
        if reports.len() != devices.len() {
            return Err(format!("answered about {} devices, there are {}", reports.len(), devices.len()));
        }
        let kinds = &plugin.inspection.file.toml.device_kinds;
        let mut out: Vec<(&Device, ProbeReport)> = meant
            .into_iter()
            // By plugin.toml it has nothing for other kinds; naming them would only lengthen the trace. One that was named is shown.
            .filter(|&at| kinds.contains(&devices[at].kind) || *selector != Selector::Any)
            .map(|at| (&devices[at], reports[at].clone()))
            .collect();
        if out.is_empty() {
            return Err("has nothing for the devices of this machine".into());
        }
        out.sort_by_key(|(_, report)| std::cmp::Reverse((report.usable, report.score)));
        Ok(out)
    }

    fn no_device(&self, selector: &Selector) -> String {
        let there: Vec<&str> = self.answers.devices().iter().map(|device| device.id.as_str()).collect();
        let wish = match &self.wishes.device {
            Selector::Any => String::new(),
            wish => format!(" that is also {wish}, as this host is told"),
        };
        let software = self.answers.devices().iter().any(|device| device.software && device.kind == DeviceKind::Vulkan);
        let hint = if software && matches!(selector, Selector::Vulkan) {
            "; a software device is used only if it is named (vulkan-software)"
        } else {
            ""
        };
        format!("there is no device {selector}{wish} (there are: {}){hint}", there.join(", "))
    }

    fn judge(&mut self, candidate: Candidate<'a>) {
        let Candidate { entry, plugin, device, report, .. } = &candidate;
        if self.explanation.choice.is_some() && !self.wishes.thorough {
            return;
        }
        let mut step = Step {
            entry: *entry,
            version: Some(plugin.version.to_string()),
            device: Some(device.id.clone()),
            device_name: Some(device.name.clone()),
            score: report.usable.then_some(report.score),
            ..step(plugin.id(), String::new())
        };
        match self.size_on(&candidate, &mut step) {
            Err(reason) => step.reason = reason,
            Ok((context, estimate)) => {
                let remark = if report.text.is_empty() { String::new() } else { format!(" ({})", report.text) };
                step.reason = format!("score {}, {context} positions × {} requests{remark}", report.score, self.size.slots);
                step.verdict = if self.explanation.choice.is_some() { Verdict::Spare } else { Verdict::Chosen };
                if self.explanation.choice.is_none() {
                    let fallback_note = self.fallback_note();
                    self.explanation.choice = Some(self.choice(candidate, context, estimate, fallback_note));
                }
            }
        }
        self.explanation.steps.push(step);
    }

    /// Positions and bytes with which the candidate can serve, or why it cannot. Writes what it learns into `step`.
    fn size_on(&self, candidate: &Candidate<'_>, step: &mut Step) -> Result<(u32, Estimate), String> {
        let Candidate { plugin, device, report, options, .. } = candidate;
        let version = plugin.version.to_string();
        if let Some(failed) = self.wishes.failed.iter().find(|f| f.plugin == plugin.id() && f.version == version && f.device == device.id) {
            return Err(format!("failed to load: {}", failed.reason));
        }
        if !report.usable {
            return Err(if report.text.is_empty() {
                format!("the plugin cannot use it: {:?}", report.reason)
            } else {
                report.text.clone()
            });
        }
        let free = self.answers.free(device);
        step.free = Some(free);
        let ask = |context: u32| {
            let context = context.saturating_mul(self.size.slots);
            let question = FitQuestion { model: self.model, path: self.path, device, context, sequences: self.size.slots, options };
            let fit = self.answers.fit(plugin, &question)?;
            if fit.usable { Ok(fit) } else { Err(if fit.text.is_empty() { format!("{:?}", fit.reason) } else { fit.text }) }
        };
        let wanted = self.size.wanted;
        let fit = ask(wanted)?;
        let estimate = Estimate::of(&fit, device);
        (step.context, step.estimate) = (Some(wanted), Some(estimate));
        let Some((what, need, have)) = shortage(&estimate, &free, device) else {
            return Ok((wanted, estimate));
        };
        let too_small =
            format!("needs {} of {what} for {wanted} positions × {} requests, {} are free", bytes(need), self.size.slots, bytes(have));
        let Some(smaller) = self.size.shrink(&fit, need - have) else {
            return Err(too_small);
        };
        let fit = ask(smaller)?;
        let estimate = Estimate::of(&fit, device);
        if shortage(&estimate, &free, device).is_some() {
            return Err(too_small);
        }
        (step.context, step.estimate) = (Some(smaller), Some(estimate));
        Ok((smaller, estimate))
    }

    fn choice(&self, candidate: Candidate<'_>, context: u32, estimate: Estimate, fallback_note: Option<String>) -> Choice {
        let Candidate { plugin, device, options, isolation, .. } = candidate;
        let toml = &plugin.inspection.file.toml;
        let threads = self.model.manifest.as_ref().and_then(|manifest| manifest.defaults.threads).or(self.wishes.threads);
        let mut notes: Vec<String> = fallback_note.into_iter().collect();
        if context < self.size.wanted {
            notes.push(format!(
                "the context is {context} positions per request instead of {}, because more does not fit into free memory",
                self.size.wanted
            ));
        }
        Choice {
            plugin_dir: plugin.dir.clone(),
            plugin: toml.id.clone(),
            version: plugin.version.to_string(),
            device: device.clone(),
            options,
            needs: toml.needs,
            environment: toml.environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            isolation,
            model_path: self.path.to_owned(),
            context,
            slots: self.size.slots,
            threads,
            estimate,
            fallback_note: (!notes.is_empty()).then(|| notes.join("; ")),
        }
    }

    /// What was to be used before this and could not be. A device that a plugin never had anything for is no loss, unless a manifest
    /// named it.
    fn fallback_note(&self) -> Option<String> {
        let passed: Vec<String> =
            self.explanation.steps.iter().filter(|step| step.entry.is_some() || step.score.is_some()).map(Step::short).collect();
        (!passed.is_empty()).then(|| format!("not the first choice: {}", passed.join("; ")))
    }

    fn failed_entry(&self, serve: &Serve) -> bool {
        self.wishes.failed.iter().any(|failed| {
            failed.plugin == serve.plugin
                && semver::Version::parse(&failed.version).is_ok_and(|version| serve.version.matches(&version))
                && self.answers.devices().iter().any(|device| device.id == failed.device && serve.device.both(&self.wishes.device, device))
        })
    }

    fn not_installed(&self, serve: &Serve) -> String {
        let there: Vec<String> =
            self.plugins.iter().filter(|plugin| plugin.id() == serve.plugin).map(|plugin| plugin.version.to_string()).collect();
        if there.is_empty() {
            return "is not installed, or cannot be loaded (`onebit-host plugin list --why`)".into();
        }
        format!("version {} is wanted, installed is {} ({})", serve.version, there.join(", "), serve.origin)
    }
}

fn step(plugin: &str, reason: String) -> Step {
    Step {
        entry: None,
        plugin: plugin.to_owned(),
        version: None,
        device: None,
        device_name: None,
        verdict: Verdict::No,
        reason,
        score: None,
        context: None,
        estimate: None,
        free: None,
    }
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
