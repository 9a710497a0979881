//! How long work is told of: a line for each step, or one object when it is done.
//!
//! What fails before the first step has a status of its own; afterwards the error is the last line, and `success` never comes.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use serde_json::{Value, json};

use crate::app::App;
use crate::dialect;
use crate::errors::{ApiError, Kind};
use crate::generation::stream::{LINES, streamed};

/// A step without numbers.
pub fn step(status: &str) -> Value {
    json!({"status": status})
}

/// The last step.
pub fn success() -> Value {
    step("success")
}

/// The answer. The work is dropped with the client that asked for it.
pub async fn respond(
    app: &App,
    whole: bool,
    steps: impl Stream<Item = Result<Value, ApiError>> + Send + 'static,
) -> Result<Response, ApiError> {
    let mut steps = Box::pin(steps);
    let Some(mut last) = steps.next().await.transpose()? else {
        return Err(ApiError::new(Kind::Internal, "the work ended without a word; please report this with the request id"));
    };
    if whole {
        while let Some(step) = steps.next().await {
            last = step?;
        }
        return Ok(Json(last).into_response());
    }
    let (metrics, span) = (std::sync::Arc::clone(&app.metrics), tracing::Span::current());
    let told = stream::iter([Ok(last)]).chain(steps).map(move |step| {
        let line = step.unwrap_or_else(|error: ApiError| {
            let code = error.kind.row().code;
            span.in_scope(|| tracing::warn!(code, "broken off: {error}"));
            metrics.failure(code);
            dialect::ollama(&error)
        });
        Ok::<_, std::convert::Infallible>(Bytes::from(line.to_string() + "\n"))
    });
    Ok(streamed(Body::from_stream(told), LINES))
}
