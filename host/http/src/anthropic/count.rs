//! `POST /v1/messages/count_tokens`: what a message would cost to read. The model is loaded for it, as its tokens are its own.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};
use onebit_engine::Prompt;
use serde::Serialize;

use super::request::Asked;
use crate::app::{App, stamp};
use crate::calls::call;
use crate::chat;
use crate::errors::ApiError;

#[derive(Serialize)]
struct Count {
    input_tokens: usize,
}

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let Asked { chat, .. } = Asked::read_for_counting(&object)?;
    let lease = app.lease(&chat.model, &call).await?;
    let prepared = chat::prepare(&app, &*lease, chat).await?;
    // As a generation reads it.
    let tokens = lease.encode(Prompt::Parts(prepared.parts), true).await?;
    Ok(stamp(Json(Count { input_tokens: tokens.len() }).into_response(), lease.facts()))
}
