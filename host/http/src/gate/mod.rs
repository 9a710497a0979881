//! Who may ask: checked before a body is looked at, in this order: the `Host` header, the page that asks (`Origin`), the key.
//!
//! A server on loopback is reachable by every web page its user opens. A page can point its own name at 127.0.0.1 (rebinding), which the
//! `Host` check ends; and it can send requests across sites, which the `Origin` check ends. Neither needs a key to be set up.

mod hosts;
mod keys;
mod origins;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, AllowPrivateNetwork, CorsLayer, ExposeHeaders};

use crate::config::HttpConfig;
use crate::errors::{ApiError, Kind};

pub use hosts::Via;

/// The rules of one server.
#[derive(Debug)]
pub struct Gate {
    hosts: hosts::Hosts,
    origins: origins::Origins,
    keys: keys::Keys,
}

impl Gate {
    /// From the settings.
    pub fn new(config: &HttpConfig) -> Self {
        Self {
            hosts: hosts::Hosts::new(config),
            origins: origins::Origins::new(&config.allowed_origins),
            keys: keys::Keys::new(&config.api_keys),
        }
    }

    fn check(&self, request: &Request<Body>) -> Result<(), ApiError> {
        let via = request.extensions().get::<Via>().copied().unwrap_or(Via::Network);
        self.hosts.check(request, via)?;
        let origins = request.headers().get_all(header::ORIGIN);
        for origin in origins {
            if !self.origins.allows(origin, request.headers().get(header::HOST)) {
                return Err(ApiError::new(
                    Kind::ForeignOrigin,
                    format!(
                        "requests from the page {:?} are not allowed; add its origin to the server's allowed origins if they should be",
                        String::from_utf8_lossy(origin.as_bytes())
                    ),
                ));
            }
        }
        // Liveness probes carry no key and learn nothing.
        if request.uri().path() == "/healthz" { Ok(()) } else { self.keys.check(request.headers()) }
    }

    /// Answers preflights, and lets allowed pages read every answer, errors and streams included.
    pub fn cors(self: &Arc<Self>) -> CorsLayer {
        let gate = Arc::clone(self);
        let allowed =
            move |origin: &HeaderValue, parts: &axum::http::request::Parts| gate.origins.allows(origin, parts.headers.get(header::HOST));
        CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(allowed))
            // Whatever header a client library invents next is fine; what counts is the origin.
            .allow_headers(AllowHeaders::mirror_request())
            .allow_methods(AllowMethods::list([Method::GET, Method::HEAD, Method::POST]))
            .allow_private_network(AllowPrivateNetwork::yes())
            .expose_headers(ExposeHeaders::list(EXPOSED.map(header::HeaderName::from_static)))
            .max_age(std::time::Duration::from_secs(600))
    }
}

const EXPOSED: [&str; 5] = ["x-request-id", "x-onebit-plugin", "x-onebit-plugin-version", "x-onebit-device", "retry-after"];

/// The middleware.
pub async fn admit(State(gate): State<Arc<Gate>>, request: Request<Body>, next: Next) -> Response {
    match gate.check(&request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn single<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Result<Option<&'h HeaderValue>, ApiError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(ApiError::new(Kind::BadHeaders, format!("the request has several {name} headers; send one"))),
    }
}
