//! The whole host without HTTP, over real plugins in real processes.

#![allow(clippy::unwrap_used, reason = "in a test, what is not there is the failure")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use onebit_catalog::{KeepAlive, Verdict};
use onebit_engine::Event;
use onebit_faults::{Which, install};
use onebit_worker::host::{Host, HostConfig, HostError, LeaseOptions, ModelState, PluginOutcome, PluginReport};
use onebit_worker::{Chat, Defaults, Recipe, ShelfError, Weights, WorkerError, WorkerState};
use support::{collect, example, request};

/// Built once for all tests: `ngram` and `faulty`.
static PLUGINS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    for which in [Which::Ngram, Which::Faulty] {
        install(which, dir.path()).unwrap();
    }
    dir
});

/// Folders of one test.
struct House {
    root: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let house = Self { root: tempfile::tempdir().unwrap() };
        for name in ["manifests", "models", "plugins"] {
            std::fs::create_dir(house.at(name)).unwrap();
        }
        onebit_faults::ngram_model(&house.at("models")).unwrap();
        house
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// A plugin of its own, which may be told to fail through its environment.
    fn plugin(self, id: &str, environment: &str) -> Self {
        let (from, to) = (PLUGINS.path().join(id), self.at("plugins").join(id));
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().flatten() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        if !environment.is_empty() {
            let toml = std::fs::read_to_string(to.join("plugin.toml")).unwrap();
            let (head, options) = toml.split_once("[[option]]").unwrap();
            std::fs::write(to.join("plugin.toml"), format!("{head}[environment]\n{environment}\n\n[[option]]{options}")).unwrap();
        }
        self
    }

    fn manifest(self, name: &str, rest: &str) -> Self {
        let (file, format) = rest.split_once('\n').unwrap();
        let text = format!("schema = 1\nname = \"{name}\"\n[model]\nfile = \"{file}\"\n{format}\n");
        std::fs::write(self.at("manifests").join(format!("{name}.toml")), text).unwrap();
        self
    }

    fn story(self) -> Self {
        self.manifest("story", "story.ngram\nformat = \"ngram\"\narchitecture = \"ngram\"\n[defaults]\ncontext = 512\nslots = 2")
    }

    fn config(&self) -> HostConfig {
        let mut config = HostConfig {
            plugin_dirs: vec![self.at("plugins")],
            manifest_dirs: vec![self.at("manifests")],
            models_dirs: vec![self.at("models")],
            cache_dir: Some(self.at("cache")),
            exe: Some(example("host_child")),
            ..HostConfig::default()
        };
        config.probe.limit = Duration::from_secs(2);
        config.supervisor.restart.first_delay = Duration::from_millis(1);
        config
    }

    fn host(&self) -> Host {
        Host::start(self.config()).unwrap()
    }
}

async fn answer(host: &Host, name: &str) -> Result<String, HostError> {
    let lease = host.lease(name, LeaseOptions::default()).await?;
    let mut wanted = request("The moon ");
    wanted.max_tokens = Some(8);
    match collect(lease.generate(wanted).await?).await {
        (text, _, Ok(Event::Finished(_))) => Ok(text),
        (_, _, Ok(other)) => panic!("{other:?}"),
        (_, _, Err(error)) => Err(error.into()),
    }
}

async fn report(host: &Host, id: &str) -> PluginReport {
    host.plugins().await.unwrap().into_iter().find(|report| report.id == id).unwrap()
}

/// Probe processes started since the cache was made leave a file each; this counts them.
fn remembered(cache: &Path) -> usize {
    std::fs::read_dir(cache.join("probe")).map_or(0, |entries| entries.flatten().filter(|entry| entry.file_name() != "hashes.json").count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_answers_and_says_what_computed_it() {
    let house = House::new().plugin("ngram", "").story();
    let host = house.host();
    assert_eq!(host.models()[0].state, ModelState::Here);
    assert_eq!(answer(&host, "STORY:latest").await.unwrap(), STORY);
    let lease = host.lease("story", LeaseOptions::default()).await.unwrap();
    assert_eq!((lease.facts().plugin.as_str(), lease.facts().device.as_str(), lease.facts().context), ("ngram", "cpu", 512));
    assert_eq!(lease.spec().fallback_note, None);
    assert!(matches!(host.status()[0].state, WorkerState::Ready));
    drop(lease);
    assert!(host.unload("story").await.unwrap());
    assert!(!host.unload("story").await.unwrap());
    host.drain(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_request_changed_is_true_for_the_next_one() {
    let house = House::new().plugin("ngram", "").story();
    let own = house.at("own");
    let config = house.config();
    let manifest_dirs = [config.manifest_dirs.clone(), vec![own.clone()]].concat();
    let host = Host::start(HostConfig { manifest_dirs, own_manifests: Some(own.clone()), ..config }).unwrap();
    host.copy("story", "tale").await.unwrap();
    assert_eq!(answer(&host, "tale").await.unwrap(), STORY);
    let defaults = Defaults { max_tokens: Some(2), ..Defaults::default() };
    let recipe = |weights: &str, name: &str| Recipe {
        name: name.into(),
        weights: Weights::Of(weights.into()),
        chat: Chat::default(),
        defaults: defaults.clone(),
        licence: None,
    };
    host.make(recipe("tale", "short")).await.unwrap();
    assert_eq!(host.model("short").unwrap().defaults.max_tokens, Some(2));
    assert!(matches!(host.make(recipe("nobody", "x")).await, Err(HostError::UnknownModel { .. })));
    assert!(matches!(host.copy("nobody", "x").await, Err(HostError::UnknownModel { .. })));
    // A copy of itself is what it was.
    host.copy("tale", "TALE:latest").await.unwrap();
    // It is loaded, and goes all the same; its process soon after.
    host.remove("tale").await.unwrap();
    assert!(matches!(answer(&host, "tale").await, Err(HostError::UnknownModel { .. })));
    let since = Instant::now();
    while host.status().iter().any(|worker| worker.model == "tale") {
        assert!(since.elapsed() < Duration::from_secs(10), "{:?}", host.status());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(matches!(host.remove("story").await, Err(HostError::Shelf(ShelfError::Protected(_)))), "short uses its file");
    assert_eq!(answer(&host, "story").await.unwrap(), STORY);
    // Many at once do not lose each other's work.
    let copies = (0..8).map(|number| {
        let host = host.clone();
        tokio::spawn(async move { host.copy("story", &format!("copy-{number}")).await })
    });
    for copy in copies.collect::<Vec<_>>() {
        copy.await.unwrap().unwrap();
    }
    assert_eq!(host.models().len(), 10);
    // What comes into a folder by other ways is there as soon as somebody says so.
    std::fs::copy(own.join("copy-0.made.toml"), own.join("hand.toml")).unwrap();
    let text = std::fs::read_to_string(own.join("hand.toml")).unwrap().replace("copy-0", "hand");
    std::fs::write(own.join("hand.toml"), text).unwrap();
    host.look_again().await.unwrap();
    assert!(host.models().iter().any(|model| model.name == "hand"));
    host.drain(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_served_says_why() {
    let house = House::new()
        .plugin("ngram", "")
        .story()
        .manifest("absent", "absent.ngram\nformat = \"ngram\"\nsource = \"hf:a/b/c\"")
        .manifest("broken", "x\nfromat = \"x\"")
        .manifest("orphan", "story.ngram\nformat = \"ngram\"\narchitecture = \"ngram\"\n[[serve]]\nplugin = \"nobody\"");
    std::fs::write(house.at("models/bad.ngram"), "not a model").unwrap();
    let house = house.manifest("bad", "bad.ngram\nformat = \"ngram\"\narchitecture = \"ngram\"");
    let host = house.host();
    let lease = async |name: &str| host.lease(name, LeaseOptions::default()).await.map(drop).unwrap_err();

    assert!(matches!(lease("stroy").await, HostError::UnknownModel { suggestions, .. } if suggestions == ["story"]));
    let error = lease("absent").await;
    assert!(matches!(error, HostError::NotDownloaded { .. }) && error.to_string().contains("onebit-host pull absent"), "{error}");
    let error = lease("broken").await;
    assert!(matches!(error, HostError::Broken { .. }) && error.to_string().contains("broken.toml:5"), "{error}");
    let error = lease("orphan").await;
    assert!(matches!(error, HostError::Unservable { .. }) && error.to_string().contains("nobody: is not installed"), "{error}");
    let error = lease("bad").await;
    assert!(matches!(error, HostError::Unservable { .. }) && error.to_string().contains("ngram"), "{error}");
    assert_eq!(answer(&host, "story").await.unwrap(), STORY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_cache_starts_no_probe() {
    let house = House::new().plugin("ngram", "").story();
    let explanation = house.host().explain("story").await.unwrap();
    assert_eq!(explanation.steps[0].verdict, Verdict::Chosen, "{explanation}");
    let files = remembered(&house.at("cache"));
    assert!(files >= 3, "devices, plugin, fit: {files}");

    // A program that cannot answer proves that nobody asks.
    let config = HostConfig { exe: Some("/bin/false".into()), ..house.config() };
    let start = Instant::now();
    let host = Host::start(config).unwrap();
    let warm = host.explain("story").await.unwrap();
    let took = start.elapsed();
    assert_eq!(warm.choice.map(|choice| choice.plugin), explanation.choice.map(|choice| choice.plugin));
    assert_eq!(remembered(&house.at("cache")), files);
    assert!(took < Duration::from_secs(2), "{took:?}");

    host.rescan().await.unwrap();
    assert_eq!(remembered(&house.at("cache")), 0);
    assert_eq!(host.explain("story").await.unwrap().choice, None, "now it must ask, and cannot");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_plugin_file_is_asked_again() {
    let house = House::new().plugin("ngram", "").story();
    house.host().explain("story").await.unwrap();
    let files = remembered(&house.at("cache"));
    let toml = house.at("plugins/ngram/plugin.toml");
    let text = std::fs::read_to_string(&toml).unwrap();
    std::fs::write(&toml, format!("# another\n{text}")).unwrap();
    house.host().explain("story").await.unwrap();
    assert_eq!(remembered(&house.at("cache")), files + 2, "plugin and fit");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_place_for_the_cache_everything_works() {
    let house = House::new().plugin("ngram", "").story();
    for cache_dir in [None, Some(PathBuf::from("/proc/nowhere"))] {
        let host = Host::start(HostConfig { cache_dir, ..house.config() }).unwrap();
        assert_eq!(answer(&host, "story").await.unwrap(), STORY);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_crashes_while_it_is_asked_is_remembered_with_the_reason() {
    for (fault, word) in [("segfault-probe", "SIGSEGV"), ("segfault-entry", "SIGSEGV"), ("panic-probe", "panic"), ("panic-entry", "panic")]
    {
        let house = House::new().plugin("ngram", "").plugin("faulty", &format!("ONEBIT_FAULT = \"{fault}\"")).story();
        let host = house.host();
        let PluginOutcome::Failed { failure, at } = report(&host, "faulty").await.outcome else { panic!("{fault}: no failure") };
        assert!(failure.reason.contains(word) && failure.remembered, "{fault}: {failure}");
        assert_eq!(failure.signal.as_deref(), (word == "SIGSEGV").then_some("SIGSEGV"), "{fault}");
        assert!(matches!(report(&host, "ngram").await.outcome, PluginOutcome::Usable { .. }));
        // Another host knows it from the disk: same time, same reason, no process.
        let other = Host::start(HostConfig { exe: Some("/bin/false".into()), ..house.config() }).unwrap();
        assert_eq!(report(&other, "faulty").await.outcome, PluginOutcome::Failed { failure, at }, "{fault}");
        assert_eq!(answer(&host, "story").await.unwrap(), STORY);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_hangs_is_ended_and_remembered() {
    let house = House::new().plugin("faulty", "ONEBIT_FAULT = \"hang-probe\"");
    let mut config = house.config();
    config.probe.limit = Duration::from_millis(700);
    let host = Host::start(config).unwrap();
    let first = report(&host, "faulty").await.outcome;
    let PluginOutcome::Failed { failure, .. } = &first else { panic!("no failure") };
    assert!(failure.reason.contains("did not answer within") && failure.signal.is_none(), "{failure}");
    assert!(support::children().iter().all(|&pid| !is_probe(pid)), "the process is gone");
    // With the time of the first try: nobody was asked, and nobody waits.
    assert_eq!(report(&host, "faulty").await.outcome, first);
}

fn is_probe(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("hang-probe") && support::alive(pid)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_crashes_the_plugin_costs_only_its_model() {
    let house = House::new().plugin("ngram", "").plugin("faulty", "").story();
    onebit_faults::faulty_model(&house.at("models"), "segfault-fit").unwrap();
    let house = house.manifest("hostile", "segfault-fit.fault\nformat = \"fault\"\narchitecture = \"faulty\"");
    let host = house.host();
    let error = host.lease("hostile", LeaseOptions::default()).await.map(drop).unwrap_err();
    assert!(matches!(error, HostError::Unservable { .. }) && error.to_string().contains("SIGSEGV"), "{error}");
    assert_eq!(answer(&host, "story").await.unwrap(), STORY);
}

/// What the model makes of its story, always.
const STORY: &str = "is one m";

const SERVE_TWO: &str = "format = \"ngram\"\narchitecture = \"ngram\"\n[defaults]\ncontext = 512\n[[serve]]\nplugin = \"faulty\"\noptions = { fault = \"abort-open\" }\n[[serve]]\nplugin = \"ngram\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_fallback_takes_over_from_a_failed_load_and_is_reported() {
    let house =
        House::new().plugin("ngram", "").plugin("faulty", "").manifest("story", &format!("story.ngram\n{SERVE_TWO}fallback = true\n"));
    let host = house.host();
    for _ in 0..2 {
        let lease = host.lease("story", LeaseOptions::default()).await.unwrap();
        assert_eq!(lease.facts().plugin, "ngram");
        let note = lease.spec().fallback_note.clone().unwrap();
        assert!(note.contains("failed to load") && note.contains("SIGABRT"), "{note}");
    }
    assert_eq!(host.status().iter().filter(|worker| worker.fallback_note.is_some()).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_declared_fallback_the_failure_is_the_answer() {
    let house = House::new().plugin("ngram", "").plugin("faulty", "").manifest("story", &format!("story.ngram\n{SERVE_TWO}"));
    let error = house.host().lease("story", LeaseOptions::default()).await.map(drop).unwrap_err();
    assert!(matches!(error, HostError::Worker(WorkerError::Died(_))), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_choice_is_tried_again_by_the_next_request() {
    let serve = "format = \"ngram\"\narchitecture = \"ngram\"\n[defaults]\ncontext = 512\n[[serve]]\nplugin = \"ngram\"\ndevice = \"vulkan\"\n[[serve]]\nplugin = \"faulty\"\nfallback = true\noptions = { fault = \"abort-open\" }\n";
    let house = House::new().plugin("ngram", "").plugin("faulty", "").manifest("story", &format!("story.ngram\n{serve}"));
    let host = house.host();
    for _ in 0..2 {
        let error = host.lease("story", LeaseOptions::default()).await.map(drop).unwrap_err();
        assert!(matches!(error, HostError::Worker(WorkerError::Died(_))), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_another_hash_is_not_served() {
    let wrong = "0".repeat(64);
    let house = House::new()
        .plugin("ngram", "")
        .manifest("story", &format!("story.ngram\nformat = \"ngram\"\narchitecture = \"ngram\"\nsha256 = \"{wrong}\""));
    let host = house.host();
    for _ in 0..2 {
        let error = host.lease("story", LeaseOptions::default()).await.map(drop).unwrap_err();
        let HostError::WrongFile { expected, found, .. } = &error else { panic!("{error}") };
        assert_eq!(expected, &wrong);
        assert!(error.to_string().contains(found.as_str()) && found.len() == 64);
    }
    assert!(host.status().iter().all(|worker| !matches!(worker.state, WorkerState::Ready)), "nothing stays loaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_callers_patience_ends_the_wait_and_not_the_model() {
    let house = House::new().plugin("ngram", "").manifest("slow", "story.ngram\nformat = \"ngram\"\narchitecture = \"ngram\"\n[defaults]\ncontext = 512\n[[serve]]\nplugin = \"ngram\"\noptions = { open_ms = 600 }");
    let host = house.host();
    host.explain("slow").await.unwrap();
    let options = LeaseOptions { deadline: Some(Instant::now() + Duration::from_millis(200)), keep_alive: Some(KeepAlive::Forever) };
    let error = host.lease("slow", options).await.map(drop).unwrap_err();
    assert!(matches!(error, HostError::Deadline { .. }), "{error}");
    assert!(host.lease("slow", LeaseOptions::default()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_manifest_is_noticed_and_a_changed_one_replaces_the_worker() {
    let house = House::new().plugin("ngram", "");
    let host = house.host();
    assert!(matches!(host.model("story"), Err(HostError::UnknownModel { .. })));
    let house = house.story();
    // How long the host waits between two looks depends on how long a look takes, and so on the machine.
    let deadline = Instant::now() + Duration::from_secs(20);
    while host.model("story").is_err() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(answer(&host, "story").await.unwrap(), STORY);
    let pid = host.status()[0].pid;
    let house = house.manifest("story", "story.ngram\nformat = \"ngram\"\narchitecture = \"ngram\"\n[defaults]\ncontext = 256");
    let changed = async || host.lease("story", LeaseOptions::default()).await.unwrap().facts().context == 256;
    while !changed().await && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let lease = host.lease("story", LeaseOptions::default()).await.unwrap();
    assert_eq!(lease.facts().context, 256);
    assert!(host.status().iter().any(|worker| worker.pid != pid));
    drop(house);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_plugin_is_listed_with_its_table() {
    let house = House::new().plugin("ngram", "");
    std::fs::create_dir(house.at("plugins/empty")).unwrap();
    std::fs::write(house.at("plugins/empty/plugin.toml"), "schema = 99\n").unwrap();
    let host = house.host();
    let refused = host.plugins().await.unwrap().into_iter().find(|report| matches!(report.outcome, PluginOutcome::Refused(_))).unwrap();
    assert_eq!(refused.dir, house.at("plugins/empty"));
}
