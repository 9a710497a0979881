//! What was computed before: told in every API, and shared within a key.

use onebit_engine::{Event, FinishReason, Finished, GenerateRequest, Timings, Usage};
use onebit_http::HttpConfig;
use serde_json::{Value, json};

use super::client::{get, post};
use super::keys::{KeyFile, as_key};
use super::script::{Script, Step, config, greeting, serve, serve_with};

/// Seven tokens, of which five were there.
fn found(request: &GenerateRequest) -> Vec<Step> {
    let steps = greeting(request).into_iter().map(|step| match step {
        Step::Event(Event::Started { .. }) => Step::Event(Event::Started { prompt_tokens: 7, cached_tokens: 5 }),
        Step::Event(Event::Finished(_)) => {
            let usage = Usage { prompt_tokens: 7, cached_tokens: 5, completion_tokens: 4 };
            Step::Event(Event::Finished(Finished { reason: FinishReason::EndOfGeneration, usage, timings: Timings::default() }))
        }
        other => other,
    });
    steps.collect()
}

#[tokio::test]
async fn what_was_found_is_told_in_every_api() {
    let server = serve(&Script::new(found)).await;
    let said = json!([{"role": "user", "content": "Hi"}]);
    let chat = json!({"model": "demo", "messages": said});
    let usage = |answer: Value| answer["usage"].clone();
    let openai = usage(post(server.port(), "/v1/chat/completions", &chat).await.json());
    assert_eq!((&openai["prompt_tokens"], &openai["prompt_tokens_details"]["cached_tokens"]), (&json!(7), &json!(5)));
    let responses = usage(post(server.port(), "/v1/responses", &json!({"model": "demo", "input": "Hi", "store": false})).await.json());
    assert_eq!((&responses["input_tokens"], &responses["input_tokens_details"]["cached_tokens"]), (&json!(7), &json!(5)));
    // Anthropic counts them apart.
    let mut messages = json!({"model": "demo", "max_tokens": 9, "messages": said});
    let anthropic = usage(post(server.port(), "/v1/messages", &messages).await.json());
    assert_eq!((&anthropic["input_tokens"], &anthropic["cache_read_input_tokens"]), (&json!(2), &json!(5)));
    messages["stream"] = json!(true);
    let stream = post(server.port(), "/v1/messages", &messages).await;
    let start = stream.text().lines().find_map(|line| line.strip_prefix("data: ")?.contains("message_start").then(|| line[6..].to_owned()));
    let start: Value = serde_json::from_str(&start.unwrap()).unwrap();
    assert_eq!(start["message"]["usage"]["cache_read_input_tokens"], 5);
    let metrics = get(server.port(), "/metrics").await.text();
    assert!(metrics.contains("onebit_cached_prompt_tokens_total{model=\"org/demo:1b\"} 20"), "{metrics}");
}

#[tokio::test]
async fn prefixes_are_shared_within_a_key_unless_the_configuration_says_with_all() {
    let file = KeyFile::new(&[("alice", "inference", ""), ("bob", "inference", "")]);
    let body = json!({"model": "demo", "prompt": "Hi"}).to_string();
    for (share_prefixes, expected) in [(false, [Some("alice"), Some("bob")]), (true, [None, None])] {
        let script = Script::new(greeting);
        let server = serve_with(&script, HttpConfig { share_prefixes, ..file.config() }).await;
        for key in ["alice", "bob"] {
            assert_eq!(as_key(&server, key, "POST", "/v1/completions", body.as_bytes()).await.status, 200);
        }
        let scopes: Vec<Option<String>> = script.asked().into_iter().map(|request| request.scope).collect();
        assert_eq!(scopes, expected.map(|name| name.map(str::to_owned)));
    }
    // Where no key is needed there is nobody to keep it from.
    let script = Script::new(greeting);
    let server = serve_with(&script, config()).await;
    post(server.port(), "/v1/completions", &json!({"model": "demo", "prompt": "Hi"})).await;
    assert_eq!(script.asked()[0].scope, None);
}
