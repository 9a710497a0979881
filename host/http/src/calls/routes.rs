//! `GET /v1/requests` and `POST /v1/requests/{id}/cancel`: what runs, and ending it. Everybody sees and ends their own; admin all.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde::Serialize;

use super::Call;
use crate::app::App;
use crate::errors::{ApiError, Kind};
use crate::gate::Caller;

#[derive(Serialize)]
pub(crate) struct List {
    object: &'static str,
    data: Vec<Item>,
}

#[derive(Serialize)]
struct Item {
    id: String,
    object: &'static str,
    /// The name of the key it came with.
    key: Option<String>,
    route: String,
    /// `null` until there is one.
    model: Option<String>,
    /// Unix seconds.
    since: u64,
    /// Read and made so far.
    tokens: u64,
}

impl From<Arc<Call>> for Item {
    fn from(call: Arc<Call>) -> Self {
        Self {
            id: call.id.to_string(),
            object: "request",
            key: call.caller.name().map(str::to_owned),
            route: call.route.clone(),
            model: call.model.get().cloned(),
            since: call.since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            tokens: call.tokens.load(Relaxed),
        }
    }
}

/// What runs now.
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Json<List> {
    Json(List { object: "list", data: app.calls.of(&caller).into_iter().map(Item::from).collect() })
}

#[derive(Serialize)]
pub(crate) struct Cancelled {
    id: String,
    object: &'static str,
    /// Requests with this id; more than one only where a client gave several the same.
    cancelled: usize,
}

/// Ends what has this id.
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Cancelled>, ApiError> {
    // What is not UTF-8 is nobody's id.
    let id = id.map_or_else(|_| String::new(), |Path(id)| id);
    let meant: Vec<Arc<Call>> = app.calls.of(&caller).into_iter().filter(|call| call.id() == id).collect();
    if meant.is_empty() {
        let shown: String = id.chars().take(128).collect();
        // The same for a request of somebody else: whose ids exist is not told.
        let message = format!("no request {shown:?} of yours is running; it may have ended, GET /v1/requests lists those that run");
        return Err(ApiError::new(Kind::UnknownRequest, message));
    }
    for call in &meant {
        tracing::info!(id, by = caller.name().unwrap_or("nobody"), "cancelled");
        call.cancel();
    }
    Ok(Json(Cancelled { id, object: "request.cancelled", cancelled: meant.len() }))
}
