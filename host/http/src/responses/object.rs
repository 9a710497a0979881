//! The object of a response, at every time of its life.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::Item;
use super::input::id;
use super::request::Asked;
use super::store::Kept;
use super::tools::Namespaces;
use crate::chat::ChatRequest;
use crate::errors::{ApiError, Kind};
use crate::generation::{End, Tally};
use crate::models::Leased;
use crate::openai::head::{TimingFields, fingerprint, unix_now};

/// What holds for all its life.
#[derive(Debug, Clone)]
pub struct Head {
    /// `resp_…`.
    pub id: String,
    /// Unix seconds.
    pub created: u64,
    /// The model's own name, also where an alias was asked for.
    pub model: String,
    /// Who computes; `None` = nobody does yet.
    pub fingerprint: Option<String>,
    /// Nobody waits for it.
    pub background: bool,
    /// What it repeats of the request.
    pub echo: Map<String, Value>,
    /// Whose it is.
    pub owner: Arc<str>,
    /// The items that were sent, as JSON.
    pub input: String,
    /// Which functions are in which namespaces.
    pub namespaces: Namespaces,
}

/// Where it is.
#[derive(Debug, Clone, Copy)]
pub enum Stage<'a> {
    /// It waits for its model.
    Queued,
    /// It is written.
    Running,
    /// It is complete, or as long as it may be.
    Ended(&'a End, &'a Tally),
    /// It broke off.
    Failed(&'a ApiError),
    /// Its client wants it no more.
    Cancelled,
}

/// What [`Head::response`] says of where a response is.
pub const STATUSES: &[&str] = &["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"];

/// The object.
#[derive(Debug, Serialize)]
pub struct Response<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    completed_at: Option<u64>,
    status: &'static str,
    background: bool,
    error: Option<Failure<'a>>,
    incomplete_details: Option<Incomplete>,
    model: &'a str,
    system_fingerprint: Option<&'a str>,
    output: &'a [Item],
    usage: Option<Usage>,
    timings: Option<TimingFields>,
    #[serde(flatten)]
    echo: &'a Map<String, Value>,
}

#[derive(Debug, Serialize)]
struct Failure<'a> {
    code: &'static str,
    message: &'a str,
}

#[derive(Debug, Serialize)]
struct Incomplete {
    reason: &'static str,
}

#[derive(Debug, Serialize)]
struct Usage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Debug, Serialize)]
struct InputDetails {
    cached_tokens: u64,
    /// Nothing is written on purpose, and nothing is paid for it.
    cache_write_tokens: u64,
}

#[derive(Debug, Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl From<&Tally> for Usage {
    fn from(tally: &Tally) -> Self {
        Self {
            input_tokens: tally.prompt_tokens,
            input_tokens_details: InputDetails { cached_tokens: tally.cached_tokens, cache_write_tokens: 0 },
            output_tokens: tally.completion_tokens,
            output_tokens_details: OutputDetails { reasoning_tokens: tally.reasoning_tokens },
            total_tokens: tally.prompt_tokens + tally.completion_tokens,
        }
    }
}

impl Head {
    /// Of a response that begins now, and what is asked for it.
    pub fn new(asked: Asked, owner: Arc<str>) -> (Self, ChatRequest) {
        let Asked { chat, items, background, namespaces, echo, .. } = asked;
        let input = Value::Array(items).to_string();
        let model = chat.model.clone();
        let head = Self { id: id("resp"), created: unix_now(), model, fingerprint: None, background, echo, owner, input, namespaces };
        (head, chat)
    }

    /// Notes who computes, and what the request left to the model.
    pub fn computed_by(&mut self, lease: &dyn Leased) {
        lease.model().clone_into(&mut self.model);
        self.fingerprint = Some(fingerprint(lease.facts()));
        let defaults = lease.defaults();
        for (name, default) in [("temperature", defaults.temperature), ("top_p", defaults.top_p)] {
            if let Some(value @ Value::Null) = self.echo.get_mut(name) {
                // By way of its text: 0.2 is not to become 0.20000000298.
                *value = default.unwrap_or(1.0).to_string().parse::<f64>().map_or(Value::Null, Value::from);
            }
        }
    }

    /// Where it is now.
    pub fn response<'a>(&'a self, stage: Stage<'a>, output: &'a [Item]) -> Response<'a> {
        let mut response = Response {
            id: &self.id,
            object: "response",
            created_at: self.created,
            completed_at: None,
            status: "in_progress",
            background: self.background,
            error: None,
            incomplete_details: None,
            model: &self.model,
            system_fingerprint: self.fingerprint.as_deref(),
            output,
            usage: None,
            timings: None,
            echo: &self.echo,
        };
        match stage {
            Stage::Queued => response.status = "queued",
            Stage::Running => {}
            Stage::Ended(end, tally) => {
                response.usage = Some(tally.into());
                response.timings = Some(tally.into());
                if *end == End::Length {
                    response.status = "incomplete";
                    response.incomplete_details = Some(Incomplete { reason: "max_output_tokens" });
                } else {
                    response.status = "completed";
                    response.completed_at = Some(unix_now());
                }
            }
            Stage::Failed(error) => {
                response.status = "failed";
                response.error = Some(Failure { code: failure(error), message: &error.message });
            }
            Stage::Cancelled => response.status = "cancelled",
        }
        response
    }

    /// As it is kept.
    pub fn kept(&self, stage: Stage<'_>, output: &[Item]) -> Result<Kept, ApiError> {
        let body = serde_json::to_string(&self.response(stage, output))
            .map_err(|error| ApiError::new(Kind::Internal, format!("the response could not be written: {error}")))?;
        Ok(Kept {
            id: self.id.clone(),
            owner: Arc::clone(&self.owner),
            created: self.created,
            previous: self.echo.get("previous_response_id").and_then(Value::as_str).map(str::to_owned),
            running: matches!(stage, Stage::Queued | Stage::Running),
            body,
            input: self.input.clone(),
        })
    }
}

/// What [`failure`] says.
pub const FAILURES: &[&str] = &["rate_limit_exceeded", "invalid_prompt", "server_error"];

/// OpenAI's few words for what can go wrong in the middle.
fn failure(error: &ApiError) -> &'static str {
    match error.kind {
        Kind::QueueFull => "rate_limit_exceeded",
        kind if kind.row().status < 500 => "invalid_prompt",
        _ => "server_error",
    }
}
