//! Requests and answers as OpenAI's API describes them, in the corners where servers differ.

use onebit_tests::client::joined;
use onebit_tests::server::Home;
use serde_json::{Value, json};

use crate::{continuation, question, with};

fn tool_history(assistant: Value) -> Value {
    json!({
        "model": onebit_tests::MODEL, "temperature": 0, "max_tokens": 4,
        "messages": [
            {"role": "user", "content": "How high is the tide in Bergen?"},
            assistant,
            {"role": "tool", "tool_call_id": "call_a", "content": "1.4 metres"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "tide", "description": "Height of the tide", "parameters":
            {"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]},
        }}],
    })
}

#[test]
fn a_replayed_tool_call_may_have_no_content() {
    let server = Home::with_model().serve();
    let client = server.client();
    let calls = json!([{"id": "call_a", "type": "function", "function": {"name": "tide", "arguments": "{\"harbour\":\"Bergen\"}"}}]);
    let forms = [
        json!({"role": "assistant", "content": null, "tool_calls": calls}),
        json!({"role": "assistant", "tool_calls": calls}),
        json!({"role": "assistant", "content": "", "tool_calls": calls}),
    ];
    let mut tokens = Vec::new();
    for form in forms {
        let mut body = tool_history(form);
        // Offering tools is another matter than having used them: an old history must be readable either way.
        body.as_object_mut().unwrap().remove("tools");
        tokens.push(client.post("/v1/chat/completions", &body).good()["usage"]["prompt_tokens"].clone());
    }
    assert!(tokens.iter().all(|count| *count == tokens[0]), "{tokens:?}");

    let empty = client.post("/v1/chat/completions", &tool_history(json!({"role": "assistant"})));
    assert_eq!(empty.status, 400, "{}", empty.text);
    assert_eq!(empty.json()["error"]["type"], "invalid_request_error");
    let list = client.post("/v1/chat/completions", &tool_history(json!({"role": "assistant", "content": [], "tool_calls": calls})));
    assert!(list.status == 400 || list.status == 200, "{}", list.text);
}

#[test]
fn chat_logprobs_have_one_entry_a_token() {
    let server = Home::with_model().serve();
    let client = server.client();
    let plain = client.post("/v1/chat/completions", &with(question("Say good morning.", 5), &json!({"logprobs": true}))).good();
    let choice = &plain["choices"][0];
    let entries = choice["logprobs"]["content"].as_array().expect("logprobs.content is a list");
    let mut bytes = Vec::new();
    for entry in entries {
        assert!(entry["token"].is_string() && entry["logprob"].as_f64().unwrap() <= 0.0, "{entry}");
        assert_eq!(entry["top_logprobs"], json!([]));
        bytes.extend(entry["bytes"].as_array().unwrap().iter().map(|byte| u8::try_from(byte.as_u64().unwrap()).unwrap()));
    }
    assert_eq!(String::from_utf8(bytes).unwrap(), choice["message"]["content"].as_str().unwrap());

    let two = json!({"logprobs": true, "top_logprobs": 2});
    let best = client.post("/v1/chat/completions", &with(question("Say good morning.", 5), &two)).good();
    for entry in best["choices"][0]["logprobs"]["content"].as_array().unwrap() {
        let top = entry["top_logprobs"].as_array().unwrap();
        assert_eq!(top.len(), 2);
        assert!(top[0]["logprob"].as_f64() >= top[1]["logprob"].as_f64(), "best first: {entry}");
        // Greedy: the token that was taken is the best one.
        assert_eq!(top[0]["token"], entry["token"]);
    }
    for bad in [json!({"logprobs": true, "top_logprobs": 21}), json!({"logprobs": false, "top_logprobs": 2}), json!({"top_logprobs": 2})] {
        let answer = client.post("/v1/chat/completions", &with(question("Hi", 1), &bad));
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text);
        answer.error();
    }
}

#[test]
fn completion_logprobs_have_the_older_shape() {
    let server = Home::with_model().serve();
    let answer = server.client().post("/v1/completions", &with(continuation("The sea", 3), &json!({"logprobs": 2}))).good();
    let logprobs = &answer["choices"][0]["logprobs"];
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(logprobs[name].as_array().map(Vec::len), Some(3), "{name} in {logprobs}");
    }
}

#[test]
fn usage_is_streamed_only_when_it_is_asked_for() {
    let server = Home::with_model().serve();
    let client = server.client();
    let body = |more: Value| with(with(question("Good evening", 3), &json!({"stream": true})), &more);
    for silent in [json!({}), json!({"stream_options": {"include_usage": false}}), json!({"stream_options": null})] {
        let events = client.stream("/v1/chat/completions", &body(silent.clone())).all();
        assert!(events.iter().all(|event| !event["choices"].as_array().unwrap().is_empty()), "{silent}: a chunk without choices");
        assert!(events.iter().all(|event| event.get("usage").is_none_or(Value::is_null)), "{silent}: usage");
    }
    let events = client.stream("/v1/chat/completions", &body(json!({"stream_options": {"include_usage": true}}))).all();
    let (last, others) = events.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(others.iter().all(|event| event["usage"].is_null() && !event["choices"].as_array().unwrap().is_empty()));
    let whole = client.post("/v1/chat/completions", &question("Good evening", 3)).good();
    assert_eq!(last["usage"], whole["usage"]);
    assert_eq!(joined(&events), whole["choices"][0]["message"]["content"].as_str().unwrap());
}

#[test]
fn never_more_tokens_than_asked_for() {
    let server = Home::with_model().serve();
    let client = server.client();
    let mut before = String::new();
    for limit in 0..4 {
        let answer = client.post("/v1/completions", &continuation("b", limit)).good();
        let text = answer["choices"][0]["text"].as_str().unwrap().to_owned();
        assert!(answer["usage"]["completion_tokens"].as_u64().unwrap() <= u64::from(limit), "{answer}");
        assert!(text.starts_with(&before), "{before:?} is no beginning of {text:?}");
        if limit == 0 {
            assert_eq!((text.as_str(), &answer["choices"][0]["finish_reason"]), ("", &json!("length")));
        }
        before = text;
    }
    let none = client.post("/v1/chat/completions", &question("Hi", 0));
    assert!(none.status == 400 || none.good()["usage"]["completion_tokens"] == 0);
    for path in ["/v1/chat/completions", "/v1/completions"] {
        let body = if path.contains("chat") { question("Hi", 1) } else { continuation("Hi", 1) };
        let answer = client.post(path, &with(body, &json!({"max_tokens": -1})));
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
}

#[test]
fn a_bias_for_a_token_that_does_not_exist_hurts_nobody() {
    let server = Home::with_model().serve();
    let client = server.client();
    let many: serde_json::Map<String, Value> = (0..100_000).map(|id| (id.to_string(), json!(1))).collect();
    for bias in [json!({"8888888": 5}), json!({"5": 101}), json!({"5": -101}), json!({"-1": 1}), json!({"five": 1}), Value::Object(many)] {
        let answer = client.post("/v1/chat/completions", &with(question("Hi", 2), &json!({"logit_bias": bias})));
        assert!(answer.status == 400 || answer.status == 200, "{}", answer.text);
        if bias.as_object().unwrap().len() == 1 && bias.get("8888888").is_none() {
            assert_eq!(answer.status, 400, "{bias}");
        }
        client.post("/v1/chat/completions", &question("Hi", 1)).good();
    }
    let forbidden = client.post("/v1/chat/completions", &with(question("What is 2+2?", 12), &json!({"logit_bias": {"1": -100}}))).good();
    assert!(!forbidden["choices"][0]["message"]["content"].as_str().unwrap().is_empty());
}

#[test]
fn several_answers_have_their_own_index() {
    let server = Home::with_model().serve();
    let body = json!({"n": 3, "temperature": 1.0, "seed": 11});
    let answer = server.client().post("/v1/chat/completions", &with(question("Name a colour.", 8), &body)).good();
    let choices = answer["choices"].as_array().unwrap();
    let mut indices: Vec<u64> = choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 1, 2]);
}
