//! Whose client is asking, and how that client's library wants to read an error.
//!
//! Every handler fails with an [`ApiError`], which is written in OpenAI's shape. For routes of another dialect the body is written anew here,
//! in one place for handlers, the gate and the router alike; status and headers stay.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::app::request_id;
use crate::errors::{ApiError, Kind, Reason};

/// By which Anthropic's clients say which version of its API they speak.
pub const ANTHROPIC_VERSION: &str = "anthropic-version";

/// What Anthropic's libraries call `x-request-id`.
static REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Whose routes they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `/v1/…`, and everything that is nobody's.
    OpenAi,
    /// `/v1/messages…`, and `/v1/models` for clients that say which version of Anthropic's API they speak.
    Anthropic,
    /// `/api/…` and `/`.
    Ollama,
}

impl Dialect {
    /// Of a request.
    pub fn of(path: &str, headers: &HeaderMap) -> Self {
        let anthropic = path == "/v1/messages" || path.starts_with("/v1/messages/");
        let models = path == "/v1/models" || path.starts_with("/v1/models/");
        if anthropic || (models && headers.contains_key(ANTHROPIC_VERSION)) {
            Self::Anthropic
        } else if path == "/" || path.starts_with("/api/") {
            Self::Ollama
        } else {
            Self::OpenAi
        }
    }

    /// Of all requests that a path may have: of some, the headers decide.
    pub fn all_of(path: &str) -> Vec<Self> {
        let versioned = HeaderMap::from_iter([(HeaderName::from_static(ANTHROPIC_VERSION), HeaderValue::from_static("2023-06-01"))]);
        let mut all = vec![Self::of(path, &HeaderMap::new()), Self::of(path, &versioned)];
        all.dedup();
        all
    }
}

/// Writes errors in the dialect of the route.
pub async fn errors(request: Request, next: Next) -> Response {
    let dialect = Dialect::of(request.uri().path(), request.headers());
    let id = request_id(&request);
    let mut response = next.run(request).await;
    if dialect == Dialect::Anthropic
        && let Ok(id) = HeaderValue::from_str(&id)
    {
        response.headers_mut().insert(REQUEST_ID.clone(), id);
    }
    let Some(Reason(error)) = response.extensions().get::<Reason>().cloned() else { return response };
    let body = match dialect {
        Dialect::OpenAi => return response,
        Dialect::Anthropic => anthropic(&error, &id),
        Dialect::Ollama => ollama(&error),
    };
    let written = axum::Json(body).into_response();
    response.headers_mut().remove(header::CONTENT_LENGTH);
    *response.body_mut() = Body::new(written.into_body());
    response
}

/// `{"type": "error", "error": {"type": …, "message": …}, "request_id": …}`.
pub fn anthropic(error: &ApiError, request_id: &str) -> Value {
    json!({"type": "error", "error": {"type": anthropic_type(error.kind), "message": error.message}, "request_id": request_id})
}

/// Anthropic's word for a bad end.
pub fn anthropic_type(kind: Kind) -> &'static str {
    match (kind, kind.row().status) {
        (Kind::QueueFull | Kind::Draining | Kind::OutOfMemory, _) => "overloaded_error",
        (_, 401) => "authentication_error",
        (_, 403) => "permission_error",
        (_, 404) => "not_found_error",
        (_, 413) => "request_too_large",
        (_, 429) => "rate_limit_error",
        (_, 400..=499) => "invalid_request_error",
        _ => "api_error",
    }
}

/// `{"error": …}`.
pub fn ollama(error: &ApiError) -> Value {
    json!({"error": error.message})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_have_their_dialect() {
        let none = HeaderMap::new();
        let mut versioned = HeaderMap::new();
        versioned.insert("anthropic-version", header::HeaderValue::from_static("2023-06-01"));
        for (path, headers, wanted) in [
            ("/v1/messages", &none, Dialect::Anthropic),
            ("/v1/messages/count_tokens", &none, Dialect::Anthropic),
            ("/v1/messagesx", &none, Dialect::OpenAi),
            ("/v1/models", &none, Dialect::OpenAi),
            ("/v1/models/a/b", &versioned, Dialect::Anthropic),
            ("/api/chat", &none, Dialect::Ollama),
            ("/", &none, Dialect::Ollama),
            ("/v1/chat/completions", &versioned, Dialect::OpenAi),
        ] {
            assert_eq!(Dialect::of(path, headers), wanted, "{path}");
        }
        assert_eq!(Dialect::all_of("/v1/models"), [Dialect::OpenAi, Dialect::Anthropic]);
        assert_eq!(Dialect::all_of("/v1/messages"), [Dialect::Anthropic]);
    }
}
