//! Loading, sharing, leaving, evicting, replacing, draining: the supervisor over scripted workers.

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onebit_engine::Event;
use onebit_worker::{KeepAlive, Lifecycle, MemoryEstimate, Supervisor, SupervisorConfig, UnloadReason, WorkerError, WorkerState};
use support::*;

const MIB: u64 = 1024 * 1024;

fn watched(config: SupervisorConfig) -> (Supervisor, Arc<Mutex<Vec<Lifecycle>>>) {
    let supervisor = Supervisor::new(config);
    let events = Arc::<Mutex<Vec<Lifecycle>>>::default();
    supervisor.observe({
        let events = events.clone();
        move |event| events.lock().expect("lock").push(event.clone())
    });
    (supervisor, events)
}

fn loads(events: &Mutex<Vec<Lifecycle>>) -> usize {
    events.lock().expect("lock").iter().filter(|event| matches!(event, Lifecycle::Loaded { .. })).count()
}

fn states(supervisor: &Supervisor) -> Vec<(String, &'static str)> {
    supervisor.status().iter().map(|status| (status.model.clone(), status.state.name())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_loaded_on_first_use_and_once_for_all_who_wait() {
    let _alone = alone().await;
    let (supervisor, events) = watched(scripted());
    assert!(supervisor.status().is_empty());
    let answers = (0..20).map(|_| {
        let supervisor = supervisor.clone();
        tokio::spawn(async move { answer(&supervisor, spec("a", "slow 200"), "say 3 0").await })
    });
    for answer in answers.collect::<Vec<_>>() {
        assert_eq!(answer.await.expect("no panic").expect("an answer"), "0 1 2 ");
    }
    assert_eq!(loads(&events), 1);
    let status = &supervisor.status()[0];
    assert_eq!((status.state.clone(), status.plugin.as_str(), status.active), (WorkerState::Ready, "script", 0));
    assert!(status.pid.is_some_and(alive) && status.rss_bytes > 0 && status.expires_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_who_leaves_during_a_load_does_not_disturb_the_others() {
    let _alone = alone().await;
    let (supervisor, events) = watched(scripted());
    let first = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { answer(&supervisor, spec("a", "slow 400"), "say 1 0").await }
    });
    eventually("the load begins", Duration::from_secs(2), || !supervisor.status().is_empty()).await;
    let second = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { answer(&supervisor, spec("a", "slow 400"), "say 2 0").await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    first.abort();
    assert_eq!(second.await.expect("no panic").expect("an answer"), "0 1 ");
    assert_eq!(loads(&events), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_nobody_waits_for_any_more_is_given_up() {
    let _alone = alone().await;
    let (supervisor, events) = watched(scripted());
    let only = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.lease(spec("a", "slow 5000")).await.map(drop) }
    });
    eventually("the worker runs", Duration::from_secs(2), || supervisor.status().iter().any(|status| status.pid.is_some())).await;
    let pid = supervisor.status()[0].pid.expect("a process");
    only.abort();
    eventually("the worker is gone", Duration::from_secs(2), || !alive(pid)).await;
    eventually("no model is left", Duration::from_secs(1), || supervisor.status().is_empty()).await;
    assert_eq!(events.lock().expect("lock").len(), 0, "a load that was given up is no failure");
    // And the next one is served.
    assert_eq!(answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer"), "0 ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_load_is_unloaded_under_it_is_served_by_another_load() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(scripted());
    let waiting = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { answer(&supervisor, spec("a", "slow 400"), "say 1 0").await }
    });
    eventually("the worker runs", Duration::from_secs(2), || supervisor.status().iter().any(|status| status.pid.is_some())).await;
    let first = supervisor.status()[0].pid;
    assert!(supervisor.unload("a").await);
    assert_eq!(waiting.await.expect("no panic").expect("an answer"), "0 ");
    assert_ne!(supervisor.status()[0].pid, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_of_a_load_is_shown() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(scripted());
    let lease = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.lease(spec("a", "slow 1000")).await.map(drop) }
    });
    let mut seen = Vec::new();
    while !lease.is_finished() {
        if let Some(WorkerState::Loading { progress }) = supervisor.status().first().map(|status| status.state.clone()) {
            seen.push(progress);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lease.await.expect("no panic").expect("loaded");
    seen.dedup();
    assert!(seen.len() >= 5 && seen.iter().all(|fraction| (0.0..=1.0).contains(fraction)), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keep_alive_zero_unloads_right_after_the_answer_and_not_before() {
    let _alone = alone().await;
    let (supervisor, events) = watched(scripted());
    let mut spec = spec("a", "");
    spec.keep_alive = KeepAlive::For(Duration::ZERO);
    let lease = supervisor.lease(spec.clone()).await.expect("a lease");
    let pid = supervisor.status()[0].pid.expect("a process");
    let generation = lease.generate(request("say 20 10")).await.expect("a generation");
    drop(lease);
    let (text, tokens, last) = collect(generation).await;
    assert!(matches!(last, Ok(Event::Finished(_))) && tokens == 20, "{text}: the running answer keeps its model");
    eventually("it is unloaded", Duration::from_secs(2), || supervisor.status().is_empty() && !alive(pid)).await;
    assert!(events.lock().expect("lock").contains(&Lifecycle::Unloaded { model: "a".into(), reason: UnloadReason::Idle }));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_keep_alive_starts_again_with_each_answer() {
    let _alone = alone().await;
    let (supervisor, events) = watched(scripted());
    let mut spec = spec("a", "");
    spec.keep_alive = KeepAlive::For(Duration::from_millis(400));
    for _ in 0..4 {
        answer(&supervisor, spec.clone(), "say 1 0").await.expect("an answer");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert_eq!(loads(&events), 1, "it never expired in between");
    eventually("it expires", Duration::from_secs(2), || supervisor.status().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_stays_has_no_end_and_comes_back_by_itself_after_a_crash() {
    let _alone = alone().await;
    let (supervisor, events) = watched(scripted());
    let mut spec = spec("a", "");
    spec.keep_alive = KeepAlive::Forever;
    answer(&supervisor, spec.clone(), "say 1 0").await.expect("an answer");
    let status = supervisor.status().remove(0);
    assert_eq!(status.expires_at, None);
    let pid = status.pid.expect("a process");
    kill(pid, 9);
    eventually("it is back", Duration::from_secs(3), || {
        supervisor.status().first().is_some_and(|status| status.state == WorkerState::Ready && status.pid != Some(pid))
    })
    .await;
    let status = supervisor.status().remove(0);
    assert_eq!(status.restarts, 1);
    assert!(status.last_crash.is_some_and(|crash| crash.reason.contains("SIGKILL") && crash.reason.contains("idle")));
    assert_eq!(loads(&events), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_used_longest_ago_leaves_for_a_newcomer_that_does_not_fit() {
    let _alone = alone().await;
    let (supervisor, events) = watched(SupervisorConfig { memory_budget: Some(1000 * MIB), ..scripted() });
    let sized = |model: &str, mib: u64| {
        let mut spec = spec(model, "");
        spec.estimate = MemoryEstimate { host_bytes: mib * MIB, device_bytes: 0 };
        spec.env.push(("SCRIPT_RSS".into(), (mib * MIB).to_string()));
        spec
    };
    for model in ["a", "b", "a"] {
        answer(&supervisor, sized(model, 400), "say 1 0").await.expect("an answer");
    }
    answer(&supervisor, sized("c", 400), "say 1 0").await.expect("an answer");
    assert_eq!(states(&supervisor), [("a".to_owned(), "ready"), ("c".to_owned(), "ready")], "b was used longest ago");
    assert!(events.lock().expect("lock").contains(&Lifecycle::Unloaded { model: "b".into(), reason: UnloadReason::Evicted }));

    // What can never fit is refused at once, with numbers, and nobody has to go for it.
    let start = Instant::now();
    match supervisor.lease(sized("d", 1200)).await {
        Err(WorkerError::NoMemory { want, free, holders, .. }) => {
            assert_eq!((want, free), (1200 * MIB, 200 * MIB));
            assert_eq!(holders.len(), 2);
        }
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(states(&supervisor).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_model_is_not_evicted_the_newcomer_waits_for_it() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(SupervisorConfig { max_loaded: Some(1), ..scripted() });
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let generation = lease.generate(request("say 50 10")).await.expect("a generation");
    drop(lease);
    let newcomer = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { answer(&supervisor, spec("b", ""), "say 1 0").await }
    });
    let (_, tokens, last) = collect(generation).await;
    assert!(matches!(last, Ok(Event::Finished(_))) && tokens == 50);
    newcomer.await.expect("no panic").expect("an answer");
    assert_eq!(states(&supervisor), [("b".to_owned(), "ready")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_whose_patience_ends_is_told_who_holds_the_place() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(SupervisorConfig { max_loaded: Some(1), memory_patience: Duration::from_millis(200), ..scripted() });
    let _lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    match supervisor.lease(spec("b", "")).await {
        Err(WorkerError::NoMemory { holders, .. }) => assert_eq!(holders, ["a"]),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_with_its_depth_and_when_to_come_back() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(SupervisorConfig { max_queue: 2, ..scripted() });
    let mut spec = spec("a", "");
    spec.slots = 1;
    let lease = supervisor.lease(spec.clone()).await.expect("a lease");
    let running = lease.generate(request("say 1000 10")).await.expect("a generation");
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(supervisor.lease(spec.clone()).await.expect("a place"));
    }
    let positions = std::iter::once(&lease).chain(&waiting).map(onebit_worker::Lease::queue_position);
    assert_eq!(positions.collect::<Vec<_>>(), [0, 1, 2]);
    match supervisor.lease(spec.clone()).await {
        Err(error @ WorkerError::QueueFull { depth: 3, .. }) => assert!(error.retry_after().is_some()),
        other => panic!("{other:?}"),
    }
    // A second answer on a lease needs a place too.
    assert!(matches!(lease.generate(request("say 1 0")).await, Err(WorkerError::QueueFull { .. })));
    drop(running);
    supervisor.lease(spec).await.expect("a place is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_begin_by_its_deadline_is_not_waited_for() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(SupervisorConfig { step_stall: Duration::from_secs(30), ..scripted() });
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease").by(tokio::time::Instant::now() + Duration::from_millis(300));
    let waiting = lease.generate(request("wait")).await.expect("a generation");
    let begun = lease.generate(request("say 50 10")).await.expect("a generation");
    let (waiting, begun) = tokio::join!(collect(waiting), collect(begun));
    assert!(matches!(waiting.2, Err(WorkerError::Deadline { waited, .. }) if waited < Duration::from_secs(1)), "{waiting:?}");
    assert!(matches!(begun.2, Ok(Event::Finished(_))), "what has begun may take its time: {begun:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_a_generation_cancels_it_in_the_worker() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(scripted());
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let mut generation = lease.generate(request("say 100000 10")).await.expect("a generation");
    generation.next().await.expect("an event").expect("no error");
    assert_eq!(supervisor.status()[0].waiting + supervisor.status()[0].active, 1);
    drop(generation);
    eventually("the worker has confirmed", Duration::from_millis(500), || supervisor.status()[0].waiting == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_has_the_new_one_up_before_the_old_one_goes() {
    let _alone = alone().await;
    let (supervisor, events) = watched(scripted());
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let old = supervisor.status()[0].pid;
    let running = lease.generate(request("say 80 10")).await.expect("a generation");
    drop(lease);
    supervisor.reload(spec("a", "slow 100")).await.expect("reloaded");
    assert_eq!(states(&supervisor), [("a".to_owned(), "ready"), ("a".to_owned(), "draining")]);
    assert_ne!(supervisor.status()[0].pid, old);
    let (_, tokens, last) = collect(running).await;
    assert!(matches!(last, Ok(Event::Finished(_))) && tokens == 80, "the running answer was finished by the old one");
    eventually("the old one is gone", Duration::from_secs(2), || states(&supervisor).len() == 1).await;
    assert!(events.lock().expect("lock").contains(&Lifecycle::Unloaded { model: "a".into(), reason: UnloadReason::Replaced }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_fails_leaves_the_old_one_in_place() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(scripted());
    answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer");
    let old = supervisor.status()[0].pid;
    match supervisor.reload(spec("a", "refuse")).await {
        Err(WorkerError::Load { failure, .. }) => assert_eq!(failure.status, "corrupt_model"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(supervisor.reload(spec("a", "crash")).await, Err(WorkerError::Died(_))));
    assert_eq!(supervisor.status()[0].pid, old);
    assert_eq!(answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer"), "0 ");
    assert_eq!(children().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_other_settings_gets_them_and_the_old_worker_goes() {
    let _alone = alone().await;
    let (supervisor, events) = watched(scripted());
    answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer");
    let mut other = spec("a", "");
    other.context = Some(77);
    // Ten at once: one replacement.
    let leases = (0..10).map(|_| {
        tokio::spawn({
            let (supervisor, other) = (supervisor.clone(), other.clone());
            async move { supervisor.lease(other).await }
        })
    });
    for lease in leases.collect::<Vec<_>>() {
        assert_eq!(lease.await.expect("no panic").expect("a lease").facts().context, 77);
    }
    assert_eq!(loads(&events), 2);
    eventually("one is left", Duration::from_secs(2), || states(&supervisor).len() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unload_lets_the_running_answer_finish_within_the_patience() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(SupervisorConfig { unload_patience: Duration::from_millis(300), ..scripted() });
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let short = lease.generate(request("say 10 10")).await.expect("a generation");
    let long = lease.generate(request("say 1000 10")).await.expect("a generation");
    drop(lease);
    let unload = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.unload("a").await }
    });
    assert!(matches!(collect(short).await.2, Ok(Event::Finished(_))));
    assert!(matches!(collect(long).await.2, Err(WorkerError::Draining { .. })));
    assert!(unload.await.expect("no panic"));
    assert!(children().is_empty());
    assert!(!supervisor.unload("a").await, "it is not loaded any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_ignores_every_request_to_end_is_killed_and_reaped() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(scripted());
    // The script ignores the message; SIGTERM is not handled and ends it.
    answer(&supervisor, spec("a", "stubborn"), "say 1 0").await.expect("an answer");
    let start = Instant::now();
    assert!(supervisor.unload("a").await);
    assert!(start.elapsed() < Duration::from_secs(2));
    // A stopped process does not even see SIGTERM.
    answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer");
    kill(supervisor.status()[0].pid.expect("a process"), 19);
    assert!(supervisor.unload("a").await);
    assert!(children().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_finishes_what_runs_refuses_what_is_new_and_leaves_no_process() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(scripted());
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let short = lease.generate(request("say 20 10")).await.expect("a generation");
    drop(lease);
    let loading = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.lease(spec("b", "slow 5000")).await.map(drop) }
    });
    eventually("b loads", Duration::from_secs(2), || states(&supervisor).len() == 2).await;
    let drain = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.drain(Duration::from_secs(5)).await }
    });
    assert!(matches!(loading.await.expect("no panic"), Err(WorkerError::Draining { .. })));
    assert!(matches!(supervisor.lease(spec("c", "")).await, Err(WorkerError::Draining { .. })));
    assert!(matches!(collect(short).await.2, Ok(Event::Finished(_))));
    drain.await.expect("no panic");
    assert!(children().is_empty());
    assert!(supervisor.status().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_in_time_even_if_an_answer_does_not() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(scripted());
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let endless = lease.generate(request("say 100000 10")).await.expect("a generation");
    let start = Instant::now();
    supervisor.drain(Duration::from_millis(300)).await;
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(matches!(collect(endless).await.2, Err(WorkerError::Draining { .. })));
    assert!(children().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_supervisor_takes_its_workers_along() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(scripted());
    answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer");
    let pid = supervisor.status()[0].pid.expect("a process");
    drop(supervisor);
    eventually("the worker is gone", Duration::from_secs(2), || !alive(pid) && children().is_empty()).await;
}

#[test]
fn a_runtime_that_ends_takes_its_workers_along() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _alone = runtime.block_on(alone());
    let supervisor = runtime.block_on(async {
        let supervisor = Supervisor::new(scripted());
        answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer");
        supervisor
    });
    let pid = supervisor.status()[0].pid.expect("a process");
    drop(runtime);
    assert!(!alive(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_loads_and_unloads_leave_no_child_no_descriptor_and_no_memory() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(scripted());
    let descriptors = || std::fs::read_dir("/proc/self/fd").expect("fd").count();
    let cycle = async |n: usize| {
        for _ in 0..n {
            answer(&supervisor, spec("a", ""), "say 5 0").await.expect("an answer");
            assert!(supervisor.unload("a").await);
            assert!(matches!(answer(&supervisor, spec("b", "refuse"), "").await, Err(WorkerError::Load { .. })));
            supervisor.unload("b").await;
        }
    };
    cycle(20).await;
    let (rss, fds) = (rss_bytes(), descriptors());
    cycle(100).await;
    assert!(children().is_empty());
    // A few belong to tests that wait for their turn; a leak would be hundreds.
    assert!(descriptors() < fds + 20, "{} descriptors, {fds} before", descriptors());
    let grown = rss_bytes().saturating_sub(rss);
    assert!(grown < 5 * MIB, "grew by {grown} bytes");
}
