//! What Responses and Anthropic answer besides their plain answers fits `/openapi.json`, too: thoughts and calls, streams that break off,
//! responses that are kept, models in either shape.

use std::time::Duration;

use onebit_engine::{EngineError, Event, FinishReason, GenerateRequest};
use onebit_http::models::Defaults;
use serde_json::{Value, json};

use super::client::{Answer, post, raw, request};
use super::openapi::{document, operations};
use super::responses::Keeping;
use super::script::{Script, Step, facts, greeting, says, serve, thinker};
use super::shapes::Shapes;

const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";

const CALLS: &[&str] = &[
    "<think>",
    "Ask.",
    "</think>",
    "One moment.",
    "\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
    "\n<tool_call>\n{\"name\": \"team__run\", \"arguments\": {}}\n</tool_call>",
];

/// Holds answers of a server against its document, and notes which of the documented events there were.
struct Holder {
    document: Value,
}

impl Holder {
    async fn of(server: &Keeping) -> Self {
        Self { document: document(&server.server).await }
    }

    fn holds(&self, method: &str, path: &str, answer: &Answer) {
        let shapes = Shapes { document: &self.document, closed: true };
        let all = operations(&self.document);
        let operation = all.iter().find(|operation| operation.is(method, path)).unwrap_or_else(|| panic!("{method} {path}"));
        operation.holds(&shapes, answer);
    }

    /// The names of the events that a stream may have.
    fn events(&self, name: &str) -> Vec<String> {
        let shapes = self.document["components"]["schemas"][name]["anyOf"].as_array().unwrap();
        shapes.iter().map(|shape| shape["properties"]["event"]["enum"][0].as_str().unwrap().to_owned()).collect()
    }
}

/// What the dialects call the same: a question, and all that can be said of it.
fn asked(path: &str, stream: bool) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    match path {
        RESPONSES => json!({
            "model": "demo", "stream": stream, "instructions": "Be brief.", "metadata": {"a": "b"}, "max_output_tokens": 100,
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "Weather?", "mine": 1}]}, {"type": "reasoning", "content": "Hm."}],
            "tools": [
                {"type": "function", "name": "weather", "description": null, "parameters": schema, "strict": true},
                {"type": "namespace", "name": "team", "mine": 1, "tools": [{"type": "function", "name": "run", "mine": 1}]},
                {"type": "web_search_preview"}
            ],
            "tool_choice": {"type": "function", "name": "weather", "mine": 1}, "text": {"format": {"type": "text", "mine": 1}},
            "reasoning": {"effort": "low", "summary": "auto"}, "include": ["message.output_text.logprobs"], "top_logprobs": 2
        }),
        _ => json!({
            "model": "demo", "max_tokens": 100, "stream": stream, "stop_sequences": ["asked"],
            "messages": [{"role": "user", "content": "Weather?"}],
            "tools": [{"name": "weather", "input_schema": schema}, {"name": "team__run", "input_schema": {}}]
        }),
    }
}

fn without_choice(path: &str, stream: bool) -> Value {
    let mut body = asked(path, stream);
    body["tool_choice"] = json!(null);
    body
}

fn names(answer: &Answer) -> Vec<String> {
    answer.fields_of_events().iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
}

/// Says half, and breaks off.
fn half(_: &GenerateRequest) -> Vec<Step> {
    let mut steps = says(&["Half"], FinishReason::EndOfGeneration);
    steps.pop();
    steps.push(Step::Event(Event::Failed(EngineError::Plugin { status: "DEVICE_LOST".into(), message: "gone".into() })));
    steps
}

#[tokio::test]
async fn every_documented_event_comes_and_fits_whatever_is_said_and_however_it_ends() {
    let cut = Script::with(facts(), Defaults::default(), None, |_: &GenerateRequest| says(&["Hi"], FinishReason::Length));
    let stopped = Script::new(|_: &GenerateRequest| says(&["Hi"], FinishReason::StopString("asked".into())));
    let silent = Script::new(|_: &GenerateRequest| {
        let mut steps = says(&["Hi"], FinishReason::EndOfGeneration);
        steps.insert(1, Step::Wait(Duration::from_secs(16)));
        steps
    });
    let mut told: [Vec<String>; 2] = Default::default();
    let mut documented: [Vec<String>; 2] = Default::default();
    for script in [thinker(CALLS), Script::new(greeting), cut, stopped, Script::new(half)] {
        let server = Keeping::serve(&script).await;
        let holder = Holder::of(&server).await;
        documented = [holder.events("ResponseEvent"), holder.events("MessageEvent")];
        for (path, told) in [RESPONSES, MESSAGES].into_iter().zip(&mut told) {
            let streamed = post(server.port(), path, &without_choice(path, true)).await;
            assert_eq!(streamed.header("content-type"), Some("text/event-stream"), "{}", streamed.text());
            holder.holds("POST", path, &streamed);
            told.extend(names(&streamed));
        }
    }
    let server = Keeping::serve(&silent).await;
    let streamed = post(server.port(), MESSAGES, &asked(MESSAGES, true)).await;
    Holder::of(&server).await.holds("POST", MESSAGES, &streamed);
    told[1].extend(names(&streamed));
    for (mut told, mut documented) in told.into_iter().zip(documented) {
        told.sort_unstable();
        told.dedup();
        documented.sort_unstable();
        assert_eq!(told, documented);
    }
}

#[tokio::test]
async fn whole_answers_fit_whatever_is_said_and_however_it_ends() {
    let cut = Script::new(|_: &GenerateRequest| says(&["Hi"], FinishReason::Length));
    let mut in_namespaces = 0;
    for script in [thinker(CALLS), Script::new(greeting), cut, Script::new(half)] {
        let server = Keeping::serve(&script).await;
        let holder = Holder::of(&server).await;
        for (path, count) in [(RESPONSES, "/v1/responses/input_tokens"), (MESSAGES, "/v1/messages/count_tokens")] {
            holder.holds("POST", path, &post(server.port(), path, &without_choice(path, false)).await);
            let counted = post(server.port(), count, &asked(path, false)).await;
            assert_eq!(counted.status, 200, "{}", counted.text());
            holder.holds("POST", count, &counted);
        }
        let whole = post(server.port(), RESPONSES, &asked(RESPONSES, false)).await;
        holder.holds("POST", RESPONSES, &whole);
        in_namespaces += whole.text().matches("\"namespace\":\"team\"").count();
    }
    assert_eq!(in_namespaces, 1);
}

#[tokio::test]
async fn kept_responses_fit_at_every_time_of_their_lives() {
    let script = Script::new(|request: &GenerateRequest| {
        let mut steps = greeting(request);
        let wait = if request.max_tokens == Some(99) { Step::Hang } else { Step::Wait(Duration::ZERO) };
        steps.insert(2, wait);
        steps
    });
    let server = Keeping::serve(&script).await;
    let holder = Holder::of(&server).await;
    let one = "/v1/responses/{id}";
    let (cancel, items) = (format!("{one}/cancel"), format!("{one}/input_items"));

    let whole = post(server.port(), RESPONSES, &without_choice(RESPONSES, false)).await.json();
    let id = whole["id"].as_str().unwrap();
    holder.holds("GET", one, &server.get(id).await);
    holder.holds("GET", one, &server.get(&format!("{id}?stream=true")).await);
    holder.holds("POST", &cancel, &server.send("POST", &format!("{id}/cancel")).await);
    let next = server
        .ask(json!({"previous_response_id": id, "input": [{"type": "function_call", "call_id": "1", "name": "f", "arguments": {}},
        {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "4"}]},
        {"type": "function_call", "call_id": "2", "namespace": "team", "name": "run", "arguments": null},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, {"role": "user", "content": ""}]}))
        .await;
    assert_eq!(next.status, 200, "{}", next.text());
    for query in ["", "?order=asc&limit=2", "?limit=0", "?after=nothing", "?limit=1&limit=2"] {
        let id = next.json()["id"].as_str().unwrap().to_owned();
        let page = server.get(&format!("{id}/input_items{query}")).await;
        holder.holds("GET", &items, &page);
        let wanted = if ["", "?order=asc&limit=2"].contains(&query) { 200 } else { 400 };
        assert_eq!(page.status, wanted, "{query}: {}", page.text());
    }

    let queued = server.ask(json!({"background": true, "max_output_tokens": 99})).await;
    holder.holds("POST", RESPONSES, &queued);
    let id = queued.json()["id"].as_str().unwrap().to_owned();
    script.until_running(1).await;
    server.until(&id, "in_progress").await;
    holder.holds("GET", one, &server.get(&id).await);
    holder.holds("POST", &cancel, &server.send("POST", &format!("{id}/cancel")).await);
    assert_eq!(server.get(&id).await.json()["status"], "cancelled");
    holder.holds("GET", one, &server.get(&id).await);
    holder.holds("DELETE", one, &server.send("DELETE", &id).await);
    holder.holds("DELETE", one, &server.send("DELETE", &id).await);
}

#[tokio::test]
async fn a_query_that_says_something_twice_is_refused_not_passed_over() {
    let server = Keeping::serve(&Script::new(greeting)).await;
    let id = server.ask(json!({})).await.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.get(&format!("{id}?stream=false")).await.status, 200);
    assert_eq!(server.get(&format!("{id}?stream=true&stream=true")).await.status, 400);
}

#[tokio::test]
async fn models_fit_in_the_shape_that_the_headers_choose() {
    let server = Keeping::serve(&Script::new(greeting)).await;
    let holder = Holder::of(&server).await;
    for headers in [&[][..], &[("anthropic-version", "2023-06-01")]] {
        for (path, query) in [
            ("/v1/models", ""),
            ("/v1/models", "?limit=1&after_id=org/demo:1b"),
            ("/v1/models", "?limit=0"),
            ("/v1/models", "?before_id=x"),
        ] {
            holder.holds("GET", path, &raw(server.port(), &request("GET", &format!("{path}{query}"), headers, b"")).await);
        }
        for id in ["demo", "nobody", "%ff"] {
            let answer = raw(server.port(), &request("GET", &format!("/v1/models/{id}"), headers, b"")).await;
            assert_eq!(answer.header("request-id").is_some(), !headers.is_empty());
            holder.holds("GET", "/v1/models/{id}", &answer);
        }
    }
}

#[tokio::test]
async fn a_stop_sequence_that_is_too_long_is_named_as_the_dialect_calls_it() {
    let server = serve(&Script::new(greeting)).await;
    let mut body = asked(MESSAGES, false);
    body["stop_sequences"] = json!(["a".repeat(5000)]);
    let refused = post(server.port(), MESSAGES, &body).await;
    assert!(refused.status == 400 && refused.text().contains("stop_sequences"), "{}", refused.text());
}
