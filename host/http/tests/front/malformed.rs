//! Hundreds of bad requests: each is a 4xx with a whole error object, none is a 5xx, none closes the door for the next.

use std::io::Write;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{get, raw, request};
use super::script::{Script, greeting, serve};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const EMBEDDINGS: &str = "/v1/embeddings";

/// Fields of both generation routes and values they must refuse.
fn shared_fields() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("model", vec![json!(3), json!(""), json!([]), json!({}), json!(true)]),
        ("stream", vec![json!("yes"), json!(1), json!([])]),
        ("stream_options", vec![json!("x"), json!([]), json!({"include_usage": "x"}), json!({"include_usage": 1})]),
        ("n", vec![json!(0), json!(-1), json!(1.5), json!("2"), json!(100_000), json!([]), json!(true)]),
        ("max_tokens", vec![json!(-1), json!(1.5), json!("4"), json!(1e30), json!([]), json!(99_999_999_999u64)]),
        ("max_completion_tokens", vec![json!(-5), json!("4"), json!({})]),
        ("temperature", vec![json!(-0.1), json!(2.1), json!("hot"), json!([]), json!(1e300), json!(true)]),
        ("top_p", vec![json!(-0.1), json!(1.1), json!("x"), json!({})]),
        ("top_k", vec![json!(-2), json!(1.5), json!("x")]),
        ("min_p", vec![json!(-1), json!(2), json!("x")]),
        ("typical_p", vec![json!(0), json!(-1), json!(1.1)]),
        ("repetition_penalty", vec![json!(0), json!(-1), json!(11), json!("x")]),
        ("presence_penalty", vec![json!(-2.1), json!(2.1), json!("x")]),
        ("frequency_penalty", vec![json!(-2.1), json!(2.1), json!([])]),
        ("seed", vec![json!("x"), json!(1.5), json!(1e30), json!({})]),
        (
            "stop",
            vec![
                json!(1),
                json!([1]),
                json!({}),
                json!(""),
                json!(["a", ""]),
                json!(vec!["s"; 17]),
                json!("A".repeat(200_000)),
                json!([null]),
                json!(true),
            ],
        ),
        (
            "logit_bias",
            vec![
                json!([]),
                json!("x"),
                json!({"x": 1}),
                json!({"-1": 1}),
                json!({"1": 101}),
                json!({"1": -101}),
                json!({"1": "x"}),
                json!({"9999999": 5}),
                json!({"1.5": 1}),
            ],
        ),
        ("ignore_eos", vec![json!("x"), json!(1)]),
        (
            "response_format",
            vec![json!({"type": "xml"}), json!({"type": "json_schema", "json_schema": {"name": "n"}}), json!("text"), json!([])],
        ),
        ("grammar", vec![json!(1), json!({}), json!("x".repeat(300_000))]),
        ("guided_json", vec![json!("{oops"), json!(1)]),
        ("guided_regex", vec![json!(1)]),
        ("guided_choice", vec![json!("x"), json!([1]), json!([""])]),
        ("structured_outputs", vec![json!(1), json!({"json": 1})]),
        ("stop_token_ids", vec![json!([1])]),
        ("min_tokens", vec![json!(5)]),
    ]
}

fn chat_fields() -> Vec<(&'static str, Vec<Value>)> {
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let calls = |call: Value| json!([{"role": "assistant", "tool_calls": [call]}, {"role": "user", "content": "x"}]);
    vec![
        ("logprobs", vec![json!("x"), json!(1), json!(5)]),
        ("top_logprobs", vec![json!(21), json!(-1), json!("x"), json!(2)]),
        ("tools", vec![json!([{"type": "function"}]), json!("x"), json!({"a": 1}), json!([{"type": "web_search"}])]),
        ("parallel_tool_calls", vec![json!("x"), json!(1)]),
        ("tool_choice", vec![json!("required"), json!({"type": "function"}), json!(1)]),
        ("functions", vec![json!([{"name": "f"}])]),
        ("function_call", vec![json!({"name": "f"})]),
        ("modalities", vec![json!(["text", "audio"]), json!("audio")]),
        ("chat_template_kwargs", vec![json!("x"), json!([])]),
        ("reasoning_effort", vec![json!(3), json!([]), json!("much")]),
        ("thinking_budget_tokens", vec![json!(-1), json!("x")]),
        (
            "messages",
            vec![
                json!(null),
                json!([]),
                json!({}),
                json!("x"),
                json!([1]),
                json!([null]),
                json!([[]]),
                json!([{}]),
                json!([{"role": "user"}]),
                json!([{"content": "x"}]),
                json!([{"role": "robot", "content": "x"}]),
                json!([{"role": 1, "content": "x"}]),
                json!([{"role": "", "content": "x"}]),
                json!([{"role": "USER", "content": "x"}]),
                json!([{"role": "function", "name": "f", "content": "x"}]),
                json!([{"role": "assistant"}]),
                json!([{"role": "assistant", "content": null}]),
                json!([{"role": "assistant", "content": "x", "function_call": {"name": "f"}}]),
                json!([{"role": "system", "content": null}]),
                json!([{"role": "tool", "content": null}]),
                json!([{"role": "user", "content": "x", "name": 3}]),
                user(json!(3)),
                user(json!(true)),
                user(json!({})),
                user(json!([])),
                user(json!(["x"])),
                user(json!([{}])),
                user(json!([{"type": "text"}])),
                user(json!([{"type": "text", "text": 3}])),
                user(json!([{"type": 3, "text": "x"}])),
                user(json!([{"type": "image_url", "image_url": {"url": "data:"}}])),
                user(json!([{"type": "input_audio", "input_audio": {}}])),
                user(json!([{"type": "unheard", "text": "x"}])),
                calls(json!(1)),
                calls(json!({})),
                calls(json!({"function": {}})),
                calls(json!({"function": {"name": 3}})),
                calls(json!({"type": "x", "function": {"name": "f", "arguments": "{}"}})),
                calls(json!({"function": {"name": "f", "arguments": "not json"}})),
                calls(json!({"function": {"name": "f", "arguments": "[1]"}})),
                calls(json!({"function": {"name": "f", "arguments": 3}})),
                json!([{"role": "assistant", "tool_calls": "x", "content": "y"}]),
            ],
        ),
    ]
}

fn completion_fields() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        (
            "prompt",
            vec![
                json!(null),
                json!(3),
                json!({}),
                json!([]),
                json!([[]]),
                json!([-1]),
                json!([1.5]),
                json!([1, "a"]),
                json!(["a", 1]),
                json!([null]),
                json!([[1], "a", {}]),
                json!([99_999_999]),
                json!([99_999_999_999u64]),
                json!(vec!["x"; 129]),
                json!(true),
            ],
        ),
        ("logprobs", vec![json!(true), json!(6), json!(-1), json!("x"), json!(1.5)]),
        ("echo", vec![json!(1), json!("x")]),
        ("suffix", vec![json!("x"), json!(3)]),
        ("best_of", vec![json!(129), json!(0), json!("x"), json!(-1)]),
    ]
}

fn embedding_fields() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("model", vec![json!(null), json!(""), json!(3)]),
        (
            "input",
            vec![
                json!(null),
                json!(""),
                json!([]),
                json!([""]),
                json!(3),
                json!({}),
                json!([1, "a"]),
                json!(["a", 1]),
                json!([[-1]]),
                json!([[99_999_999]]),
                json!([[]]),
                json!([null]),
                json!(vec!["x"; 2049]),
            ],
        ),
        ("encoding_format", vec![json!("int8"), json!(3), json!("")]),
        ("dimensions", vec![json!(0), json!(2), json!("x"), json!(-1)]),
    ]
}

fn chat() -> Value {
    json!({"model": "demo", "messages": [{"role": "user", "content": "x"}]})
}

fn bodies() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut all = Vec::new();
    let completion = json!({"model": "demo", "prompt": "x"});
    let embedding = json!({"model": "demo", "input": "x"});
    let tables = [
        (CHAT, chat(), shared_fields()),
        (CHAT, chat(), chat_fields()),
        (COMPLETIONS, completion.clone(), shared_fields()),
        (COMPLETIONS, completion, completion_fields()),
        (EMBEDDINGS, embedding, embedding_fields()),
    ];
    for (path, good, fields) in tables {
        for (field, values) in fields {
            for value in values {
                let mut body = good.clone();
                body[field] = value.clone();
                let shown: String = value.to_string().chars().take(60).collect();
                all.push((path, format!("{field} = {shown}"), body.to_string().into_bytes()));
            }
        }
        for field in good.as_object().unwrap().keys() {
            let mut body = good.clone();
            body.as_object_mut().unwrap().remove(field);
            all.push((path, format!("without {field}"), body.to_string().into_bytes()));
        }
    }
    let mut disagreeing = chat();
    disagreeing["max_tokens"] = json!(1);
    disagreeing["max_completion_tokens"] = json!(2);
    all.push((CHAT, "two token limits".into(), disagreeing.to_string().into_bytes()));
    let texts: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b" \r\n".to_vec(),
        b"{".to_vec(),
        b"{}".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        b"3".to_vec(),
        b"\"x\"".to_vec(),
        b"{\"model\"}".to_vec(),
        b"{'model':'demo'}".to_vec(),
        b"{\"model\":\"demo\",}".to_vec(),
        b"{\"model\":\"demo\"} {}".to_vec(),
        b"{\"model\":\"demo\",\"temperature\":NaN}".to_vec(),
        b"{\"model\":\"demo\",\"temperature\":Infinity}".to_vec(),
        b"{\"model\":\"demo\",\"temperature\":1e999}".to_vec(),
        b"{\"model\":\"demo\",\"n\":01}".to_vec(),
        b"{\"model\":\"\\ud800\"}".to_vec(),
        b"{\"model\":\"\\x41\"}".to_vec(),
        b"{\"model\":\"a\nb\"}".to_vec(),
        b"{\"model\":\"demo\",\"messages\":[{\"role\":\"user\",\"content\":\"\xc4\xe3\xba\xc3\"}]}".to_vec(),
        b"\xff\xfe{\x00}\x00".to_vec(),
        b"\x00\x00\x00".to_vec(),
        b"model=demo&prompt=x".to_vec(),
        b"--boundary\r\nContent-Disposition: form-data\r\n\r\nx\r\n--boundary--".to_vec(),
        format!("{{\"model\":\"demo\",\"messages\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000)).into_bytes(),
        format!("{{\"a\":{}1{}}}", "{\"a\":".repeat(5_000), "}".repeat(5_000)).into_bytes(),
        format!("{{\"prompt\":[{}1]}}", "1,".repeat(1 << 20)).into_bytes(),
        "{\"a\":".repeat(100_000).into_bytes(),
    ];
    for path in [CHAT, COMPLETIONS, EMBEDDINGS] {
        for text in &texts {
            let shown: String = String::from_utf8_lossy(text).chars().take(40).collect();
            all.push((path, format!("text {shown:?}"), text.clone()));
        }
    }
    all
}

#[tokio::test]
async fn hundreds_of_bad_bodies_are_4xx_with_a_message() {
    let script = Script::new(greeting);
    let server = serve(&script).await;
    let bodies = bodies();
    assert!(bodies.len() >= 200, "{}", bodies.len());
    let mut wrong = Vec::new();
    for (path, what, body) in &bodies {
        let answer = raw(server.port(), &request("POST", path, &[("Content-Type", "application/json")], body)).await;
        if answer.status != 400 {
            wrong.push(format!("{path} {what}: {}", answer.status));
            continue;
        }
        answer.code();
    }
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), bodies.len(), wrong.join("\n"));
    assert!(script.asked().is_empty(), "no bad request reached a model");
    assert_eq!(get(server.port(), "/healthz").await.status, 200);
}

#[tokio::test]
async fn compressed_and_oversized_bodies_are_refused_by_name() {
    let server = serve(&Script::new(greeting)).await;
    for encoding in ["gzip", "br", "deflate", "zstd", "gzip, identity"] {
        let answer = raw(server.port(), &request("POST", CHAT, &[("Content-Encoding", encoding)], b"\x1f\x8b\x08\x00")).await;
        assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported_encoding"), "{encoding}");
        assert!(answer.text().contains(encoding.split(',').next().unwrap()));
    }
    let plain = raw(
        server.port(),
        &request("POST", CHAT, &[("Content-Encoding", "identity"), ("Content-Type", "text/plain")], chat().to_string().as_bytes()),
    )
    .await;
    assert_eq!(plain.status, 200, "a wrong content type is tolerated where JSON parses");
    let declared =
        raw(server.port(), b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\n")
            .await;
    assert_eq!((declared.status, declared.code().as_str()), (413, "request_too_large"));
    let mut chunked =
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let piece = vec![b' '; 1 << 20];
    for _ in 0..33 {
        write!(chunked, "{:x}\r\n", piece.len()).unwrap();
        chunked.extend_from_slice(&piece);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(raw(server.port(), &chunked).await.status, 413);
}

#[tokio::test]
async fn a_client_that_sends_all_before_it_reads_still_learns_why_it_was_refused() {
    let server = serve(&Script::new(greeting)).await;
    let large = vec![b' '; 40 << 20];
    for (headers, status) in [(&[][..], 413), (&[("Content-Encoding", "gzip")], 415), (&[("Origin", "http://evil.example")], 403)] {
        let mut client = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        client.write_all(&request("POST", CHAT, headers, &large)).await.unwrap();
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        assert_eq!(super::client::parse(&all).status, status);
    }
}

#[tokio::test]
async fn bad_http_is_4xx_and_the_server_lives() {
    let server = serve(&Script::new(greeting)).await;
    for bytes in [
        &b"GARBAGE\r\n\r\n"[..],
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
    ] {
        let answer = raw(server.port(), bytes).await;
        assert!((400..500).contains(&answer.status), "{}: {}", String::from_utf8_lossy(bytes), answer.status);
    }
    assert_eq!(get(server.port(), "/healthz").await.status, 200);
}

#[tokio::test]
async fn unknown_fields_and_nulls_are_ignored() {
    let server = serve(&Script::new(greeting)).await;
    let mut body = chat();
    for (field, value) in [
        ("user", json!("u")),
        ("metadata", json!({"a": "b"})),
        ("service_tier", json!("auto")),
        ("store", json!(false)),
        ("parallel_tool_calls", json!(true)),
        ("frobnicate", json!([1])),
        ("stop", json!(null)),
        ("n", json!(null)),
        ("seed", json!(-1)),
        ("logit_bias", json!({"1": -100})),
        ("top_k", json!(-1)),
    ] {
        body[field] = value;
    }
    assert_eq!(raw(server.port(), &request("POST", CHAT, &[], body.to_string().as_bytes())).await.status, 200);
}
