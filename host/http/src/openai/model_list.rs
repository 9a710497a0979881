//! `GET /v1/models` and `GET /v1/models/{id}`. Ids may hold `/` and `:`, percent-encoded or not.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde::Serialize;

use crate::app::App;
use crate::errors::{ApiError, Kind};
use crate::models::ModelCard;

/// OpenAI's model object; `aliases` is ours.
#[derive(Serialize)]
pub struct ModelObject {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<String>,
}

impl From<ModelCard> for ModelObject {
    fn from(card: ModelCard) -> Self {
        Self { id: card.id, object: "model", created: card.created, owned_by: "onebit-host", aliases: card.aliases }
    }
}

/// All of them.
#[derive(Serialize)]
pub struct ModelObjects {
    object: &'static str,
    data: Vec<ModelObject>,
}

/// Lists.
pub async fn list(State(app): State<App>) -> Json<ModelObjects> {
    Json(ModelObjects { object: "list", data: app.models.cards().into_iter().map(ModelObject::from).collect() })
}

/// One of them, by name or alias.
pub async fn one(State(app): State<App>, id: Result<Path<String>, PathRejection>) -> Result<Json<ModelObject>, ApiError> {
    let Path(id) =
        id.map_err(|_| ApiError::new(Kind::UnknownModel, "the model id in the URL is not UTF-8; see GET /v1/models").param("model"))?;
    let card = app.models.cards().into_iter().find(|card| card.id == id || card.aliases.contains(&id));
    card.map(|card| Json(card.into())).ok_or_else(|| app.models.unknown(&id))
}
