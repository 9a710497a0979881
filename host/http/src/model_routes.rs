//! `GET /v1/models` and `GET /v1/models/{id}`, which two dialects have: the headers say whose client it is. Ids may hold `/` and `:`,
//! percent-encoded or not.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use crate::anthropic::model_list::{ModelInfo, PageQuery, page};
use crate::app::App;
use crate::dialect::Dialect;
use crate::errors::{ApiError, Kind};
use crate::openai::model_list::{ModelObject, ModelObjects};

/// Lists.
pub async fn list(
    State(app): State<App>,
    headers: HeaderMap,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let cards = app.models.cards();
    if Dialect::of("/v1/models", &headers) == Dialect::OpenAi {
        return Ok(Json(ModelObjects::from(cards)).into_response());
    }
    let Query(query) =
        query.map_err(|_| ApiError::invalid("limit", "the query cannot be read; it may have limit, after_id and before_id"))?;
    Ok(Json(page(cards, &query)?).into_response())
}

/// One of them, by name or alias.
pub async fn one(State(app): State<App>, headers: HeaderMap, id: Result<Path<String>, PathRejection>) -> Result<Response, ApiError> {
    let Path(id) =
        id.map_err(|_| ApiError::new(Kind::UnknownModel, "the model id in the URL is not UTF-8; see GET /v1/models").param("model"))?;
    let card = app.models.cards().into_iter().find(|card| card.id == id || card.aliases.contains(&id));
    let card = card.ok_or_else(|| app.models.unknown(&id))?;
    Ok(match Dialect::of("/v1/models", &headers) {
        Dialect::Anthropic => Json(ModelInfo::from(card)).into_response(),
        _ => Json(ModelObject::from(card)).into_response(),
    })
}
