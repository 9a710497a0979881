//! The whole way with real plugins: supervisor, worker process, loader, engine. An honest plugin answers; a faulty one fails in every way it
//! knows, and each has the exact outcome that a user sees.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use onebit_engine::{EmbedRequest, EngineError, Event, FinishReason};
use onebit_faults::Which;
use onebit_worker::protocol::{Hello, LoadOrder, ToWorker, encode};
use onebit_worker::{Cause, Isolation, KeepAlive, LaunchSpec, RestartPolicy, Supervisor, SupervisorConfig, WorkerError};
use support::*;

const VERSION: &str = env!("CARGO_PKG_VERSION");

struct Plugins {
    root: PathBuf,
    ngram: PathBuf,
    faulty: PathBuf,
    story: PathBuf,
}

/// Built once for all tests. The folder is left to the system's own cleaning: a static is never dropped.
fn plugins() -> &'static Plugins {
    static PLUGINS: OnceLock<Plugins> = OnceLock::new();
    PLUGINS.get_or_init(|| {
        let root = tempfile::tempdir().expect("a folder").keep();
        Plugins {
            ngram: onebit_faults::install(Which::Ngram, &root).expect("ngram is built"),
            faulty: onebit_faults::install(Which::Faulty, &root).expect("faulty is built"),
            story: onebit_faults::ngram_model(&root).expect("a model"),
            root,
        }
    })
}

fn ngram(model: &str) -> LaunchSpec {
    LaunchSpec {
        model_path: plugins().story.clone(),
        plugin_dir: plugins().ngram.clone(),
        plugin_id: "ngram".into(),
        plugin_version: VERSION.into(),
        context: Some(512),
        seen: Vec::new(),
        env: Vec::new(),
        ..spec(model, "")
    }
}

/// Every row takes at least this long.
fn slow_ngram(model: &str, row_us: u32) -> LaunchSpec {
    LaunchSpec { options: vec![("row_us".into(), row_us.to_string())], ..ngram(model) }
}

fn faulty(fault: &str) -> LaunchSpec {
    LaunchSpec {
        model_path: onebit_faults::faulty_model(&plugins().root, fault).expect("a model"),
        plugin_dir: plugins().faulty.clone(),
        plugin_id: "faulty".into(),
        plugin_version: VERSION.into(),
        context: Some(512),
        seen: Vec::new(),
        env: Vec::new(),
        ..spec(fault, "")
    }
}

/// A fault that happens when the library is loaded comes through the environment.
fn faulty_entry(fault: &str) -> LaunchSpec {
    LaunchSpec { env: vec![("ONEBIT_FAULT".into(), fault.into())], ..faulty("none") }
}

fn config() -> SupervisorConfig {
    SupervisorConfig {
        exe: Some(example("worker")),
        args: Vec::new(),
        load_stall: Duration::from_secs(3),
        step_stall: Duration::from_secs(2),
        stop_patience: Duration::from_millis(500),
        restart: RestartPolicy { crashes: 1000, first_delay: Duration::from_millis(10), ..RestartPolicy::default() },
        ..SupervisorConfig::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_plugin_answers_embeds_encodes_and_decodes() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(config());
    let lease = supervisor.lease(ngram("a")).await.expect("a lease").named("request-1");
    let facts = lease.facts();
    assert_eq!((facts.plugin.as_str(), facts.plugin_version.as_str(), facts.device.as_str()), ("ngram", VERSION, "cpu"));
    assert_eq!((facts.context, facts.slots), (512, 4));

    let (text, _, last) = collect(lease.generate(request("Hello")).await.expect("a generation")).await;
    let Ok(Event::Finished(end)) = last else { panic!("{last:?}") };
    assert_eq!((text.as_str(), end.reason), (" you.", FinishReason::EndOfGeneration));

    let tokens = lease.encode(request("Hello").prompt, false).await.expect("tokens");
    assert_eq!(tokens.len(), 5);
    assert_eq!(lease.decode(tokens).await.expect("bytes"), b"Hello");
    let vectors = lease.embed(EmbedRequest { inputs: vec![request("Hello").prompt, request("moon").prompt] }).await.expect("vectors");
    assert_eq!(vectors.vectors.len(), 2);

    // The engine's own refusals keep their numbers.
    let long = "x".repeat(2000);
    match collect(lease.generate(request(&long)).await.expect("a generation")).await.2 {
        Ok(Event::Failed(EngineError::ContextOverflow { have: 512, need })) => assert!(need >= 2000),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inside_the_host_the_same_model_gives_the_same_answers() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(config());
    let mut inside = ngram("inside");
    inside.isolation = Isolation::InProcess;
    for prompt in ["Hello", "The moon", "What is one"] {
        let outside = answer(&supervisor, ngram("outside"), prompt).await.expect("an answer");
        assert_eq!(answer(&supervisor, inside.clone(), prompt).await.expect("an answer"), outside);
    }
    let lease = supervisor.lease(inside.clone()).await.expect("a lease");
    assert_eq!(lease.encode(request("Hello").prompt, false).await.expect("tokens").len(), 5);
    let status = supervisor.status();
    assert_eq!(status.iter().find(|status| status.model == "inside").map(|status| status.pid), Some(None));
    drop(lease);
    assert!(supervisor.unload("inside").await);
    supervisor.drain(Duration::from_secs(2)).await;
    assert!(children().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_is_not_the_one_that_was_chosen_is_refused() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(config());
    let refused = async |spec: LaunchSpec| match supervisor.lease(spec).await {
        Err(WorkerError::Load { failure, .. }) => failure.to_string(),
        other => panic!("{other:?}"),
    };
    let newer = LaunchSpec { plugin_version: "99.0.0".into(), ..ngram("a") };
    assert!(refused(newer).await.contains("it was replaced meanwhile"));
    let missing = LaunchSpec { plugin_dir: plugins().root.join("nowhere"), ..ngram("b") };
    assert!(refused(missing).await.contains("nowhere"));
    let no_model = LaunchSpec { model_path: "/no/such/file".into(), ..ngram("c") };
    assert!(refused(no_model).await.contains("/no/such/file"));
}

/// What a user sees of a fault.
enum Outcome {
    /// The answer, as if nothing had happened.
    Answers,
    /// No model: the plugin's status.
    LoadFails(&'static str),
    /// No model: the process ended.
    LoadDies(Cause),
    LoadHangs,
    /// The request fails, the model lives.
    RequestFails(&'static str),
    /// The request dies with the process; the next one starts a new process.
    WorkerDies(Cause),
    WorkerHangs,
}

fn signal(number: i32) -> Cause {
    // Whether a core file is written is a matter of the machine; it is compared away below.
    match Cause::of(std::os::unix::process::ExitStatusExt::from_raw(number)) {
        cause @ Cause::Signal { .. } => cause,
        other => panic!("{other:?}"),
    }
}

fn same(a: &Cause, b: &Cause) -> bool {
    match (a, b) {
        (Cause::Signal { number: a, .. }, Cause::Signal { number: b, .. }) => a == b,
        (a, b) => a == b,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_has_its_exact_outcome_and_the_next_model_is_served() {
    let _alone = alone().await;
    use Outcome::*;
    let table: Vec<(LaunchSpec, Outcome)> = vec![
        (faulty("none"), Answers),
        (faulty_entry("panic-entry"), LoadFails("panic")),
        (faulty_entry("segfault-entry"), LoadDies(signal(11))),
        (faulty("panic-open"), LoadFails("panic")),
        (faulty("segfault-open"), LoadDies(signal(11))),
        (faulty("abort-open"), LoadDies(signal(6))),
        (faulty("exit-open"), LoadDies(Cause::Status(0))),
        (faulty("hang-open"), LoadHangs),
        (faulty("memory-open"), LoadFails("out_of_device_memory")),
        (faulty("stdout-open"), Answers),
        (faulty("panic-forward"), RequestFails("panic")),
        (faulty("segfault-forward"), WorkerDies(signal(11))),
        (faulty("abort-forward"), WorkerDies(signal(6))),
        (faulty("exit-forward"), WorkerDies(Cause::Status(0))),
        (faulty("hang-forward"), WorkerHangs),
        (faulty("slow-forward"), Answers),
        (faulty("stdout-forward"), Answers),
        (faulty("leak-forward"), Answers),
        (faulty("nan-forward"), RequestFails("NaN")),
        (faulty("memory-forward"), RequestFails("memory")),
        (faulty("lost-forward"), RequestFails("device_lost")),
        (faulty("hang-close"), Answers),
        (faulty("segfault-close"), Answers),
        (faulty("thread-close"), Answers),
    ];
    let supervisor = Supervisor::new(config());
    for (mut spec, outcome) in table {
        let name = spec.env.first().map_or_else(|| spec.model.clone(), |(_, fault)| fault.clone());
        spec.model.clone_from(&name);
        let lease = supervisor.lease(spec.clone()).await;
        let mut ask = request("A");
        ask.max_tokens = Some(3);
        match (outcome, lease) {
            (LoadFails(wanted), Err(WorkerError::Load { failure, .. })) => assert_eq!(failure.status, wanted, "{name}"),
            (LoadDies(wanted), Err(WorkerError::Died(death))) => {
                assert!(same(&death.cause, &wanted), "{name}: {death}");
                assert!(death.activity.starts_with("loading"), "{name}: {death}");
            }
            (LoadHangs, Err(WorkerError::Hang(hang))) => assert_eq!(hang.activity, "loading (50 %)", "{name}"),
            (outcome, Ok(lease)) => {
                let (text, _, last) = collect(lease.generate(ask).await.expect("a generation")).await;
                match (outcome, last) {
                    (Answers, Ok(Event::Finished(_))) => assert_eq!(text, "BCD", "{name}"),
                    (RequestFails(wanted), Ok(Event::Failed(error))) => {
                        assert!(format!("{error} {error:?}").contains(wanted), "{name}: {error:?}");
                    }
                    (WorkerDies(wanted), Err(WorkerError::Died(death))) => {
                        assert!(same(&death.cause, &wanted), "{name}: {death}");
                        assert_eq!(death.activity, "computing 1 request", "{name}");
                    }
                    (WorkerHangs, Err(WorkerError::Hang(_))) => {}
                    (_, last) => panic!("{name}: {text:?} {last:?}"),
                }
            }
            (_, lease) => panic!("{name}: {lease:?}"),
        }
        let start = Instant::now();
        supervisor.unload(&name).await;
        assert!(start.elapsed() < Duration::from_secs(3), "{name}: the unload took {:?}", start.elapsed());
        assert!(children().is_empty(), "{name}");
    }
    assert_eq!(answer(&supervisor, ngram("a"), "Hello").await.expect("an answer"), " you.");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_device_the_process_is_replaced() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(config());
    let spec = faulty("lost-forward");
    let lease = supervisor.lease(spec.clone()).await.expect("a lease");
    let first = supervisor.status()[0].pid.expect("a process");
    assert!(matches!(collect(lease.generate(request("A")).await.expect("a generation")).await.2, Ok(Event::Failed(_))));
    eventually("the worker is ended and its end is known", Duration::from_secs(2), || {
        !alive(first) && supervisor.status().iter().all(|status| status.pid != Some(first))
    })
    .await;
    drop(lease);
    supervisor.lease(spec).await.expect("a new worker");
    let status = supervisor.status().remove(0);
    assert_ne!(status.pid, Some(first));
    assert!(status.last_crash.is_some_and(|crash| crash.reason.contains("device_lost")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_a_real_load_and_of_a_real_answer_is_survived() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(config());
    let slow_load = LaunchSpec { options: vec![("open_ms".into(), "3000".into())], ..ngram("a") };
    let loading = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.lease(slow_load).await.map(drop) }
    });
    let pid = || supervisor.status().first().and_then(|status| status.pid);
    eventually("it loads", Duration::from_secs(3), || pid().is_some()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    kill(pid().expect("a process"), 9);
    assert!(matches!(loading.await.expect("no panic"), Err(WorkerError::Died(_))));

    let lease = supervisor.lease(slow_ngram("a", 2000)).await.expect("a lease");
    let mut ask = request("The ");
    ask.ignore_eos = true;
    ask.max_tokens = Some(400);
    let mut generation = lease.generate(ask).await.expect("a generation");
    for _ in 0..10 {
        generation.next().await.expect("an event").expect("no error");
    }
    kill(pid().expect("a process"), 9);
    assert!(matches!(collect(generation).await.2, Err(WorkerError::Died(_))));
    assert!(matches!(collect(lease.generate(request("Hello")).await.expect("a generation")).await.2, Ok(Event::Finished(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_frees_its_slot_for_the_next_one() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(config());
    let spec = LaunchSpec { slots: 1, ..slow_ngram("a", 1000) };
    let lease = supervisor.lease(spec).await.expect("a lease");
    for round in 0..100 {
        let mut ask = request("The ");
        ask.ignore_eos = true;
        let mut generation = lease.generate(ask).await.expect("a generation");
        if round % 2 == 0 {
            generation.next().await.expect("an event").expect("no error");
        }
        drop(generation);
        let start = Instant::now();
        let mut short = request("Hello");
        short.max_tokens = Some(1);
        assert!(matches!(collect(lease.generate(short).await.expect("a generation")).await.2, Ok(Event::Finished(_))));
        assert!(start.elapsed() < Duration::from_millis(500), "round {round}: {:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_clients_on_four_slots_some_leaving_early_and_none_is_lost() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(config());
    let spec = slow_ngram("a", 300);
    let clients = (0..64).map(|n| {
        let (supervisor, spec) = (supervisor.clone(), spec.clone());
        tokio::spawn(async move {
            let lease = supervisor.lease(spec).await.expect("a lease");
            let mut generation = lease.generate(request("Hello")).await.expect("a generation");
            match n % 4 {
                // At once, or after the first piece.
                1 => return None,
                2 => {
                    generation.next().await.expect("an event").expect("no error");
                    return None;
                }
                _ => {}
            }
            let (text, _, last) = collect(generation).await;
            assert!(matches!(last, Ok(Event::Finished(_))), "{last:?}");
            Some(text)
        })
    });
    let mut answers = 0;
    for client in clients.collect::<Vec<_>>() {
        if let Some(text) = client.await.expect("no client is lost") {
            assert_eq!(text, " you.");
            answers += 1;
        }
    }
    assert_eq!(answers, 32);
    eventually("the worker is idle", Duration::from_secs(2), || {
        let status = supervisor.status().remove(0);
        status.active == 0 && status.waiting == 0
    })
    .await;
    assert_eq!(supervisor.depth("a"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_real_loads_leave_no_child_and_no_memory() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(config());
    let mut spec = ngram("a");
    spec.keep_alive = KeepAlive::For(Duration::ZERO);
    let cycle = async |n: usize| {
        for _ in 0..n {
            assert_eq!(answer(&supervisor, spec.clone(), "Hello").await.expect("an answer"), " you.");
            eventually("it is unloaded", Duration::from_secs(3), || supervisor.status().is_empty()).await;
        }
    };
    cycle(10).await;
    let before = rss_bytes();
    cycle(100).await;
    assert!(children().is_empty());
    let grown = rss_bytes().saturating_sub(before);
    assert!(grown < 5 * 1024 * 1024, "grew by {grown} bytes");
}

/// Starts a host in a process of its own, with a worker that serves `model`, and gives back both process ids.
fn small_host(plugin: &Path, id: &str, model: &Path) -> (std::process::Child, u32) {
    let mut host = Command::new(example("small_host"))
        .args([example("worker").as_path(), plugin, Path::new(id), Path::new(VERSION), model])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the host starts");
    let mut line = String::new();
    BufReader::new(host.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    (host, line.trim().parse().expect("a process id"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_host_takes_its_workers_along_within_two_seconds() {
    let _alone = alone().await;
    let hanging = onebit_faults::faulty_model(&plugins().root, "hang-forward").expect("a model");
    for (plugin, id, model) in [(&plugins().ngram, "ngram", &plugins().story), (&plugins().faulty, "faulty", &hanging)] {
        let (mut host, worker) = small_host(plugin, id, model);
        assert!(alive(worker));
        host.kill().expect("killed");
        host.wait().expect("reaped");
        eventually("the worker is gone", Duration::from_secs(2), || !alive(worker)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_socket_closes_ends_even_while_its_plugin_hangs() {
    let _alone = alone().await;
    // The parent lives on here, so that only the socket can tell the worker.
    for fault in ["hang-open", "hang-forward"] {
        let spec = faulty(fault);
        let (mut ours, theirs) = UnixStream::pair().expect("sockets");
        let mut worker = Command::new(example("worker")).stdin(OwnedFd::from(theirs)).stderr(Stdio::null()).spawn().expect("a worker");
        let order = LoadOrder {
            model: spec.model,
            model_path: spec.model_path,
            plugin_dir: spec.plugin_dir,
            trust: onebit_loader::trust::Trust::default(),
            seen: Vec::new(),
            plugin_id: spec.plugin_id,
            plugin_version: spec.plugin_version,
            device: spec.device,
            options: spec.options,
            context: Some(100),
            slots: 1,
            threads: None,
            prefix_cache: true,
            chat_template: None,
        };
        let ask = ToWorker::Generate { id: 1, request_id: "r".into(), request: Box::new(request("A")) };
        for frame in [encode(&Hello::ours()), encode(&ToWorker::Load { order: Box::new(order), sandbox: Box::default() }), encode(&ask)] {
            ours.write_all(&frame.expect("fits")).expect("written");
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(worker.try_wait().expect("a status").is_none(), "{fault}: it hangs");
        let start = Instant::now();
        drop(ours);
        while worker.try_wait().expect("a status").is_none() {
            assert!(start.elapsed() < Duration::from_secs(2), "{fault}: it is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[test]
fn the_hidden_command_started_by_hand_says_what_it_is() {
    for stdin in [Stdio::null(), Stdio::piped()] {
        let output = Command::new(example("worker")).stdin(stdin).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("is started by onebit-host itself"));
    }
}
