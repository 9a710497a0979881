//! Every plugin that was kept when a minor of the ABI was released, under today's host: found sound, through each of its doors, with the laws
//! of the contract, and as the plugin of a worker that answers.

use std::fs;
use std::path::{Path, PathBuf};

use onebit_engine::{Event, FinishReason, GenerateRequest, Prompt, PromptPart};
use onebit_kit::{CaseResult, Plan, Program, Setup, State, TOLERANCE, Way};
use onebit_loader::{Inspection, devices, inspect};
use onebit_worker::{Isolation, KeepAlive, LaunchSpec, MemoryEstimate, SandboxConfig, Supervisor, SupervisorConfig};

/// A kept plugin, laid out as installed.
struct Kept {
    /// `1.0/ngram`.
    name: String,
    inspection: Inspection,
    model: PathBuf,
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// A clone's files may be writable by a group, which a host refuses: they are installed into a folder of their own.
fn install(from: &Path, into: &Path) {
    fs::create_dir_all(into).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let to = into.join(from.file_name().unwrap());
        fs::write(&to, fs::read(&from).unwrap()).unwrap();
    }
}

/// All that were built for this machine's kind.
fn kept(plugins: &Path) -> Vec<Kept> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut all = Vec::new();
    let minors = folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures"));
    assert!(!minors.is_empty(), "no minor was kept: `cargo xtask abi-fixture`");
    for minor in minors {
        let version = minor.file_name().unwrap().to_string_lossy().into_owned();
        let of_target = minor.join(&target);
        // Plugins are kept for the machines that releases are made on; on another kind there is nothing to load.
        for folder in if of_target.exists() { folders(&of_target) } else { Vec::new() } {
            let id = folder.file_name().unwrap().to_string_lossy().into_owned();
            let dir = plugins.join(&version).join(&id);
            install(&folder, &dir);
            let inspection = inspect(&dir).unwrap_or_else(|refusal| panic!("{version}/{id}: {refusal}"));
            let built = format!("{}.{}", inspection.file.note.abi_major, inspection.file.note.abi_built_minor);
            assert_eq!(built, version, "{id} lies in the folder of another minor");
            all.push(Kept { name: format!("{version}/{id}"), inspection, model: minor.join("story.ngram") });
        }
    }
    all
}

fn child() -> PathBuf {
    env!("CARGO_BIN_EXE_onebit-abi-child").into()
}

#[test]
fn plugins_of_every_released_minor_obey_every_law_through_every_door() {
    let plugins = tempfile::tempdir().unwrap();
    let mut broken: Vec<String> = Vec::new();
    let mut ran = 0;
    for kept in kept(plugins.path()) {
        let file = &kept.inspection.file;
        let doors = [(Way::Rust, file.note.has_rust_door()), (Way::C, file.note.has_c_door())];
        let sandbox = SandboxConfig::default();
        let setup = |way| Setup {
            dir: file.dir.clone(),
            way,
            model: Some(kept.model.clone()),
            device: "cpu".into(),
            sandbox: sandbox.clone(),
            options: Vec::new(),
            seed: 1,
            tolerance: TOLERANCE,
        };
        let plan = Plan {
            program: Program { exe: Some(child()), environment: sandbox.environment(&file.toml.id, &[]) },
            setups: doors.into_iter().filter(|(_, offered)| *offered).map(|(way, _)| setup(way)).collect(),
            capabilities: file.note.capabilities.clone(),
            jobs: 2,
        };
        assert!(!plan.setups.is_empty(), "{} offers no door", kept.name);
        let results = onebit_kit::run(&plan, &onebit_kit::select(&[], &[]), &|_| {}).unwrap();
        ran += results.iter().filter(|result| result.verdict.state == State::Passed).count();
        let failed = |result: &&CaseResult| result.verdict.state == State::Failed;
        let line = |result: &CaseResult| format!("{}, door {}, {}: {}", kept.name, result.door.name(), result.id, result.verdict.text);
        broken.extend(results.iter().filter(failed).map(line));
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(ran >= 20 || std::env::consts::ARCH != "x86_64", "only {ran} cases passed; where are the others?");
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_of_every_released_minor_serve_an_answer() {
    let plugins = tempfile::tempdir().unwrap();
    let supervisor = Supervisor::new(SupervisorConfig { exe: Some(child()), args: Vec::new(), ..SupervisorConfig::default() });
    for kept in kept(plugins.path()) {
        let lease = supervisor.lease(spec(&kept)).await.unwrap_or_else(|error| panic!("{}: {error}", kept.name));
        let mut generation = lease.generate(hello()).await.unwrap_or_else(|error| panic!("{}: {error}", kept.name));
        let mut said = String::new();
        let end = loop {
            match generation.next().await.expect("a last event").unwrap_or_else(|error| panic!("{}: {error}", kept.name)) {
                Event::Delta { text, .. } => said.push_str(&text),
                Event::Finished(end) => break end,
                Event::Failed(error) => panic!("{}: {error}", kept.name),
                Event::Started { .. } | Event::Prefill { .. } | Event::Prompt { .. } => {}
            }
        };
        assert_eq!((said.as_str(), end.reason), (" you.", FinishReason::EndOfGeneration), "{}", kept.name);
    }
}

fn spec(kept: &Kept) -> LaunchSpec {
    let file = &kept.inspection.file;
    LaunchSpec {
        model: kept.name.clone(),
        model_path: kept.model.clone(),
        plugin_dir: file.dir.clone(),
        plugin_id: file.note.id.clone(),
        plugin_version: file.note.version.clone(),
        device: devices::cpu(),
        options: Vec::new(),
        context: Some(512),
        slots: 2,
        threads: Some(1),
        keep_alive: KeepAlive::default(),
        isolation: Isolation::Worker,
        estimate: MemoryEstimate::default(),
        chat_template: None,
        fallback_note: None,
        env: Vec::new(),
        needs: file.toml.needs,
        seen: Vec::new(),
    }
}

fn hello() -> GenerateRequest {
    GenerateRequest { add_special: true, ..GenerateRequest::new(Prompt::Parts(vec![PromptPart { text: "Hello".into(), control: false }])) }
}
