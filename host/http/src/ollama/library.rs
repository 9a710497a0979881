//! `POST /api/copy` and `DELETE /api/delete`. Both change what others see, so both are for admins.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};

use super::{known_name, name};
use crate::app::App;
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::gate::Caller;
use crate::keys::Scope;

/// Gives a model a second name.
pub async fn copy(State(app): State<App>, caller: Caller, headers: HeaderMap, request: Request<Body>) -> Result<(), ApiError> {
    caller.require(Scope::Admin)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let source = name::read(&fields, "source", None, "the name of a model of GET /api/tags")?;
    let destination = name::read(&fields, "destination", None, "the new name")?;
    app.models.copy(&known_name(&app, source), destination).await
}

/// Removes a model.
pub async fn delete(State(app): State<App>, caller: Caller, headers: HeaderMap, request: Request<Body>) -> Result<(), ApiError> {
    caller.require(Scope::Admin)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let asked = name::read(&Fields::of(&object), "model", Some("name"), "the name of a model of GET /api/tags")?;
    app.models.remove(&known_name(&app, asked)).await
}
