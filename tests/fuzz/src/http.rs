//! Bodies of requests, through all that a server has but its sockets, in front of a host that answers from a script.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};

use onebit_http::fuzzing::{Answer, Front};
use onebit_http::{Arrivals, HttpConfig};
use serde_json::Value;

use crate::conversation::{CHATML, control_tokens};
use crate::host::{Host, HostHandle};
use crate::law;

/// The program that runs chat templates; whoever drives this target sets it, or names it in `ONEBIT_FUZZ_RENDERER`. It is a program of
/// its own because it limits its memory, which a fuzzer with its sanitiser does not survive.
pub static RENDERER: OnceLock<PathBuf> = OnceLock::new();

/// The first line names the route (see [`ROUTES`]; anything else is part of a chat), the rest is the body.
///
/// Whatever is sent, the answer is whole: 200 with what the route promises, or a 4xx with an error object whose message is a sentence. A
/// 5xx is never the answer to a body alone.
pub fn run(bytes: &[u8]) {
    let named = bytes.iter().position(|byte| *byte == b'\n').map(|at| bytes.split_at(at));
    let route = named.and_then(|(name, body)| ROUTES.iter().find(|route| route.0.as_bytes() == name).map(|route| (*route, body)));
    let ((_, path, shape), body) = route.unwrap_or((ROUTES[0], bytes));
    let (runtime, front) = &*SERVER;
    let answer = runtime.block_on(front.post(path, body.to_vec())).expect("an answer to its end");
    check(&answer, shape);
}

/// What answers look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    OpenAi,
    Responses,
    Anthropic,
    Ollama,
    /// OpenAI's errors around an answer of its own.
    Own,
}

/// Names of routes in inputs.
const ROUTES: &[(&str, &str, Shape)] = &[
    ("chat", "/v1/chat/completions", Shape::OpenAi),
    ("completions", "/v1/completions", Shape::OpenAi),
    ("embeddings", "/v1/embeddings", Shape::OpenAi),
    ("responses", "/v1/responses", Shape::Responses),
    ("messages", "/v1/messages", Shape::Anthropic),
    ("count", "/v1/messages/count_tokens", Shape::Anthropic),
    ("api/chat", "/api/chat", Shape::Ollama),
    ("api/generate", "/api/generate", Shape::Ollama),
    ("api/embed", "/api/embed", Shape::Ollama),
    ("api/show", "/api/show", Shape::Ollama),
    ("api/create", "/api/create", Shape::Ollama),
    ("tokenize", "/tokenize", Shape::Own),
    ("detokenize", "/detokenize", Shape::Own),
    ("template", "/apply-template", Shape::Own),
    ("infill", "/infill", Shape::Own),
    ("rerank", "/v1/rerank", Shape::Own),
];

/// Never dropped: what a server holds to its end is no leak.
static SERVER: LazyLock<(tokio::runtime::Runtime, Front)> = LazyLock::new(server);

fn server() -> (tokio::runtime::Runtime, Front) {
    let renderer = RENDERER.get().cloned().or_else(|| std::env::var_os("ONEBIT_FUZZ_RENDERER").map(PathBuf::from));
    assert!(renderer.is_some(), "ONEBIT_FUZZ_RENDERER must name the program onebit-fuzz-render; `cargo xtask fuzz` sets it");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let host = HostHandle(Arc::new(Host::new(CHATML, &control_tokens())));
    // Nothing was uploaded, and nothing can be pulled.
    let arrivals = Some(Arrivals { models_dir: "/nonexistent".into(), pull: Vec::new() });
    let front = Front::new(Arc::new(host), &HttpConfig { renderer, arrivals, ..HttpConfig::default() }).expect("a front");
    (runtime, front)
}

fn check(answer: &Answer, shape: Shape) {
    let Answer { status, content_type, body } = answer;
    let text = std::str::from_utf8(body).expect("an answer is UTF-8");
    if *status != 200 {
        assert!((400..500).contains(status), "{status}: {text}");
        let error = &json(text)["error"];
        let message = if shape == Shape::Ollama { error } else { &error["message"] };
        law::is_a_sentence(message.as_str().unwrap_or_default());
        let openai = !matches!(shape, Shape::Ollama | Shape::Anthropic);
        assert!(!openai || (error["type"].is_string() && error["code"].is_string() && error.get("param").is_some()), "{text}");
        return;
    }
    if shape != Shape::OpenAi {
        return check_other(text, content_type, shape);
    }
    match content_type.as_str() {
        "application/json" => {
            let answer = json(text);
            let list = answer.get("choices").or_else(|| answer.get("data")).and_then(Value::as_array);
            assert!(list.is_some_and(|list| !list.is_empty()) && answer["usage"]["prompt_tokens"].is_u64(), "{text}");
        }
        "text/event-stream" => {
            let mut frames: Vec<&str> = text.split_terminator("\n\n").collect();
            assert_eq!(frames.pop(), Some("data: [DONE]"), "{text}");
            assert!(!frames.is_empty());
            frames.iter().for_each(|frame| drop(json(frame.strip_prefix("data: ").expect("a frame of data"))));
        }
        other => panic!("200 with {other:?}"),
    }
}

/// Every part is JSON, and a stream has its good end.
fn check_other(text: &str, content_type: &str, shape: Shape) {
    match content_type {
        "application/json" => drop(json(text)),
        "application/x-ndjson" => {
            let lines: Vec<Value> = text.lines().map(json).collect();
            assert!(lines.last().is_some_and(|line| line["done"] == true || line["status"] == "success"), "{text}");
        }
        "text/event-stream" => {
            let data = text.split_terminator("\n\n").filter_map(|frame| frame.lines().find_map(|line| line.strip_prefix("data: ")));
            let frames: Vec<Value> = data.map(json).collect();
            let last = frames.last().expect("a stream has frames");
            let wanted = match shape {
                Shape::Anthropic => last["type"] == "message_stop",
                Shape::Responses => ["response.completed", "response.incomplete"].contains(&last["type"].as_str().unwrap_or_default()),
                _ => last["stop"] == true,
            };
            assert!(wanted, "{text}");
        }
        other => panic!("200 with {other:?}"),
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
