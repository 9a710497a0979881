//! A blocking client with strict eyes: every answer must be UTF-8, every event JSON.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use serde_json::Value;

/// A server's address.
#[derive(Clone)]
pub struct Client {
    base: String,
    agent: ureq::Agent,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// As it came.
    pub text: String,
}

impl Answer {
    /// As JSON; a body that is none fails the test.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("the answer ({}) is no JSON: {error}: {}", self.status, self.text))
    }

    /// The JSON of an answer that must be 200.
    pub fn good(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Checks that it is an OpenAI error object with a message, and gives back the message.
    pub fn error(&self) -> String {
        let error = &self.json()["error"];
        let message = error["message"].as_str().unwrap_or_else(|| panic!("no error.message in {}", self.text));
        assert!(!message.is_empty(), "an empty error message");
        assert!(error["type"].is_string(), "no error.type in {}", self.text);
        message.to_owned()
    }
}

impl Client {
    /// `base` = `http://HOST:PORT`.
    pub fn new(base: String) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(180))).http_status_as_error(false).build();
        Self { base, agent: config.into() }
    }

    /// The address.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// GET; `None` if nobody answers.
    pub fn try_get(&self, path: &str) -> Option<Answer> {
        self.agent.get(format!("{}{path}", self.base)).call().ok().map(whole)
    }

    /// GET.
    pub fn get(&self, path: &str) -> Answer {
        self.try_get(path).unwrap_or_else(|| panic!("nobody answers GET {path}"))
    }

    /// POST of JSON; an error if the connection broke.
    pub fn try_post(&self, path: &str, body: &Value) -> Result<Answer, String> {
        let response = self.agent.post(format!("{}{path}", self.base)).send_json(body).map_err(|error| error.to_string())?;
        read(response)
    }

    /// POST of JSON.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.try_post(path, body).unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// POST of bytes that may be anything, with more headers.
    pub fn post_bytes(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = self.agent.post(format!("{}{path}", self.base)).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        whole(request.send(body).unwrap_or_else(|error| panic!("POST {path}: {error}")))
    }

    /// POST that streams. The test drives the [`Stream`].
    pub fn stream(&self, path: &str, body: &Value) -> Stream {
        let response =
            self.agent.post(format!("{}{path}", self.base)).send_json(body).unwrap_or_else(|error| panic!("POST {path}: {error}"));
        let status = response.status().as_u16();
        let headers = headers(&response);
        if status != 200 {
            panic!("POST {path}: {status}: {}", whole(response).text);
        }
        Stream { lines: Box::new(BufReader::new(response.into_body().into_reader())), headers, done: false }
    }
}

fn headers(response: &ureq::http::Response<ureq::Body>) -> Vec<(String, String)> {
    let text = |value: &ureq::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    response.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Answer, String> {
    let (status, headers) = (response.status().as_u16(), headers(&response));
    let bytes = response.body_mut().with_config().limit(256 << 20).read_to_vec().map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).expect("every answer is UTF-8");
    Ok(Answer { status, headers, text })
}

fn whole(response: ureq::http::Response<ureq::Body>) -> Answer {
    read(response).unwrap_or_else(|error| panic!("the answer broke off: {error}"))
}

/// Server-sent events as they come. Dropping it closes the connection.
pub struct Stream {
    lines: Box<dyn BufRead + Send>,
    /// Of the answer, names in lower case.
    pub headers: Vec<(String, String)>,
    done: bool,
}

impl Stream {
    /// Whether `[DONE]` was seen.
    pub fn ended_well(&self) -> bool {
        self.done
    }

    /// The next event, or `None` at the end, or an error if the connection broke.
    pub fn try_next(&mut self) -> Result<Option<Value>, String> {
        loop {
            let mut line = Vec::new();
            let n = self.lines.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
            if n == 0 {
                return Ok(None);
            }
            let line = String::from_utf8(line).expect("every line is UTF-8 by itself");
            let Some(data) = line.strip_prefix("data:").map(str::trim) else {
                continue;
            };
            if data == "[DONE]" {
                self.done = true;
                return Ok(None);
            }
            return Ok(Some(serde_json::from_str(data).unwrap_or_else(|error| panic!("an event is no JSON: {error}: {data}"))));
        }
    }

    /// All events; the stream must end with `[DONE]`.
    pub fn all(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.try_next().unwrap() {
            events.push(event);
        }
        assert!(self.done, "the stream ended without [DONE]; last event: {:?}", events.last());
        events
    }
}

/// The text of a streamed chat or completion, choice 0.
pub fn joined(events: &[Value]) -> String {
    events
        .iter()
        .filter_map(|event| {
            let choice = &event["choices"][0];
            choice["delta"]["content"].as_str().or_else(|| choice["text"].as_str())
        })
        .collect()
}

/// The finish reason of a streamed answer, choice 0.
pub fn finish_reason(events: &[Value]) -> Option<String> {
    events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str()).next_back().map(str::to_owned)
}
