//! Every way a worker can end without being asked, and what its users see of it: the supervisor over scripted workers.

mod support;

use std::time::{Duration, Instant};

use onebit_engine::Event;
use onebit_worker::{Cause, Death, RestartPolicy, Supervisor, SupervisorConfig, WorkerError, WorkerState};
use support::*;

fn died(error: WorkerError) -> Death {
    match error {
        WorkerError::Died(death) => *death,
        other => panic!("{other:?}"),
    }
}

/// A supervisor whose breaker does not get in the way.
fn patient() -> Supervisor {
    let restart = RestartPolicy { crashes: 1000, first_delay: Duration::from_millis(10), ..RestartPolicy::default() };
    Supervisor::new(SupervisorConfig { restart, ..scripted() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segfault_in_a_load_names_the_signal_the_progress_and_the_last_line() {
    let _alone = alone().await;
    let supervisor = patient();
    let death = died(supervisor.lease(spec("a", "crash")).await.expect_err("it crashes"));
    assert!(matches!(death.cause, Cause::Signal { number: 11, .. }));
    assert_eq!((death.plugin.as_str(), death.plugin_version.as_str(), death.activity.as_str()), ("script", "0.1.0", "loading (25 %)"));
    assert_eq!(death.last_lines, "the weights look strange\n");
    assert!(death.to_string().contains("SIGSEGV") && death.to_string().contains("its last words: the weights look strange"), "{death}");
    assert!(children().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_with_status_zero_during_a_load_is_a_death_and_not_a_success() {
    let _alone = alone().await;
    let supervisor = patient();
    assert_eq!(died(supervisor.lease(spec("a", "exit 0")).await.expect_err("it ends")).cause, Cause::Status(0));
    assert_eq!(died(supervisor.lease(spec("a", "exit 3")).await.expect_err("it ends")).cause, Cause::Status(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_comes_with_the_plugins_own_status_and_numbers() {
    let _alone = alone().await;
    let supervisor = patient();
    let error = supervisor.lease(spec("a", "refuse")).await.expect_err("it refuses");
    let WorkerError::Load { failure, .. } = &error else { panic!("{error:?}") };
    assert_eq!((failure.status.as_str(), failure.have, failure.need), ("corrupt_model", 48, 1000));
    assert!(error.to_string().contains("the file ends after 48 bytes"));
    // A burst of requests for the same broken file costs one load; it is no crash.
    let start = Instant::now();
    for _ in 0..100 {
        assert!(matches!(supervisor.lease(spec("a", "refuse")).await, Err(WorkerError::Load { .. })));
    }
    assert!(start.elapsed() < Duration::from_millis(500));
    assert!(matches!(supervisor.status()[0].state, WorkerState::Failed { .. }));
    assert_eq!(supervisor.status()[0].last_crash, None);
    // A moment later, or when asked to, it is tried again.
    supervisor.reload(spec("a", "")).await.expect("repaired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hang_in_a_load_is_ended_and_says_for_how_long_nothing_happened() {
    let _alone = alone().await;
    let supervisor = patient();
    match supervisor.lease(spec("a", "hang")).await {
        Err(WorkerError::Hang(hang)) => {
            assert_eq!((hang.activity.as_str(), hang.stalled), ("loading (25 %)", Duration::from_millis(700)));
        }
        other => panic!("{other:?}"),
    }
    assert!(children().is_empty());
    // A slow load that moves on is none.
    supervisor.lease(spec("b", "slow 2000")).await.expect("slow but alive");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_no_worker_or_another_build_is_told_apart() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(SupervisorConfig { greeting_patience: Duration::from_millis(500), ..scripted() });
    let death = died(supervisor.lease(spec("a", "not-a-worker")).await.expect_err("no worker"));
    assert_eq!((death.cause, death.activity.as_str()), (Cause::Status(2), "starting"));
    assert_eq!(death.last_lines, "error: unrecognised subcommand 'worker'\n");
    assert!(matches!(supervisor.lease(spec("b", "silent")).await, Err(WorkerError::Hang(hang)) if hang.activity == "starting"));
    let error = supervisor.lease(spec("c", "another-build")).await.expect_err("another build");
    assert!(matches!(&error, WorkerError::BuildMismatch { worker_protocol: 999, .. }));
    assert!(error.to_string().contains("restart onebit-host"));
    let config = SupervisorConfig { exe: Some("/no/such/program".into()), ..scripted() };
    assert!(matches!(Supervisor::new(config).lease(spec("d", "")).await, Err(WorkerError::Spawn { .. })));
    assert!(children().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_in_the_middle_of_an_answer_is_a_typed_error_and_the_next_request_works() {
    let _alone = alone().await;
    let supervisor = patient();
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let bystander = lease.generate(request("say 10000 10")).await.expect("a generation");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let victim = lease.generate(request("kill 11 3")).await.expect("a generation");
    let (_, tokens, last) = collect(victim).await;
    let death = died(last.expect_err("it died"));
    assert_eq!(tokens, 3, "what had come before is not lost");
    assert!(matches!(death.cause, Cause::Signal { number: 11, .. }), "{death}");
    assert_eq!((death.activity.as_str(), death.last_lines.as_str()), ("computing 2 requests", "about to receive signal 11\n"));
    assert!(matches!(collect(bystander).await.2, Err(WorkerError::Died(_))));
    // The same lease serves on, on a new worker.
    let (text, _, last) = collect(lease.generate(request("say 2 0")).await.expect("a generation")).await;
    assert!(matches!(last, Ok(Event::Finished(_))) && text == "0 1 ");
    assert_eq!(supervisor.status()[0].restarts, 1);
    assert_eq!(children().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_from_outside_mid_stream_is_seen_at_once() {
    let _alone = alone().await;
    let supervisor = patient();
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let mut generation = lease.generate(request("say 10000 5")).await.expect("a generation");
    for _ in 0..5 {
        generation.next().await.expect("an event").expect("no error");
    }
    let start = Instant::now();
    kill(supervisor.status()[0].pid.expect("a process"), 9);
    let death = died(collect(generation).await.2.expect_err("killed"));
    assert!(matches!(death.cause, Cause::Signal { number: 9, .. }));
    assert!(start.elapsed() < Duration::from_millis(600), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_from_outside_mid_load_is_a_typed_error_and_the_next_request_works() {
    let _alone = alone().await;
    let supervisor = patient();
    let lease = tokio::spawn({
        let supervisor = supervisor.clone();
        async move { supervisor.lease(spec("a", "slow 3000")).await.map(drop) }
    });
    eventually("it loads", Duration::from_secs(2), || {
        supervisor.status().iter().any(|status| matches!(status.state, WorkerState::Loading { progress } if progress > 0.1))
    })
    .await;
    kill(supervisor.status()[0].pid.expect("a process"), 9);
    let death = died(lease.await.expect("no panic").expect_err("killed"));
    assert!(death.activity.starts_with("loading"));
    answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_not_answered_yet_is_sent_once_more() {
    let _alone = alone().await;
    let supervisor = patient();
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    // Nothing is said before the crash, and the second worker crashes as well: two deaths, then the truth.
    let death = died(collect(lease.generate(request("kill 6 0")).await.expect("a generation")).await.2.expect_err("it died twice"));
    assert!(matches!(death.cause, Cause::Signal { number: 6, .. }));
    answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer");
    assert_eq!(supervisor.status()[0].restarts, 2);

    // A bystander that had not been answered is served by the next worker as if nothing had happened.
    let bystander = lease.generate(request("say 3 400")).await.expect("a generation");
    tokio::time::sleep(Duration::from_millis(50)).await;
    kill(supervisor.status()[0].pid.expect("a process"), 9);
    let (text, _, last) = collect(bystander).await;
    assert!(matches!(last, Ok(Event::Finished(_))) && text == "0 1 2 ", "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_again_when_the_worker_died_in_between() {
    let _alone = alone().await;
    let supervisor = patient();
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    kill(supervisor.status()[0].pid.expect("a process"), 9);
    assert_eq!(lease.encode(request("four").prompt, true).await.expect("tokens"), [4]);
    assert_eq!(lease.decode(vec![1]).await.expect("bytes"), b"text");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hang_in_an_answer_is_ended_and_is_not_given_a_second_chance() {
    let _alone = alone().await;
    let supervisor = patient();
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    match collect(lease.generate(request("hang")).await.expect("a generation")).await.2 {
        Err(WorkerError::Hang(hang)) => {
            assert_eq!(hang.activity, "computing 1 request");
            assert!(hang.stalled >= Duration::from_millis(700) && hang.stalled < Duration::from_secs(3));
        }
        other => panic!("{other:?}"),
    }
    assert!(children().is_empty());
    answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_only_waited_behind_a_hang_is_served_by_the_next_worker() {
    let _alone = alone().await;
    let supervisor = patient();
    let marker = tempfile::tempdir().expect("a folder");
    let mut spec = spec("a", "");
    spec.env.push(("SCRIPT_ONCE".into(), marker.path().join("marker").display().to_string()));
    let lease = supervisor.lease(spec).await.expect("a lease");
    let culprit = lease.generate(request("hang")).await.expect("a generation");
    // The script never says that this one has begun.
    let waiting = lease.generate(request("wait-once 2")).await.expect("a generation");
    let (culprit, waiting) = tokio::join!(collect(culprit), collect(waiting));
    assert!(matches!(culprit.2, Err(WorkerError::Hang(_))));
    assert!(matches!(waiting.2, Ok(Event::Finished(_))) && waiting.0 == "0 1 ", "{waiting:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_leaves_helpers_behind_takes_them_along() {
    let _alone = alone().await;
    let supervisor = patient();
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    // The helper is a `sleep` that the worker starts; its number is the one token.
    let mut generation = lease.generate(request("helper")).await.expect("a generation");
    let helper = loop {
        if let Event::Delta { tokens, .. } = generation.next().await.expect("an event").expect("no error") {
            break tokens[0].id;
        }
    };
    assert!(alive(helper));
    kill(supervisor.status()[0].pid.expect("a process"), 9);
    eventually("the helper is gone", Duration::from_secs(2), || !alive(helper)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hang_over_a_request_whose_client_has_left_is_found_too() {
    let _alone = alone().await;
    let supervisor = patient();
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let pid = supervisor.status()[0].pid.expect("a process");
    drop(lease.generate(request("hang")).await.expect("a generation"));
    eventually("the worker is ended", Duration::from_secs(3), || !alive(pid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_is_not_taken_for_a_hanging_one() {
    let _alone = alone().await;
    let supervisor = patient();
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let pid = supervisor.status()[0].pid;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (_, _, last) = collect(lease.generate(request("say 3 300")).await.expect("a generation")).await;
    assert!(matches!(last, Ok(Event::Finished(_))));
    assert_eq!(supervisor.status()[0].pid, pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_frames_and_huge_lengths_end_the_worker_and_not_the_host() {
    let _alone = alone().await;
    let supervisor = patient();
    assert!(matches!(supervisor.lease(spec("a", "garbage")).await, Err(WorkerError::Protocol { .. })));
    for script in ["garbage", "length"] {
        let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
        match collect(lease.generate(request(script)).await.expect("a generation")).await.2 {
            Err(WorkerError::Protocol { model, .. }) => assert_eq!(model, "a"),
            other => panic!("{script}: {other:?}"),
        }
        assert!(children().is_empty(), "{script}");
        // A lease whose worker broke the protocol is over; a new one is served.
        assert!(lease.generate(request("say 1 0")).await.is_err());
        answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_closes_its_socket_and_stays_is_ended() {
    let _alone = alone().await;
    let supervisor = Supervisor::new(SupervisorConfig { step_stall: Duration::from_secs(10), ..scripted() });
    let lease = supervisor.lease(spec("a", "")).await.expect("a lease");
    let death = died(collect(lease.generate(request("close")).await.expect("a generation")).await.2.expect_err("closed"));
    assert_eq!(death.cause, Cause::HungUp);
    assert_eq!(children().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_crashes_switch_a_model_off_and_say_until_when_and_why() {
    let _alone = alone().await;
    let restart = RestartPolicy {
        crashes: 5,
        first_delay: Duration::from_millis(1),
        open_for: Duration::from_millis(800),
        ..RestartPolicy::default()
    };
    let supervisor = Supervisor::new(SupervisorConfig { restart, ..scripted() });
    for _ in 0..5 {
        died(supervisor.lease(spec("a", "crash")).await.expect_err("it crashes"));
    }
    let start = Instant::now();
    match supervisor.lease(spec("a", "crash")).await {
        Err(error @ WorkerError::CircuitOpen { .. }) => {
            assert!(error.to_string().contains("SIGSEGV") && error.retry_after().is_some(), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < Duration::from_millis(100), "nothing was started");
    assert!(matches!(&supervisor.status()[0].state, WorkerState::Failed { reason, .. } if reason.contains("SIGSEGV")));
    // Other models are not concerned.
    answer(&supervisor, spec("b", ""), "say 1 0").await.expect("an answer");
    tokio::time::sleep(Duration::from_millis(900)).await;
    answer(&supervisor, spec("a", ""), "say 1 0").await.expect("it closes by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unload_by_hand_closes_the_circuit() {
    let _alone = alone().await;
    let restart = RestartPolicy { crashes: 1, ..RestartPolicy::default() };
    let supervisor = Supervisor::new(SupervisorConfig { restart, ..scripted() });
    died(supervisor.lease(spec("a", "crash")).await.expect_err("it crashes"));
    assert!(matches!(supervisor.lease(spec("a", "")).await, Err(WorkerError::CircuitOpen { .. })));
    supervisor.unload("a").await;
    answer(&supervisor, spec("a", ""), "say 1 0").await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_prints_is_a_log_line_and_no_protocol() {
    let _alone = alone().await;
    let supervisor = patient();
    assert_eq!(answer(&supervisor, spec("a", ""), "noise").await.expect("an answer"), "0 ");
}
