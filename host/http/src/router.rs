//! The routes that exist, and what surrounds them. A route that is not finished is not here: its answer is 404.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;

use crate::app::{App, RequestId};
use crate::calls;
use crate::errors::{ApiError, Kind, Reason};
use crate::gate::{self, Gate};
use crate::health;
use crate::metrics::Metrics;
use crate::openai::{chat, completions, embeddings, model_list};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// All of it.
pub fn router(app: App, gate: Arc<Gate>) -> Router {
    let metrics = Arc::clone(&app.metrics);
    // Those that ask a model: bounded by the caller's limits, listed while they run, refused in a shutdown.
    let asking = Router::new()
        .route("/v1/chat/completions", post(chat::handle))
        .route("/v1/completions", post(completions::handle))
        .route("/v1/embeddings", post(embeddings::handle))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&gate), gate::begin));
    Router::new()
        .merge(asking)
        .route("/v1/models", get(model_list::list))
        .route("/v1/models/{*id}", get(model_list::one))
        .route("/v1/requests", get(calls::list))
        .route("/v1/requests/{id}/cancel", post(calls::cancel))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(Arc::clone(&gate), gate::admit))
        // Outside the gate: a page that may call must be able to read why it was refused.
        .layer(gate::cors(&gate))
        .layer(middleware::from_fn_with_state(metrics, observe))
}

async fn unknown_route(method: Method, request: Request<Body>) -> ApiError {
    let path: String = request.uri().path().chars().take(200).collect();
    ApiError::new(
        Kind::UnknownRoute,
        format!(
            "there is no {method} {path}; this server has POST /v1/chat/completions, /v1/completions and /v1/embeddings, GET /v1/models, /v1/requests, /healthz, /readyz and /metrics"
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
    if let Some(reason) = &reason {
        metrics.failure(reason.code);
    }
    metrics.request(route, method, status.as_u16(), began.elapsed());
    span.in_scope(|| {
        let took_ms = began.elapsed().as_millis() as u64;
        // Of what went wrong on this side an operator reads what the client was told. `/readyz` may say 503 without anything being wrong.
        match &reason {
            Some(Reason { code, message }) if status.is_server_error() => {
                tracing::warn!(method, path, status = status.as_u16(), took_ms, code, error = %message, "answered");
            }
            reason => {
                let code = reason.as_ref().map_or("", |reason| reason.code);
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
