//! `GET /props` and `/slots`: what serves, and how busy it is.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::model;
use crate::app::App;
use crate::calls::call;
use crate::errors::{ApiError, Kind};

/// `?model=NAME`.
#[derive(Debug, Default, Deserialize)]
pub struct Which {
    model: Option<String>,
}

fn which(query: Result<Query<Which>, QueryRejection>) -> Result<Option<String>, ApiError> {
    let Query(which) =
        query.map_err(|error| ApiError::new(Kind::InvalidValue, format!("the query cannot be read: {error}; write ?model=NAME")))?;
    Ok(which.model)
}

/// What serves a model. Loads it if need be, as every question about a model does.
pub async fn props(
    State(app): State<App>,
    query: Result<Query<Which>, QueryRejection>,
    request: Request<Body>,
) -> Result<Json<Value>, ApiError> {
    let call = call(&request)?;
    let lease = app.lease(&model(&app, which(query)?.as_deref())?, &call).await?;
    let (facts, defaults) = (lease.facts(), lease.defaults());
    Ok(Json(json!({
        "default_generation_settings": {
            "n_ctx": facts.context,
            "params": {
                "temperature": defaults.temperature.unwrap_or(1.0),
                "top_k": defaults.top_k.unwrap_or(0),
                "top_p": defaults.top_p.unwrap_or(1.0),
                "min_p": defaults.min_p.unwrap_or(0.0),
            },
        },
        "total_slots": facts.slots,
        "model_alias": lease.model(),
        "modalities": {"vision": false, "audio": false},
        "chat_template": facts.chat_template,
        "bos_token": facts.bos,
        "eos_token": facts.eos,
        "build_info": format!("onebit-host {} ({} {}, {})", env!("CARGO_PKG_VERSION"), facts.plugin, facts.plugin_version, facts.device),
    })))
}

/// The places for requests of a model; as many of them work as requests are computed.
pub async fn slots(
    State(app): State<App>,
    query: Result<Query<Which>, QueryRejection>,
    request: Request<Body>,
) -> Result<Json<Value>, ApiError> {
    let call = call(&request)?;
    let lease = app.lease(&model(&app, which(query)?.as_deref())?, &call).await?;
    let active = app.models.workers().into_iter().find(|worker| worker.model == lease.model()).map_or(0, |worker| worker.active);
    let slots: Vec<Value> = (0..u64::from(lease.facts().slots))
        .map(|id| json!({"id": id, "n_ctx": lease.facts().context, "is_processing": id < active}))
        .collect();
    Ok(Json(slots.into()))
}
