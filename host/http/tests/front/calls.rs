//! Requests while they run: listed, cancelled, and what their answers say of the wait.

use std::time::Duration;

use onebit_engine::{Event, FinishReason, GenerateRequest};
use onebit_http::HttpConfig;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::client::{Answer, get, post, raw, request};
use super::keys::{KeyFile, as_key};
use super::script::{Script, ServerHandle, Step, config, finished, greeting, serve, serve_with};

const PATH: &str = "/v1/completions";

fn endless(_: &GenerateRequest) -> Vec<Step> {
    let mut steps = vec![Step::Event(Event::Started { prompt_tokens: 5, cached_tokens: 0 })];
    steps.push(Step::Event(Event::Delta { text: "word ".into(), tokens: vec![] }));
    steps.push(Step::Hang);
    steps
}

fn start(server: &ServerHandle, key: &str, id: &str, stream: bool) -> JoinHandle<Answer> {
    let body = json!({"model": "demo", "prompt": "x", "stream": stream}).to_string();
    let headers = [("Authorization", format!("Bearer {key}")), ("X-Request-Id", id.to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (port, bytes) = (server.port(), request("POST", PATH, &headers, body.as_bytes()));
    tokio::spawn(async move { raw(port, &bytes).await })
}

async fn cancel(server: &ServerHandle, key: &str, id: &str) -> Answer {
    as_key(server, key, "POST", &format!("/v1/requests/{id}/cancel"), b"").await
}

async fn ids(server: &ServerHandle, key: &str) -> Vec<String> {
    let list = as_key(server, key, "GET", "/v1/requests", b"").await.json();
    list["data"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_cancelled_stream_ends_with_an_error_event_and_its_work_ends() {
    let script = Script::new(endless);
    let server = serve(&script).await;
    let running = start(&server, "", "stream-1", true);
    script.until_running(1).await;
    let answer = cancel(&server, "", "stream-1").await;
    assert_eq!((answer.status, answer.json()["cancelled"].clone()), (200, json!(1)));
    let ended = tokio::time::timeout(Duration::from_secs(5), running).await.expect("soon").unwrap();
    assert_eq!(ended.status, 200);
    let last: Value = serde_json::from_str(ended.events().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "request_cancelled");
    assert!(!ended.text().contains("[DONE]"));
    script.until_running(0).await;
    assert!(ids(&server, "").await.is_empty());
    assert!(get(server.port(), "/metrics").await.text().contains("onebit_http_failures_total{reason=\"request_cancelled\"} 1\n"));
}

#[tokio::test]
async fn a_cancelled_whole_answer_is_an_error_that_no_client_tries_again() {
    let script = Script::new(endless);
    let server = serve(&script).await;
    let running = start(&server, "", "whole-1", false);
    script.until_running(1).await;
    assert_eq!(cancel(&server, "", "whole-1").await.status, 200);
    let ended = tokio::time::timeout(Duration::from_secs(5), running).await.expect("soon").unwrap();
    assert_eq!((ended.status, ended.code().as_str()), (499, "request_cancelled"));
    assert_eq!(ended.header("retry-after"), None);
    script.until_running(0).await;
}

#[tokio::test]
async fn a_request_that_has_not_begun_is_cancelled_too() {
    let script = Script::new(|_| vec![Step::Hang]);
    let server = serve(&script).await;
    for stream in [true, false] {
        let running = start(&server, "", "waiting", stream);
        script.until_running(1).await;
        assert_eq!(cancel(&server, "", "waiting").await.status, 200);
        let ended = tokio::time::timeout(Duration::from_secs(5), running).await.expect("soon").unwrap();
        assert_eq!((ended.status, ended.code().as_str()), (499, "request_cancelled"));
        script.until_running(0).await;
    }
}

#[tokio::test]
async fn the_work_ends_at_once_also_where_the_client_does_not_read() {
    let flood = |_: &GenerateRequest| {
        let mut steps = vec![Step::Event(Event::Started { prompt_tokens: 1, cached_tokens: 0 })];
        steps.extend((0..100_000).map(|_| Step::Event(Event::Delta { text: "x".repeat(4096), tokens: vec![] })));
        steps
    };
    let script = Script::new(flood);
    let server = serve(&script).await;
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let body = json!({"model": "demo", "prompt": "x", "stream": true}).to_string();
    client.write_all(&request("POST", PATH, &[("X-Request-Id", "stuck")], body.as_bytes())).await.unwrap();
    script.until_running(1).await;
    // Until the buffers on the way are full and nothing moves any more.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(script.running(), 1);
    assert_eq!(cancel(&server, "", "stuck").await.status, 200);
    assert_eq!(script.running(), 0);
    drop(client);
}

#[tokio::test]
async fn what_does_not_run_cannot_be_cancelled() {
    let server = serve(&Script::new(greeting)).await;
    assert_eq!(start(&server, "", "over", false).await.unwrap().status, 200);
    for id in ["over", "never", "%FF", "a%2Fb"] {
        let answer = cancel(&server, "", id).await;
        assert!(
            (answer.status == 404 && answer.code() == "request_not_found") || (id == "%FF" && answer.status == 400),
            "{id}: {}",
            answer.status
        );
    }
}

#[tokio::test]
async fn everybody_sees_and_ends_their_own_and_admin_all() {
    let file = KeyFile::new(&[("boss", "admin", ""), ("ann", "inference", ""), ("bob", "inference", "")]);
    let script = Script::new(endless);
    let server = serve_with(&script, file.config()).await;
    let (ann, bob) = (start(&server, "ann", "of-ann", true), start(&server, "bob", "of-bob", true));
    script.until_running(2).await;
    assert_eq!(ids(&server, "ann").await, ["of-ann"]);
    assert_eq!(ids(&server, "bob").await, ["of-bob"]);
    assert_eq!(ids(&server, "boss").await.len(), 2);
    let list = as_key(&server, "ann", "GET", "/v1/requests", b"").await.json();
    let item = &list["data"][0];
    assert_eq!((&item["key"], &item["route"], &item["model"]), (&json!("ann"), &json!(PATH), &json!("org/demo:1b")));
    assert_eq!(item["tokens"], 5);
    assert!(item["since"].as_u64().unwrap() > 1_700_000_000);
    let foreign = cancel(&server, "bob", "of-ann").await;
    assert_eq!((foreign.status, foreign.code().as_str()), (404, "request_not_found"));
    assert_eq!(cancel(&server, "bob", "of-bob").await.status, 200);
    assert_eq!(cancel(&server, "boss", "of-ann").await.status, 200);
    for running in [ann, bob] {
        assert!(running.await.unwrap().text().contains("request_cancelled"));
    }
}

#[tokio::test]
async fn one_id_for_several_requests_ends_them_all() {
    let script = Script::new(endless);
    let server = serve(&script).await;
    let running = [start(&server, "", "twice", true), start(&server, "", "twice", false)];
    script.until_running(2).await;
    assert_eq!(cancel(&server, "", "twice").await.json()["cancelled"], 2);
    for one in running {
        assert!(one.await.unwrap().text().contains("request_cancelled"));
    }
}

#[tokio::test]
async fn a_cancelled_answer_is_charged_with_what_it_took() {
    let file = KeyFile::new(&[("ann", "inference", "tokens_per_minute = 5")]);
    let script = Script::new(endless);
    let server = serve_with(&script, file.config()).await;
    let running = start(&server, "ann", "x", true);
    script.until_running(1).await;
    assert_eq!(cancel(&server, "ann", "x").await.status, 200);
    running.await.unwrap();
    script.until_running(0).await;
    let next = start(&server, "ann", "y", true).await.unwrap();
    assert_eq!((next.status, next.code().as_str()), (429, "rate_limit_exceeded"));
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_request_off_the_list() {
    let script = Script::new(endless);
    let server = serve(&script).await;
    let running = start(&server, "", "left", true);
    script.until_running(1).await;
    assert_eq!(ids(&server, "").await, ["left"]);
    running.abort();
    script.until_running(0).await;
    assert!(ids(&server, "").await.is_empty());
}

#[tokio::test]
async fn answers_say_how_they_waited_as_far_as_it_is_known() {
    let late = |_: &GenerateRequest| {
        let begin = Step::Event(Event::Started { prompt_tokens: 1, cached_tokens: 0 });
        vec![Step::Wait(Duration::from_millis(120)), begin, finished(1, 1, FinishReason::EndOfGeneration)]
    };
    let server = serve(&Script::new(late).behind(3)).await;
    for stream in [true, false] {
        let answer = post(server.port(), PATH, &json!({"model": "demo", "prompt": "x", "stream": stream})).await;
        assert_eq!((answer.status, answer.header("x-onebit-queue-position")), (200, Some("3")));
        let waited: u64 = answer.header("x-onebit-queue-ms").unwrap().parse().unwrap();
        assert!((120..5_000).contains(&waited), "{waited}");
    }
    // An embedding does not say when it was begun.
    let answer = post(server.port(), "/v1/embeddings", &json!({"model": "demo", "input": "x"})).await;
    assert_eq!((answer.header("x-onebit-queue-position"), answer.header("x-onebit-queue-ms")), (Some("3"), None));
    let server = serve(&Script::new(greeting)).await;
    let answer = post(server.port(), PATH, &json!({"model": "demo", "prompt": "x"})).await;
    assert_eq!(answer.header("x-onebit-queue-position"), None, "unknown");
    assert_eq!(answer.header("x-onebit-queue-ms"), Some("0"));
    let models = get(server.port(), "/v1/models").await;
    assert_eq!(models.header("x-onebit-queue-ms"), None);
}

#[tokio::test]
async fn without_keys_strangers_see_nothing_of_each_other() {
    // Every address of this machine, so that the listener counts as one that others reach.
    let open = HttpConfig { listen: vec!["0.0.0.0:0".parse().unwrap()], insecure: true, ..config() };
    let script = Script::new(endless);
    let server = serve_with(&script, open).await;
    let running = start(&server, "", "mine", true);
    script.until_running(1).await;
    assert!(ids(&server, "").await.is_empty());
    assert_eq!(cancel(&server, "", "mine").await.status, 404);
    let metrics = get(server.port(), "/metrics").await;
    assert_eq!((metrics.status, metrics.code().as_str()), (403, "insufficient_scope"));
    running.abort();
}
