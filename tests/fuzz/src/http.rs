//! Bodies of requests, through all that a server has but its sockets, in front of a host that answers from a script.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};

use onebit_http::HttpConfig;
use onebit_http::fuzzing::{Answer, Front};
use serde_json::Value;

use crate::conversation::{CHATML, control_tokens};
use crate::host::{Host, HostHandle};
use crate::law;

/// The program that runs chat templates; whoever drives this target sets it, or names it in `ONEBIT_FUZZ_RENDERER`. It is a program of
/// its own because it limits its memory, which a fuzzer with its sanitiser does not survive.
pub static RENDERER: OnceLock<PathBuf> = OnceLock::new();

/// The first line is the route (`chat`, `completions`, `embeddings`; anything else is part of a chat), the rest the body.
///
/// Whatever is sent, the answer is whole: 200 with what the route promises, or a 4xx with an error object whose message is a sentence. A
/// 5xx is never the answer to a body alone.
pub fn run(bytes: &[u8]) {
    let (path, body) = match bytes.iter().position(|byte| *byte == b'\n').map(|at| bytes.split_at(at)) {
        Some((b"completions", body)) => ("/v1/completions", body),
        Some((b"embeddings", body)) => ("/v1/embeddings", body),
        Some((b"chat", body)) => ("/v1/chat/completions", body),
        _ => ("/v1/chat/completions", bytes),
    };
    let (runtime, front) = &*SERVER;
    let answer = runtime.block_on(front.post(path, body.to_vec())).expect("an answer to its end");
    check(&answer);
}

/// Never dropped: what a server holds to its end is no leak.
static SERVER: LazyLock<(tokio::runtime::Runtime, Front)> = LazyLock::new(server);

fn server() -> (tokio::runtime::Runtime, Front) {
    let renderer = RENDERER.get().cloned().or_else(|| std::env::var_os("ONEBIT_FUZZ_RENDERER").map(PathBuf::from));
    assert!(renderer.is_some(), "ONEBIT_FUZZ_RENDERER must name the program onebit-fuzz-render; `cargo xtask fuzz` sets it");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let host = HostHandle(Arc::new(Host::new(CHATML, &control_tokens())));
    let front = Front::new(Arc::new(host), &HttpConfig { renderer, ..HttpConfig::default() }).expect("a front");
    (runtime, front)
}

fn check(answer: &Answer) {
    let Answer { status, content_type, body } = answer;
    let text = std::str::from_utf8(body).expect("an answer is UTF-8");
    if *status != 200 {
        assert!((400..500).contains(status), "{status}: {text}");
        let error = &json(text)["error"];
        law::is_a_sentence(error["message"].as_str().unwrap_or_default());
        assert!(error["type"].is_string() && error["code"].is_string() && error.get("param").is_some(), "{text}");
        return;
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

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
