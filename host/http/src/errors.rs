//! Every way a request can end badly, and how each looks on the wire: one table, [`ROWS`].
//!
//! A dialect handler never chooses a status. It names a [`Kind`] and writes one sentence that says what happened and what to do next; the
//! row of that kind decides the status, OpenAI's `type` and `code`, and whether the client may try again. What the host, a worker or the engine
//! reports is mapped to the same kinds in `failures.rs` and nowhere else. A bad request is never a 5xx, and no row hides a failure behind a 200.
//!
//! | kind | status | type | code | what the caller does |
//! |---|---|---|---|---|
//! | `InvalidJson` | 400 | invalid_request_error | invalid_json | mends the body |
//! | `InvalidValue` | 400 | invalid_request_error | invalid_value | mends the field named by `param` |
//! | `MissingField` | 400 | invalid_request_error | missing_required_parameter | adds the field named by `param` |
//! | `UnsupportedField` | 400 | invalid_request_error | unsupported_parameter | leaves the field out |
//! | `ContextLength` | 400 | invalid_request_error | context_length_exceeded | shortens the prompt (the message has both numbers) |
//! | `UnknownPrevious` | 400 | invalid_request_error | previous_response_not_found | sends the whole conversation |
//! | `TemplateRefused` | 400 | invalid_request_error | chat_template_refused | changes the messages as the template says |
//! | `TemplateMissing` | 400 | invalid_request_error | chat_template_missing | uses `/v1/completions`, or names a template in the manifest |
//! | `UnsupportedJob` | 400 | invalid_request_error | unsupported_by_model | asks another model |
//! | `BadHeaders` | 400 | invalid_request_error | invalid_headers | mends the request's headers |
//! | `Unauthorised` | 401 | invalid_request_error | invalid_api_key | sends one of the configured keys |
//! | `ForeignHost` | 403 | invalid_request_error | host_not_allowed | uses a configured name, or configures this one |
//! | `ForeignOrigin` | 403 | invalid_request_error | origin_not_allowed | configures the page's origin |
//! | `Scope` | 403 | invalid_request_error | insufficient_scope | uses a key with the scope that the message names |
//! | `Protected` | 403 | invalid_request_error | model_protected | chooses another name, or changes the file that the message names |
//! | `UnknownModel` | 404 | invalid_request_error | model_not_found | picks a model of `/v1/models` |
//! | `UnknownResponse` | 404 | invalid_request_error | response_not_found | asks without it |
//! | `UnknownRoute` | 404 | invalid_request_error | unknown_url | picks a route that exists |
//! | `UnknownRequest` | 404 | invalid_request_error | request_not_found | looks at `/v1/requests`; it may have ended |
//! | `WrongMethod` | 405 | invalid_request_error | method_not_supported | uses a method of the `Allow` header |
//! | `SlowBody` | 408 | invalid_request_error | request_timeout | sends the body faster |
//! | `TooLarge` | 413 | invalid_request_error | request_too_large | sends less, or raises the limit |
//! | `Encoding` | 415 | invalid_request_error | unsupported_encoding | sends the body uncompressed |
//! | `RateLimited` | 429 | rate_limit_error | rate_limit_exceeded | waits as long as `Retry-After` says |
//! | `Cancelled` | 499 | invalid_request_error | request_cancelled | nothing; somebody with the right to ended it |
//! | `Internal` | 500 | server_error | internal_error | reports it with the request id |
//! | `ConstraintFailed` | 500 | server_error | constraint_failed | asks for a simpler format |
//! | `StoreFailed` | 500 | server_error | store_failed | looks at the server's disk and folders; of a response: sends `store: false` |
//! | `WorkerFailed` | 502 | server_error | worker_failed | repeats the request; the worker is restarted |
//! | `PluginFailed` | 502 | server_error | plugin_failed | reads the plugin's sentence |
//! | `PullFailed` | 502 | server_error | pull_failed | repeats the request, which goes on where it stopped; or reads why |
//! | `LoadFailed` | 503 | server_error | model_load_failed | reads why; `onebit-host explain MODEL` tells more |
//! | `Unservable` | 503 | server_error | model_unservable | runs `onebit-host explain MODEL` |
//! | `OutOfMemory` | 503 | server_error | out_of_memory | waits, or unloads another model |
//! | `QueueFull` | 503 | server_error | queue_full | waits as long as `Retry-After` says |
//! | `Draining` | 503 | server_error | shutting_down | waits for the next start |
//! | `NoSpace` | 507 | server_error | no_space | frees some space on the server's disk |

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// What kind of bad end; one row of [`ROWS`] each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the table in the module's prose says what each is")]
pub enum Kind {
    InvalidJson,
    InvalidValue,
    MissingField,
    UnsupportedField,
    ContextLength,
    UnknownPrevious,
    TemplateRefused,
    TemplateMissing,
    UnsupportedJob,
    BadHeaders,
    Unauthorised,
    ForeignHost,
    ForeignOrigin,
    Scope,
    Protected,
    UnknownModel,
    UnknownResponse,
    UnknownRoute,
    UnknownRequest,
    WrongMethod,
    SlowBody,
    TooLarge,
    Encoding,
    RateLimited,
    Cancelled,
    Internal,
    ConstraintFailed,
    StoreFailed,
    WorkerFailed,
    PluginFailed,
    PullFailed,
    LoadFailed,
    Unservable,
    OutOfMemory,
    QueueFull,
    Draining,
    NoSpace,
}

/// How one [`Kind`] looks on the wire.
#[derive(Debug)]
pub struct Row {
    /// Which.
    pub kind: Kind,
    /// HTTP status.
    pub status: u16,
    /// OpenAI's `type`.
    pub type_: &'static str,
    /// OpenAI's `code`, also the `reason` label of the failure counter.
    pub code: &'static str,
    /// Seconds for `Retry-After` where the failure itself names none; `None` = repeating the same request does not help.
    pub retry_after_s: Option<u64>,
}

const REQUEST: &str = "invalid_request_error";
const SERVER: &str = "server_error";

const fn row(kind: Kind, status: u16, type_: &'static str, code: &'static str, retry_after_s: Option<u64>) -> Row {
    Row { kind, status, type_, code, retry_after_s }
}

/// The table. Order as in the prose.
pub static ROWS: &[Row] = &[
    row(Kind::InvalidJson, 400, REQUEST, "invalid_json", None),
    row(Kind::InvalidValue, 400, REQUEST, "invalid_value", None),
    row(Kind::MissingField, 400, REQUEST, "missing_required_parameter", None),
    row(Kind::UnsupportedField, 400, REQUEST, "unsupported_parameter", None),
    row(Kind::ContextLength, 400, REQUEST, "context_length_exceeded", None),
    row(Kind::UnknownPrevious, 400, REQUEST, "previous_response_not_found", None),
    row(Kind::TemplateRefused, 400, REQUEST, "chat_template_refused", None),
    row(Kind::TemplateMissing, 400, REQUEST, "chat_template_missing", None),
    row(Kind::UnsupportedJob, 400, REQUEST, "unsupported_by_model", None),
    row(Kind::BadHeaders, 400, REQUEST, "invalid_headers", None),
    row(Kind::Unauthorised, 401, REQUEST, "invalid_api_key", None),
    row(Kind::ForeignHost, 403, REQUEST, "host_not_allowed", None),
    row(Kind::ForeignOrigin, 403, REQUEST, "origin_not_allowed", None),
    row(Kind::Scope, 403, REQUEST, "insufficient_scope", None),
    row(Kind::Protected, 403, REQUEST, "model_protected", None),
    row(Kind::UnknownModel, 404, REQUEST, "model_not_found", None),
    row(Kind::UnknownResponse, 404, REQUEST, "response_not_found", None),
    row(Kind::UnknownRoute, 404, REQUEST, "unknown_url", None),
    row(Kind::UnknownRequest, 404, REQUEST, "request_not_found", None),
    row(Kind::WrongMethod, 405, REQUEST, "method_not_supported", None),
    row(Kind::SlowBody, 408, REQUEST, "request_timeout", None),
    row(Kind::TooLarge, 413, REQUEST, "request_too_large", None),
    row(Kind::Encoding, 415, REQUEST, "unsupported_encoding", None),
    row(Kind::RateLimited, 429, "rate_limit_error", "rate_limit_exceeded", Some(1)),
    // Not 409: client libraries take that for a reason to send the request again, and it would run after all.
    row(Kind::Cancelled, 499, REQUEST, "request_cancelled", None),
    row(Kind::Internal, 500, SERVER, "internal_error", None),
    row(Kind::ConstraintFailed, 500, SERVER, "constraint_failed", None),
    row(Kind::StoreFailed, 500, SERVER, "store_failed", None),
    row(Kind::WorkerFailed, 502, SERVER, "worker_failed", Some(1)),
    row(Kind::PluginFailed, 502, SERVER, "plugin_failed", None),
    row(Kind::PullFailed, 502, SERVER, "pull_failed", None),
    row(Kind::LoadFailed, 503, SERVER, "model_load_failed", None),
    row(Kind::Unservable, 503, SERVER, "model_unservable", None),
    row(Kind::OutOfMemory, 503, SERVER, "out_of_memory", Some(5)),
    row(Kind::QueueFull, 503, SERVER, "queue_full", Some(1)),
    row(Kind::Draining, 503, SERVER, "shutting_down", Some(5)),
    row(Kind::NoSpace, 507, SERVER, "no_space", None),
];

impl Kind {
    /// The row of this kind.
    pub fn row(self) -> &'static Row {
        // The table has a row for every kind in the order of the enum; a test says so.
        &ROWS[self as usize]
    }
}

/// A bad end, ready for the wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Which row.
    pub kind: Kind,
    /// What happened, to what, what to do next.
    pub message: String,
    /// The field of the request that is at fault.
    pub param: Option<String>,
    /// Overrides the row's wait.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// An error of this kind with this sentence.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), param: None, retry_after: None }
    }

    /// Names the field at fault.
    #[must_use]
    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Says when to come back, where the failure itself knows.
    #[must_use]
    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// A field whose value cannot be used.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidValue, message).param(param)
    }

    /// A field that this version does not carry out.
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Kind::UnsupportedField, message).param(param)
    }

    /// The OpenAI error object, as it also appears inside a stream.
    pub fn body(&self) -> ErrorBody<'_> {
        let row = self.kind.row();
        ErrorBody { error: ErrorFields { message: &self.message, r#type: row.type_, param: self.param.as_deref(), code: row.code } }
    }
}

/// `{"error": {…}}`.
#[derive(Debug, Serialize)]
pub struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Debug, Serialize)]
struct ErrorFields<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: &'static str,
}

/// Left in the extensions of an error's response, so that the outer layers can count it, log it and write it in another dialect's shape
/// without reading the body.
#[derive(Debug, Clone)]
pub(crate) struct Reason(pub(crate) Arc<ApiError>);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let row = self.kind.row();
        let status = StatusCode::from_u16(row.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self.body())).into_response();
        let headers = response.headers_mut();
        let wait_s = match self.retry_after {
            // Rounded up: a client told "0" would come back at once.
            Some(wait) => Some(wait.as_millis().div_ceil(1000).max(1) as u64),
            None => row.retry_after_s,
        };
        if let Some(seconds) = wait_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind == Kind::Unauthorised {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Reason(Arc::new(self)));
        response
    }
}

/// The 404 of a model, with the names that look alike.
pub fn unknown_model(model: &str, suggestions: &[String]) -> ApiError {
    let shown: String = model.chars().take(200).collect();
    let hint = match suggestions {
        [] => "see GET /v1/models for the names this server knows".to_owned(),
        names => format!("did you mean {}? See GET /v1/models", names.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>().join(" or ")),
    };
    ApiError::new(Kind::UnknownModel, format!("the model {shown:?} does not exist on this server; {hint}")).param("model")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_row_and_its_line_in_the_prose() {
        let prose = include_str!("errors.rs");
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.kind as usize, index, "{:?} is out of order", row.kind);
            let line = format!("//! | `{:?}` | {} | {} | {} |", row.kind, row.status, row.type_, row.code);
            assert!(prose.contains(&line), "missing in the prose: {line}");
        }
        assert_eq!(ROWS.len(), Kind::NoSpace as usize + 1);
        assert!(
            ROWS.iter()
                .all(|row| StatusCode::from_u16(row.status).is_ok_and(|status| status.is_client_error() || status.is_server_error()))
        );
    }

    #[test]
    fn a_wait_is_rounded_up_and_never_zero() {
        let error = ApiError::new(Kind::QueueFull, "full").retry_after(Some(Duration::from_millis(20)));
        let response = error.into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
    }

    #[test]
    fn an_unknown_model_suggests_and_a_giant_name_is_not_echoed_whole() {
        let error = unknown_model(&"x".repeat(1 << 20), &["a:1b".into()]);
        assert!(error.message.contains("a:1b") && error.message.len() < 500);
    }
}
