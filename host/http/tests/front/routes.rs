//! Models, health, metrics, and everything that does not exist.

use serde_json::json;

use super::client::{get, post, raw, request};
use super::script::{Script, greeting, serve};

#[tokio::test]
async fn models_are_listed_and_found_by_ids_with_slashes_and_colons() {
    let server = serve(&Script::new(greeting)).await;
    let list = get(server.port(), "/v1/models").await.json();
    assert_eq!(list["object"], "list");
    assert_eq!(
        list["data"][0],
        json!({"id": "org/demo:1b", "object": "model", "created": 1_700_000_000, "owned_by": "onebit-host", "aliases": ["demo"]})
    );
    for path in ["/v1/models/org/demo:1b", "/v1/models/org%2Fdemo%3A1b", "/v1/models/demo"] {
        assert_eq!(get(server.port(), path).await.json()["id"], "org/demo:1b", "{path}");
    }
    for path in ["/v1/models/nope", "/v1/models/%FF"] {
        let answer = get(server.port(), path).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "model_not_found"), "{path}");
    }
}

#[tokio::test]
async fn an_unknown_model_is_404_with_a_suggestion() {
    let server = serve(&Script::new(greeting)).await;
    for (path, mut body) in [
        ("/v1/chat/completions", json!({"messages": [{"role": "user", "content": "x"}]})),
        ("/v1/completions", json!({"prompt": "x"})),
        ("/v1/embeddings", json!({"input": "x"})),
    ] {
        body["model"] = json!("org/demo");
        let answer = post(server.port(), path, &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "model_not_found"));
        assert!(answer.text().contains("org/demo:1b"));
    }
}

#[tokio::test]
async fn unknown_routes_are_404_and_wrong_methods_405_with_error_objects() {
    let server = serve(&Script::new(greeting)).await;
    for path in ["/v1/nothing", "/v1/audio/speech", "/v1/models/", "/v1", "/admin"] {
        let answer = get(server.port(), path).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "unknown_url"), "{path}");
    }
    for (method, path) in
        [("GET", "/v1/chat/completions"), ("DELETE", "/v1/models/demo"), ("POST", "/v1/models"), ("PUT", "/healthz"), ("BREW", "/metrics")]
    {
        let answer = raw(server.port(), &request(method, path, &[], b"")).await;
        assert_eq!((answer.status, answer.code().as_str()), (405, "method_not_supported"), "{method} {path}");
        assert!(answer.header("allow").is_some(), "{method} {path}");
    }
}

#[tokio::test]
async fn readiness_is_the_workers() {
    let server = serve(&Script::new(greeting)).await;
    assert_eq!(get(server.port(), "/healthz").await.json(), json!({"status": "ok"}));
    assert_eq!(get(server.port(), "/readyz").await.json()["models"][0]["status"], "ready");
    assert_eq!(get(server.port(), "/readyz?model=demo").await.status, 200);
    assert_eq!(get(server.port(), "/readyz?model=nope").await.status, 404);
    assert_eq!(get(server.port(), "/readyz?model=a&model=b").await.status, 400);
}

#[tokio::test]
async fn readiness_tells_what_confines_plugins_and_is_refused_where_that_is_too_little() {
    let server = serve(&Script::new(greeting)).await;
    let ready = get(server.port(), "/readyz").await.json();
    assert_eq!(ready["sandbox"], json!({"layers": "landlock 7, seccomp", "missing": [], "required": true}));
    assert_eq!((&ready["models"][0]["sandbox"], &ready["models"][0]["refused_calls"]), (&json!("landlock 7, seccomp"), &json!(3)));

    let server = serve(&Script::new(greeting).on_landlock(0)).await;
    let answer = get(server.port(), "/readyz").await;
    assert_eq!(answer.status, 503);
    let ready = answer.json();
    assert_eq!((&ready["status"], &ready["sandbox"]["missing"]), (&json!("not_ready"), &json!(["files are not restricted"])));
}

#[tokio::test]
async fn metrics_count_requests_tokens_failures_and_workers() {
    let server = serve(&Script::new(greeting)).await;
    post(server.port(), "/v1/chat/completions", &json!({"model": "demo", "messages": [{"role": "user", "content": "x"}]})).await;
    post(server.port(), "/v1/chat/completions", &json!({"model": "nope", "messages": [{"role": "user", "content": "x"}]})).await;
    let text = get(server.port(), "/metrics").await.text();
    for line in [
        "onebit_http_requests_total{route=\"/v1/chat/completions\",method=\"POST\",status=\"200\"} 1",
        "onebit_http_failures_total{reason=\"model_not_found\"} 1",
        "onebit_prompt_tokens_total{model=\"org/demo:1b\"} 7",
        "onebit_completion_tokens_total{model=\"org/demo:1b\"} 4",
        "onebit_prefill_seconds_count{model=\"org/demo:1b\"} 1",
        "onebit_queue_seconds_bucket{model=\"org/demo:1b\",le=\"0.001\"} 1",
        "onebit_model_unloads_total{model=\"org/demo:1b\",reason=\"evicted\"} 1",
        "onebit_worker_restarts_total{model=\"org/demo:1b\"} 2",
        "onebit_worker_confined{model=\"org/demo:1b\",plugin=\"scripted\",device=\"cpu\"} 1",
        "onebit_sandbox_refused_calls_total{model=\"org/demo:1b\",plugin=\"scripted\",device=\"cpu\"} 3",
        "onebit_worker_memory_measured_bytes{model=\"org/demo:1b\",plugin=\"scripted\",device=\"cpu\"} 900",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("\"nope\""), "clients do not make series");
}

#[tokio::test]
async fn a_sane_request_id_is_kept_and_a_strange_one_is_not() {
    let server = serve(&Script::new(greeting)).await;
    let kept = raw(server.port(), &request("GET", "/healthz", &[("X-Request-Id", "abc-1.2")], b"")).await;
    assert_eq!(kept.header("x-request-id"), Some("abc-1.2"));
    let made = raw(server.port(), &request("GET", "/healthz", &[("X-Request-Id", "a b\tc")], b"")).await;
    assert!(made.header("x-request-id").unwrap().starts_with("req_"));
}
