//! Conversations with probe processes that misbehave: scripts in place of the program.

#![allow(clippy::unwrap_used, reason = "in a test, what is not there is the failure")]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onebit_catalog::PluginEntry;
use onebit_loader::devices::{Device, DeviceKind};
use onebit_loader::trust::{Examination, Trust};
use onebit_loader::{Inspection, Needs, Note, PluginFile, PluginToml};
use onebit_worker::probe::{ProbeConfig, Prober};

/// What a good probe answers about one device.
const GOOD: &str = r#"{"Probed":{"info":{"id":"p","version":"0.1.0","computes_with":"","facts":[]},"reports":[{"usable":true,"score":7,"reason":"none","text":"","exclusive":false,"memory_host":true,"memory_device":false}]}}"#;

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    /// A probe program that reads its question into `$question` and goes on with `script`. Its answer goes to descriptor 0.
    fn new(script: &str) -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        let program = bench.dir.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\nread -r question\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(bench.dir.path().join("plugin")).unwrap();
        std::fs::write(bench.dir.path().join("plugin/lib.so"), "x").unwrap();
        bench
    }

    fn prober(&self) -> Prober {
        let exe = Some(self.dir.path().join("program"));
        Prober::new(ProbeConfig { exe, limit: Duration::from_millis(800), ..ProbeConfig::default() }, None)
    }

    fn plugin(&self) -> PluginEntry {
        entry(&self.dir.path().join("plugin"))
    }

    fn failure(&self) -> String {
        self.prober().probe(&self.plugin(), &[support::cpu()]).answer.unwrap_err().to_string()
    }
}

fn entry(dir: &Path) -> PluginEntry {
    let toml = PluginToml {
        schema: 1,
        id: "p".into(),
        version: "0.1.0".into(),
        library: "lib.so".into(),
        abi: "1.0".into(),
        capabilities: Vec::new(),
        description: String::new(),
        licence: "MIT".into(),
        homepage: None,
        device_kinds: vec![DeviceKind::Cpu],
        formats: Vec::new(),
        needs: Needs::default(),
        sha256: std::collections::BTreeMap::new(),
        environment: [("GREETING".to_owned(), "hello".to_owned())].into(),
        options: Vec::new(),
    };
    let note = Note {
        abi_major: 1,
        abi_min_minor: 0,
        abi_built_minor: 0,
        id: "p".into(),
        version: "0.1.0".into(),
        capabilities: Vec::new(),
        target: String::new(),
        panic: "unwind".into(),
        licence: "MIT".into(),
        doors: vec!["c".into()],
    };
    let file = PluginFile {
        dir: dir.to_owned(),
        toml,
        note,
        library: dir.join("lib.so"),
        beside: Vec::new(),
        trust: Trust::default(),
        seen: Vec::new(),
    };
    PluginEntry {
        dir: dir.to_owned(),
        version: "0.1.0".parse().unwrap(),
        inspection: Inspection { file, needed: Vec::new(), warnings: Vec::new(), trust: Examination::default() },
    }
}

fn gpu() -> Device {
    Device { id: format!("vulkan:{}", "1".repeat(32)), kind: DeviceKind::Vulkan, name: "a card".into(), ..support::cpu() }
}

#[test]
fn what_a_plugin_prints_is_no_answer() {
    let noise = format!("echo '{GOOD}'; echo noise >&2; echo '{GOOD}' >&0");
    assert_eq!(Bench::new(&noise).prober().probe(&Bench::new("").plugin(), &[support::cpu()]).answer.unwrap().reports[0].score, 7);
    let failure = Bench::new(&format!("echo '{GOOD}'; echo 'last words' >&2")).failure();
    assert!(failure.contains("ended the process with status 0") && failure.contains("last words"), "{failure}");
}

#[test]
fn each_way_of_not_answering_has_its_words() {
    for (script, words) in [
        ("kill -SEGV $$", "SIGSEGV"),
        ("exit 3", "status 3"),
        ("sleep 60", "did not answer within"),
        ("printf '{\"half' >&0; sleep 60", "did not answer within"),
        ("exec 0<&-; sleep 60", "did not answer within"),
        ("echo '{\"Devices\":{}}' >&0", "broke the protocol"),
        ("echo nonsense >&0", "broke the protocol"),
        ("echo '{\"Failed\":\"no door\"}' >&0", "no door"),
        ("while :; do printf '%8192s' x; done >&0", "has more than"),
    ] {
        let start = Instant::now();
        let failure = Bench::new(script).failure();
        assert!(failure.contains(words), "{script}: {failure}");
        assert!(start.elapsed() < Duration::from_secs(10), "{script}");
    }
}

#[test]
fn what_a_probe_started_is_gone_with_it() {
    let bench = Bench::new("sleep 61.5 & echo $! > \"$(dirname \"$0\")/pid\"; wait");
    bench.failure();
    let pid: u32 = std::fs::read_to_string(bench.dir.path().join("pid")).unwrap().trim().parse().unwrap();
    let deadline = Instant::now() + Duration::from_secs(2);
    while support::alive(pid) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!support::alive(pid));
}

#[test]
fn a_driver_that_crashes_takes_only_its_device_away() {
    let bench = Bench::new(&format!("case \"$question\" in *vulkan*) kill -SEGV $$;; *) echo '{GOOD}' >&0;; esac"));
    let reports = bench.prober().probe(&bench.plugin(), &[support::cpu(), gpu()]).answer.unwrap().reports;
    assert!(reports[0].usable);
    assert!(!reports[1].usable && reports[1].text.contains("SIGSEGV"), "{}", reports[1].text);
}

#[test]
fn a_question_is_asked_once_and_again_after_forgetting() {
    let bench = Bench::new(&format!("echo x >> \"$(dirname \"$0\")/asked\"; echo '{GOOD}' >&0"));
    let asked = |path: PathBuf| std::fs::read_to_string(path).map_or(0, |text| text.lines().count());
    let count = || asked(bench.dir.path().join("asked"));
    let prober = bench.prober();
    for _ in 0..3 {
        prober.probe(&bench.plugin(), &[support::cpu()]).answer.unwrap();
    }
    assert_eq!(count(), 1);
    prober.forget();
    prober.probe(&bench.plugin(), &[support::cpu()]).answer.unwrap();
    assert_eq!(count(), 2);
}

#[test]
fn a_program_that_cannot_be_started_is_not_the_plugins_fault() {
    let bench = Bench::new("");
    let prober = Prober::new(ProbeConfig { exe: Some("/no/such/program".into()), ..ProbeConfig::default() }, None);
    let failure = prober.probe(&bench.plugin(), &[support::cpu()]).answer.unwrap_err().to_string();
    assert!(failure.contains("could not be carried out") && failure.contains("/no/such/program"), "{failure}");
}

#[test]
fn when_the_devices_cannot_be_listed_the_processor_is_there() {
    let list = Bench::new("kill -SEGV $$").prober().devices();
    assert_eq!(list.devices.iter().map(|device| device.id.as_str()).collect::<Vec<_>>(), ["cpu"]);
    assert!(list.notes[0].contains("SIGSEGV"), "{:?}", list.notes);
}

#[test]
fn the_plugins_environment_is_set_for_its_probe() {
    let bench = Bench::new(&format!("test \"$GREETING\" = hello && echo '{GOOD}' >&0"));
    bench.prober().probe(&bench.plugin(), &[support::cpu()]).answer.unwrap();
}

/// What may change between two questions.
type Change = (&'static str, fn(&Path, &mut Device));

const CHANGES: &[Change] = &[
    ("the library", |plugin, _| std::fs::write(plugin.join("lib.so"), "y").unwrap()),
    ("a file that came", |plugin, _| std::fs::write(plugin.join("module.so"), "x").unwrap()),
    ("a file in a folder", |plugin, _| {
        std::fs::create_dir(plugin.join("lib")).unwrap();
        std::fs::write(plugin.join("lib/deep.so"), "x").unwrap();
    }),
    ("another name of a file", |plugin, _| std::fs::rename(plugin.join("lib.so"), plugin.join("lib2.so")).unwrap()),
    ("the device's UUID", |_, device| device.id = format!("vulkan:{}", "2".repeat(32))),
    ("the driver's version", |_, device| device.driver = "another 2.0".into()),
    ("the firmware's version", |_, device| device.firmware = "2.0".into()),
];

#[test]
fn a_crash_is_remembered_on_the_disk_until_one_part_of_its_key_changes() {
    for (what, change) in CHANGES {
        let bench = Bench::new("echo x >> \"$(dirname \"$0\")/asked\"; kill -SEGV $$");
        let asked = || std::fs::read_to_string(bench.dir.path().join("asked")).map_or(0, |text| text.lines().count());
        let mut device = gpu();
        // A new prober each time: what it knows it knows from the disk.
        let probe = |device: &Device| {
            let config = ProbeConfig { exe: Some(bench.dir.path().join("program")), ..ProbeConfig::default() };
            Prober::new(config, Some(bench.dir.path().join("cache"))).probe(&bench.plugin(), std::slice::from_ref(device))
        };
        let first = probe(&device);
        let failure = first.answer.clone().unwrap_err();
        assert_eq!((failure.signal.as_deref(), failure.remembered), (Some("SIGSEGV"), true), "{failure}");
        assert_eq!(probe(&device), first, "{what}");
        // How much memory is free at the moment is no property of a device.
        device.memory_free += 1;
        assert_eq!(probe(&device), first, "{what}");
        assert_eq!(asked(), 1, "{what}");
        change(&bench.dir.path().join("plugin"), &mut device);
        probe(&device).answer.unwrap_err();
        assert_eq!(asked(), 2, "{what}");
    }
}

#[test]
fn what_was_the_hosts_own_failure_is_not_remembered() {
    let bench = Bench::new(&format!("echo '{GOOD}' >&0"));
    let cache = || Some(bench.dir.path().join("cache"));
    let broken = ProbeConfig { exe: Some("/no/such/program".into()), ..ProbeConfig::default() };
    let failure = Prober::new(broken, cache()).probe(&bench.plugin(), &[support::cpu()]).answer.unwrap_err();
    assert!(!failure.remembered, "{failure}");
    let good = ProbeConfig { exe: Some(bench.dir.path().join("program")), ..ProbeConfig::default() };
    Prober::new(good, cache()).probe(&bench.plugin(), &[support::cpu()]).answer.unwrap();
}
