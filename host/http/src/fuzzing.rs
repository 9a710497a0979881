//! What the fuzz targets in `tests/fuzz` need of this crate's insides. Not an interface: it may change with any commit.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::gate::Via;
use crate::serve::front;
use crate::{HttpConfig, Models, ServeError};

/// All routes and everything around them, without a socket.
#[derive(Debug)]
pub struct Front(axum::Router);

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: String,
    /// All of the body.
    pub body: Vec<u8>,
}

impl Front {
    /// As a server has it.
    ///
    /// # Errors
    /// What keeps a server from starting.
    pub fn new(models: Arc<dyn Models>, config: &HttpConfig) -> Result<Self, ServeError> {
        Ok(Self(front(models, config, None)?.router))
    }

    /// Sends a body and reads the whole answer; `None` = the answer broke off.
    pub async fn post(&self, path: &str, body: Vec<u8>) -> Option<Answer> {
        // From this machine, so that no route is closed.
        let request = Request::post(path).header(header::HOST, "localhost").extension(Via::Loopback).body(Body::from(body)).ok()?;
        let Ok(response) = self.0.clone().oneshot(request).await;
        let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let (status, content_type) = (response.status().as_u16(), content_type.unwrap_or_default().to_owned());
        let body = response.into_body().collect().await.ok()?.to_bytes().to_vec();
        Some(Answer { status, content_type, body })
    }
}
