//! What all handlers share.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use onebit_engine::ModelFacts;
use onebit_worker::KeepAlive;
use tokio_util::sync::CancellationToken;

use crate::body::BodyLimits;
use crate::calls::{Call, Calls};
use crate::errors::ApiError;
use crate::metrics::Metrics;
use crate::models::{Leased, Models};
use crate::ollama::arrivals::Arrivals;
use crate::reload::Watched;
use crate::responses::Responses;
use crate::template::Renderer;

/// One server's state.
#[derive(Clone)]
pub struct App {
    /// The host.
    pub models: Arc<dyn Models>,
    /// Runs chat templates.
    pub templates: Arc<Renderer>,
    /// Series.
    pub metrics: Arc<Metrics>,
    /// What is kept, and what is made in the background.
    pub responses: Arc<Responses>,
    /// Where model files come in; `None` = nowhere.
    pub(crate) arrivals: Option<Arc<Arrivals>>,
    /// For reading bodies.
    pub limits: Arc<BodyLimits>,
    /// Requests that ask models now.
    pub(crate) calls: Arc<Calls>,
    /// Set once the server goes down.
    pub(crate) draining: CancellationToken,
    /// What is read again when its files change.
    pub(crate) watched: Watched,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("App")
    }
}

impl App {
    /// Gets hold of a model for a call and notes how long that took.
    pub(crate) async fn lease(&self, model: &str, call: &Arc<Call>) -> Result<Arc<dyn Leased>, ApiError> {
        self.lease_for(model, call, None).await
    }

    /// The same, and says how long the model stays loaded afterwards.
    pub(crate) async fn lease_for(
        &self,
        model: &str,
        call: &Arc<Call>,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Arc<dyn Leased>, ApiError> {
        let began = Instant::now();
        let lease = call.lease(self.models.lease(model, call.id(), keep_alive)).await?;
        self.metrics.lease(lease.model(), began.elapsed());
        Ok(lease)
    }
}

/// A request's number, put into its extensions by the outermost layer.
#[derive(Debug, Clone)]
pub struct RequestId(pub Arc<str>);

/// The number of a request.
pub fn request_id(request: &Request<Body>) -> Arc<str> {
    request.extensions().get::<RequestId>().map_or_else(|| Arc::from("none"), |id| Arc::clone(&id.0))
}

/// Writes who computed into an answer's headers.
pub fn stamp(mut response: Response, facts: &ModelFacts) -> Response {
    let entries = [
        ("x-onebit-plugin", facts.plugin.as_str()),
        ("x-onebit-plugin-version", facts.plugin_version.as_str()),
        ("x-onebit-device", facts.device.as_str()),
    ];
    for (name, value) in entries {
        match HeaderValue::from_str(value) {
            Ok(value) => {
                response.headers_mut().insert(name, value);
            }
            // Ids are plain ASCII; a plugin that breaks this rule costs its header, not the answer.
            Err(_) => tracing::warn!(header = name, value, "not a header value"),
        }
    }
    response
}
