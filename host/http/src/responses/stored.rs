//! Routes about responses that are kept: one of them, its items, its end.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{Request, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store::{History, Kept};
use super::{owner, unknown};
use crate::app::App;
use crate::errors::{ApiError, Kind};

/// OpenAI's default.
pub(super) const PAGE: usize = 20;
/// OpenAI's limit.
pub(super) const MAX_PAGE: usize = 100;

type Id = Result<Path<String>, PathRejection>;

fn id_of(id: Id) -> Result<String, ApiError> {
    id.map(|Path(id)| id).map_err(|_| unknown("?"))
}

/// What may be asked of one.
#[derive(Debug, Default, Deserialize)]
pub struct OneQuery {
    stream: Option<String>,
}

/// `GET /v1/responses/{id}`.
pub async fn one(
    State(app): State<App>,
    id: Id,
    query: Result<Query<OneQuery>, QueryRejection>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let id = id_of(id)?;
    let Query(query) = query.map_err(|_| ApiError::invalid("stream", "the query cannot be read; it may have stream"))?;
    if query.stream.is_some_and(|word| word != "false") {
        return Err(ApiError::unsupported(
            "stream",
            "a kept response is not told as a stream; ask for it again until its status is not \"queued\" or \"in_progress\"",
        ));
    }
    let kept = app.responses.store_for(&id)?.find(&owner(&request), &id).await?.ok_or_else(|| unknown(&id))?;
    Ok(object(kept))
}

fn object(kept: Kept) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], kept.body).into_response()
}

#[derive(Serialize)]
struct Deleted {
    id: String,
    object: &'static str,
    deleted: bool,
}

/// `DELETE /v1/responses/{id}`. One that is being made ends first.
pub async fn delete(State(app): State<App>, id: Id, request: Request<Body>) -> Result<Response, ApiError> {
    let (id, owner) = (id_of(id)?, owner(&request));
    let store = app.responses.store_for(&id)?;
    if store.find(&owner, &id).await?.is_some_and(|kept| kept.running) {
        app.responses.background.cancel(&id).await;
    }
    if store.remove(&owner, &id).await? {
        Ok(Json(Deleted { id, object: "response", deleted: true }).into_response())
    } else {
        Err(unknown(&id))
    }
}

/// `POST /v1/responses/{id}/cancel`. Of one that has ended, its end is told.
pub async fn cancel(State(app): State<App>, id: Id, request: Request<Body>) -> Result<Response, ApiError> {
    let (id, owner) = (id_of(id)?, owner(&request));
    let store = app.responses.store_for(&id)?;
    let kept = store.find(&owner, &id).await?.ok_or_else(|| unknown(&id))?;
    let body: Value = serde_json::from_str(&kept.body).unwrap_or_default();
    if body["background"] != true {
        return Err(ApiError::invalid(
            "response_id",
            "only a response in the background can be cancelled; close the connection of any other",
        ));
    }
    if kept.running && !app.responses.background.cancel(&id).await {
        // It has ended in this moment, or belongs to another server on the same file.
        let kept = store.find(&owner, &id).await?.ok_or_else(|| unknown(&id))?;
        return if kept.running {
            Err(ApiError::new(Kind::InvalidValue, "this response is made by another server; cancel it there").param("response_id"))
        } else {
            Ok(object(kept))
        };
    }
    Ok(object(store.find(&owner, &id).await?.ok_or_else(|| unknown(&id))?))
}

/// Which page of items is wanted.
#[derive(Debug, Default, Deserialize)]
pub struct ItemsQuery {
    limit: Option<String>,
    order: Option<String>,
    after: Option<String>,
}

#[derive(Serialize)]
struct Items {
    object: &'static str,
    data: Vec<Value>,
    first_id: Option<Value>,
    last_id: Option<Value>,
    has_more: bool,
}

/// `GET /v1/responses/{id}/input_items`: all that the response was made from, those of earlier responses included.
pub async fn input_items(
    State(app): State<App>,
    id: Id,
    query: Result<Query<ItemsQuery>, QueryRejection>,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let id = id_of(id)?;
    let Query(query) = query.map_err(|_| ApiError::invalid("limit", "the query cannot be read; it may have limit, order and after"))?;
    let mut turns = match app.responses.store_for(&id)?.history(&owner(&request), &id).await? {
        History::Whole(turns) => turns,
        History::Missing(missing) if missing == id => return Err(unknown(&id)),
        History::Missing(missing) => {
            return Err(ApiError::new(
                Kind::UnknownResponse,
                format!("the response {missing:?}, which this one goes on from, is not stored any more"),
            ));
        }
        History::TooLong => {
            return Err(ApiError::new(Kind::UnknownResponse, "the conversation before this response is longer than is kept together"));
        }
    };
    let own = turns.pop().map(|turn| turn.input).unwrap_or_default();
    let before = turns.into_iter().flat_map(|turn| turn.input.into_iter().chain(turn.output));
    Ok(Json(page(before.chain(own).collect(), &query)?).into_response())
}

fn page(mut items: Vec<Value>, query: &ItemsQuery) -> Result<Items, ApiError> {
    let limit = match &query.limit {
        None => PAGE,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=MAX_PAGE).contains(limit))
            .ok_or_else(|| ApiError::invalid("limit", format!("\"limit\" must be a whole number from 1 to {MAX_PAGE}")))?,
    };
    match query.order.as_deref() {
        None | Some("desc") => items.reverse(),
        Some("asc") => {}
        Some(_) => return Err(ApiError::invalid("order", "\"order\" must be \"asc\" or \"desc\"")),
    }
    let first = match &query.after {
        None => 0,
        Some(id) => {
            let at = items.iter().position(|item| item["id"] == id.as_str());
            at.map(|at| at + 1).ok_or_else(|| ApiError::invalid("after", "\"after\" names no item of this response"))?
        }
    };
    let has_more = items.len() > first + limit;
    let data: Vec<Value> = items.into_iter().skip(first).take(limit).collect();
    let id_of = |item: Option<&Value>| item.map(|item| item["id"].clone());
    Ok(Items { object: "list", first_id: id_of(data.first()), last_id: id_of(data.last()), has_more, data })
}
