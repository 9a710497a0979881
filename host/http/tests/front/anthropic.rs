//! `/v1/messages` and models, in Anthropic's shapes.

use std::time::Duration;

use onebit_engine::{EngineError, Event, FinishReason, GenerateRequest};
use onebit_http::models::Defaults;
use serde_json::{Value, json};

use super::client::{Answer, post, raw, request};
use super::script::{PIECES, Script, Step, facts, full, greeting, says, serve, thinker};

const PATH: &str = "/v1/messages";

fn body(more: Value) -> Value {
    let mut body = json!({"model": "demo", "max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn ask(script: &Script, more: Value) -> Answer {
    let server = serve(script).await;
    post(server.port(), PATH, &body(more)).await
}

/// The type of an error after checking that it is a whole error object.
fn error_type(answer: &Answer) -> String {
    let body = answer.json();
    assert_eq!(body["type"], "error", "{body}");
    assert!(!body["error"]["message"].as_str().unwrap_or_default().is_empty(), "{body}");
    assert_eq!(body["request_id"].as_str(), answer.header("request-id"), "{body}");
    body["error"]["type"].as_str().unwrap().to_owned()
}

fn usage(output: u64, thinking: u64) -> Value {
    json!({"input_tokens": 7, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output, "output_tokens_details": {"thinking_tokens": thinking}})
}

fn weather() -> Value {
    json!([{"name": "weather", "description": "d", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}])
}

const CALLS: &[&str] = &[
    "<think>",
    "Ask.",
    "</think>",
    "One moment.",
    "\n<tool_call>\n{\"name\": \"weather\", ",
    "\"arguments\": {\"city\": ",
    "\"Oslo\"}}\n</tool_call>",
];

#[tokio::test]
async fn a_whole_message_has_anthropics_shape_and_says_who_computed() {
    let answer = ask(&Script::new(greeting), json!({})).await;
    assert_eq!(answer.status, 200);
    let json = answer.json();
    assert!(json["id"].as_str().unwrap().starts_with("msg_"));
    let wanted = json!({
        "id": json["id"], "type": "message", "role": "assistant", "model": "org/demo:1b", "content": [{"type": "text", "text": PIECES.concat()}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": usage(4, 0)
    });
    assert_eq!(json, wanted);
    assert_eq!(answer.header("x-onebit-plugin"), Some("scripted"));
    assert_eq!(answer.header("request-id"), answer.header("x-request-id"));
}

#[tokio::test]
async fn a_stream_opens_fills_and_closes_its_block() {
    let answer = ask(&Script::new(greeting), json!({"stream": true})).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.named_events();
    assert!(events.iter().all(|(name, data)| data["type"] == name.as_str()));
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    let mut wanted = vec!["message_start", "content_block_start"];
    wanted.extend(["content_block_delta"; 4]);
    wanted.extend(["content_block_stop", "message_delta", "message_stop"]);
    assert_eq!(names, wanted);
    let message = &events[0].1["message"];
    assert_eq!((&message["content"], &message["stop_reason"], &message["usage"]), (&json!([]), &Value::Null, &usage(0, 0)));
    assert_eq!(events[1].1["content_block"], json!({"type": "text", "text": ""}));
    let text: String = events.iter().filter_map(|(_, data)| data["delta"]["text"].as_str()).collect();
    assert_eq!(text, PIECES.concat());
    let end = &events[7].1;
    assert_eq!((&end["delta"], &end["usage"]), (&json!({"stop_reason": "end_turn", "stop_sequence": null}), &usage(4, 0)));
}

#[tokio::test]
async fn thinking_text_and_calls_are_blocks_of_their_own_whole_and_streamed() {
    let server = serve(&thinker(CALLS)).await;
    let answer = post(server.port(), PATH, &body(json!({"tools": weather()}))).await;
    let json = answer.json();
    let content = json["content"].as_array().unwrap();
    assert_eq!(content[0], json!({"type": "thinking", "thinking": "Ask.", "signature": ""}));
    assert_eq!(content[1], json!({"type": "text", "text": "One moment."}));
    assert!(content[2]["id"].as_str().unwrap().starts_with("toolu_"));
    assert_eq!((&content[2]["name"], &content[2]["input"], content.len()), (&json!("weather"), &json!({"city": "Oslo"}), 3));
    assert_eq!((&json["stop_reason"], &json["usage"]["output_tokens_details"]), (&json!("tool_use"), &json!({"thinking_tokens": 1})));

    let events = post(server.port(), PATH, &body(json!({"tools": weather(), "stream": true}))).await.named_events();
    let started: Vec<&Value> =
        events.iter().filter(|(name, _)| name == "content_block_start").map(|(_, data)| &data["content_block"]).collect();
    assert_eq!(started[0], &json!({"type": "thinking", "thinking": "", "signature": ""}));
    assert_eq!((&started[2]["type"], &started[2]["input"]), (&json!("tool_use"), &json!({})));
    let deltas = |index: u64, field: &str| -> String {
        let own = events.iter().filter(|(name, data)| name == "content_block_delta" && data["index"] == index);
        own.filter_map(|(_, data)| data["delta"][field].as_str()).collect()
    };
    assert_eq!((deltas(0, "thinking").as_str(), deltas(1, "text").as_str()), ("Ask.", "One moment."));
    assert_eq!(serde_json::from_str::<Value>(&deltas(2, "partial_json")).unwrap(), json!({"city": "Oslo"}));
    let signed = events.iter().position(|(_, data)| data["delta"]["type"] == "signature_delta").unwrap();
    assert_eq!((&events[signed].1["index"], events[signed + 1].0.as_str()), (&json!(0), "content_block_stop"));
    // One block at a time, in order.
    let mut open = None;
    for (name, data) in &events {
        match name.as_str() {
            "content_block_start" => assert!(open.replace(data["index"].clone()).is_none()),
            "content_block_delta" => assert_eq!(open, Some(data["index"].clone())),
            "content_block_stop" => assert_eq!(open.take(), Some(data["index"].clone())),
            _ => assert_eq!(open, None),
        }
    }
    let hidden = post(server.port(), PATH, &body(json!({"thinking": {"type": "adaptive", "display": "omitted"}}))).await.json();
    assert_eq!(hidden["content"][0]["type"], "text");
}

#[tokio::test]
async fn a_call_that_breaks_off_is_text_and_no_block_of_it_was_opened() {
    let cut: &[&str] = &["<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": ", "\"Os"];
    let script = Script::new(move |_: &GenerateRequest| says(cut, FinishReason::Length));
    let server = serve(&script).await;
    let json = post(server.port(), PATH, &body(json!({"tools": weather()}))).await.json();
    assert_eq!((&json["content"], &json["stop_reason"]), (&json!([{"type": "text", "text": cut.concat()}]), &json!("max_tokens")));
    let events = post(server.port(), PATH, &body(json!({"tools": weather(), "stream": true}))).await.named_events();
    let started: Vec<&Value> = events.iter().filter_map(|(_, data)| data.get("content_block")).collect();
    assert_eq!(started, [&json!({"type": "text", "text": ""})]);
}

#[tokio::test]
async fn a_client_hears_a_ping_while_a_long_call_is_held_back() {
    let script = Script::new(|_: &GenerateRequest| {
        let mut steps =
            says(&["<tool_call>\n{\"name\": \"weather\", ", "\"arguments\": {", "}}\n</tool_call>"], FinishReason::EndOfGeneration);
        for at in [3, 2] {
            steps.insert(at, Step::Wait(Duration::from_secs(8)));
        }
        steps
    });
    let events = ask(&script, json!({"tools": weather(), "stream": true})).await.named_events();
    let names: Vec<&str> = events.iter().take(3).map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["message_start", "ping", "content_block_start"]);
}

#[tokio::test]
async fn only_a_stop_sequence_of_the_request_is_told() {
    let defaults = Defaults { stop: vec!["own".into()], ..Defaults::default() };
    for (ended_by, reason, sequence) in [("asked", "stop_sequence", json!("asked")), ("own", "end_turn", json!(null))] {
        let script = Script::with(facts(), defaults.clone(), None, move |_: &GenerateRequest| {
            says(&["Hi"], FinishReason::StopString(ended_by.into()))
        });
        let server = serve(&script).await;
        let json = post(server.port(), PATH, &body(json!({"stop_sequences": ["asked"]}))).await.json();
        assert_eq!((&json["stop_reason"], &json["stop_sequence"]), (&json!(reason), &sequence));
        let events = post(server.port(), PATH, &body(json!({"stop_sequences": ["asked"], "stream": true}))).await.named_events();
        let end = events.iter().find(|(name, _)| name == "message_delta").unwrap();
        assert_eq!(end.1["delta"], json!({"stop_reason": reason, "stop_sequence": sequence}));
        assert_eq!(script.asked()[0].stop, ["asked", "own"]);
    }
}

#[tokio::test]
async fn what_is_asked_reaches_the_model() {
    let script = thinker(&["Hi"]);
    let server = serve(&script).await;
    let asked = json!({
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "max_tokens": 2000, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Q"}]}, {"role": "assistant", "content": "The answer is"}]
    });
    assert_eq!(post(server.port(), PATH, &body(asked)).await.status, 200);
    let request = script.asked().remove(0);
    assert_eq!((request.max_tokens, request.sampling.temperature, request.sampling.top_k), (Some(2000), 0.5, 40));
    assert_eq!(request.reasoning.and_then(|reasoning| reasoning.budget), Some(1024));
    let prompt: String = script.last_parts().into_iter().map(|(text, _)| text).collect();
    assert!(prompt.starts_with("<|im_start|>system\nBe brief."), "{prompt}");
    assert!(prompt.ends_with("<|im_start|>assistant\nThe answer is"), "a last message of the assistant is continued: {prompt}");
    let format = json!({"output_config": {"format": {"type": "json_schema", "schema": {"type": "integer"}}}});
    post(server.port(), PATH, &body(format)).await;
    assert!(script.asked().pop().unwrap().constraint.is_some());
    let demanded = json!({"tools": weather(), "tool_choice": {"type": "any", "disable_parallel_tool_use": true}});
    post(server.port(), PATH, &body(demanded)).await;
    assert!(script.asked().pop().unwrap().constraint.is_some());
}

#[tokio::test]
async fn tokens_are_counted_as_a_message_would_be_read() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let answer = post(
        server.port(),
        "/v1/messages/count_tokens",
        &json!({"model": "demo", "messages": [{"role": "user", "content": "one two three"}]}),
    )
    .await;
    // `<|im_start|>system`, `You`, `help.<|im_end|>`, `<|im_start|>user`, three words with an end, `<|im_start|>assistant`.
    assert_eq!((answer.status, answer.json()), (200, json!({"input_tokens": 8})), "{}", answer.text());
    assert!(script.asked().is_empty(), "nothing is generated");
    let wrong = post(server.port(), "/v1/messages/count_tokens", &json!({"model": "demo", "messages": []})).await;
    assert_eq!((wrong.status, error_type(&wrong).as_str()), (400, "invalid_request_error"));
}

#[tokio::test]
async fn models_have_anthropics_shape_for_clients_that_say_its_version() {
    let server = serve(&Script::new(greeting)).await;
    let get = |path: &'static str| {
        let port = server.port();
        async move { raw(port, &request("GET", path, &[("anthropic-version", "2023-06-01")], b"")).await }
    };
    let model = json!({"type": "model", "id": "org/demo:1b", "display_name": "org/demo:1b", "created_at": "2023-11-14T22:13:20Z", "lifecycle": "active"});
    let page = json!({"data": [model], "has_more": false, "first_id": "org/demo:1b", "last_id": "org/demo:1b"});
    assert_eq!(get("/v1/models?limit=5").await.json(), page);
    assert_eq!(get("/v1/models/demo").await.json(), model);
    let unknown = get("/v1/models/nope").await;
    assert_eq!((unknown.status, error_type(&unknown).as_str()), (404, "not_found_error"));
    let wrong = get("/v1/models?limit=0").await;
    assert_eq!((wrong.status, error_type(&wrong).as_str()), (400, "invalid_request_error"));
}

#[tokio::test]
async fn refusals_are_statuses_with_anthropics_error_object() {
    let server = serve(&Script::new(greeting)).await;
    let unknown = post(server.port(), PATH, &body(json!({"model": "nope"}))).await;
    assert_eq!((unknown.status, error_type(&unknown).as_str()), (404, "not_found_error"));
    let overflow = |_: &GenerateRequest| vec![Step::Event(Event::Failed(EngineError::ContextOverflow { have: 2048, need: 9000 }))];
    for stream in [false, true] {
        let answer = ask(&Script::new(overflow), json!({"stream": stream})).await;
        assert_eq!((answer.status, error_type(&answer).as_str()), (400, "invalid_request_error"));
        let answer = ask(&Script::new(|_: &_| vec![Step::Error(full())]), json!({"stream": stream})).await;
        assert_eq!((answer.status, answer.header("retry-after"), error_type(&answer).as_str()), (503, Some("3"), "overloaded_error"));
    }
}

#[tokio::test]
async fn a_failure_inside_a_stream_is_an_error_event_and_the_message_has_no_end() {
    let half = |_: &GenerateRequest| {
        let mut steps = says(&["Half"], FinishReason::EndOfGeneration);
        steps.pop();
        steps.push(Step::Event(Event::Failed(EngineError::Plugin { status: "DEVICE_LOST".into(), message: "gone".into() })));
        steps
    };
    let answer = ask(&Script::new(half), json!({"stream": true})).await;
    let events = answer.named_events();
    let (name, data) = events.last().unwrap();
    assert_eq!((name.as_str(), &data["error"]["type"]), ("error", &json!("api_error")));
    assert_eq!(data["request_id"].as_str(), answer.header("request-id"));
    assert!(events.iter().all(|(name, _)| name != "message_stop"));
    assert_eq!(ask(&Script::new(half), json!({})).await.status, 502, "unstreamed, half an answer is no answer");
}

/// Fields and values that must be refused.
fn bad_fields() -> Vec<(&'static str, Vec<Value>)> {
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let assistant = |block: Value| json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": [block]}]);
    let named = |kind: &str| json!([{"type": kind, "source": {}}]);
    vec![
        ("model", vec![json!(null), json!(3), json!("")]),
        ("max_tokens", vec![json!(null), json!(0), json!(-1), json!(1.5), json!("4"), json!(99_999_999_999u64)]),
        ("stream", vec![json!("yes"), json!(1)]),
        ("temperature", vec![json!(-0.1), json!(1.1), json!("x")]),
        ("top_p", vec![json!(-0.1), json!(1.1), json!("x")]),
        ("top_k", vec![json!(-1), json!(1.5), json!("x")]),
        ("stop_sequences", vec![json!("x"), json!([""]), json!([" \n"]), json!([1]), json!({}), json!(vec!["s"; 17])]),
        ("system", vec![json!(3), json!({}), json!(["x"]), json!([{"type": "image"}]), json!([{"type": "text"}])]),
        ("thinking", vec![json!("on"), json!({}), json!({"type": "enabled"}), json!({"type": "enabled", "budget_tokens": 100})]),
        (
            "output_config",
            vec![json!("x"), json!({"effort": "much"}), json!({"format": {"type": "text"}}), json!({"format": {"type": "json_schema"}})],
        ),
        ("output_format", vec![json!("json"), json!({"type": "json_schema", "schema": 3})]),
        ("mcp_servers", vec![json!([{"type": "url", "url": "https://mcp.example", "name": "m"}]), json!("x")]),
        ("container", vec![json!("container_1"), json!({"skills": []})]),
        ("tools", vec![json!("x"), json!([{}]), json!([{"type": "web_search_20250305", "name": "web_search"}]), json!([{"name": "f"}])]),
        ("tool_choice", vec![json!("auto"), json!({}), json!({"type": "any"}), json!({"type": "tool", "name": "f"}), json!({"type": "x"})]),
        (
            "messages",
            vec![
                json!(null),
                json!([]),
                json!({}),
                json!("x"),
                json!([1]),
                json!([{}]),
                json!([{"role": "user"}]),
                json!([{"content": "x"}]),
                json!([{"role": "robot", "content": "x"}]),
                json!([{"role": 1, "content": "x"}]),
                user(json!(null)),
                user(json!(3)),
                user(json!({})),
                user(json!([])),
                user(json!("")),
                user(json!(["x"])),
                user(json!([{}])),
                user(json!([{"type": 3}])),
                user(json!([{"type": "text"}])),
                user(json!([{"type": "text", "text": 3}])),
                user(named("image")),
                user(named("document")),
                user(named("search_result")),
                user(json!([{"type": "tool_result", "content": "x"}])),
                user(json!([{"type": "tool_result", "tool_use_id": "1", "content": 3}])),
                user(json!([{"type": "tool_result", "tool_use_id": "1", "is_error": "no"}])),
                user(json!([{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image"}]}])),
                user(json!([{"type": "tool_use", "id": "1", "name": "f", "input": {}}])),
                assistant(json!({"type": "tool_use", "name": "f", "input": {}})),
                assistant(json!({"type": "tool_use", "id": "1", "input": {}})),
                assistant(json!({"type": "tool_use", "id": "1", "name": "f"})),
                assistant(json!({"type": "tool_use", "id": "1", "name": "f", "input": "{}"})),
                assistant(json!({"type": "tool_result", "tool_use_id": "1"})),
                assistant(json!({"type": "thinking"})),
                assistant(json!({"type": "server_tool_use", "id": "1", "name": "web_search", "input": {}})),
            ],
        ),
    ]
}

#[tokio::test]
async fn bad_requests_are_400_and_reach_no_model() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let mut wrong = Vec::new();
    for (field, values) in bad_fields() {
        for value in values {
            let mut body = body(json!({}));
            body[field] = value.clone();
            let answer = post(server.port(), PATH, &body).await;
            if answer.status != 400 {
                wrong.push(format!("{field} = {value}: {}", answer.status));
                continue;
            }
            assert_eq!(error_type(&answer), "invalid_request_error");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(script.asked().is_empty());
    for (method, path, status) in [("GET", PATH, 405), ("POST", "/v1/messages/batches", 404)] {
        let answer = raw(server.port(), &request(method, path, &[], b"")).await;
        assert_eq!(answer.status, status);
        error_type(&answer);
    }
}

#[tokio::test]
async fn a_body_that_is_no_object_is_400() {
    let server = serve(&Script::new(greeting)).await;
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    for text in ["", " ", "{", "[]", "null", "\"x\"", "{'model':'demo'}", "{\"model\":\"demo\",}", deep.as_str()] {
        let answer = raw(server.port(), &request("POST", PATH, &[], text.as_bytes())).await;
        assert_eq!(answer.status, 400, "{text:.40}");
        assert_eq!(error_type(&answer), "invalid_request_error");
    }
}
