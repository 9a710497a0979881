//! The HTTP front of onebit-host: OpenAI's dialect over any model the host can serve.
//!
//! This crate parses, refuses, renders chat templates, and streams. It is the only one that knows axum and wire JSON, and it computes
//! nothing: a model, its facts and its answers come through [`Models`] from the host's workers. Its promises:
//!
//! * 200 means that the model asked for did the work asked for. A field that would change the answer and is not carried out is refused by name.
//! * A bad request is a 4xx that says what is wrong and what to do; the table of all errors is [`errors::ROWS`].
//! * A client that leaves ends its work: handlers own their generations, and are dropped with the connection.
//! * A client's text never becomes a control token of the chat template.
//! * Who may call is decided before a body is read, and what a key's limits allow, for all dialects at one place (`gate`, `calls`).
//! * Every answer says which plugin, version and device computed it (`system_fingerprint`, `x-onebit-*`).
//!
//! Routes: `POST /v1/chat/completions`, `/v1/completions`, `/v1/embeddings`; `GET /v1/models`, `/v1/models/{id}`, `/v1/requests`,
//! `/healthz`, `/readyz`, `/metrics`; `POST /v1/requests/{id}/cancel`. Nothing else.

mod app;
mod body;
mod calls;
mod config;
pub mod errors;
mod failures;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod health;
mod host;
pub mod keys;
mod metrics;
pub mod models;
mod openai;
mod reload;
mod router;
mod serve;
pub mod template;

pub use config::{HttpConfig, Listen, TlsFiles};
pub use host::HostModels;
pub use models::Models;
pub use serve::{ServeError, Server};
