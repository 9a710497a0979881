//! `/openapi.json` says what the front does: its routes are there, its fields are read, its answers look like that.

use std::collections::BTreeSet;

use onebit_http::models::Defaults;
use serde_json::{Map, Value, json};

use super::client::{Answer, get, raw, request};
use super::responses::Keeping;
use super::script::{Script, ServerHandle, config, facts, greeting, serve_with};
use super::shapes::Shapes;

/// With a model that can do all that there is, and a place for responses.
async fn server() -> Keeping {
    let mut able = facts();
    able.control_tokens.extend(["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"].map(str::to_owned));
    Keeping::serve(&Script::with(able, Defaults::default(), None, greeting)).await
}

pub async fn document(server: &ServerHandle) -> Value {
    let answer = get(server.port(), "/openapi.json").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    answer.json()
}

pub struct Operation<'d> {
    method: String,
    path: &'d str,
    says: &'d Value,
}

pub fn operations(document: &Value) -> Vec<Operation<'_>> {
    let paths = document["paths"].as_object().unwrap();
    let mut all = Vec::new();
    for (path, item) in paths {
        for (method, says) in item.as_object().unwrap() {
            all.push(Operation { method: method.to_uppercase(), path, says });
        }
    }
    all
}

impl<'d> Operation<'d> {
    /// The body's shape, and a body that works.
    fn body(&self, shapes: &Shapes<'d>) -> Option<(&'d Value, Value)> {
        let shape = self.says.pointer("/requestBody/content/application~1json/schema")?;
        let shape = shapes.resolved(shape);
        Some((shape, shape["examples"][0].clone()))
    }

    async fn ask(&self, server: &ServerHandle, body: Option<&Value>) -> Answer {
        let path = self.path.replace("{id}", "demo").replace("{digest}", &format!("sha256:{}", "0".repeat(64)));
        match body {
            Some(body) => {
                let sent = request(&self.method, &path, &[("Content-Type", "application/json")], body.to_string().as_bytes());
                raw(server.port(), &sent).await
            }
            None => raw(server.port(), &request(&self.method, &path, &[], b"")).await,
        }
    }

    /// Whether it is this one.
    pub fn is(&self, method: &str, path: &str) -> bool {
        (self.method.as_str(), self.path) == (method, path)
    }

    /// That an answer is one of those documented: its status, its type, its members.
    pub fn holds(&self, shapes: &Shapes<'d>, answer: &Answer) {
        let at = format!("{} {}: {}", self.method, self.path, answer.status);
        let documented = self.says["responses"].get(answer.status.to_string()).unwrap_or_else(|| panic!("{at} {}", answer.text()));
        if documented.get("content").is_none() || self.method == "HEAD" {
            assert!(answer.body.is_empty(), "{at}: {}", answer.text());
            return;
        }
        let kind = answer.header("content-type").unwrap().split(';').next().unwrap();
        let shape = &documented["content"].get(kind).unwrap_or_else(|| panic!("{at}: {kind} is not documented"))["schema"];
        let values = match kind {
            "application/json" => vec![answer.json()],
            "application/x-ndjson" => answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            "text/event-stream" => answer.fields_of_events(),
            _ => vec![Value::String(answer.text())],
        };
        assert!(!values.is_empty(), "{at}: nothing came");
        for value in values {
            assert_eq!(shapes.misfit(shape, &value, ""), None, "{at}: {value}");
        }
    }
}

#[tokio::test]
async fn every_route_is_made_with_its_description_and_answers() {
    let router = include_str!("../../src/router.rs");
    for unseen in [".route(", ".route_service(", ".nest(", ".nest_service("] {
        assert!(!router.contains(unseen), "a route is made by `Routes`, which wants its description, not by {unseen}");
    }
    let made: Vec<(String, String)> = router.lines().filter_map(made_by).collect();
    let made_once: BTreeSet<(String, String)> = made.iter().cloned().collect();
    assert_eq!(made_once.len(), made.len());
    let server = server().await;
    let document = document(&server.server).await;
    assert_eq!(document["openapi"], "3.1.0");
    let all = operations(&document);
    let documented: BTreeSet<(String, String)> =
        all.iter().map(|operation| (operation.method.clone(), operation.path.to_owned())).collect();
    assert_eq!(documented, made_once);
    for operation in &all {
        let answer = operation.ask(&server.server, None).await;
        let there = answer.status != 405 && !answer.text().contains("docs/http-api.md");
        assert!(there, "{} {}: {}", operation.method, operation.path, answer.text());
        // And no other method is; who may get may also ask for the head.
        let other = Operation { method: "PATCH".to_owned(), ..*operation }.ask(&server.server, None).await;
        let allowed: BTreeSet<&str> = other.header("allow").unwrap().split(',').map(str::trim).collect();
        let of_path = all.iter().filter(|one| one.path == operation.path).map(|one| one.method.as_str());
        let wanted: BTreeSet<&str> = of_path.flat_map(|method| if method == "GET" { vec!["GET", "HEAD"] } else { vec![method] }).collect();
        assert_eq!((other.status, allowed), (405, wanted), "{}", operation.path);
    }
}

/// The method and the path, as the document has it, of a line that makes a route.
fn made_by(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    let (maker, rest) = line.strip_prefix('.')?.split_once('(')?;
    let (verb, rest) = match maker {
        "ask" | "tell" => rest.split_once(", ")?,
        "publish" => ("Get", rest),
        _ => return None,
    };
    let path = rest.strip_prefix('"')?.split('"').next()?;
    Some((verb.to_uppercase(), path.replace("{*", "{")))
}

#[tokio::test]
async fn answers_have_the_documented_shapes() {
    let server = server().await;
    let document = document(&server.server).await;
    let shapes = Shapes { document: &document, closed: true };
    for operation in operations(&document) {
        let Some((shape, example)) = operation.body(&shapes) else {
            operation.holds(&shapes, &operation.ask(&server.server, None).await);
            continue;
        };
        let answer = operation.ask(&server.server, Some(&example)).await;
        assert_eq!(answer.status, 200, "{}: {}", operation.path, answer.text());
        operation.holds(&shapes, &answer);
        for more in [
            json!({"stream": true}),
            json!({"stream": false}),
            json!({"stream": true, "logprobs": true, "top_logprobs": 1, "stream_options": {"include_usage": true}}),
            json!({"stream": false, "logprobs": true, "top_logprobs": 1}),
            json!({"stream": true, "logprobs": 1, "echo": true}),
            json!({"stream": false, "logprobs": 1, "echo": true, "n": 2}),
            json!({"encoding_format": "base64", "with_pieces": true}),
            json!({"model": "nobody"}),
            json!({"model": 1}),
        ] {
            let more: Map<String, Value> = more.as_object().unwrap().clone();
            if more
                .iter()
                .all(|(name, value)| shape["properties"].get(name).is_some_and(|shape| name == "model" || shapes.fits(shape, value)))
            {
                operation.holds(&shapes, &operation.ask(&server.server, Some(&with(&example, &more))).await);
            }
        }
        operation.holds(&shapes, &operation.ask(&server.server, Some(&json!([]))).await);
        operation
            .holds(&shapes, &raw(server.port(), &request(&operation.method, operation.path, &[("Content-Encoding", "gzip")], b"x")).await);
    }
}

fn with(body: &Value, more: &Map<String, Value>) -> Value {
    let mut body = body.as_object().unwrap().clone();
    body.extend(more.clone());
    body.into()
}

/// What must stand beside a field of a path's bodies for it to be read, or to mean something.
fn beside(path: &str, name: &str) -> Value {
    let responses = path.starts_with("/v1/responses");
    match name {
        "top_logprobs" if responses => json!({"include": ["message.output_text.logprobs"]}),
        "top_logprobs" => json!({"logprobs": true}),
        "max_completion_tokens" => json!({"max_tokens": null}),
        "thinking" => json!({"max_tokens": 4096}),
        "tool_choice" if responses => json!({"tools": [{"type": "function", "name": "a"}]}),
        "tool_choice" if path.starts_with("/v1/messages") => json!({"tools": [{"name": "a", "input_schema": {}}]}),
        "tool_choice" => json!({"tools": [{"function": {"name": "a"}}]}),
        "name" => json!({"model": null}),
        _ => json!({}),
    }
}

/// A body with something at one place in it.
struct Trial {
    body: Value,
    /// The field that it is about, and where it is.
    name: String,
    pointer: String,
    refused: bool,
}

/// Trials of every field of an object that stands at `pointer` of a body that works.
fn trials<'d>(shapes: &Shapes<'d>, path: &str, shape: &'d Value, body: &Value, pointer: &str, into: &mut Vec<Trial>) {
    for (name, field) in shape["properties"].as_object().into_iter().flatten() {
        let place = format!("{pointer}/{name}");
        let put = |value: Value| {
            let mut body = if pointer.is_empty() { with(body, beside(path, name).as_object().unwrap()) } else { body.clone() };
            body.pointer_mut(pointer).unwrap()[name] = value;
            body
        };
        let trial = |value: Value, refused| Trial { body: put(value), name: name.clone(), pointer: place.clone(), refused };
        into.extend(shapes.misfits(field).into_iter().map(|value| trial(value, true)));
        into.extend(shapes.limits(field).into_iter().map(|value| trial(value, false)));
        for one in shapes.alternatives(field) {
            if one.get("properties").is_some() {
                trials(shapes, path, one, &put(shapes.sample_object(one)), &place, into);
            }
            for item in one.get("items").into_iter().flat_map(|items| shapes.alternatives(items)) {
                if item.get("properties").is_some() {
                    trials(shapes, path, item, &put(json!([shapes.sample_object(item)])), &format!("{place}/0"), into);
                }
            }
        }
    }
}

#[tokio::test]
async fn every_documented_field_is_read_up_to_its_bounds_and_refused_by_name_beyond_them() {
    let server = server().await;
    let document = document(&server.server).await;
    let shapes = Shapes { document: &document, closed: false };
    let (mut asked, mut wrong) = (0, Vec::new());
    for operation in operations(&document) {
        let Some((shape, example)) = operation.body(&shapes) else { continue };
        let mut all = Vec::new();
        trials(&shapes, operation.path, shape, &example, "", &mut all);
        for Trial { body, name, pointer, refused } in all {
            let answer = operation.ask(&server.server, Some(&body)).await;
            let text = answer.text();
            let named = answer.status == 400 && text.contains(&name);
            // A value that the reader knows and the model cannot have is something else.
            let misread = answer.status == 400 && text.contains(&format!("{name}\\\" is")) && text.contains("must be");
            if (refused && !named) || (!refused && misread) || answer.status >= 500 {
                let value: String = body.pointer(&pointer).unwrap().to_string().chars().take(60).collect();
                let text: String = text.chars().take(200).collect();
                wrong.push(format!("{} {pointer} = {value}: {} {text}", operation.path, answer.status));
            }
            asked += 1;
        }
        for name in shape["required"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap()) {
            let mut body = example.clone();
            body.as_object_mut().unwrap().remove(name);
            let answer = operation.ask(&server.server, Some(&body)).await;
            assert!(answer.status == 400 && answer.text().contains(name), "{} without {name}: {}", operation.path, answer.text());
        }
    }
    assert!(asked > 1000, "only {asked} asked");
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn the_document_stands_behind_the_same_gate_as_the_models() {
    let server = serve_with(&Script::new(greeting), onebit_http::HttpConfig { api_key: Some("secret".into()), ..config() }).await;
    assert_eq!(get(server.port(), "/openapi.json").await.status, 401);
    for header in [("Authorization", "Bearer secret"), ("x-api-key", "secret")] {
        assert_eq!(raw(server.port(), &request("GET", "/openapi.json", &[header], b"")).await.status, 200);
    }
}
