//! A hostile plugin in a worker: it reads, writes, spies, kills, calls out and starts programs as well as it can, and nothing of that works.
//!
//! Each attempt has its victim in this test: a file with a secret, a process, a port. That the plugin was refused is what it says; that nothing
//! happened is what is looked at.

mod support;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use onebit_faults::Which;
use onebit_loader::Needs;
use onebit_worker::{Isolation, LaunchSpec, SandboxConfig, Supervisor, SupervisorConfig, WorkerError, WorkerState};
use support::*;
use tempfile::TempDir;

struct House {
    dir: TempDir,
}

impl House {
    fn new() -> Self {
        // Not below /tmp alone: whatever is readable there must be refused because it was not named, not because of its place.
        let house = Self { dir: tempfile::tempdir().expect("a folder") };
        onebit_faults::install(Which::Faulty, &house.plugins()).expect("faulty is built");
        fs::create_dir(house.path("models")).expect("a folder");
        onebit_faults::faulty_model(&house.path("models"), "none").expect("a model");
        house
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn plugins(&self) -> std::path::PathBuf {
        self.path("plugins")
    }

    fn model(&self) -> std::path::PathBuf {
        self.path("models/none.fault")
    }

    fn spec(&self, attempt: &str, target: &str) -> LaunchSpec {
        LaunchSpec {
            model_path: self.model(),
            plugin_dir: self.plugins().join("faulty"),
            plugin_id: "faulty".into(),
            plugin_version: env!("CARGO_PKG_VERSION").into(),
            options: vec![("attempt".into(), attempt.into()), ("target".into(), target.into())],
            context: Some(512),
            seen: Vec::new(),
            env: Vec::new(),
            ..spec(attempt, "")
        }
    }
}

fn config(sandbox: SandboxConfig) -> SupervisorConfig {
    SupervisorConfig { exe: Some(example("worker")), args: Vec::new(), sandbox, ..SupervisorConfig::default() }
}

/// What the plugin says of its attempt.
async fn attempt(house: &House, name: &str, target: &str, sandbox: SandboxConfig) -> String {
    let supervisor = Supervisor::new(config(sandbox));
    match supervisor.lease(house.spec(name, target)).await.expect_err("the attempt is told as the failure of the load") {
        WorkerError::Load { failure, .. } => {
            assert_eq!(failure.status, "internal", "{}", failure.message);
            failure.message.clone()
        }
        other => panic!("{name}: {other}"),
    }
}

/// A process to be killed or spied on; ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("300").env("SECRET", "hunter2").spawn().expect("sleep"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn nothing_escaped(name: &str, said: &str) {
    assert!(!said.contains("ESCAPED"), "{name}: {said}");
    assert!(said.contains("refused") || said.contains("not set"), "{name}: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_of_a_hostile_plugin_is_refused_and_has_no_effect() {
    let _alone = alone().await;
    let house = House::new();
    let secret = house.path("home/.ssh/id_ed25519");
    fs::create_dir_all(secret.parent().expect("a folder")).expect("a folder");
    fs::write(&secret, "a secret").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).expect("readable by everybody");
    let other = house.path("models/other.gguf");
    fs::write(&other, "another model").expect("a file");
    let outside = house.path("outside");
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    port.set_nonblocking(true).expect("a listener that does not wait");
    let address = port.local_addr().expect("its address").to_string();
    let victim = Sleeper::new();
    let text = |path: &Path| path.display().to_string();

    let pid = victim.pid();
    let cases = [
        ("read", text(&secret)),
        ("read", text(&other)),
        ("read", "/etc/passwd".to_owned()),
        ("write", text(&outside)),
        ("write", text(&house.plugins().join("faulty/planted.so"))),
        ("model", String::new()),
        ("network", address),
        ("exec", text(&outside)),
        ("fork", String::new()),
        ("kill", pid.clone()),
        ("spy", pid),
        ("fill", text(house.dir.path())),
        ("kernel", text(house.dir.path())),
        ("untie", String::new()),
        ("devices", String::new()),
        ("secrets", String::new()),
    ];
    let mut sleeper = victim;
    for (name, target) in &cases {
        let said = attempt(&house, name, target, SandboxConfig::default()).await;
        nothing_escaped(name, &said);
        assert!(!outside.exists(), "{name}: {} was made", outside.display());
        assert!(sleeper.0.try_wait().expect("a status").is_none(), "{name}: the victim was killed");
    }
    assert!(port.accept().is_err(), "somebody called");
    assert_eq!(fs::read_to_string(house.model()).expect("the model"), "fault\n");
    assert_eq!(fs::metadata(house.model()).expect("the model").permissions().mode() & 0o777, 0o644);
    let mut files: Vec<_> =
        fs::read_dir(house.plugins().join("faulty")).expect("the plugin").flatten().map(|entry| entry.file_name()).collect();
    files.sort();
    assert_eq!(files, ["libonebit_fault_faulty.so", "plugin.toml"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_attempts_succeed_without_the_sandbox_so_the_test_can_fail() {
    let _alone = alone().await;
    let house = House::new();
    let secret = house.path("secret");
    fs::write(&secret, "a secret").expect("a file");
    let exempt = || SandboxConfig { exempt: vec!["faulty".into()], ..SandboxConfig::default() };
    let target = secret.display().to_string();
    assert!(attempt(&house, "read", &target, exempt()).await.contains("open: ESCAPED"));
    assert!(attempt(&house, "write", &house.path("made").display().to_string(), exempt()).await.contains("create: ESCAPED"));
    assert!(house.path("made").exists());
    // The last way replaces the worker by the program.
    let exec = house.spec("exec", &house.path("run").display().to_string());
    let error = Supervisor::new(config(exempt())).lease(exec).await.expect_err("no worker any more");
    assert!(matches!(error, WorkerError::Died(_)) && house.path("run").exists(), "{error}");
    assert!(attempt(&house, "fork", "", exempt()).await.contains("fork: ESCAPED"));
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("its address").to_string();
    assert!(attempt(&house, "network", &address, exempt()).await.contains("tcp: ESCAPED"));
    let mut sleeper = Sleeper::new();
    let pid = sleeper.pid();
    assert!(attempt(&house, "spy", &pid, exempt()).await.contains("environ: ESCAPED"));
    assert!(attempt(&house, "kill", &pid, exempt()).await.contains("kill: ESCAPED"));
    eventually("the victim dies", Duration::from_secs(5), || sleeper.0.try_wait().expect("a status").is_some()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_plugin_was_refused_something_serves_and_says_so() {
    let _alone = alone().await;
    let house = House::new();
    let supervisor = Supervisor::new(config(SandboxConfig { require: true, ..SandboxConfig::default() }));
    let mut spec = house.spec("exec", "/nonexistent/x");
    spec.options.push(("stay".into(), "true".into()));
    let answered = answer(&supervisor, spec, "A").await.expect("an answer");
    assert!(answered.starts_with('B'), "{answered:?}");
    let status = || supervisor.status().into_iter().find(|status| status.model == "exec").expect("its status");
    eventually("the refusals arrive", Duration::from_secs(10), || status().refused_calls > 0).await;
    let status = status();
    assert!(matches!(status.state, WorkerState::Ready));
    let confinement = status.confinement.expect("it is confined");
    assert!(confinement.holds() && confinement.missing.is_empty(), "{confinement:?}");
    supervisor.drain(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_configuration_grants_is_granted_and_no_more() {
    let _alone = alone().await;
    let house = House::new();
    let secret = house.path("shared/data");
    fs::create_dir(house.path("shared")).expect("a folder");
    fs::write(&secret, "for plugins").expect("a file");
    let read = SandboxConfig { read: vec![house.path("shared")], ..SandboxConfig::default() };
    let said = attempt(&house, "read", &secret.display().to_string(), read).await;
    assert!(said.starts_with("open: ESCAPED"), "{said}");

    // The network needs both: that the plugin asks and that the configuration names it.
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("its address").to_string();
    let granted = || SandboxConfig { network: vec!["faulty".into()], ..SandboxConfig::default() };
    nothing_escaped("network", &attempt(&house, "network", &address, granted()).await);
    let toml = house.plugins().join("faulty/plugin.toml");
    let asked = fs::read_to_string(&toml).expect("plugin.toml").replacen("[[option]]", "[needs]\nnetwork = true\n\n[[option]]", 1);
    fs::write(&toml, asked).expect("plugin.toml");
    nothing_escaped("network", &attempt(&house, "network", &address, SandboxConfig::default()).await);
    let said = attempt(&house, "network", &address, granted()).await;
    assert!(said.contains("tcp: ESCAPED") && said.contains("unix: refused") && said.contains("raw: refused"), "{said}");
    nothing_escaped("read", &attempt(&house, "read", "/root", granted()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_sandbox_is_required_no_plugin_runs_inside_the_host() {
    let _alone = alone().await;
    let house = House::new();
    let inside = || LaunchSpec { options: Vec::new(), isolation: Isolation::InProcess, ..house.spec("inside", "") };
    let required = SandboxConfig { require: true, ..SandboxConfig::default() };
    let error = Supervisor::new(config(required.clone())).lease(inside()).await.map(drop).expect_err("refused");
    assert!(error.to_string().contains("sandbox.require"), "{error}");
    let exempt = SandboxConfig { exempt: vec!["faulty".into()], ..required };
    let supervisor = Supervisor::new(config(exempt));
    assert!(answer(&supervisor, inside(), "A").await.expect("an answer").starts_with('B'));
    supervisor.drain(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_beyond_its_memory_or_its_cache_is_ended_with_both_numbers() {
    let _alone = alone().await;
    let house = House::new();
    let caches = house.path("caches");
    let sandbox = SandboxConfig { memory: Some(300 << 20), caches: Some(caches.clone()), ..SandboxConfig::default() };
    let toml = house.plugins().join("faulty/plugin.toml");
    let asked = fs::read_to_string(&toml).expect("plugin.toml").replacen("[[option]]", "[needs]\ncache_mib = 1\n\n[[option]]", 1);
    fs::write(&toml, asked).expect("plugin.toml");
    let needs = Needs { cache_mib: 1, ..Needs::default() };
    let lost = |spec: LaunchSpec| {
        let supervisor = Supervisor::new(config(sandbox.clone()));
        async move {
            match supervisor.lease(LaunchSpec { needs, ..spec }).await.expect_err("it is ended") {
                WorkerError::Died(death) => death.cause.to_string(),
                other => panic!("{other}"),
            }
        }
    };
    let said = lost(house.spec("hoard", "")).await;
    assert!(said.contains("314572800 are allowed (sandbox.memory)"), "{said}");
    let said = lost(house.spec("keep", &caches.join("faulty").display().to_string())).await;
    assert!(said.contains("1048576 are allowed; the folder was emptied"), "{said}");
    assert!(!caches.join("faulty/kept").exists());
}
