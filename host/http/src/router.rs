//! The routes that exist, and what surrounds them. A route that is not finished is not here: its answer is 404.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;

use crate::anthropic;
use crate::app::{App, RequestId};
use crate::calls;
use crate::dialect;
use crate::errors::{ApiError, Kind, Reason};
use crate::gate::{self, Gate};
use crate::health;
use crate::llama_server;
use crate::metrics::Metrics;
use crate::model_routes;
use crate::ollama;
use crate::openai::{self, chat, completions, embeddings};
use crate::openapi::Verb::{Delete, Get, Head, Post};
use crate::openapi::{self, Routes};
use crate::responses;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// All of it.
pub fn router(app: App, gate: Arc<Gate>) -> Router {
    let metrics = Arc::clone(&app.metrics);
    let (asking, telling) = Routes::new()
        .ask(Post, "/v1/chat/completions", chat::handle, openai::openapi::chat())
        .ask(Post, "/v1/completions", completions::handle, openai::openapi::completions())
        .ask(Post, "/v1/embeddings", embeddings::handle, openai::openapi::embeddings())
        .ask(Post, "/v1/responses", responses::create::handle, responses::openapi::create())
        .ask(Post, "/v1/responses/input_tokens", responses::count::handle, responses::openapi::count())
        .tell(Get, "/v1/responses/{id}", responses::stored::one, responses::openapi::one())
        .tell(Delete, "/v1/responses/{id}", responses::stored::delete, responses::openapi::delete())
        .tell(Post, "/v1/responses/{id}/cancel", responses::stored::cancel, responses::openapi::cancel())
        .tell(Get, "/v1/responses/{id}/input_items", responses::stored::input_items, responses::openapi::input_items())
        .ask(Post, "/v1/messages", anthropic::messages::handle, anthropic::openapi::messages())
        .ask(Post, "/v1/messages/count_tokens", anthropic::count::handle, anthropic::openapi::count())
        .tell(Get, "/v1/models", model_routes::list, model_routes::list_described())
        .tell(Get, "/v1/models/{*id}", model_routes::one, model_routes::one_described())
        .ask(Post, "/api/chat", ollama::chat::handle, ollama::openapi::chat())
        .ask(Post, "/api/generate", ollama::generate::handle, ollama::openapi::generate())
        .ask(Post, "/api/embed", ollama::embed::embed, ollama::openapi::embed())
        .ask(Post, "/api/embeddings", ollama::embed::embeddings, ollama::openapi::embeddings())
        .tell(Get, "/", ollama::models::root, ollama::openapi::root())
        .tell(Get, "/api/version", ollama::models::version, ollama::openapi::version())
        .tell(Get, "/api/tags", ollama::models::tags, ollama::openapi::tags())
        .tell(Get, "/api/ps", ollama::models::ps, ollama::openapi::ps())
        .tell(Post, "/api/show", ollama::show::handle, ollama::openapi::show())
        .tell(Post, "/api/pull", ollama::pull::handle, ollama::openapi::pull())
        .tell(Post, "/api/create", ollama::create::handle, ollama::openapi::create())
        .tell(Post, "/api/copy", ollama::library::copy, ollama::openapi::copy())
        .tell(Delete, "/api/delete", ollama::library::delete, ollama::openapi::delete())
        .tell(Head, "/api/blobs/{digest}", ollama::upload::head, ollama::openapi::blob())
        .tell(Post, "/api/blobs/{digest}", ollama::upload::post, ollama::openapi::upload())
        .ask(Post, "/tokenize", llama_server::tokens::tokenize, llama_server::openapi::tokenize())
        .ask(Post, "/detokenize", llama_server::tokens::detokenize, llama_server::openapi::detokenize())
        .ask(Post, "/apply-template", llama_server::tokens::apply_template, llama_server::openapi::apply_template())
        .ask(Post, "/infill", llama_server::infill::handle, llama_server::openapi::infill())
        .ask(Post, "/v1/rerank", llama_server::rerank::handle, llama_server::openapi::rerank())
        .ask(Post, "/rerank", llama_server::rerank::handle, llama_server::openapi::rerank())
        .ask(Get, "/props", llama_server::props::props, llama_server::openapi::props())
        .ask(Get, "/slots", llama_server::props::slots, llama_server::openapi::slots())
        .tell(Get, "/models", llama_server::models::list, llama_server::openapi::models())
        .ask(Post, "/models/load", llama_server::models::load, llama_server::openapi::load())
        .tell(Post, "/models/unload", llama_server::models::unload, llama_server::openapi::unload())
        .tell(Get, "/v1/requests", calls::list, openapi::requests())
        .tell(Post, "/v1/requests/{id}/cancel", calls::cancel, openapi::request_cancel())
        .tell(Get, "/health", health::healthz, openapi::health(false))
        .tell(Get, "/healthz", health::healthz, openapi::health(true))
        .tell(Get, "/readyz", health::readyz, openapi::ready())
        .tell(Get, "/metrics", health::metrics, openapi::metrics())
        .publish("/openapi.json");
    // Those that ask a model: bounded by the caller's limits, listed while they run, refused in a shutdown.
    let asking = asking.route_layer(middleware::from_fn_with_state(Arc::clone(&gate), gate::begin));
    telling
        .merge(asking)
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(Arc::clone(&gate), gate::admit))
        // Outside the gate: its refusals, too, are read by the client's own library.
        .layer(middleware::from_fn(dialect::errors))
        // Outside the gate: a page that may call must be able to read why it was refused.
        .layer(gate::cors(&gate))
        .layer(middleware::from_fn_with_state(metrics, observe))
}

async fn unknown_route(method: Method, request: Request<Body>) -> ApiError {
    let path: String = request.uri().path().chars().take(200).collect();
    ApiError::new(
        Kind::UnknownRoute,
        format!(
            "there is no {method} {path}; docs/http-api.md lists what there is: OpenAI's routes under /v1, Ollama's under /api, and /healthz, /readyz, /metrics and /openapi.json"
        ),
    )
}

async fn wrong_method(method: Method, request: Request<Body>) -> ApiError {
    let path: String = request.uri().path().chars().take(200).collect();
    ApiError::new(Kind::WrongMethod, format!("{path} does not take {method}; see the Allow header"))
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let words = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
    tracing::error!("a handler panicked: {words}");
    ApiError::new(Kind::Internal, "the server made a mistake with this request; please report it with the request id").into_response()
}

/// Numbers, counts and logs every request, whatever happens to it.
async fn observe(State(metrics): State<Arc<Metrics>>, mut request: Request<Body>, next: Next) -> Response {
    let began = Instant::now();
    let in_flight = metrics.in_flight();
    let method = known(request.method());
    let path = request.uri().path().to_owned();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("other", MatchedPath::as_str);
    let id = request_id(&request);
    request.extensions_mut().insert(RequestId(id.to_str().unwrap_or_default().into()));
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default(), key = tracing::field::Empty);
    let mut response = next.run(request).instrument(span.clone()).await;
    drop(in_flight);
    let status = response.status();
    let reason = response.extensions().get::<Reason>().cloned();
    if let Some(Reason(error)) = &reason {
        metrics.failure(error.kind.row().code);
    }
    metrics.request(route, method, status.as_u16(), began.elapsed());
    span.in_scope(|| {
        let took_ms = began.elapsed().as_millis() as u64;
        // Of what went wrong on this side an operator reads what the client was told. `/readyz` may say 503 without anything being wrong.
        match &reason {
            Some(Reason(error)) if status.is_server_error() => {
                let code = error.kind.row().code;
                tracing::warn!(method, path, status = status.as_u16(), took_ms, code, %error, "answered");
            }
            reason => {
                let code = reason.as_ref().map_or("", |Reason(error)| error.kind.row().code);
                tracing::debug!(method, path, status = status.as_u16(), took_ms, code, "answered");
            }
        }
    });
    response.headers_mut().insert(REQUEST_ID.clone(), id);
    response
}

/// The client's own id if it is a sane one, so that two logs can be laid side by side; else a new one.
fn request_id(request: &Request<Body>) -> HeaderValue {
    let given = request.headers().get(&REQUEST_ID).filter(|id| {
        let id = id.as_bytes();
        (1..=128).contains(&id.len()) && id.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
    });
    match given {
        Some(id) => id.clone(),
        None => HeaderValue::from_str(&format!("req_{}", uuid::Uuid::new_v4().simple()))
            .unwrap_or_else(|_| HeaderValue::from_static("req_none")),
    }
}

/// Methods are free text on the wire and must not become free labels.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        _ => "OTHER",
    }
}
