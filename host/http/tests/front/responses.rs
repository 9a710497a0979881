//! `/v1/responses`, in OpenAI's shapes, and what is kept of them.

use std::time::Duration;

use onebit_engine::{EngineError, Event, FinishReason, GenerateRequest};
use onebit_http::{HttpConfig, KeepResponses};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{Answer, get, post, raw, request};
use super::script::{PIECES, Script, ServerHandle, Step, config, facts, full, greeting, says, serve, serve_with, thinker};

const PATH: &str = "/v1/responses";

/// A server that keeps responses, in a folder that goes with it.
pub struct Keeping {
    pub server: ServerHandle,
    folder: TempDir,
}

impl Keeping {
    pub async fn serve(script: &Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = serve_with(script, keeping(&folder)).await;
        Self { server, folder }
    }

    pub fn port(&self) -> u16 {
        self.server.port()
    }

    pub async fn ask(&self, more: Value) -> Answer {
        post(self.port(), PATH, &body(more)).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        get(self.port(), &format!("{PATH}/{path}")).await
    }

    pub async fn send(&self, method: &str, path: &str) -> Answer {
        raw(self.port(), &request(method, &format!("{PATH}/{path}"), &[], b"")).await
    }

    /// Asks until the response has this status.
    pub async fn until(&self, id: &str, status: &str) -> Value {
        let mut last = Value::Null;
        for _ in 0..1000 {
            last = self.get(id).await.json();
            if last["status"] == status {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not {status}: {last}");
    }
}

fn keeping(folder: &TempDir) -> HttpConfig {
    let file = folder.path().join("state/responses.db");
    HttpConfig { responses: Some(KeepResponses { file, retention: None, max_bytes: 1 << 30 }), ..config() }
}

fn body(more: Value) -> Value {
    let mut body = json!({"model": "demo", "input": "Hi"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn weather() -> Value {
    json!([{"type": "function", "name": "weather", "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}, "strict": true}])
}

fn prompt(script: &Script) -> String {
    script.last_parts().into_iter().map(|(text, _)| text).collect()
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
async fn a_whole_response_has_openais_shape_and_says_who_computed() {
    let server = Keeping::serve(&Script::new(greeting)).await;
    let answer = server.ask(json!({"instructions": "Be brief.", "metadata": {"a": "b"}, "temperature": 0.5})).await;
    assert_eq!((answer.status, answer.header("x-onebit-plugin")), (200, Some("scripted")));
    let json = answer.json();
    assert!(json["id"].as_str().unwrap().starts_with("resp_"));
    for (field, value) in [
        ("object", json!("response")),
        ("status", json!("completed")),
        ("model", json!("org/demo:1b")),
        ("system_fingerprint", json!("scripted-1.2.3/cpu")),
        ("background", json!(false)),
        ("error", json!(null)),
        ("incomplete_details", json!(null)),
        ("instructions", json!("Be brief.")),
        ("metadata", json!({"a": "b"})),
        ("temperature", json!(0.5)),
        ("top_p", json!(1.0)),
        ("store", json!(true)),
        ("tools", json!([])),
        ("tool_choice", json!("auto")),
        ("truncation", json!("disabled")),
        ("text", json!({"format": {"type": "text"}})),
        ("previous_response_id", json!(null)),
    ] {
        assert_eq!(json[field], value, "{field}");
    }
    let usage = json!({"input_tokens": 7, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 11});
    assert_eq!(json["usage"], usage);
    let message = &json["output"][0];
    assert!(message["id"].as_str().unwrap().starts_with("msg_"));
    let content = json!([{"type": "output_text", "annotations": [], "logprobs": [], "text": PIECES.concat()}]);
    assert_eq!(
        (&message["type"], &message["role"], &message["status"], &message["content"]),
        (&json!("message"), &json!("assistant"), &json!("completed"), &content)
    );
    assert_eq!(server.get(json["id"].as_str().unwrap()).await.json(), json, "what is kept is what was told");
}

#[tokio::test]
async fn a_stream_numbers_its_events_and_every_item_is_added_filled_and_done() {
    let server = Keeping::serve(&thinker(CALLS)).await;
    let answer = server.ask(json!({"tools": weather(), "stream": true})).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.named_events();
    assert!(events.iter().all(|(name, data)| data["type"] == name.as_str()));
    let numbers: Vec<u64> = events.iter().map(|(_, data)| data["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let names: Vec<&str> = events.iter().map(|(name, _)| name.strip_prefix("response.").unwrap()).collect();
    let wanted = [
        ["created", "in_progress"].as_slice(),
        &[
            "output_item.added",
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
            "output_item.done",
        ],
        &["output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done"],
        &["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"],
        &["completed"],
    ];
    assert_eq!(names, wanted.concat());
    let response = &events.last().unwrap().1["response"];
    let done: Vec<&Value> = events.iter().filter(|(name, _)| name == "response.output_item.done").map(|(_, data)| &data["item"]).collect();
    assert_eq!(
        Value::from(done.into_iter().cloned().collect::<Vec<_>>()),
        response["output"],
        "the items that were told are the response's"
    );
    let added: Vec<&Value> =
        events.iter().filter(|(name, _)| name == "response.output_item.added").map(|(_, data)| &data["item"]).collect();
    for (index, item) in added.iter().enumerate() {
        assert_eq!((&item["id"], &item["status"]), (&response["output"][index]["id"], &json!("in_progress")));
    }
    let output = response["output"].as_array().unwrap();
    assert_eq!((&output[0]["content"], &output[0]["summary"]), (&json!([{"type": "reasoning_text", "text": "Ask."}]), &json!([])));
    assert_eq!(output[1]["content"][0]["text"], "One moment.");
    assert!(output[2]["call_id"].as_str().unwrap().starts_with("call_"));
    let arguments: Value = serde_json::from_str(output[2]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!((&output[2]["name"], &output[2]["status"], arguments), (&json!("weather"), &json!("completed"), json!({"city": "Oslo"})));
    assert_eq!((&events[0].1["response"]["status"], &events[0].1["response"]["output"]), (&json!("in_progress"), &json!([])));
    assert_eq!(server.get(response["id"].as_str().unwrap()).await.json(), *response, "it was kept before its end was told");
    // Whole, it is the same.
    let whole = server.ask(json!({"tools": weather()})).await.json();
    let kinds = |output: &Value| output.as_array().unwrap().iter().map(|item| item["type"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&whole["output"]), kinds(&response["output"]));
    assert_eq!(whole["usage"]["output_tokens_details"], json!({"reasoning_tokens": 1}));
}

#[tokio::test]
async fn an_answer_at_its_limit_is_incomplete_and_a_call_that_breaks_off_is_text() {
    let cut: &[&str] = &["<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": ", "\"Os"];
    let script = Script::new(move |_: &GenerateRequest| says(cut, FinishReason::Length));
    let server = Keeping::serve(&script).await;
    let json = server.ask(json!({"tools": weather(), "max_output_tokens": 2})).await.json();
    assert_eq!((&json["status"], &json["incomplete_details"]), (&json!("incomplete"), &json!({"reason": "max_output_tokens"})));
    assert_eq!((&json["output"][0]["status"], &json["output"][0]["content"][0]["text"]), (&json!("incomplete"), &json!(cut.concat())));
    assert_eq!(script.asked()[0].max_tokens, Some(2));
    let events = server.ask(json!({"tools": weather(), "stream": true})).await.named_events();
    assert_eq!(events.last().unwrap().0, "response.incomplete");
    assert!(events.iter().all(|(name, _)| !name.contains("function_call")));
}

#[tokio::test]
async fn logprobs_come_with_the_text_they_belong_to() {
    let server = serve(&Script::new(greeting)).await;
    let more = json!({"include": ["message.output_text.logprobs"], "top_logprobs": 2});
    let json = post(server.port(), PATH, &body(more.clone())).await.json();
    let tokens = json["output"][0]["content"][0]["logprobs"].as_array().unwrap();
    assert_eq!((tokens.len(), tokens[0]["top_logprobs"].as_array().unwrap().len()), (PIECES.len(), 2));
    let mut streamed = body(more);
    streamed["stream"] = json!(true);
    let events = post(server.port(), PATH, &streamed).await.named_events();
    let deltas = events.iter().filter(|(name, _)| name == "response.output_text.delta");
    assert_eq!(deltas.map(|(_, data)| data["logprobs"].as_array().unwrap().len()).collect::<Vec<_>>(), [1; 4]);
}

#[tokio::test]
async fn a_conversation_goes_on_from_a_kept_response_also_after_a_restart() {
    let script = thinker(CALLS);
    let first = Keeping::serve(&script).await;
    let began = first.ask(json!({"instructions": "Be brief.", "input": "Weather?", "tools": weather()})).await.json();
    let call = &began["output"][2]["call_id"];
    let Keeping { server, folder } = first;
    server.stop().await.unwrap();
    let second = Keeping { server: serve_with(&script, keeping(&folder)).await, folder };
    let output = json!([{"type": "function_call_output", "call_id": call, "output": "4 degrees"}]);
    let went_on = second.ask(json!({"input": output, "previous_response_id": began["id"], "tools": weather()})).await;
    assert_eq!(went_on.status, 200, "{}", went_on.text());
    let said = prompt(&script);
    let order =
        ["Weather?", "One moment.", "\"Oslo\"", "4 degrees"].map(|text| said.find(text).unwrap_or_else(|| panic!("{text}: {said}")));
    assert!(order.is_sorted(), "{said}");
    assert!(!said.contains("Be brief."), "instructions are of one response only");

    let id = went_on.json()["id"].as_str().unwrap().to_owned();
    let items = second.get(&format!("{id}/input_items?order=asc")).await.json();
    let kinds: Vec<&Value> = items["data"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["message", "reasoning", "message", "function_call", "function_call_output"]);
    let page = second.get(&format!("{id}/input_items?limit=2")).await.json();
    assert_eq!((&page["data"][0], &page["has_more"], &page["last_id"]), (&items["data"][4], &json!(true), &items["data"][3]["id"]));
    let next = second.get(&format!("{id}/input_items?limit=100&after={}", page["last_id"].as_str().unwrap())).await.json();
    assert_eq!((next["data"].as_array().unwrap().len(), &next["has_more"]), (3, &json!(false)));
    for wrong in ["limit=0", "limit=101", "limit=x", "order=up", "after=nothing"] {
        assert_eq!(second.get(&format!("{id}/input_items?{wrong}")).await.status, 400, "{wrong}");
    }

    let first_id = began["id"].as_str().unwrap();
    let deleted = second.send("DELETE", first_id).await;
    assert_eq!((deleted.status, deleted.json()), (200, json!({"id": first_id, "object": "response", "deleted": true})));
    assert_eq!(second.get(first_id).await.code(), "response_not_found");
    assert_eq!(second.send("DELETE", first_id).await.code(), "response_not_found");
    let broken = second.ask(json!({"previous_response_id": id})).await;
    assert_eq!((broken.status, broken.code().as_str()), (400, "previous_response_not_found"));
    assert!(broken.text().contains(first_id), "the message names what is missing");
}

#[tokio::test]
async fn what_is_not_to_be_kept_is_not() {
    let server = Keeping::serve(&Script::new(greeting)).await;
    let json = server.ask(json!({"store": false})).await.json();
    let id = json["id"].as_str().unwrap();
    assert_eq!((&json["store"], server.get(id).await.status), (&json!(false), 404));
    assert_eq!(server.ask(json!({"previous_response_id": id})).await.code(), "previous_response_not_found");
    let bytes = std::fs::read(server.folder.path().join("state/responses.db")).unwrap();
    assert!(!bytes.windows(id.len()).any(|found| found == id.as_bytes()));
}

#[tokio::test]
async fn a_server_that_keeps_nothing_says_so() {
    let server = serve(&Script::new(greeting)).await;
    let json = post(server.port(), PATH, &body(json!({}))).await.json();
    assert_eq!((&json["status"], &json["store"]), (&json!("completed"), &json!(false)));
    for (more, code) in [
        (json!({"store": true}), "unsupported_parameter"),
        (json!({"background": true}), "unsupported_parameter"),
        (json!({"previous_response_id": "resp_1"}), "previous_response_not_found"),
    ] {
        let answer = post(server.port(), PATH, &body(more)).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, code));
    }
    assert_eq!(get(server.port(), "/v1/responses/resp_1").await.code(), "response_not_found");
}

#[tokio::test]
async fn a_response_in_the_background_is_asked_for_until_it_is_there() {
    let script = Script::new(|request: &GenerateRequest| {
        let mut steps = greeting(request);
        steps.insert(2, Step::Wait(Duration::from_millis(200)));
        steps
    });
    let server = Keeping::serve(&script).await;
    let queued = server.ask(json!({"background": true})).await;
    assert_eq!((queued.status, &queued.json()["status"], &queued.json()["background"]), (200, &json!("queued"), &json!(true)));
    let id = queued.json()["id"].as_str().unwrap().to_owned();
    server.until(&id, "in_progress").await;
    assert_eq!(
        server.ask(json!({"previous_response_id": id})).await.code(),
        "previous_response_not_found",
        "there is nothing to go on from yet"
    );
    let done = server.until(&id, "completed").await;
    assert_eq!((&done["output"][0]["content"][0]["text"], &done["model"]), (&json!(PIECES.concat()), &json!("org/demo:1b")));
    assert_eq!(server.send("POST", &format!("{id}/cancel")).await.json(), done, "what has ended is not cancelled");
    assert_eq!(server.get(&format!("{id}?stream=true")).await.code(), "unsupported_parameter");
}

#[tokio::test]
async fn a_response_in_the_background_can_be_cancelled_and_its_work_ends() {
    let script = Script::new(|request: &GenerateRequest| {
        let mut steps = greeting(request);
        steps.insert(2, Step::Hang);
        steps
    });
    let server = Keeping::serve(&script).await;
    let ids: Vec<String> = vec![
        server.ask(json!({"background": true})).await.json()["id"].as_str().unwrap().to_owned(),
        server.ask(json!({"background": true})).await.json()["id"].as_str().unwrap().to_owned(),
    ];
    script.until_running(2).await;
    let cancelled = server.send("POST", &format!("{}/cancel", ids[0])).await;
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelled")));
    assert_eq!(cancelled.json()["output"][0]["content"][0]["text"], PIECES[0], "what was said stays");
    script.until_running(1).await;
    assert_eq!(server.send("DELETE", &ids[1]).await.status, 200);
    script.until_running(0).await;
    assert_eq!(server.get(&ids[1]).await.status, 404);
    assert_eq!(server.send("POST", &format!("{}/cancel", ids[1])).await.code(), "response_not_found");
}

#[tokio::test]
async fn failures_in_the_background_are_kept_and_unknown_models_told_at_once() {
    let server = Keeping::serve(&Script::new(|_: &GenerateRequest| vec![Step::Error(full())])).await;
    assert_eq!(server.ask(json!({"background": true, "model": "nope"})).await.code(), "model_not_found");
    let id = server.ask(json!({"background": true})).await.json()["id"].as_str().unwrap().to_owned();
    let failed = server.until(&id, "failed").await;
    assert_eq!(failed["error"], json!({"code": "rate_limit_exceeded", "message": "the queue is full"}));
    let foreground = server.ask(json!({})).await;
    assert_eq!((foreground.status, foreground.code().as_str()), (503, "queue_full"));
}

#[tokio::test]
async fn only_what_runs_in_the_background_can_be_cancelled() {
    let server = Keeping::serve(&Script::new(greeting)).await;
    let id = server.ask(json!({})).await.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.send("POST", &format!("{id}/cancel")).await.status, 400);
}

#[tokio::test]
async fn a_failure_inside_a_stream_is_its_last_event() {
    let half = |_: &GenerateRequest| {
        let mut steps = says(&["Half"], FinishReason::EndOfGeneration);
        steps.pop();
        steps.push(Step::Event(Event::Failed(EngineError::Plugin { status: "DEVICE_LOST".into(), message: "gone".into() })));
        steps
    };
    let server = Keeping::serve(&Script::new(half)).await;
    let events = server.ask(json!({"stream": true})).await.named_events();
    let (name, data) = events.last().unwrap();
    assert_eq!(
        (name.as_str(), &data["response"]["status"], &data["response"]["error"]["code"]),
        ("response.failed", &json!("failed"), &json!("server_error"))
    );
    let id = data["response"]["id"].as_str().unwrap();
    assert_eq!(server.until(id, "failed").await["output"][0]["status"], "incomplete");
    assert_eq!(server.ask(json!({})).await.status, 502, "unstreamed, half an answer is no answer");
}

#[tokio::test]
async fn what_cannot_be_kept_is_no_good_end() {
    let server = Keeping::serve(&Script::new(greeting)).await;
    let file = server.folder.path().join("state/responses.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch("DROP TABLE responses").unwrap();
    let whole = server.ask(json!({})).await;
    assert_eq!((whole.status, whole.code().as_str()), (500, "store_failed"));
    let events = server.ask(json!({"stream": true})).await.named_events();
    assert_eq!(events.last().unwrap().0, "response.failed");
    assert!(events.iter().all(|(name, _)| name != "response.completed"));
    assert_eq!(server.ask(json!({"store": false})).await.status, 200);
}

#[tokio::test]
async fn a_file_that_cannot_be_used_keeps_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("state"), "in the way").unwrap();
    let error = onebit_http::Server::bind(std::sync::Arc::new(Script::new(greeting)), &keeping(&folder)).await.unwrap_err();
    assert!(error.to_string().contains("responses_db"), "{error}");
}

#[tokio::test]
async fn tokens_are_counted_as_a_response_would_be_read() {
    let script = Script::new(greeting);
    let server = Keeping::serve(&script).await;
    let count = post(server.port(), "/v1/responses/input_tokens", &body(json!({"input": "one two three"}))).await;
    assert_eq!((count.status, count.json()), (200, json!({"object": "response.input_tokens", "input_tokens": 8})));
    assert!(script.asked().is_empty());
    let mut strict = facts();
    strict.chat_template = None;
    let bare = Script::with(strict, onebit_http::models::Defaults::default(), None, greeting);
    let server = serve(&bare).await;
    assert_eq!(post(server.port(), "/v1/responses/input_tokens", &body(json!({}))).await.code(), "chat_template_missing");
}

/// Fields and values that must be refused.
fn bad_fields() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("model", vec![json!(null), json!(3), json!("")]),
        (
            "input",
            vec![
                json!(null),
                json!(3),
                json!([]),
                json!({}),
                json!(["x"]),
                json!([{}]),
                json!([{"role": "robot", "content": "x"}]),
                json!([{"role": "user"}]),
                json!([{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]),
                json!([{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]),
                json!([{"type": "item_reference", "id": "msg_1"}]),
                json!([{"type": "web_search_call", "id": "ws_1"}]),
                json!([{"type": "function_call", "call_id": "1", "name": "f", "arguments": "no"}]),
                json!([{"type": "function_call_output", "output": "x"}]),
            ],
        ),
        ("instructions", vec![json!(3), json!(["x"])]),
        ("previous_response_id", vec![json!(3), json!("resp_nothing")]),
        ("conversation", vec![json!("conv_1"), json!({"id": "conv_1"})]),
        ("prompt", vec![json!({"id": "pmpt_1"})]),
        ("stream", vec![json!("yes"), json!(1)]),
        ("background", vec![json!("yes")]),
        ("store", vec![json!("no")]),
        ("temperature", vec![json!(-0.1), json!(2.1), json!("x")]),
        ("top_p", vec![json!(-0.1), json!(1.1)]),
        ("max_output_tokens", vec![json!(0), json!(-1), json!(1.5), json!("4")]),
        ("metadata", vec![json!("x"), json!({"a": 1}), json!({"k".repeat(65): "x"})]),
        ("include", vec![json!("x"), json!([3]), json!(["everything"])]),
        ("top_logprobs", vec![json!(21), json!(-1), json!(3)]),
        ("truncation", vec![json!("auto"), json!(3)]),
        ("text", vec![json!("x"), json!({"format": {}}), json!({"format": {"type": "xml"}}), json!({"verbosity": "high"})]),
        ("reasoning", vec![json!("high"), json!({"effort": "very"}), json!({"summary": 3})]),
        ("tools", vec![json!("x"), json!([{}]), json!([{"type": "file_search"}]), json!([{"type": "mcp"}]), json!([{"type": "function"}])]),
        ("tool_choice", vec![json!("required"), json!("maybe"), json!({"type": "function", "name": "f"}), json!({"type": "web_search"})]),
    ]
}

#[tokio::test]
async fn bad_requests_are_400_and_reach_no_model() {
    let script = Script::new(greeting);
    let server = Keeping::serve(&script).await;
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
            answer.code();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for more in [json!({"stream": true, "background": true}), json!({"background": true, "store": false})] {
        assert_eq!(server.ask(more).await.status, 400);
    }
    assert!(script.asked().is_empty());
    assert_eq!(server.ask(json!({"model": "nope"})).await.code(), "model_not_found");
}

#[tokio::test]
async fn a_body_that_is_no_object_is_400() {
    let server = serve(&Script::new(greeting)).await;
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    for text in ["", " ", "{", "[]", "null", "\"x\"", "{'model':'demo'}", "{\"model\":\"demo\",}", deep.as_str()] {
        let answer = raw(server.port(), &request("POST", PATH, &[], text.as_bytes())).await;
        assert_eq!(answer.status, 400, "{text:.40}");
        assert_eq!(answer.code(), "invalid_json");
    }
}
