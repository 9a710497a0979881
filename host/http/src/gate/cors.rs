//! What browsers are told: which pages may read the answers, and which headers of them.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, header, request::Parts};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, AllowPrivateNetwork, CorsLayer, ExposeHeaders};

use super::Gate;

/// What a page may read of an answer, besides its body and the plainest headers.
const EXPOSED: [&str; 14] = [
    "request-id",
    "retry-after",
    "x-onebit-device",
    "x-onebit-plugin",
    "x-onebit-plugin-version",
    "x-onebit-queue-ms",
    "x-onebit-queue-position",
    "x-ratelimit-limit-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-request-id",
];

/// Answers preflights, and lets allowed pages read every answer, errors and streams included.
pub(crate) fn cors(gate: &Arc<Gate>) -> CorsLayer {
    let gate = Arc::clone(gate);
    let allowed = move |origin: &HeaderValue, parts: &Parts| gate.origins.allows(origin, parts.headers.get(header::HOST));
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(allowed))
        // Whatever header a client library invents next is fine; what counts is the origin.
        .allow_headers(AllowHeaders::mirror_request())
        .allow_methods(AllowMethods::list([Method::GET, Method::HEAD, Method::POST, Method::DELETE]))
        .allow_private_network(AllowPrivateNetwork::yes())
        .expose_headers(ExposeHeaders::list(EXPOSED.map(HeaderName::from_static)))
        .max_age(Duration::from_secs(600))
}
