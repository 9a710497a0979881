//! A server that is going down: what runs ends well, what comes hears why, and probes read it.

use std::time::{Duration, Instant};

use onebit_engine::{Event, FinishReason, GenerateRequest};
use onebit_http::HttpConfig;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{get, post, raw, request};
use super::script::{Script, Step, config, finished, serve, serve_with};

const PATH: &str = "/v1/completions";

/// Streams for about a second.
fn steady(_: &GenerateRequest) -> Vec<Step> {
    let mut steps = vec![Step::Event(Event::Started { prompt_tokens: 1, cached_tokens: 0 })];
    for _ in 0..10 {
        steps.push(Step::Wait(Duration::from_millis(100)));
        steps.push(Step::Event(Event::Delta { text: "word ".into(), tokens: vec![] }));
    }
    steps.push(finished(1, 10, FinishReason::EndOfGeneration));
    steps
}

#[tokio::test]
async fn streams_end_well_while_new_work_is_refused_and_readiness_says_so() {
    let script = Script::new(steady);
    let server = serve(&script).await;
    let port = server.port();
    let streaming = tokio::spawn(async move { post(port, PATH, &json!({"model": "demo", "prompt": "x", "stream": true})).await });
    script.until_running(1).await;
    let mut idle = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(idle.read(&mut [0; 4096]).await.unwrap() > 0);
    let done = server.stop();
    // An idle connection is closed, so that its client asks on a new one.
    tokio::time::timeout(Duration::from_secs(1), idle.read_to_end(&mut Vec::new())).await.expect("closed").unwrap();
    let ready = get(port, "/readyz").await;
    assert_eq!((ready.status, &ready.json()["status"]), (503, &json!("draining")));
    assert_eq!(get(port, "/healthz").await.status, 200);
    let refused = post(port, PATH, &json!({"model": "demo", "prompt": "x"})).await;
    assert_eq!((refused.status, refused.code().as_str(), refused.header("retry-after")), (503, "shutting_down", Some("5")));
    // One request for each connection, whatever the client asks for.
    let kept = raw(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!((kept.status, kept.header("connection")), (200, Some("close")));
    let answer = streaming.await.unwrap();
    assert_eq!((answer.status, answer.events().last().unwrap().as_str()), (200, "[DONE]"));
    assert_eq!(answer.chunks().iter().filter(|chunk| chunk["choices"][0]["text"] == "word ").count(), 10);
    tokio::time::timeout(Duration::from_secs(1), done).await.expect("ends with its last answer").unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
}

#[tokio::test]
async fn connections_that_come_late_and_say_nothing_hold_nothing_up() {
    let script = Script::new(steady);
    let server = serve_with(&script, HttpConfig { drain_timeout: Duration::from_secs(30), ..config() }).await;
    let port = server.port();
    let streaming = tokio::spawn(async move { post(port, PATH, &json!({"model": "demo", "prompt": "x", "stream": true})).await });
    script.until_running(1).await;
    let began = Instant::now();
    let done = server.stop();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let _silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    done.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(streaming.await.unwrap().events().last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn a_connection_that_never_said_a_word_holds_nothing_up() {
    let server = serve(&Script::new(steady)).await;
    let mut silent = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    tokio::time::timeout(Duration::from_secs(2), server.stop()).await.expect("nothing is left to wait for").unwrap();
    assert_eq!(silent.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn what_runs_can_still_be_seen_and_cancelled() {
    let script = Script::new(|_| vec![Step::Event(Event::Started { prompt_tokens: 1, cached_tokens: 0 }), Step::Hang]);
    let server = serve(&script).await;
    let port = server.port();
    let body = json!({"model": "demo", "prompt": "x", "stream": true}).to_string();
    let bytes = request("POST", PATH, &[("X-Request-Id", "long")], body.as_bytes());
    let streaming = tokio::spawn(async move { raw(port, &bytes).await });
    script.until_running(1).await;
    let done = server.stop();
    assert_eq!(get(port, "/v1/requests").await.json()["data"][0]["id"], "long");
    assert_eq!(post(port, "/v1/requests/long/cancel", &json!({})).await.status, 200);
    assert!(streaming.await.unwrap().text().contains("request_cancelled"));
    tokio::time::timeout(Duration::from_secs(2), done).await.expect("nothing is left to wait for").unwrap();
}
