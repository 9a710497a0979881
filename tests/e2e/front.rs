//! The HTTP front: who may call it, and how old and careful clients are answered.

use std::io::Write;

use onebit_tests::server::Home;
use onebit_tests::{MODEL, raw};
use serde_json::json;

use crate::{question, with};

fn get(port: u16, path: &str, lines: &[&str]) -> raw::Raw {
    let head = lines.iter().map(|line| format!("{line}\r\n")).collect::<String>();
    raw::exchange(port, format!("GET {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n").as_bytes())
}

#[test]
fn a_foreign_host_name_is_refused() {
    let server = Home::new().serve();
    let port = server.port;
    for foreign in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", &format!(":{port}"), "localhost@evil.example", ""] {
        let answer = get(port, "/v1/models", &[&format!("Host: {foreign}")]);
        assert!([400, 403, 421].contains(&answer.status), "Host {foreign:?}: {}", answer.status);
    }
    for own in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}"), format!("LOCALHOST:{port}")] {
        assert_eq!(get(port, "/v1/models", &[&format!("Host: {own}")]).status, 200, "Host {own:?}");
    }
    let two = get(port, "/v1/models", &["Host: localhost", "Host: evil.example"]);
    assert!([400, 403, 421].contains(&two.status), "two Host headers: {}", two.status);
}

#[test]
fn a_configured_host_name_is_welcome() {
    let server = Home::new().serve_with(&["--allow-host", "ai.example"]);
    assert_eq!(get(server.port, "/v1/models", &["Host: ai.example"]).status, 200);
    assert_ne!(get(server.port, "/v1/models", &["Host: xai.example"]).status, 200);
}

#[test]
fn a_page_of_this_machine_may_call_with_any_header_and_a_foreign_one_may_not() {
    let server = Home::with_model().serve();
    let asked = ["authorization", "content-type", "openai-beta", "x-stainless-lang", "x-stainless-retry-count", "x-something-new"];
    let preflight = |origin: &str| {
        let request = format!(
            "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: POST\r\n\
             Access-Control-Request-Headers: {}\r\nConnection: close\r\n\r\n",
            asked.join(",")
        );
        raw::exchange(server.port, request.as_bytes())
    };
    let own = preflight("http://localhost:5173");
    assert!((200..300).contains(&own.status), "{}", own.head);
    assert!(
        own.header("access-control-allow-origin").is_some_and(|value| value == "http://localhost:5173" || value == "*"),
        "{}",
        own.head
    );
    let allowed = own.header("access-control-allow-headers").unwrap_or_default().to_ascii_lowercase();
    assert!(allowed == "*" || asked.iter().all(|name| allowed.contains(name)), "{allowed}");
    assert!(own.head.to_ascii_lowercase().contains("vary:"), "{}", own.head);
    for foreign in ["http://evil.example", "null", "http://localhost.evil.example"] {
        assert_eq!(preflight(foreign).header("access-control-allow-origin"), None, "{foreign}");
    }
    // The answers themselves carry the header too: good ones, errors, streams.
    let origin = [("origin", "http://localhost:5173")];
    for body in [question("Hi", 1), json!({"model": "nobody"}), with(question("Hi", 1), &json!({"stream": true}))] {
        let answer = server.client().post_bytes("/v1/chat/completions", &origin, body.to_string().as_bytes());
        assert!(answer.header("access-control-allow-origin").is_some(), "{} {}", answer.status, answer.text);
    }
    // A foreign page's request is refused before its body matters.
    let foreign =
        server.client().post_bytes("/v1/chat/completions", &[("origin", "http://evil.example")], question("Hi", 1).to_string().as_bytes());
    assert_eq!(foreign.status, 403, "{}", foreign.text);
}

#[test]
fn a_request_waits_for_its_answer_as_long_as_it_was_told_to() {
    let server = Home::with_model().serve_with(&["--start-timeout", "1ms"]);
    let answer = server.client().post("/v1/chat/completions", &question("Hi", 1));
    assert_eq!(answer.status, 503, "{}", answer.text);
    assert!(answer.header("retry-after").is_some() && answer.error().contains("ask again later"), "{}", answer.text);
}

#[test]
fn a_client_of_http_1_0_gets_a_plain_body() {
    let server = Home::with_model().serve();
    for stream in [true, false] {
        let body = with(question("Hi", 3), &json!({"stream": stream})).to_string();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = raw::exchange(server.port, request.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.head);
        assert_eq!(answer.header("transfer-encoding"), None, "{}", answer.head);
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.starts_with(if stream { "data:" } else { "{" }), "{text}");
        assert!(!stream || text.trim_end().ends_with("data: [DONE]"), "{text}");
    }
}

#[test]
fn a_stream_says_that_it_is_one_and_must_not_be_held_back() {
    let server = Home::with_model().serve();
    let stream = server.client().stream("/v1/chat/completions", &with(question("Hi", 1), &json!({"stream": true})));
    let header = |name: &str| stream.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default();
    assert!(header("content-type").starts_with("text/event-stream"), "{}", header("content-type"));
    assert!(header("cache-control").contains("no-cache"), "{}", header("cache-control"));
    assert_eq!(header("x-accel-buffering"), "no");
    assert_eq!(header("content-encoding"), "");
    stream.all();
}

#[test]
fn health_readiness_and_metrics_tell_the_real_state() {
    let server = Home::with_model().serve();
    let client = server.client();
    assert_eq!(client.get("/healthz").status, 200);
    let before = client.get("/readyz").json();
    assert!(!before.to_string().contains("\"ready\":true") || server.workers().is_empty(), "{before}");
    client.post("/v1/chat/completions", &question("Hi", 2)).good();
    let after = client.get("/readyz");
    assert_eq!(after.status, 200, "{}", after.text);
    assert!(after.text.contains(MODEL), "{}", after.text);
    let metrics = client.get("/metrics");
    assert_eq!(metrics.status, 200);
    for word in ["onebit_", "# TYPE", "tokens"] {
        assert!(metrics.text.contains(word), "{word} is missing in\n{}", metrics.text);
    }
    assert!(metrics.text.contains(MODEL), "no model label");
}

#[test]
fn a_key_is_asked_for_and_compared() {
    let server = Home::with_model().env("ONEBIT_API_KEY", "sesame-7f").serve();
    let client = server.client();
    for headers in [&[][..], &[("authorization", "Bearer wrong")], &[("authorization", "sesame-7f")], &[("authorization", "Bearer ")]] {
        let answer = client.post_bytes("/v1/chat/completions", headers, question("Hi", 1).to_string().as_bytes());
        assert_eq!(answer.status, 401, "{headers:?}: {}", answer.text);
        answer.error();
    }
    let good =
        client.post_bytes("/v1/chat/completions", &[("authorization", "Bearer sesame-7f")], question("Hi", 1).to_string().as_bytes());
    assert_eq!(good.status, 200, "{}", good.text);
}

#[test]
fn compressed_bodies_are_refused_by_name_and_a_bomb_costs_nothing() {
    let server = Home::new().serve();
    let rss = onebit_tests::processes::rss(server.pid());
    // gzip of ten mebibytes of zeros: one stored header and long matches.
    let bomb = {
        let output = std::process::Command::new("sh").args(["-c", "head -c 10485760 /dev/zero | gzip -9 -n -c"]).output().unwrap();
        assert!(output.status.success());
        output.stdout
    };
    for (encoding, body) in [("gzip", bomb.as_slice()), ("br", b"x"), ("deflate", b"x")] {
        let answer = server.client().post_bytes("/v1/chat/completions", &[("content-encoding", encoding)], body);
        assert!([413, 415].contains(&answer.status), "{encoding}: {}: {}", answer.status, answer.text);
        answer.error();
    }
    assert!(onebit_tests::processes::rss(server.pid()) < rss + (8 << 20));
}

#[test]
fn a_body_beyond_the_limit_is_413_and_one_that_never_comes_is_let_go() {
    let server = Home::new().env("ONEBIT_MAX_BODY", "64KiB").serve();
    let answer = server.client().post_bytes("/v1/chat/completions", &[], &vec![b' '; 256 * 1024]);
    assert_eq!(answer.status, 413, "{}", answer.text);
    // The length alone is enough; nothing of the body is read.
    let request = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\nConnection: close\r\n\r\n";
    assert_eq!(raw::exchange(server.port, request.as_bytes()).status, 413);
    // Heads without end.
    let mut socket = raw::connect(server.port);
    let _ = socket.write_all(format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(1 << 20)).as_bytes());
    let answer = raw::read(&mut socket);
    assert!([0, 400, 431].contains(&answer.status), "{}", answer.status);
    assert_eq!(server.client().get("/healthz").status, 200);
}
