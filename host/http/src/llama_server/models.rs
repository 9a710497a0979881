//! `GET /models`, `POST /models/load` and `/models/unload`: llama-server's router, as Open WebUI calls it.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use serde_json::{Value, json};

use crate::app::App;
use crate::calls::call;
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::gate::Caller;
use crate::keys::Scope;
use crate::models::WorkerPhase;
use crate::openai::common::model;

/// All models, with what their workers do.
pub async fn list(State(app): State<App>) -> Json<Value> {
    let workers = app.models.workers();
    let status = |id: &str| {
        let worker = workers.iter().find(|worker| worker.model == id);
        match worker.map(|worker| worker.phase) {
            Some(WorkerPhase::Ready) => "loaded",
            Some(WorkerPhase::Loading) => "loading",
            Some(WorkerPhase::Failed | WorkerPhase::Crashed) => "failed",
            Some(WorkerPhase::Stopping) | None => "unloaded",
        }
    };
    let data: Vec<Value> = app
        .models
        .cards()
        .into_iter()
        .map(|card| json!({"id": card.id, "object": "model", "created": card.created, "owned_by": "onebit-host", "status": {"value": status(&card.id)}}))
        .collect();
    Json(json!({"object": "list", "data": data}))
}

/// Loads a model now.
pub async fn load(State(app): State<App>, caller: Caller, headers: HeaderMap, request: Request<Body>) -> Result<Json<Value>, ApiError> {
    caller.require(Scope::Admin)?;
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    app.lease(&model(&Fields::of(&object))?, &call).await?;
    Ok(Json(json!({"success": true})))
}

/// Sends a model away once its running answers are done.
pub async fn unload(State(app): State<App>, caller: Caller, headers: HeaderMap, request: Request<Body>) -> Result<Json<Value>, ApiError> {
    caller.require(Scope::Admin)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    app.models.unload(&model(&Fields::of(&object))?).await?;
    Ok(Json(json!({"success": true})))
}
