//! `GET /v1/models` and `GET /v1/models/{id}`, which two dialects have: the headers say whose client it is. Ids may hold `/` and `:`,
//! percent-encoded or not.

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use crate::anthropic::model_list::{MAX_PAGE, ModelInfo, PAGE, PageQuery, page};
use crate::anthropic::openapi::{model_info, model_page};
use crate::app::App;
use crate::dialect::{ANTHROPIC_VERSION, Dialect};
use crate::errors::{ApiError, Kind};
use crate::openai::model_list::{ModelObject, ModelObjects};
use crate::openai::openapi::{model_object, model_objects};
use crate::openapi::Description;
use crate::openapi::shapes::{count, text};

const TAG: &str = "Models";
const VERSION: &str = "Any; with it, the answer is in Anthropic's shape";

/// What [`list`] says of itself.
pub fn list_described() -> Description {
    let of_a_page = |about: &str| text(&format!("{about}; only with {ANTHROPIC_VERSION}"));
    Description::new(TAG, "The models that can be asked for")
        .header(ANTHROPIC_VERSION, VERSION)
        .query("limit", count(1..=MAX_PAGE as u32, &format!("Models of a page, {PAGE} if not said; only with {ANTHROPIC_VERSION}")))
        .query("after_id", of_a_page("The model before the page"))
        .query("before_id", of_a_page("The model after the page"))
        .answer("Models", model_objects())
        .answer("AnthropicModels", model_page())
}

/// What [`one`] says of itself.
pub fn one_described() -> Description {
    Description::new(TAG, "One of them")
        .header(ANTHROPIC_VERSION, VERSION)
        .path("id", "Its name or an alias; may hold slashes")
        .answer("Model", model_object())
        .answer("AnthropicModel", model_info())
        .ends(&[Kind::UnknownModel])
}

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
