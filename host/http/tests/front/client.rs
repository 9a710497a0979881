//! A client that sends exactly the bytes it is given and shows exactly what came back.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("an answer is UTF-8")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The `data:` payloads of a stream.
    pub fn events(&self) -> Vec<String> {
        self.text().split("\n\n").filter_map(|frame| frame.strip_prefix("data: ").map(str::to_owned)).collect()
    }

    /// The JSON ones of them.
    pub fn chunks(&self) -> Vec<Value> {
        self.events().iter().filter(|event| *event != "[DONE]").map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// The events of a stream that names them, with their data.
    pub fn named_events(&self) -> Vec<(String, Value)> {
        let frames = self.text();
        let named = frames.split("\n\n").filter_map(|frame| frame.strip_prefix("event: ")?.split_once("\ndata: "));
        named.map(|(name, data)| (name.to_owned(), serde_json::from_str(data).unwrap())).collect()
    }

    /// The events of a stream as OpenAPI sees them: their fields. Comments are none.
    pub fn fields_of_events(&self) -> Vec<Value> {
        let text = self.text();
        let frames = text.split("\n\n").filter(|frame| !frame.is_empty() && !frame.starts_with(':'));
        let field = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), Value::from(value))).unwrap();
        frames.map(|frame| frame.lines().map(field).collect()).collect()
    }

    /// `error.code` after checking that it is a whole error object.
    pub fn code(&self) -> String {
        let body = self.json();
        let error = &body["error"];
        assert!(!error["message"].as_str().unwrap_or_default().is_empty(), "{body}");
        assert!(error["type"].is_string() && error.get("param").is_some(), "{body}");
        error["code"].as_str().unwrap().to_owned()
    }
}

/// Sends bytes and reads until the other side closes.
pub async fn raw(port: u16, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    // A refusal may come before all is sent.
    let _ = stream.write_all(bytes).await;
    let mut all = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut all)).await.expect("an answer within 30 s");
    assert!(read.is_ok() || !all.is_empty(), "{read:?}");
    parse(&all)
}

pub fn parse(all: &[u8]) -> Answer {
    let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(all)));
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: all[end + 4..].to_vec() };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = unchunk(&answer.body);
    }
    answer
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let Some(line) = rest.windows(2).position(|w| w == b"\r\n") else { return body };
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        rest = &rest[line + 2..];
        if size == 0 || rest.len() < size {
            return body;
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}

/// The bytes of a request that closes its connection.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str("Host: localhost\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

pub async fn post(port: u16, path: &str, body: &Value) -> Answer {
    raw(port, &request("POST", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())).await
}

pub async fn get(port: u16, path: &str) -> Answer {
    raw(port, &request("GET", path, &[], b"")).await
}
