//! Requests that are wrong in every way one can think of: 4xx with a sentence, never 5xx, and the next one is answered.

use onebit_tests::MODEL;
use onebit_tests::server::Home;
use serde_json::{Value, json};

use crate::{continuation, question, with};

/// Every field with values it does not take.
fn wrong_values() -> Vec<Value> {
    let odd = [json!(null), json!(true), json!("x"), json!(-1), json!(1e308), json!([]), json!({}), json!([[1]]), json!(1.5)];
    let fields: &[(&str, &[usize])] = &[
        // field, indices of `odd` that are wrong for it
        ("messages", &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("model", &[0, 1, 3, 4, 5, 6, 7, 8]),
        ("temperature", &[1, 2, 3, 4, 5, 6, 7]),
        ("top_p", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("max_tokens", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("max_completion_tokens", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("n", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("stream", &[2, 3, 4, 5, 6, 7, 8]),
        ("stop", &[1, 3, 4, 6, 7, 8]),
        ("seed", &[1, 2, 4, 5, 6, 7, 8]),
        ("logprobs", &[2, 3, 4, 5, 6, 7, 8]),
        ("top_logprobs", &[1, 2, 3, 4, 5, 6, 7, 8]),
        ("logit_bias", &[1, 2, 3, 4, 7, 8]),
        ("presence_penalty", &[1, 2, 4, 5, 6, 7]),
        ("frequency_penalty", &[1, 2, 4, 5, 6, 7]),
        ("stream_options", &[1, 2, 3, 4, 5, 7, 8]),
    ];
    fields
        .iter()
        .flat_map(|(field, wrong)| wrong.iter().map(|index| with(question("Hi", 1), &json!({*field: odd[*index]}))).collect::<Vec<_>>())
        .collect()
}

fn wrong_messages() -> Vec<Value> {
    [
        json!([{}]),
        json!([1]),
        json!([null]),
        json!(["Hi"]),
        json!([{"role": "user"}]),
        json!([{"content": "Hi"}]),
        json!([{"role": "emperor", "content": "Hi"}]),
        json!([{"role": 5, "content": "Hi"}]),
        json!([{"role": "user", "content": 5}]),
        json!([{"role": "user", "content": {"text": "Hi"}}]),
        json!([{"role": "user", "content": [{"type": "text"}]}]),
        json!([{"role": "user", "content": [{"type": "telepathy", "text": "Hi"}]}]),
        json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]),
        json!([{"role": "assistant", "tool_calls": "all of them"}]),
        json!([{"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "not json"}}]}]),
    ]
    .into_iter()
    .map(|messages| with(question("", 1), &json!({"messages": messages})))
    .collect()
}

/// Bodies that are no JSON objects at all.
fn wrong_bytes() -> Vec<Vec<u8>> {
    let mut list: Vec<Vec<u8>> =
        ["", " ", "{", "}", "[]", "5", "null", "\"text\"", "{\"model\":}", "{'model':'x'}", "{\"a\":1}{\"b\":2}", "\u{feff}{}", "NaN"]
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect();
    let valid = question("Hi", 1).to_string();
    list.push(valid.as_bytes()[..valid.len() - 3].to_vec());
    // Another encoding's bytes in a string, a lone surrogate, UTF-16, a NUL.
    list.push(b"{\"model\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"\xc4\xe3\xba\xc3\"}]}".to_vec());
    list.push(b"{\"model\":\"x\",\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}".to_vec());
    list.push("{\"model\":\"x\"}".encode_utf16().flat_map(u16::to_le_bytes).collect());
    list.push(b"{\"model\":\"\0\"}".to_vec());
    for depth in [200, 20_000, 200_000] {
        list.push([vec![b'['; depth], vec![b']'; depth]].concat());
        list.push(format!("{{\"model\":\"{MODEL}\",\"messages\":{}1{}}}", "{\"a\":".repeat(depth), "}".repeat(depth)).into_bytes());
    }
    list.push(format!("{{\"model\":\"{MODEL}\",\"max_tokens\":1{}}}", "0".repeat(5000)).into_bytes());
    list.push(vec![0xff; 4096]);
    list
}

#[test]
fn two_hundred_malformed_requests_are_the_clients_fault() {
    let server = Home::with_model().serve();
    let client = server.client();
    client.post("/v1/chat/completions", &question("Hi", 1)).good();
    let mut requests: Vec<(&str, Vec<u8>)> = Vec::new();
    for body in wrong_values().into_iter().chain(wrong_messages()) {
        requests.push(("/v1/chat/completions", body.to_string().into_bytes()));
    }
    for path in ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"] {
        requests.extend(wrong_bytes().into_iter().map(|bytes| (path, bytes)));
    }
    for prompt in [json!(null), json!(5), json!({}), json!([null]), json!([{}]), json!([[1, "a"]])] {
        requests.push(("/v1/completions", continuation(prompt, 1).to_string().into_bytes()));
    }
    assert!(requests.len() >= 200, "{} requests", requests.len());
    let mut wrong = Vec::new();
    for (path, body) in &requests {
        let answer = client.post_bytes(path, &[], body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(160)]).into_owned();
        if !(400..500).contains(&answer.status) {
            wrong.push(format!("{path} {shown}: {} {}", answer.status, answer.text.chars().take(120).collect::<String>()));
            continue;
        }
        answer.error();
    }
    assert!(wrong.is_empty(), "{} of {} are no 4xx:\n{}", wrong.len(), requests.len(), wrong.join("\n"));
    client.post("/v1/chat/completions", &question("Hi", 1)).good();
    assert_eq!(server.workers().len(), 1, "the worker of the first request lives");
}

#[test]
fn paths_and_methods_that_do_not_exist_are_said_so() {
    let server = Home::new().serve();
    let client = server.client();
    for path in ["/v1/nothing", "/v1", "/v1/chat/completions/", "/v1/models/../../etc/passwd"] {
        let answer = client.get(path);
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.status);
        answer.error();
    }
    let answer = client.get("/v1/chat/completions");
    assert_eq!(answer.status, 405, "{}", answer.text);
    assert!(answer.header("allow").is_some_and(|allow| allow.contains("POST")), "{:?}", answer.headers);
}

#[test]
fn another_content_type_is_no_crash() {
    let server = Home::with_model().serve();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=utf-16"] {
        let answer =
            server.client().post_bytes("/v1/chat/completions", &[("content-type", kind)], question("Hi", 1).to_string().as_bytes());
        assert!(answer.status == 200 || (400..500).contains(&answer.status), "{kind}: {}", answer.status);
    }
}
