//! The golden answers of the demo model, through the API.

use onebit_tests::client::{finish_reason, joined};
use onebit_tests::server::Home;
use serde_json::json;

use crate::{continuation, question, with};

/// Greedy continuations as llama.cpp's CPU kernels give them: prompt, its tokens, beginning of the answer. The file is 4-bit, and another
/// kernel's rounding may take another way after some tokens, so only the beginning is compared.
const GOLDEN: &[(&str, &[u32], &str)] = &[
    ("The capital of France is", &[504, 3575, 282, 4649, 314], " Paris.\n\nThe United States has a population of approximately"),
    ("Gravity is", &[22007, 6463, 314], " a fundamental concept in physics that describes the curvature of spacetime"),
    ("Once upon a time, there was a little", &[6403, 1980, 253, 655, 28, 665, 436, 253, 1838], " girl named Emma who loved to play in the"),
];

#[test]
fn golden_prompts_have_their_tokens_and_their_continuation() {
    let server = Home::with_model().serve();
    let client = server.client();
    for (prompt, ids, expected) in GOLDEN {
        let from_text = client.post("/v1/completions", &continuation(*prompt, 24)).good();
        let from_ids = client.post("/v1/completions", &continuation(json!(ids), 24)).good();
        let text = from_text["choices"][0]["text"].as_str().unwrap();
        assert!(text.starts_with(expected), "{prompt:?} goes on with {text:?}, expected {expected:?}");
        assert_eq!(from_text["usage"]["prompt_tokens"], ids.len());
        assert_eq!(from_ids["choices"][0]["text"], from_text["choices"][0]["text"], "{prompt:?} as text and as ids");
    }
}

#[test]
fn a_chat_answers_the_golden_question_and_says_who_computed_it() {
    let server = Home::with_model().serve();
    let client = server.client();
    let answer = client.post("/v1/chat/completions", &question("What is 2+2?", 40)).good();
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
    assert_eq!(answer["choices"][0]["message"]["content"], "The answer to this classic math problem is 4.");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    // The template's own system message and the question: 37 tokens.
    assert_eq!(answer["usage"]["prompt_tokens"], 37);
    let usage = &answer["usage"];
    assert_eq!(
        usage["total_tokens"].as_u64().unwrap(),
        usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap()
    );
    let by = answer["system_fingerprint"].as_str().unwrap();
    assert!(by.starts_with("vulkan-ggml-") && by.ends_with("/cpu"), "computed by {by}");

    let events = client.stream("/v1/chat/completions", &with(question("What is 2+2?", 40), &json!({"stream": true}))).all();
    assert_eq!(joined(&events), "The answer to this classic math problem is 4.");
    assert_eq!(finish_reason(&events).as_deref(), Some("stop"));
    assert!(events.iter().all(|event| event["object"] == "chat.completion.chunk" && event["system_fingerprint"] == by));
}

#[test]
fn models_are_listed_and_an_unknown_one_is_404_with_a_suggestion() {
    let server = Home::with_model().serve();
    let client = server.client();
    let list = client.get("/v1/models").good();
    assert!(list["data"].as_array().unwrap().iter().any(|model| model["id"] == onebit_tests::MODEL), "{list}");
    assert_eq!(client.get(&format!("/v1/models/{}", onebit_tests::MODEL)).good()["id"], onebit_tests::MODEL);
    assert_eq!(client.get("/v1/models/nobody").status, 404);
    let answer = client.post("/v1/chat/completions", &with(question("Hi", 1), &json!({"model": "smollm2:136m"})));
    assert_eq!(answer.status, 404);
    assert!(answer.error().contains(onebit_tests::MODEL), "no suggestion in {}", answer.text);
    assert_eq!(answer.json()["error"]["code"], "model_not_found");
}

#[test]
fn the_alias_and_the_name_are_one_model() {
    let server = Home::with_model().serve();
    let client = server.client();
    client.post("/v1/chat/completions", &question("Hi", 1)).good();
    let alias = json!({"model": "smollm2-135m-instruct-q4_1"});
    client.post("/v1/chat/completions", &with(question("Hi", 1), &alias)).good();
    assert_eq!(server.workers().len(), 1, "one worker serves both names");
}

#[test]
fn a_prompt_longer_than_the_context_is_refused_with_both_numbers() {
    let server = Home::with_model().env("ONEBIT_CONTEXT", "256").serve();
    let answer = server.client().post("/v1/chat/completions", &question(&"word ".repeat(2000), 4));
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["code"], "context_length_exceeded");
    let message = answer.error();
    assert!(message.contains("256"), "the context's size is missing: {message}");
    assert!(message.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok()).any(|n| n > 2000), "{message}");
}

#[test]
fn a_context_that_fills_up_ends_the_answer_with_length() {
    let server = Home::with_model().env("ONEBIT_CONTEXT", "64").serve();
    let body = with(continuation("Count: 1 2 3 4 5", 1), &json!({"max_tokens": 4000, "ignore_eos": true}));
    let answer = server.client().post("/v1/completions", &body).good();
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    let total = answer["usage"]["total_tokens"].as_u64().unwrap();
    assert!((60..=65).contains(&total), "{total} tokens in a context of 64");
}

#[test]
fn same_seed_same_answer_and_other_seed_another() {
    let server = Home::with_model().serve();
    let client = server.client();
    let ask = |seed: u64| {
        let body = json!({"temperature": 1.0, "seed": seed, "max_tokens": 32, "ignore_eos": true});
        client.post("/v1/completions", &with(continuation("Once upon a time", 1), &body)).good()["choices"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = ask(7);
    assert_eq!(first, ask(7));
    assert_ne!(first, ask(8));
}
