//! llama-server's own routes, for the clients and editors that were written for it: tokens, templates, filling in the middle, ranking,
//! and its router's loading and unloading of models. Its OpenAI routes are the ones of `openai`.

pub mod infill;
pub mod models;
pub mod openapi;
pub mod props;
pub mod rerank;
pub mod tokens;

use crate::app::App;
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::models::WorkerPhase;

/// The model a request means. llama-server serves one and its clients do not name it: then it is the one that is loaded, or the only one there is.
fn model(app: &App, asked: Option<&str>) -> Result<String, ApiError> {
    if let Some(name) = asked.filter(|name| !name.is_empty()) {
        return Ok(name.to_owned());
    }
    let mut loaded = app.models.workers().into_iter().filter(|worker| worker.phase == WorkerPhase::Ready).map(|worker| worker.model);
    if let (Some(only), None) = (loaded.next(), loaded.next()) {
        return Ok(only);
    }
    match &app.models.cards()[..] {
        [only] => Ok(only.id.clone()),
        _ => Err(ApiError::invalid("model", "there are several models; name one of GET /v1/models in \"model\"")),
    }
}

/// The same, of a body.
fn model_of(app: &App, fields: &Fields<'_>) -> Result<String, ApiError> {
    model(app, fields.string("model")?)
}
