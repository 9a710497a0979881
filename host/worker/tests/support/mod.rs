//! What the tests of this crate share: where the workers are, specifications, requests, and a look at processes.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onebit_engine::{Event, GenerateRequest, Prompt, PromptPart};
use onebit_loader::devices::{Device, DeviceKind};
use onebit_worker::{Generation, Isolation, KeepAlive, LaunchSpec, MemoryEstimate, Supervisor, SupervisorConfig, WorkerError};

/// One test at a time: they look at the children and at the memory of this process.
pub async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    ONE.lock().await
}

/// A program among the examples of this crate, which cargo builds before it runs tests.
pub fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("this program has a path");
    let path = tests.parent().and_then(Path::parent).expect("target/debug/deps").join("examples").join(name);
    assert!(path.exists(), "{} is missing: build it with `cargo build -p onebit-worker --examples`", path.display());
    path
}

/// A supervisor over scripted workers, with short patience.
pub fn scripted() -> SupervisorConfig {
    SupervisorConfig {
        exe: Some(example("scripted_worker")),
        args: Vec::new(),
        greeting_patience: Duration::from_secs(5),
        load_stall: Duration::from_millis(700),
        step_stall: Duration::from_millis(700),
        unload_patience: Duration::from_secs(5),
        stop_patience: Duration::from_millis(300),
        memory_patience: Duration::from_secs(5),
        ..SupervisorConfig::default()
    }
}

pub fn cpu() -> Device {
    Device {
        id: "cpu".into(),
        kind: DeviceKind::Cpu,
        name: "the processor".into(),
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

/// A model of the scripted worker; `script` is what happens instead of a load.
pub fn spec(model: &str, script: &str) -> LaunchSpec {
    LaunchSpec {
        model: model.into(),
        model_path: "/models/script".into(),
        plugin_dir: "/plugins/script".into(),
        plugin_id: "script".into(),
        plugin_version: "0.1.0".into(),
        device: cpu(),
        options: Vec::new(),
        context: None,
        slots: 4,
        threads: None,
        keep_alive: KeepAlive::default(),
        isolation: Isolation::Worker,
        estimate: MemoryEstimate::default(),
        chat_template: None,
        fallback_note: None,
        needs: Default::default(),
        seen: Vec::new(),
        env: vec![("SCRIPT_LOAD".into(), script.into())],
    }
}

pub fn request(prompt: &str) -> GenerateRequest {
    GenerateRequest { add_special: true, ..GenerateRequest::new(Prompt::Parts(vec![PromptPart { text: prompt.into(), control: false }])) }
}

/// The whole answer, or how it failed; and how many tokens came before the end.
pub async fn collect(mut generation: Generation) -> (String, usize, Result<Event, WorkerError>) {
    let (mut text, mut tokens) = (String::new(), 0);
    loop {
        match generation.next().await.expect("a last event") {
            Ok(Event::Delta { text: more, tokens: new }) => {
                text.push_str(&more);
                tokens += new.len();
            }
            Ok(Event::Started { .. } | Event::Prefill { .. } | Event::Prompt { .. }) => {}
            Ok(last) => {
                assert!(generation.next().await.is_none(), "nothing comes after the last event");
                return (text, tokens, Ok(last));
            }
            Err(error) => {
                assert!(generation.next().await.is_none(), "nothing comes after an error");
                return (text, tokens, Err(error));
            }
        }
    }
}

/// Lease, answer, end.
pub async fn answer(supervisor: &Supervisor, spec: LaunchSpec, prompt: &str) -> Result<String, WorkerError> {
    let lease = supervisor.lease(spec).await?;
    match collect(lease.generate(request(prompt)).await?).await {
        (text, _, Ok(Event::Finished(_))) => Ok(text),
        (_, _, Ok(other)) => panic!("{other:?}"),
        (_, _, Err(error)) => Err(error),
    }
}

/// Processes whose parent is this one, zombies included.
pub fn children() -> Vec<u32> {
    children_of(std::process::id())
}

pub fn children_of(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in parentheses may hold anything.
        let Some((_, rest)) = stat.rsplit_once(')') else { continue };
        if rest.split_ascii_whitespace().nth(1).and_then(|ppid| ppid.parse::<u32>().ok()) == Some(parent) {
            found.push(pid);
        }
    }
    found
}

pub fn alive(pid: u32) -> bool {
    // A zombie has ended; somebody else's child is not ours to reap.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z')))
}

/// Sends a signal.
pub fn kill(pid: u32, signal: i32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("not 0");
    let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
    rustix::process::kill_process(pid, signal).expect("the process exists");
}

/// Waits until `done` or panics.
pub async fn eventually(what: &str, patience: Duration, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < patience, "{what}: not within {patience:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Bytes of this process in memory.
pub fn rss_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}
