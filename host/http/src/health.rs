//! `/healthz`, `/readyz` and `/metrics`: the process lives; the workers' real state; numbers.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::errors::ApiError;
use crate::gate::Caller;
use crate::keys::Scope;
use crate::models::{WorkerPhase, WorkerState};

/// The process answers. Says nothing of models and needs no key.
pub async fn healthz() -> Json<serde_json::Value> {
    Json(serde_json::json!({"status": "ok"}))
}

/// `?model=NAME`.
#[derive(Debug, Default, Deserialize)]
pub struct ReadyQuery {
    model: Option<String>,
}

#[derive(Serialize)]
struct Ready {
    status: &'static str,
    sandbox: Sandbox,
    /// Files of the server that were changed and are not taken over; what they said before still holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_reloaded: Vec<NotReloaded>,
    models: Vec<ReadyModel>,
}

#[derive(Serialize)]
struct NotReloaded {
    setting: &'static str,
    /// For admin: it may name files and other people's keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// What this kernel confines plugins with. What holds for a loaded model stands with the model.
#[derive(Serialize)]
struct Sandbox {
    layers: String,
    /// One sentence for each thing that does not hold here.
    missing: Vec<String>,
    required: bool,
}

#[derive(Serialize)]
struct ReadyModel {
    id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// Measured; before the first measurement what the plugin said it would need. Nothing for a worker that is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    /// Left out while there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_active: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_waiting: Option<u64>,
}

impl From<WorkerState> for ReadyModel {
    fn from(worker: WorkerState) -> Self {
        let gone = matches!(worker.phase, WorkerPhase::Crashed | WorkerPhase::Failed);
        let memory = if worker.memory_measured > 0 { worker.memory_measured } else { worker.memory_estimated };
        Self {
            id: worker.model,
            status: worker.phase.name(),
            detail: worker.detail,
            plugin: Some(worker.plugin),
            device: Some(worker.device),
            memory_bytes: (!gone).then_some(memory),
            sandbox: worker.sandbox,
            refused_calls: (worker.refused_calls > 0).then_some(worker.refused_calls),
            requests_active: Some(worker.active),
            requests_waiting: Some(worker.waiting),
        }
    }
}

/// Overall: requests are taken (a model that is not loaded is loaded by its first request). For one model: 200 only while its worker answers;
/// asking loads nothing.
pub async fn readyz(
    State(app): State<App>,
    caller: Caller,
    query: Result<Query<ReadyQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) =
        query.map_err(|_| ApiError::invalid("model", "the query of /readyz cannot be read; it is ?model=NAME or nothing"))?;
    let workers = app.models.workers();
    let (offered, required) = app.models.sandbox();
    // Where the sandbox is required and does not hold, no model can be loaded.
    let safe = offered.holds() || !required;
    let draining = app.draining.is_cancelled();
    let admin = caller.require(Scope::Admin).is_ok();
    let problems = app.watched.problems();
    let not_reloaded = problems.map(|(setting, problem)| NotReloaded { setting, problem: admin.then_some(problem) }).collect();
    let answer = |ready: bool, models| {
        let (code, status) = match (draining, ready && safe) {
            (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
            (false, true) => (StatusCode::OK, "ready"),
            (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "not_ready"),
        };
        let sandbox = Sandbox { layers: offered.to_string(), missing: offered.missing, required };
        (code, Json(Ready { status, sandbox, not_reloaded, models })).into_response()
    };
    let Some(name) = query.model else {
        return Ok(answer(true, workers.into_iter().map(ReadyModel::from).collect()));
    };
    let card = app.models.cards().into_iter().find(|card| card.id == name || card.aliases.contains(&name));
    let card = card.ok_or_else(|| app.models.unknown(&name))?;
    let worker = workers.into_iter().find(|worker| worker.model == card.id);
    let ready = worker.as_ref().is_some_and(|worker| worker.phase == WorkerPhase::Ready);
    let model = match worker {
        Some(worker) => worker.into(),
        None => ReadyModel {
            id: card.id,
            status: "not_loaded",
            detail: Some("the first request to this model loads it".to_owned()),
            plugin: None,
            device: None,
            memory_bytes: None,
            sandbox: None,
            refused_calls: None,
            requests_active: None,
            requests_waiting: None,
        },
    };
    Ok(answer(ready, vec![model]))
}

/// Prometheus text. It tells of everybody's use.
pub async fn metrics(State(app): State<App>, caller: Caller) -> Result<Response, ApiError> {
    caller.require(Scope::Admin)?;
    for file in app.watched.0.iter() {
        app.metrics.reloaded(file.setting(), file.problem().is_none());
    }
    let text = app.metrics.render(&app.models.workers());
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
