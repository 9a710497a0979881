//! Who may ask: checked before a body is looked at, in this order: the `Host` header, the page that asks (`Origin`), the key, and for requests
//! that ask a model whether the server still takes them and the key's limits.
//!
//! A server on loopback is reachable by every web page its user opens. A page can point its own name at 127.0.0.1 (rebinding), which the
//! `Host` check ends; and it can send requests across sites, which the `Origin` check ends. Neither needs a key to be set up.

mod caller;
mod cors;
mod hosts;
mod keys;
mod meter;
mod origins;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::app::request_id;
use crate::calls::Calls;
use crate::config::HttpConfig;
use crate::errors::{ApiError, Kind};
use crate::reload::Watch;
use crate::serve::ServeError;

pub(crate) use caller::Caller;
pub(crate) use cors::cors;
pub use hosts::Via;
pub(crate) use meter::Running;

/// The rules of one server.
#[derive(Debug)]
pub(crate) struct Gate {
    hosts: hosts::Hosts,
    origins: origins::Origins,
    keys: keys::Keys,
    calls: Arc<Calls>,
    draining: CancellationToken,
}

impl Gate {
    /// From the settings and the files they name. `draining` is set when the server begins to go down.
    pub(crate) fn open(config: &HttpConfig, calls: Arc<Calls>, draining: CancellationToken) -> Result<Self, ServeError> {
        Ok(Self {
            hosts: hosts::Hosts::new(config),
            origins: origins::Origins::new(&config.allowed_origins),
            keys: keys::Keys::open(config)?,
            calls,
            draining,
        })
    }

    /// The file of keys, if there is one.
    pub(crate) fn watched(&self) -> Option<Arc<dyn Watch>> {
        self.keys.file().map(|file| Arc::clone(file) as Arc<dyn Watch>)
    }

    fn check(&self, request: &Request<Body>) -> Result<Option<Caller>, ApiError> {
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
        if request.uri().path() == "/healthz" { Ok(None) } else { self.keys.caller(request.headers(), via).map(Some) }
    }
}

/// The middleware of all routes: lets a request in, and says who asks.
pub(crate) async fn admit(State(gate): State<Arc<Gate>>, mut request: Request<Body>, next: Next) -> Response {
    match gate.check(&request) {
        Ok(caller) => {
            if let Some(caller) = caller {
                if let Some(name) = caller.name() {
                    Span::current().record("key", name);
                }
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

/// The middleware of the routes that ask a model: the key's limits, and a [`Call`](crate::calls::Call) for as long as the answer takes.
pub(crate) async fn begin(State(gate): State<Arc<Gate>>, caller: Caller, mut request: Request<Body>, next: Next) -> Response {
    if gate.draining.is_cancelled() {
        return ApiError::new(Kind::Draining, "the server is shutting down; send the request again when it is back").into_response();
    }
    let meter = caller.meter().cloned();
    let mut response = match meter.as_ref().map(|meter| meter.begin()).transpose() {
        Ok(running) => {
            let route = request.extensions().get::<MatchedPath>().map_or_else(String::new, |route| route.as_str().to_owned());
            let call = gate.calls.begin(request_id(&request), caller, route, running);
            request.extensions_mut().insert(Arc::clone(&call));
            let mut response = next.run(request).await;
            call.show(response.headers_mut());
            response
        }
        Err(refused) => refused.into_response(),
    };
    if let Some(meter) = meter {
        meter.show(response.headers_mut());
    }
    response
}

fn single<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Result<Option<&'h HeaderValue>, ApiError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        _ => Err(ApiError::new(Kind::BadHeaders, format!("the request has several {name} headers; send one"))),
    }
}
