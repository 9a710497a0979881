//! Laws of the choice, over plugins and machines that exist only here.

use std::cell::RefCell;
use std::path::Path;

use onebit_loader::devices::{Device, DeviceKind};
use onebit_loader::trust::{Examination, Trust};
use onebit_loader::{Fit, Inspection, Note, OptionKind, OptionSpec, PluginFile, PluginToml, ProbeReport, Reason};

use super::*;
use crate::device::tests::device;
use crate::estimate::Free;
use crate::folder::{Facts, ModelFile, Stamp};
use crate::manifest::Manifest;
use crate::wishes::Failed;

const MIB: u64 = 1 << 20;

fn plugin(id: &str, version: &str) -> PluginEntry {
    let toml = PluginToml {
        schema: 1,
        id: id.into(),
        version: version.into(),
        library: "lib.so".into(),
        abi: "1.0".into(),
        capabilities: vec!["onebit.forward/1".into()],
        description: "a test".into(),
        licence: "MIT".into(),
        homepage: None,
        device_kinds: vec![DeviceKind::Cpu, DeviceKind::Vulkan],
        formats: vec!["gguf".into()],
        needs: Default::default(),
        sha256: Default::default(),
        environment: [("MODE".to_owned(), "x".to_owned())].into(),
        options: vec![OptionSpec { name: "layers".into(), kind: OptionKind::Integer, default: None, help: "layers".into() }],
    };
    let note = Note {
        abi_major: 1,
        abi_min_minor: 0,
        abi_built_minor: 0,
        id: id.into(),
        version: version.into(),
        capabilities: toml.capabilities.clone(),
        target: "x86_64-unknown-linux-gnu".into(),
        panic: "unwind".into(),
        licence: "MIT".into(),
        doors: vec!["c".into()],
    };
    let dir = std::path::PathBuf::from(format!("/plugins/{id}-{version}"));
    let file = PluginFile {
        dir: dir.clone(),
        toml,
        note,
        library: dir.join("lib.so"),
        beside: Vec::new(),
        trust: Trust::default(),
        seen: Vec::new(),
    };
    let inspection = Inspection { file, needed: Vec::new(), warnings: Vec::new(), trust: Examination::default() };
    PluginEntry { dir, version: version.parse().unwrap(), inspection }
}

fn model(serve: &str) -> ModelEntry {
    let text = format!("schema = 1\nname = \"m\"\n[model]\nfile = \"m.gguf\"\n{serve}");
    let path = Path::new("m.toml");
    let manifest = Manifest::from_tree(path, &crate::document::parse(path, &text).unwrap()).unwrap();
    ModelEntry { manifest: Some(manifest), manifest_files: vec![path.to_owned()], ..bare() }
}

fn bare() -> ModelEntry {
    let facts = Facts {
        architecture: "llama".into(),
        quantisation: "Q4_1".into(),
        context_trained: 8192,
        parameters: 1,
        vocabulary: 1,
        chat_template: true,
        purpose: onebit_weights::Purpose::Write,
        licence: None,
    };
    let stamp = Stamp { bytes: 1, modified_ns: 0, inode: 0 };
    let file = ModelFile { path: "/models/m.gguf".into(), stem: "m".into(), bytes: 1, stamp, facts: Ok(facts) };
    ModelEntry { name: "m".into(), aliases: Vec::new(), manifest: None, manifest_files: Vec::new(), state: State::Here(file) }
}

/// A machine. Weights cost 100 MiB, a position of one sequence 1 KiB.
struct Machine {
    devices: Vec<Device>,
    /// Free MiB of the host and of every other device.
    free_mib: (u64, u64),
    /// `plugin` or `plugin@device-id-prefix` that fails, and how.
    broken: Vec<(&'static str, &'static str)>,
    fits_asked: RefCell<usize>,
}

impl Machine {
    fn with(devices: &[&str]) -> Self {
        Self {
            devices: devices.iter().map(|id| device(id)).collect(),
            free_mib: (4096, 4096),
            broken: Vec::new(),
            fits_asked: RefCell::new(0),
        }
    }

    fn broken(mut self, what: &'static str, how: &'static str) -> Self {
        self.broken.push((what, how));
        self
    }
}

impl Answers for Machine {
    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn probe(&self, plugin: &PluginEntry) -> Result<Vec<ProbeReport>, String> {
        if let Some((_, how)) = self.broken.iter().find(|(what, _)| *what == plugin.id()) {
            return Err((*how).to_owned());
        }
        let report = |device: &Device| {
            let broken = self
                .broken
                .iter()
                .find(|(what, _)| what.split_once('@').is_some_and(|(id, prefix)| id == plugin.id() && device.id.starts_with(prefix)));
            let score = if device.kind == DeviceKind::Cpu { 50 } else { 90 };
            ProbeReport {
                usable: broken.is_none(),
                score,
                reason: if broken.is_some() { Reason::OldDriver } else { Reason::None },
                text: broken.map(|(_, how)| (*how).to_owned()).unwrap_or_default(),
                exclusive: false,
                memory_host: true,
                memory_device: device.kind != DeviceKind::Cpu,
            }
        };
        Ok(self.devices.iter().map(report).collect())
    }

    fn fit(&self, _: &PluginEntry, question: &FitQuestion<'_>) -> Result<Fit, String> {
        *self.fits_asked.borrow_mut() += 1;
        let on_cpu = question.device.kind == DeviceKind::Cpu;
        Ok(Fit {
            usable: true,
            reason: Reason::None,
            text: String::new(),
            architecture: "llama".into(),
            quantisation: "Q4_1".into(),
            weights_host: if on_cpu { 100 * MIB } else { 0 },
            weights_device: if on_cpu { 0 } else { 100 * MIB },
            state: u64::from(question.context) * 1024,
            state_per_token: 1024,
            scratch_host: 0,
            scratch_device: 0,
            context_trained: 8192,
            parameters: 1,
        })
    }

    fn free(&self, device: &Device) -> Free {
        Free { host: Some(self.free_mib.0 * MIB), device: (device.kind != DeviceKind::Cpu).then_some(self.free_mib.1 * MIB) }
    }
}

fn on(explanation: &Explanation) -> Option<String> {
    explanation
        .choice
        .as_ref()
        .map(|choice| format!("{} {} on {}", choice.plugin, choice.version, choice.device.id.get(..8).unwrap_or(&choice.device.id)))
}

const GPU_THEN_CPU: &str = "[[serve]]\nplugin = \"a\"\ndevice = \"vulkan\"\n[[serve]]\nplugin = \"a\"\ndevice = \"cpu\"\nfallback = true\n";

#[test]
fn without_a_manifest_the_best_score_wins_and_software_devices_do_not_count() {
    let machine = Machine::with(&["cpu", "vulkan:5", "vulkan:1"]);
    let explanation = choose(&bare(), &[plugin("a", "0.1.0")], &Wishes::default(), &machine);
    assert_eq!(on(&explanation).as_deref(), Some("a 0.1.0 on vulkan:1"));
    assert_eq!(explanation.choice.unwrap().fallback_note, None);
    let machine = Machine::with(&["cpu", "vulkan:5"]);
    let explanation = choose(&bare(), &[plugin("a", "0.1.0")], &Wishes::default(), &machine);
    assert_eq!(on(&explanation).as_deref(), Some("a 0.1.0 on cpu"));
}

#[test]
fn a_software_device_is_used_when_it_is_asked_for() {
    let machine = Machine::with(&["cpu", "vulkan:5"]);
    let wishes = Wishes { device: Selector::VulkanSoftware, ..Wishes::default() };
    assert_eq!(on(&choose(&bare(), &[plugin("a", "0.1.0")], &wishes, &machine)).as_deref(), Some("a 0.1.0 on vulkan:5"));
    assert_eq!(on(&choose(&model(GPU_THEN_CPU), &[plugin("a", "0.1.0")], &wishes, &machine)).as_deref(), Some("a 0.1.0 on vulkan:5"));
}

#[test]
fn entries_are_tried_in_order_and_what_was_passed_over_is_said() {
    let machine = Machine::with(&["cpu"]);
    let explanation = choose(&model(GPU_THEN_CPU), &[plugin("a", "0.1.0")], &Wishes::default(), &machine);
    assert_eq!(on(&explanation).as_deref(), Some("a 0.1.0 on cpu"));
    let note = explanation.choice.as_ref().unwrap().fallback_note.clone().unwrap();
    assert!(note.contains("there is no device vulkan"), "{note}");
    assert!(explanation.to_string().contains("[choice 2 of the manifest]"), "{explanation}");
}

#[test]
fn the_newest_version_in_the_range_is_taken() {
    let plugins = [plugin("a", "0.2.0"), plugin("a", "0.1.9"), plugin("a", "0.1.0")];
    let machine = Machine::with(&["cpu"]);
    let entry = |range: &str| model(&format!("[[serve]]\nplugin = \"a\"\nversion = \"{range}\"\n"));
    assert_eq!(on(&choose(&entry("^0.1"), &plugins, &Wishes::default(), &machine)).as_deref(), Some("a 0.1.9 on cpu"));
    let explanation = choose(&entry("^0.3"), &plugins, &Wishes::default(), &machine);
    assert!(
        explanation.refusal().unwrap().contains("version ^0.3 is wanted, installed is 0.2.0, 0.1.9, 0.1.0 (m.toml:5)"),
        "{explanation}"
    );
}

#[test]
fn an_unknown_option_or_a_wrong_value_is_refused_with_a_way_out() {
    let machine = Machine::with(&["cpu"]);
    let with = |options: &str| {
        choose(&model(&format!("[[serve]]\nplugin = \"a\"\noptions = {options}\n")), &[plugin("a", "0.1.0")], &Wishes::default(), &machine)
    };
    assert!(with("{ layer = 3 }").refusal().unwrap().contains("did you mean `layers`?"));
    assert!(with("{ layers = \"many\" }").refusal().unwrap().contains("is no integer"));
    assert_eq!(with("{ layers = 3 }").choice.unwrap().options, [("layers".to_owned(), "3".to_owned())]);
}

#[test]
fn what_does_not_fit_is_passed_over_with_numbers() {
    let mut machine = Machine::with(&["cpu", "vulkan:1"]);
    machine.free_mib = (4096, 64);
    let explanation = choose(&bare(), &[plugin("a", "0.1.0")], &Wishes::default(), &machine);
    assert_eq!(on(&explanation).as_deref(), Some("a 0.1.0 on cpu"));
    let note = explanation.choice.unwrap().fallback_note.unwrap();
    assert!(note.contains("needs 132.0 MiB of device memory") && note.contains("64.0 MiB are free"), "{note}");
}

#[test]
fn the_hosts_own_context_shrinks_to_what_fits_and_a_written_one_does_not() {
    let mut machine = Machine::with(&["cpu"]);
    machine.free_mib = (116, 0);
    let explanation = choose(&bare(), &[plugin("a", "0.1.0")], &Wishes::default(), &machine);
    let choice = explanation.choice.unwrap();
    // 16 MiB for 4 sequences of 1 KiB per position.
    assert_eq!((choice.context, choice.slots), (4096, 4));
    assert!(choice.fallback_note.unwrap().contains("the context is 4096 positions per request instead of 8192"));
    assert!(choice.estimate.host <= 116 * MIB);

    let written = model("[defaults]\ncontext = 8192\n");
    let refusal = choose(&written, &[plugin("a", "0.1.0")], &Wishes::default(), &machine).refusal().unwrap();
    assert!(refusal.contains("needs 132.0 MiB of memory for 8192 positions × 4 requests, 116.0 MiB are free"), "{refusal}");

    machine.free_mib = (101, 0);
    assert_eq!(choose(&bare(), &[plugin("a", "0.1.0")], &Wishes::default(), &machine).choice, None);
}

#[test]
fn after_a_failed_load_only_a_declared_fallback_takes_over() {
    let machine = Machine::with(&["cpu", "vulkan:1"]);
    let failed =
        Failed { plugin: "a".into(), version: "0.1.0".into(), device: machine.devices[1].id.clone(), reason: "DEVICE_LOST".into() };
    let wishes = Wishes { failed: vec![failed], ..Wishes::default() };
    let explanation = choose(&model(GPU_THEN_CPU), &[plugin("a", "0.1.0")], &wishes, &machine);
    assert_eq!(on(&explanation).as_deref(), Some("a 0.1.0 on cpu"));
    assert!(explanation.choice.unwrap().fallback_note.unwrap().contains("failed to load: DEVICE_LOST"));

    let undeclared = model(&GPU_THEN_CPU.replace("fallback = true\n", ""));
    let explanation = choose(&undeclared, &[plugin("a", "0.1.0")], &wishes, &machine);
    assert!(explanation.refusal().unwrap().contains("not declared as a fallback"), "{explanation}");
}

#[test]
fn a_plugin_that_crashes_costs_only_itself() {
    let machine = Machine::with(&["cpu"]).broken("a", "crashed while it was asked: SIGSEGV");
    let explanation = choose(&bare(), &[plugin("a", "0.1.0"), plugin("b", "0.1.0")], &Wishes::default(), &machine);
    assert_eq!(on(&explanation).as_deref(), Some("b 0.1.0 on cpu"));
    assert!(explanation.to_string().contains("SIGSEGV"));
}

#[test]
fn a_device_that_the_plugin_refuses_is_shown_with_its_reason() {
    let machine = Machine::with(&["cpu", "vulkan:1"]).broken("a@vulkan", "driver 1 is too old");
    let explanation = choose(&model(GPU_THEN_CPU), &[plugin("a", "0.1.0")], &Wishes::default(), &machine);
    assert_eq!(on(&explanation).as_deref(), Some("a 0.1.0 on cpu"));
    assert!(explanation.choice.unwrap().fallback_note.unwrap().contains("driver 1 is too old"));
}

#[test]
fn the_search_ends_with_the_choice_unless_everything_is_asked_for() {
    let machine = Machine::with(&["cpu", "vulkan:1"]);
    let brief = choose(&bare(), &[plugin("a", "0.1.0")], &Wishes::default(), &machine);
    assert_eq!((brief.steps.len(), *machine.fits_asked.borrow()), (1, 1));
    let thorough = choose(&bare(), &[plugin("a", "0.1.0")], &Wishes { thorough: true, ..Wishes::default() }, &machine);
    assert_eq!(thorough.steps.iter().map(|step| step.verdict).collect::<Vec<_>>(), [Verdict::Chosen, Verdict::Spare]);
    assert_eq!(thorough.choice, brief.choice);
}

#[test]
fn what_cannot_be_tried_says_why() {
    let machine = Machine::with(&["cpu"]);
    let none = choose(&bare(), &[], &Wishes::default(), &machine);
    assert!(none.refusal().unwrap().contains("no installed plugin reads files of the format gguf"));
    let mut missing = model("[defaults]\nslots = 1\n");
    missing.manifest.as_mut().unwrap().source = vec!["hf:a/b/c".into()];
    missing.state = State::Missing { file: "m.gguf".into() };
    assert!(choose(&missing, &[plugin("a", "0.1.0")], &Wishes::default(), &machine).refusal().unwrap().contains("`onebit-host pull m`"));
}

proptest::proptest! {
    /// Whatever the machine: what is chosen was meant, was usable, fits, and nothing was passed over without a word.
    #[test]
    fn a_choice_is_meant_usable_and_fits(
        devices in proptest::sample::subsequence(vec!["cpu", "vulkan:1", "vulkan:2", "vulkan:5"], 1..=4),
        host in 0_u64..300, own in 0_u64..300, broken in proptest::bool::ANY, entries in proptest::bool::ANY,
    ) {
        let mut machine = Machine::with(&devices);
        machine.free_mib = (host, own);
        if broken {
            machine = machine.broken("a@vulkan:1", "no");
        }
        let model = if entries { model(GPU_THEN_CPU) } else { bare() };
        let explanation = choose(&model, &[plugin("a", "0.1.0")], &Wishes::default(), &machine);
        if let Some(choice) = &explanation.choice {
            proptest::prop_assert!(!choice.device.software);
            proptest::prop_assert!(!(broken && choice.device.id.starts_with("vulkan:1")));
            proptest::prop_assert!(shortage(&choice.estimate, &machine.free(&choice.device), &choice.device).is_none());
            proptest::prop_assert!(choice.context >= crate::context::CONTEXT_LEAST && choice.context <= crate::context::CONTEXT);
            let first_tried = explanation.steps.iter().position(|step| step.verdict == Verdict::Chosen) == Some(0);
            proptest::prop_assert!(first_tried && choice.context == crate::context::CONTEXT || choice.fallback_note.is_some() || !entries);
        } else {
            proptest::prop_assert!(explanation.refusal().is_some());
        }
        proptest::prop_assert!(explanation.steps.iter().all(|step| !step.reason.is_empty()));
        proptest::prop_assert!(!explanation.to_string().is_empty());
    }
}
