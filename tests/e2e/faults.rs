//! Plugins that fail in every way we know, and what a person then sees: the client's answer, `ps`, `/readyz`, `/metrics`, the log and
//! `plugin list --why`. Beside each runs a second model under load, which must never notice.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use onebit_faults::Which;
use onebit_tests::client::{Answer, Client};
use onebit_tests::processes;
use onebit_tests::server::{Home, Server};
use serde_json::json;

/// How long a worker may stand still in these tests.
const STALL: Duration = Duration::from_secs(3);

/// A folder with the plugins and one model for each fault.
fn house(plugins: &[Which]) -> Home {
    let home = Home::new();
    let plugin_dir = home.path().join("plugins");
    for which in plugins.iter().chain([&Which::Ngram]) {
        onebit_faults::install(*which, &plugin_dir).unwrap();
    }
    std::fs::create_dir(home.path().join("manifests")).unwrap();
    onebit_faults::ngram_model(&home.models()).unwrap();
    manifest(home.path(), "steady", "story.ngram", "ngram", "ngram", "row_us = 200");
    let path = |name: &str| home.path().join(name);
    let (plugins, manifests) = (path("plugins"), path("manifests"));
    home.env("ONEBIT_PLUGIN_DIR", plugins)
        .env("ONEBIT_MANIFEST_DIR", manifests)
        .env("ONEBIT_NO_DEFAULT_DIRS", "true")
        .env("ONEBIT_STALL_TIMEOUT", format!("{}s", STALL.as_secs()))
        .env("ONEBIT_CONTEXT", "512")
        // The processor alone: a plugin that hangs is asked about each device for itself.
        .env("VK_DRIVER_FILES", "/dev/null")
}

fn manifest(home: &Path, model: &str, file: &str, format: &str, plugin: &str, options: &str) {
    let text = format!(
        "schema = 1\nname = \"{model}\"\n[model]\nfile = \"{file}\"\nformat = \"{format}\"\narchitecture = \"{plugin}\"\n\
         [[serve]]\nplugin = \"{plugin}\"\n[serve.options]\n{options}\n"
    );
    std::fs::write(home.join("manifests").join(format!("{model}.toml")), text).unwrap();
}

/// The model that must not notice: asked all the time, on two threads, and every answer is looked at.
struct Steady {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Duration>>>,
}

impl Steady {
    fn start(client: &Client) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ask = |client: Client, stop: Arc<AtomicBool>| {
            let mut times = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                let answer = client.post("/v1/completions", &json!({"model": "steady", "prompt": "Hello", "temperature": 0})).good();
                assert_eq!(answer["choices"][0]["text"], " you.", "{answer}");
                times.push(start.elapsed());
            }
            times
        };
        let thread = |_| {
            let (client, stop) = (client.clone(), stop.clone());
            std::thread::spawn(move || ask(client, stop))
        };
        Self { threads: (0..2).map(thread).collect(), stop }
    }

    /// Every answer was right, and how many there were.
    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().expect("the second model noticed").len()).sum()
    }
}

fn ask(client: &Client, model: &str) -> Answer {
    client.post("/v1/completions", &json!({"model": model, "prompt": "A", "temperature": 0, "max_tokens": 4}))
}

/// One fault in one model, and everything a person sees of it.
struct Row {
    fault: &'static str,
    status: u16,
    /// `error.code`; empty for a good answer.
    code: &'static str,
    /// In the error's sentence.
    says: &'static str,
    /// State in `ps` and `/readyz?model=` when all has settled.
    state: &'static str,
    /// A counter that must be there, without its model; its value may be more.
    counted: &'static str,
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("none",             200, "",                  "",                                           "ready",      "onebit_model_loads_total outcome=\"ok\""),
    row("panic-fit",        503, "model_unservable",  "told to panic in Fit",                       "not_loaded", ""),
    row("segfault-fit",     503, "model_unservable",  "crashed while it was asked: SIGSEGV",        "not_loaded", ""),
    row("panic-open",       503, "model_load_failed", "told to panic in Open",                      "failed",     "onebit_model_loads_total outcome=\"load\""),
    row("memory-open",      503, "model_load_failed", "(out_of_device_memory)",                     "failed",     "onebit_model_loads_total outcome=\"load\""),
    row("segfault-open",    502, "worker_failed",     "died while loading (50 %)",                  "crashed",    "onebit_worker_deaths_total kind=\"crash\""),
    row("abort-open",       502, "worker_failed",     "SIGABRT",                                    "crashed",    "onebit_worker_deaths_total kind=\"crash\""),
    row("exit-open",        502, "worker_failed",     "it ended the process with status 0",         "crashed",    "onebit_worker_deaths_total kind=\"crash\""),
    row("hang-open",        502, "worker_failed",     "made no progress for 3.",   "crashed",    "onebit_worker_deaths_total kind=\"hang\""),
    row("stdout-open",      200, "",                  "",                                           "ready",      "onebit_model_loads_total outcome=\"ok\""),
    row("panic-forward",    502, "plugin_failed",     "told to panic in Forward",                   "crashed",    "onebit_worker_deaths_total kind=\"crash\""),
    row("nan-forward",      502, "plugin_failed",     "hold NaN or infinity",                       "ready",      "onebit_model_loads_total outcome=\"ok\""),
    row("lost-forward",     502, "plugin_failed",     "(device_lost)",                              "crashed",    "onebit_worker_deaths_total kind=\"crash\""),
    row("memory-forward",   503, "out_of_memory",     "1099511627776 bytes wanted, 1048576 free",   "ready",      "onebit_model_loads_total outcome=\"ok\""),
    row("segfault-forward", 502, "worker_failed",     "died while computing 1 request",             "crashed",    "onebit_worker_deaths_total kind=\"crash\""),
    row("abort-forward",    502, "worker_failed",     "SIGABRT",                                    "crashed",    "onebit_worker_deaths_total kind=\"crash\""),
    row("exit-forward",     502, "worker_failed",     "it ended the process with status 0",         "crashed",    "onebit_worker_deaths_total kind=\"crash\""),
    row("hang-forward",     502, "worker_failed",     "made no progress for 3.", "crashed",    "onebit_worker_deaths_total kind=\"hang\""),
    row("slow-forward",     200, "",                  "",                                           "ready",      "onebit_model_loads_total outcome=\"ok\""),
    row("stdout-forward",   200, "",                  "",                                           "ready",      "onebit_model_loads_total outcome=\"ok\""),
    row("leak-forward",     200, "",                  "",                                           "ready",      "onebit_model_loads_total outcome=\"ok\""),
    row("hang-close",       200, "",                  "",                                           "ready",      "onebit_model_loads_total outcome=\"ok\""),
    row("segfault-close",   200, "",                  "",                                           "ready",      "onebit_model_loads_total outcome=\"ok\""),
    row("thread-close",     200, "",                  "",                                           "ready",      "onebit_model_loads_total outcome=\"ok\""),
];

const fn row(fault: &'static str, status: u16, code: &'static str, says: &'static str, state: &'static str, counted: &'static str) -> Row {
    Row { fault, status, code, says, state, counted }
}

#[test]
fn every_fault_of_a_model_has_its_outcome_and_a_second_model_under_load_never_notices() {
    let home = house(&[Which::Faulty]);
    for row in ROWS {
        onebit_faults::faulty_model(&home.models(), row.fault).unwrap();
        manifest(home.path(), row.fault, &format!("{}.fault", row.fault), "fault", "faulty", "");
    }
    let server = home.serve();
    let client = server.client();
    let front = server.pid();
    let steady = Steady::start(&client);
    for row in ROWS {
        let answer = ask(&client, row.fault);
        assert_eq!(answer.status, row.status, "{}: {}", row.fault, answer.text);
        if row.code.is_empty() {
            assert_eq!(answer.json()["choices"][0]["text"], "BCDE", "{}", row.fault);
        } else {
            let message = answer.error();
            assert!(message.contains(row.says) && answer.json()["error"]["code"] == row.code, "{}: {}", row.fault, answer.text);
        }
        let ready = || client.get(&format!("/readyz?model={}", row.fault));
        let state = || ready().json()["models"][0]["status"].as_str().unwrap_or_default().to_owned();
        // A device that is lost shows when the engine has told so, a moment after the answer.
        processes::eventually(&format!("{} is {}", row.fault, row.state), Duration::from_secs(10), || state() == row.state);
        assert_eq!(ready().status, if row.state == "ready" { 200 } else { 503 }, "{}", row.fault);
        if matches!(row.state, "crashed" | "failed") {
            assert!(ready().json()["models"][0]["memory_bytes"].is_null(), "a worker that is gone has no memory: {}", ready().text);
            assert!(ready().json()["models"][0]["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{}", ready().text);
        }
    }
    assert!(steady.end() > 20, "the second model was not under load");
    assert!(processes::alive(front));

    let shown = ps(&server);
    let metrics = client.get("/metrics").text;
    let log = server.log();
    for row in ROWS {
        // A load that failed is tried again after a moment, and shown no longer than that.
        if matches!(row.state, "ready" | "crashed") {
            let line = shown.lines().find(|line| line.split_whitespace().next() == Some(row.fault));
            assert!(line.is_some_and(|line| line.contains(row.state)), "ps of {}: {shown}", row.fault);
        }
        if let Some((name, label)) = row.counted.split_once(' ') {
            let series = format!("{name}{{model=\"{}\",{label}}} ", row.fault);
            assert!(metrics.contains(&series), "{series}: {metrics}");
        }
        // What an operator finds in the log is what the client was told.
        assert!(row.says.is_empty() || log.lines().any(|line| line.contains(row.says)), "{}: {log}", row.fault);
    }
    assert!(metrics.contains("onebit_worker_ready{model=\"steady\",plugin=\"ngram\",device=\"cpu\"} 1"), "{metrics}");
    assert!(!metrics.contains("onebit_worker_deaths_total{model=\"steady\""), "{metrics}");
    assert!(log.contains("stdout is not yours"), "what a plugin prints is log, with the model's name");
}

fn ps(server: &Server) -> String {
    let output = server.home.run(&["ps", "--listen", &format!("127.0.0.1:{}", server.port)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn models_whose_plugin_misbehaves_while_it_closes_still_leave() {
    let home = house(&[Which::Faulty]).env("ONEBIT_KEEP_ALIVE", "1s");
    let faults = ["hang-close", "segfault-close", "thread-close"];
    for fault in faults {
        onebit_faults::faulty_model(&home.models(), fault).unwrap();
        manifest(home.path(), fault, &format!("{fault}.fault"), "fault", "faulty", "");
    }
    let server = home.serve();
    for fault in faults {
        assert_eq!(ask(&server.client(), fault).status, 200, "{fault}");
    }
    processes::eventually("no worker is left", Duration::from_secs(20), || server.workers().is_empty());
    let metrics = server.client().get("/metrics").text;
    for fault in faults {
        assert!(metrics.contains(&format!("onebit_model_unloads_total{{model=\"{fault}\",reason=\"idle\"}} 1")), "{metrics}");
    }
}

#[test]
fn a_model_that_crashes_again_and_again_is_switched_off_and_the_second_model_is_not() {
    let home = house(&[Which::Faulty]);
    onebit_faults::faulty_model(&home.models(), "segfault-forward").unwrap();
    manifest(home.path(), "fragile", "segfault-forward.fault", "fault", "faulty", "");
    let server = home.serve();
    let client = server.client();
    let steady = Steady::start(&client);
    let mut answers = (0..12).map(|_| ask(&client, "fragile"));
    let refused = answers.find(|answer| answer.status == 503).expect("it is switched off");
    let message = refused.error();
    assert!(message.contains("is switched off for") && message.contains("crashes in a row"), "{message}");
    assert!(refused.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()), "{refused:?}");
    assert_eq!(client.get("/readyz?model=fragile").json()["models"][0]["status"], "failed");
    assert!(steady.end() > 0);
}

/// A plugin that cannot even be asked: how that is done, and what `plugin list --why` says.
struct Refusal {
    plugin: Which,
    /// Variable in its `plugin.toml`.
    environment: Option<(&'static str, &'static str)>,
    why: &'static str,
}

#[rustfmt::skip]
const REFUSALS: &[Refusal] = &[
    Refusal { plugin: Which::Faulty, environment: Some(("ONEBIT_FAULT", "panic-entry")), why: "told to panic in Entry" },
    Refusal { plugin: Which::Faulty, environment: Some(("ONEBIT_FAULT", "segfault-entry")), why: "SIGSEGV" },
    Refusal { plugin: Which::Faulty, environment: Some(("ONEBIT_FAULT", "segfault-probe")), why: "SIGSEGV" },
    Refusal { plugin: Which::Faulty, environment: Some(("ONEBIT_FAULT", "hang-probe")), why: "did not answer within 15 s" },
    Refusal { plugin: Which::OtherLayout, environment: None, why: "another layout" },
    Refusal { plugin: Which::Liar, environment: Some(("ONEBIT_LIE", "table-null")), why: "refused to start" },
    Refusal { plugin: Which::Liar, environment: Some(("ONEBIT_LIE", "table-short")), why: "24 bytes" },
    Refusal { plugin: Which::Liar, environment: Some(("ONEBIT_LIE", "other-major")), why: "7 in its table, 1 in its note" },
    Refusal { plugin: Which::Liar, environment: Some(("ONEBIT_LIE", "reports-missing")), why: "probe gave" },
];

#[test]
fn every_plugin_that_cannot_be_asked_is_explained_and_costs_nobody_else_anything() {
    for refusal in REFUSALS {
        let home = house(&[refusal.plugin]);
        let id = refusal.plugin.id();
        if let Some((name, value)) = refusal.environment {
            let toml = home.path().join("plugins").join(id).join("plugin.toml");
            let text = std::fs::read_to_string(&toml).unwrap();
            let at = text.find("\n[[option]]").unwrap_or(text.len());
            std::fs::write(&toml, format!("{}\n[environment]\n{name} = \"{value}\"\n{}", &text[..at], &text[at..])).unwrap();
        }
        onebit_faults::faulty_model(&home.models(), "none").unwrap();
        let (file, format) = if refusal.plugin == Which::Faulty { ("none.fault", "fault") } else { ("story.ngram", "ngram") };
        manifest(home.path(), "victim", file, format, id, "");
        let server = home.serve();
        let steady = Steady::start(&server.client());
        let answer = ask(&server.client(), "victim");
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (503, &json!("model_unservable")), "{id}: {}", answer.text);
        assert!(answer.error().contains(refusal.why), "{id}: {}", answer.text);
        assert!(steady.end() > 0, "{id}");
        let listed = server.home.run(&["plugin", "list", "--why"]);
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains(refusal.why), "{id} {:?}: {listed}", refusal.environment);
        assert!(listed.contains("yes, score"), "the honest plugin is listed as ever: {listed}");
    }
}

#[test]
fn a_plugin_that_writes_into_the_connection_to_the_host_loses_its_worker_and_nothing_else() {
    let home = house(&[Which::Faulty]);
    onebit_faults::faulty_model(&home.models(), "none").unwrap();
    manifest(home.path(), "forger", "none.fault", "fault", "faulty", "attempt = \"forge\"\nstay = \"true\"");
    let server = home.serve();
    let client = server.client();
    let steady = Steady::start(&client);
    let answer = ask(&client, "forger");
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (502, &json!("worker_failed")), "{}", answer.text);
    assert!(answer.error().contains("broke the protocol"), "{}", answer.text);
    assert!(steady.end() > 0);
    assert!(processes::alive(server.pid()));
}
