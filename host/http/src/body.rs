//! From the bytes of a request to a JSON object, with every bound checked before anything is built.
//!
//! The order matters: the declared encoding and length, then the bytes as they arrive (their number, their pace, and what all requests
//! together hold), then UTF-8, then one pass that counts nesting and values, and only then a parser that allocates. `Content-Type` is not
//! looked at: `curl -d` sends a wrong one, and the guard against other sites' forms is the Origin check.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::errors::{ApiError, Kind};

/// A JSON object's members, in the order sent.
pub type Object = Map<String, Value>;

/// Deepest nesting of arrays and objects; below the parser's own recursion limit, so that the message is ours.
const MAX_DEPTH: usize = 100;
/// Most values in one body. A parsed value takes up to sixteen times its bytes, so the byte limit alone would not bound memory.
const MAX_VALUES: usize = 1 << 20;
/// Bodies larger than this are parsed off the threads that serve sockets.
const PARSE_ELSEWHERE: usize = 256 << 10;
/// Unit of the shared budget.
const BUDGET_UNIT: usize = 64 << 10;

/// How much may be read, how fast, and how much by all together.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    max_bytes: usize,
    timeout: Duration,
    budget: Arc<Semaphore>,
    budget_units: usize,
}

impl BodyLimits {
    /// `max_bytes` for one body, `timeout` for all of it to arrive, `buffered_bytes` for all bodies being read at one time.
    pub fn new(max_bytes: usize, timeout: Duration, buffered_bytes: usize) -> Self {
        // A budget smaller than one body would refuse that body for ever.
        let budget_units = buffered_bytes.max(max_bytes).div_ceil(BUDGET_UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self { max_bytes, timeout, budget: Arc::new(Semaphore::new(budget_units)), budget_units }
    }

    /// For all of a body to arrive.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Reads a whole body and parses it into an object.
    pub async fn read_object(&self, headers: &HeaderMap, body: Body) -> Result<Object, ApiError> {
        check_encoding(headers)?;
        if let Some(length) = headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok())
            && length > self.max_bytes as u64
        {
            return Err(self.too_large());
        }
        let (bytes, held) = match tokio::time::timeout(self.timeout, self.collect(body)).await {
            Ok(read) => read?,
            Err(_) => {
                return Err(ApiError::new(
                    Kind::SlowBody,
                    format!(
                        "the request body did not arrive within {} s; send it faster or raise the body time limit",
                        self.timeout.as_secs()
                    ),
                ));
            }
        };
        if bytes.len() <= PARSE_ELSEWHERE {
            return parse_object(&bytes);
        }
        let parsed = tokio::task::spawn_blocking(move || {
            let parsed = parse_object(&bytes);
            drop(held);
            parsed
        });
        parsed
            .await
            .map_err(|_| ApiError::new(Kind::Internal, "parsing the request body failed; please report this with the request id"))?
    }

    async fn collect(&self, mut body: Body) -> Result<(Bytes, Vec<OwnedSemaphorePermit>), ApiError> {
        let mut bytes = BytesMut::new();
        let mut held = Vec::new();
        let mut held_bytes = 0;
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| ApiError::new(Kind::InvalidJson, format!("the request body broke off: {error}; send it again")))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > self.max_bytes {
                return Err(self.too_large());
            }
            while bytes.len() + data.len() > held_bytes {
                let permit = Arc::clone(&self.budget).try_acquire_owned().map_err(|_| {
                    ApiError::new(
                        Kind::QueueFull,
                        format!(
                            "request bodies of {} MiB are being read already; try again in a moment",
                            (self.budget_units * BUDGET_UNIT) >> 20
                        ),
                    )
                })?;
                held.push(permit);
                held_bytes += BUDGET_UNIT;
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes.freeze(), held))
    }

    fn too_large(&self) -> ApiError {
        ApiError::new(
            Kind::TooLarge,
            format!("the request body is larger than {} bytes; send less, or start the server with a larger body limit", self.max_bytes),
        )
    }
}

/// Refuses what was packed on its way.
pub fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let named = String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase();
        if !named.is_empty() && named != "identity" {
            return Err(ApiError::new(
                Kind::Encoding,
                format!("the request body is encoded as {named:?}; this server reads plain JSON only, send it without Content-Encoding"),
            ));
        }
    }
    Ok(())
}

fn parse_object(bytes: &[u8]) -> Result<Object, ApiError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        ApiError::new(
            Kind::InvalidJson,
            format!("the request body is not UTF-8 (first wrong byte at {}); JSON is sent as UTF-8", error.valid_up_to()),
        )
    })?;
    if text.trim_ascii().is_empty() {
        return Err(ApiError::new(Kind::InvalidJson, "the request body is empty; send a JSON object"));
    }
    match parse_bounded(text)? {
        Value::Object(object) => Ok(object),
        other => Err(ApiError::new(Kind::InvalidJson, format!("the request body is {}; send a JSON object", describe(&other)))),
    }
}

/// JSON text to a value, within the bounds on nesting and number of values.
pub fn parse_bounded(text: &str) -> Result<Value, ApiError> {
    measure(text)?;
    serde_json::from_str(text).map_err(|error| ApiError::new(Kind::InvalidJson, format!("the request body is not valid JSON: {error}")))
}

/// One pass over the text: nesting and number of values, without building any.
fn measure(text: &str) -> Result<(), ApiError> {
    let (mut depth, mut values, mut in_string, mut escaped) = (0usize, 1usize, false, false);
    for byte in text.bytes() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                values += 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => values += 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(ApiError::new(
                Kind::InvalidJson,
                format!("the request body nests deeper than {MAX_DEPTH} levels; send flatter JSON"),
            ));
        }
        if values > MAX_VALUES {
            return Err(ApiError::new(
                Kind::InvalidJson,
                format!("the request body holds more than {MAX_VALUES} values; send it in several requests"),
            ));
        }
    }
    Ok(())
}

/// What a value is, for error messages.
pub fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(n) if n.is_f64() => "a fraction",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> String {
        parse_object(bytes).expect_err("must be refused").message
    }

    #[test]
    fn deep_json_is_refused_before_it_is_parsed() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(message(deep.as_bytes()).contains("deeper"));
        let fine = format!("{{\"a\":{}1{}}}", "[".repeat(99), "]".repeat(99));
        assert!(parse_object(fine.as_bytes()).is_ok());
    }

    #[test]
    fn brackets_inside_strings_do_not_nest() {
        let text = format!("{{\"a\":\"{}\\\"[[\"}}", "[".repeat(500));
        assert!(parse_object(text.as_bytes()).is_ok());
    }

    #[test]
    fn a_body_in_another_encoding_is_named_as_not_utf8() {
        assert!(message(b"{\"model\":\"\xc4\xe3\xba\xc3\"}").contains("UTF-8"));
    }

    #[test]
    fn a_million_tiny_values_are_refused() {
        let text = format!("{{\"prompt\":[{}0]}}", "0,".repeat(MAX_VALUES));
        assert!(message(text.as_bytes()).contains("values"));
    }

    #[tokio::test]
    async fn bodies_share_one_budget_and_give_it_back() {
        let limits = BodyLimits::new(BUDGET_UNIT * 2, Duration::from_secs(5), BUDGET_UNIT * 2);
        let (_, held) = limits.collect(Body::from(vec![b' '; BUDGET_UNIT * 2])).await.expect("fits");
        let error = limits.collect(Body::from("{}")).await.expect_err("nothing left");
        assert_eq!(error.kind, Kind::QueueFull);
        drop(held);
        assert!(limits.collect(Body::from("{}")).await.is_ok());
    }
}
