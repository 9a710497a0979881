//! What connections do: leave, dawdle, speak old HTTP, meet a server that is going down.

use std::time::{Duration, Instant};

use onebit_engine::{Event, GenerateRequest};
use onebit_http::{HttpConfig, Listen, ServeError, Server};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::client::{get, parse, post, raw, request};
use super::script::{Script, Step, config, greeting, serve, serve_with};

const PATH: &str = "/v1/completions";

fn endless(_: &GenerateRequest) -> Vec<Step> {
    let mut steps = vec![Step::Event(Event::Started { prompt_tokens: 1, cached_tokens: 0 })];
    for _ in 0..100_000 {
        steps.push(Step::Event(Event::Delta { text: "word ".into(), tokens: vec![] }));
        steps.push(Step::Wait(Duration::from_millis(5)));
    }
    steps
}

fn in_prefill(_: &GenerateRequest) -> Vec<Step> {
    vec![Step::Hang]
}

async fn leaves(script: Script, stream: bool, wait_for_bytes: bool) {
    let server = serve(&script).await;
    let body = json!({"model": "demo", "prompt": "x", "stream": stream}).to_string();
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    client.write_all(&request("POST", PATH, &[], body.as_bytes())).await.unwrap();
    script.until_running(1).await;
    if wait_for_bytes {
        client.read_exact(&mut [0; 64]).await.unwrap();
    }
    let left = Instant::now();
    drop(client);
    script.until_running(0).await;
    assert!(left.elapsed() < Duration::from_secs(1), "{:?}", left.elapsed());
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_ends_its_generation() {
    leaves(Script::new(endless), true, true).await;
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_for_a_whole_answer_ends_its_generation() {
    leaves(Script::new(endless), false, false).await;
}

#[tokio::test]
async fn a_client_that_leaves_during_the_prompt_ends_its_generation() {
    leaves(Script::new(in_prefill), true, false).await;
    leaves(Script::new(in_prefill), false, false).await;
}

#[tokio::test]
async fn all_answers_of_a_request_end_with_its_client() {
    let script = Script::new(endless);
    let server = serve(&script).await;
    let body = json!({"model": "demo", "prompt": ["a", "b"], "n": 2}).to_string();
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    client.write_all(&request("POST", PATH, &[], body.as_bytes())).await.unwrap();
    script.until_running(2).await;
    drop(client);
    script.until_running(0).await;
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_no_chunks() {
    let server = serve(&Script::new(greeting)).await;
    let body = json!({"model": "demo", "prompt": "Hi", "max_tokens": 3, "stream": true}).to_string();
    let request = format!("POST {PATH} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer = raw(server.port(), request.as_bytes()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(answer.events().last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn an_event_is_sent_when_it_happens_not_when_the_next_one_does() {
    let slow = |_: &GenerateRequest| {
        vec![
            Step::Event(Event::Started { prompt_tokens: 1, cached_tokens: 0 }),
            Step::Event(Event::Delta { text: "first".into(), tokens: vec![] }),
            Step::Hang,
        ]
    };
    let server = serve(&Script::new(slow)).await;
    let body = json!({"model": "demo", "prompt": "x", "stream": true}).to_string();
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    client.write_all(&request("POST", PATH, &[], body.as_bytes())).await.unwrap();
    let mut seen = Vec::new();
    let first = async {
        while !seen.windows(5).any(|w| w == b"first") {
            client.read_buf(&mut seen).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(5), first).await.expect("the first event");
}

#[tokio::test]
async fn slow_heads_and_slow_bodies_are_let_go() {
    let limits = HttpConfig { header_timeout: Duration::from_millis(300), body_timeout: Duration::from_millis(300), ..config() };
    let server = serve_with(&Script::new(greeting), limits).await;
    let answer = raw(server.port(), b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{").await;
    assert_eq!((answer.status, answer.code().as_str()), (408, "request_timeout"));
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    client.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc").await.unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(Duration::from_secs(5), client.read_to_end(&mut rest)).await.expect("closed").unwrap();
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused_and_the_server_lives() {
    let server = serve(&Script::new(greeting)).await;
    let many: String = (0..200).map(|i| format!("X-{i}: v\r\n")).collect();
    let long = format!("X-Long: {}\r\n", "v".repeat(1 << 20));
    for headers in [many, long] {
        let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        assert_eq!(raw(server.port(), head.as_bytes()).await.status, 431);
    }
    assert_eq!(get(server.port(), "/healthz").await.status, 200);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_let_go() {
    let flood = |_: &GenerateRequest| {
        let mut steps = vec![Step::Event(Event::Started { prompt_tokens: 1, cached_tokens: 0 })];
        steps.extend((0..100_000).map(|_| Step::Event(Event::Delta { text: "x".repeat(4096), tokens: vec![] })));
        steps.push(Step::Hang);
        steps
    };
    let script = Script::new(flood);
    let server = serve_with(&script, HttpConfig { write_timeout: Duration::from_millis(500), ..config() }).await;
    let body = json!({"model": "demo", "prompt": "x", "stream": true}).to_string();
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    client.write_all(&request("POST", PATH, &[], body.as_bytes())).await.unwrap();
    script.until_running(1).await;
    script.until_running(0).await;
    drop(client);
}

#[tokio::test]
async fn too_many_connections_wait_and_none_is_lost() {
    let server = serve_with(&Script::new(greeting), HttpConfig { max_connections: 2, ..config() }).await;
    let port = server.port();
    let asked: Vec<_> =
        (0..20).map(|_| tokio::spawn(async move { post(port, PATH, &json!({"model": "demo", "prompt": "x"})).await.status })).collect();
    for one in asked {
        assert_eq!(one.await.unwrap(), 200);
    }
}

#[tokio::test]
async fn a_shutdown_lets_running_answers_end_and_takes_no_new_ones() {
    let short = |_: &GenerateRequest| {
        let mut steps = vec![Step::Event(Event::Started { prompt_tokens: 1, cached_tokens: 0 }), Step::Wait(Duration::from_millis(500))];
        steps.push(super::script::finished(1, 1, onebit_engine::FinishReason::EndOfGeneration));
        steps
    };
    let script = Script::new(short);
    let server = serve(&script).await;
    let port = server.port();
    let running = tokio::spawn(async move { post(port, PATH, &json!({"model": "demo", "prompt": "x"})).await });
    script.until_running(1).await;
    let done = server.stop();
    assert_eq!(running.await.unwrap().status, 200);
    tokio::time::timeout(Duration::from_secs(5), done).await.expect("ends after its last answer").unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
}

#[tokio::test]
async fn a_shutdown_does_not_wait_longer_than_it_was_told() {
    let script = Script::new(in_prefill);
    let server = serve_with(&script, HttpConfig { drain_timeout: Duration::from_millis(300), ..config() }).await;
    let port = server.port();
    let running = tokio::spawn(async move {
        let mut client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        client.write_all(&request("POST", PATH, &[], br#"{"model":"demo","prompt":"x"}"#)).await.unwrap();
        client.read_to_end(&mut Vec::new()).await
    });
    script.until_running(1).await;
    let began = Instant::now();
    server.stop().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3));
    running.abort();
}

#[tokio::test]
async fn a_port_in_use_is_named_with_what_to_do() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let taken = HttpConfig { listen: vec![server.address.clone()], ..config() };
    let error = Server::bind(std::sync::Arc::new(script), &taken).await.expect_err("taken");
    assert!(matches!(error, ServeError::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains(&server.port().to_string()) && error.to_string().contains("choose another"), "{error}");
}

#[tokio::test]
async fn it_listens_on_ipv6_and_on_a_socket_file_and_a_stale_file_is_replaced() {
    let script = Script::new(greeting);
    let six = serve_with(&script, HttpConfig { listen: vec!["[::1]:0".parse().unwrap()], ..config() }).await;
    let mut client = TcpStream::connect(("::1", six.port())).await.unwrap();
    client.write_all(&request("GET", "/v1/models", &[("Host", &format!("[::1]:{}", six.port()))], b"")).await.unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    assert_eq!(parse(&all).status, 200);

    let folder = std::env::temp_dir().join(format!("onebit-http-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("s.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a stale file");
    let on_file = HttpConfig { listen: vec![Listen::Unix(path.clone())], ..config() };
    let server = serve_with(&script, on_file.clone()).await;
    let mut client = UnixStream::connect(&path).await.unwrap();
    client.write_all(&request("GET", "/v1/models", &[("Host", "anything")], b"")).await.unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    assert_eq!(parse(&all).status, 200);
    let second = Server::bind(std::sync::Arc::new(script.clone()), &on_file).await.expect_err("a live server");
    assert!(matches!(second, ServeError::InUse { .. }), "{second:?}");
    server.stop().await.unwrap();
    assert!(!path.exists(), "removed with its server");
    std::fs::write(&path, "a letter").unwrap();
    let taken = Server::bind(std::sync::Arc::new(script.clone()), &on_file).await.expect_err("somebody's file");
    assert!(taken.to_string().contains("not a socket"), "{taken}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
    let long = Listen::Unix(folder.join("x".repeat(120)));
    let error = Server::bind(std::sync::Arc::new(script), &HttpConfig { listen: vec![long], ..config() }).await.expect_err("too long");
    assert!(error.to_string().contains("shorter"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}
