//! OpenAI's Responses: an answer is an object with items, may be kept, asked for again, gone on from, and made in the background.
//!
//! What is kept lies in one SQLite file ([`store`]) and belongs to the key that asked for it; the others learn nothing of it, not even that it
//! is there. A response that is told to be there is there: it is written before its end is told. Without a file nothing is kept, and what
//! needs keeping is refused.

mod answer;
mod background;
mod conversation;
pub mod count;
pub mod create;
mod events;
mod input;
mod object;
pub mod openapi;
mod request;
mod store;
pub mod stored;
mod tools;

use std::sync::Arc;

use axum::http::Request;

use crate::config::KeepResponses;
use crate::errors::{ApiError, Kind};
use crate::gate::Caller;
use background::Background;
pub use store::OpenError;
use store::Store;

/// What the routes share.
#[derive(Debug, Default)]
pub struct Responses {
    store: Option<Store>,
    background: Background,
}

impl Responses {
    /// Keeps them as configured; `None` = not at all.
    pub fn open(keep: Option<&KeepResponses>) -> Result<Self, OpenError> {
        Ok(Self { store: keep.map(Store::open).transpose()?, background: Background::default() })
    }

    fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// For routes that are about kept responses; `id` is the one asked for.
    fn store_for(&self, id: &str) -> Result<&Store, ApiError> {
        self.store().ok_or_else(|| unknown(id))
    }
}

/// Whose responses a request may see: those of its key. Without keys all are one.
fn owner<B>(request: &Request<B>) -> Arc<str> {
    Arc::from(request.extensions().get::<Caller>().and_then(Caller::name).unwrap_or_default())
}

/// The 404 of a response.
fn unknown(id: &str) -> ApiError {
    let shown: String = id.chars().take(100).collect();
    ApiError::new(
        Kind::UnknownResponse,
        format!("there is no response {shown:?}; it was not stored, was deleted, or is older than this server keeps responses"),
    )
}
