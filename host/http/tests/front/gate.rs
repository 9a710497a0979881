//! Hosts, origins and keys over the wire.

use onebit_http::HttpConfig;

use super::client::{Answer, raw, request};
use super::script::{Script, config, greeting, serve, serve_with};

#[tokio::test]
async fn foreign_host_headers_are_403_and_own_ones_pass() {
    let server = serve_with(&Script::new(greeting), HttpConfig { allowed_hosts: vec!["box.lan".into()], ..config() }).await;
    let port = server.port();
    let status = async |host: &str| raw(port, &request("GET", "/v1/models", &[("Host", host)], b"")).await.status;
    for host in ["evil.example", "localhost.evil.example", ":8080", "127.0.0.1.evil.example"] {
        assert_eq!(status(host).await, 403, "{host}");
    }
    for host in
        [&format!("localhost:{port}"), &format!("127.0.0.1:{port}"), &format!("[::1]:{port}"), &format!("LOCALHOST:{port}"), "box.lan"]
    {
        assert_eq!(status(host).await, 200, "{host}");
    }
    let absolute = b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(port, absolute).await.status, 403);
    let none = b"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(port, none).await.status, 400);
    let twice = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(port, twice).await.status, 400);
}

#[tokio::test]
async fn a_preflight_allows_every_header_asked_for_from_own_pages_only() {
    let server = serve(&Script::new(greeting)).await;
    let asked = "authorization,content-type,openai-beta,openai-organization,x-stainless-os,x-stainless-timeout,x-stainless-helper-method,\
                 x-api-key,anthropic-version,anthropic-beta,anthropic-dangerous-direct-browser-access";
    let preflight = async |origin: &str| {
        let headers = [("Origin", origin), ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", asked)];
        raw(server.port(), &request("OPTIONS", "/v1/chat/completions", &headers, b"")).await
    };
    let own = preflight("http://localhost:3000").await;
    assert!((200..300).contains(&own.status));
    assert_eq!(own.header("access-control-allow-origin"), Some("http://localhost:3000"));
    let allowed = own.header("access-control-allow-headers").unwrap();
    assert!(asked.split(',').all(|name| allowed.contains(name)), "{allowed}");
    assert!(varies(&own), "{}", own.head);
    for foreign in ["http://evil.example", "null"] {
        assert_eq!(preflight(foreign).await.header("access-control-allow-origin"), None, "{foreign}");
    }
}

#[tokio::test]
async fn posts_from_foreign_pages_are_403_and_own_pages_read_errors_and_streams() {
    let server = serve(&Script::new(greeting)).await;
    let good = br#"{"model":"demo","stream":true,"messages":[{"role":"user","content":"x"}]}"#;
    let post =
        async |origin: &str, body: &[u8]| raw(server.port(), &request("POST", "/v1/chat/completions", &[("Origin", origin)], body)).await;
    let foreign = post("http://evil.example", good).await;
    assert_eq!((foreign.status, foreign.code().as_str()), (403, "origin_not_allowed"));
    assert_eq!(foreign.header("access-control-allow-origin"), None);
    for body in [&good[..], b"{broken"] {
        let own = post("http://127.0.0.1:5173", body).await;
        assert_eq!(own.header("access-control-allow-origin"), Some("http://127.0.0.1:5173"), "{}", own.head);
        assert!(varies(&own), "{}", own.head);
        let readable = own.header("access-control-expose-headers").unwrap();
        for name in ["x-request-id", "retry-after", "x-onebit-queue-position", "x-onebit-queue-ms", "x-ratelimit-remaining-tokens"] {
            assert!(readable.split(',').any(|readable| readable == name), "{readable}");
        }
    }
    for origin in ["null", "http://127.0.0.1.evil.example"] {
        let foreign = post(origin, good).await;
        assert_eq!((foreign.status, foreign.header("access-control-allow-origin")), (403, None), "{origin}");
    }
}

fn varies(answer: &Answer) -> bool {
    answer.head.to_ascii_lowercase().lines().any(|line| line.starts_with("vary:") && line.contains("origin"))
}

#[tokio::test]
async fn a_named_page_reads_refusals_of_the_key_too_and_others_nothing() {
    let rules = HttpConfig { allowed_origins: vec!["https://chat.example".into()], api_key: Some("k".into()), ..config() };
    let server = serve_with(&Script::new(greeting), rules).await;
    for (origin, status, allowed) in [("https://chat.example", 401, Some("https://chat.example")), ("https://evil.example", 403, None)] {
        let answer = raw(server.port(), &request("GET", "/v1/models", &[("Origin", origin)], b"")).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (status, allowed), "{origin}");
    }
}

#[tokio::test]
async fn with_a_key_everything_but_the_liveness_probe_needs_it() {
    let server = serve_with(&Script::new(greeting), HttpConfig { api_key: Some("s3cret".into()), ..config() }).await;
    let status = async |path: &str, headers: &[(&str, &str)]| raw(server.port(), &request("GET", path, headers, b"")).await.status;
    for path in ["/v1/models", "/readyz", "/metrics", "/nowhere"] {
        assert_eq!(status(path, &[]).await, 401, "{path}");
    }
    assert_eq!(status("/healthz", &[]).await, 200);
    for header in [("Authorization", "Bearer s3cret"), ("x-api-key", "s3cret")] {
        assert_eq!(status("/v1/models", &[header]).await, 200);
    }
    let refused = raw(server.port(), &request("GET", "/v1/models", &[("Authorization", "Bearer wrong")], b"")).await;
    assert_eq!((refused.status, refused.code().as_str(), refused.header("www-authenticate")), (401, "invalid_api_key", Some("Bearer")));
}
