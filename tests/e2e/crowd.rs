//! Many clients at once: every answer is right or a typed error, and none is lost.

use std::time::Duration;

use onebit_tests::client::Client;
use onebit_tests::processes;
use onebit_tests::server::Home;
use serde_json::json;

use crate::{continuation, with};

const PROMPTS: [&str; 4] = ["The capital of France is", "Gravity is", "Once upon a time, there was a little", "One, two, three, four,"];

fn text(client: &Client, prompt: &str) -> Result<String, String> {
    let answer = client.try_post("/v1/completions", &continuation(prompt, 12))?;
    match answer.status {
        200 => Ok(answer.json()["choices"][0]["text"].as_str().unwrap().to_owned()),
        503 => {
            assert!(answer.header("retry-after").is_some_and(|value| value.parse::<u64>().is_ok()), "503 without Retry-After");
            answer.error();
            Err("full".into())
        }
        other => panic!("{other}: {}", answer.text),
    }
}

#[test]
fn sixty_four_clients_on_four_slots_all_get_their_own_answer() {
    let server = Home::with_model().env("ONEBIT_SLOTS", "4").env("ONEBIT_CONTEXT", "512").serve();
    let client = server.client();
    let alone: Vec<String> = PROMPTS.iter().map(|prompt| text(&client, prompt).unwrap()).collect();

    let answers: Vec<Option<Result<String, String>>> = std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..64)
            .map(|n| {
                let client = client.clone();
                scope.spawn(move || {
                    if n % 5 == 4 {
                        // One in five leaves after its first event.
                        let body = with(continuation(PROMPTS[n % 4], 200), &json!({"stream": true, "ignore_eos": true}));
                        let mut stream = client.stream("/v1/completions", &body);
                        stream.try_next().unwrap();
                        return None;
                    }
                    Some(text(&client, PROMPTS[n % 4]))
                })
            })
            .collect();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    });

    let mut different = 0;
    for (n, answer) in answers.into_iter().enumerate() {
        match answer {
            None | Some(Err(_)) => {}
            Some(Ok(found)) if found == alone[n % 4] => {}
            Some(Ok(found)) => {
                // Another batch rounds differently, and a near tie may fall the other way; the first words do not.
                let begins = |text: &str| {
                    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).take(2).collect::<Vec<_>>().join(" ")
                };
                assert_eq!(begins(&found), begins(&alone[n % 4]), "request {n}");
                different += 1;
            }
        }
    }
    assert!(different <= 40, "{different} of 51 answers differ from the ones alone");
    assert_eq!(server.workers().len(), 1);
    let worker = server.wait_for_worker();
    processes::eventually("the worker rests", Duration::from_secs(10), || {
        let before = processes::cpu_time_ns(worker);
        std::thread::sleep(Duration::from_millis(200));
        processes::cpu_time_ns(worker) - before < 50_000_000
    });
}

#[test]
fn a_full_queue_is_said_so_with_a_time_to_come_back() {
    let server = Home::with_model().env("ONEBIT_SLOTS", "1").env("ONEBIT_MAX_QUEUE", "2").serve();
    let client = server.client();
    text(&client, PROMPTS[0]).unwrap();
    let outcomes: Vec<Result<String, String>> = std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..24)
            .map(|_| {
                let client = client.clone();
                scope.spawn(move || text(&client, PROMPTS[3]))
            })
            .collect();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    });
    assert!(outcomes.iter().any(Result::is_ok));
    assert!(outcomes.iter().any(|outcome| outcome.as_ref().is_err_and(|why| why == "full")), "24 requests fitted into a queue of 2");
    text(&client, PROMPTS[1]).unwrap();
}
