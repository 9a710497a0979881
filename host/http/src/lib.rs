//! The HTTP front of onebit-host: OpenAI's and Anthropic's dialects over any model the host can serve.
//!
//! This crate parses, refuses, renders chat templates, and streams. It is the only one that knows axum and wire JSON, and it computes
//! nothing: a model, its facts and its answers come through [`Models`] from the host's workers. Its promises:
//!
//! * 200 means that the model asked for did the work asked for. A field that would change the answer and is not carried out is refused by name.
//! * A bad request is a 4xx that says what is wrong and what to do; the table of all errors is [`errors::ROWS`].
//! * A client that leaves ends its work: handlers own their generations, and are dropped with the connection. Only what was asked for in the
//!   background goes on.
//! * What is kept (responses, if the configuration wants it) is kept before it is told, and only its owner finds it.
//! * Which models there are changes for admins only, and by the host. What has to be downloaded is, by a process of its own.
//! * A client's text never becomes a control token of the chat template.
//! * Who may call is decided before a body is read, and what a key's limits allow, for all dialects at one place (`gate`, `calls`).
//! * Every answer says which plugin, version and device computed it (`system_fingerprint`, `x-onebit-*`).
//!
//! Routes: those in `router.rs` and nothing else; `GET /openapi.json` describes them, `docs/http-api.md` tells of them.

mod anthropic;
mod app;
mod body;
mod calls;
mod chat;
mod config;
mod dialect;
pub mod errors;
mod failures;
mod fields;
pub mod formats;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod generation;
mod health;
mod host;
pub mod keys;
mod llama_server;
mod metrics;
mod model_routes;
pub mod models;
mod ollama;
mod openai;
mod openapi;
mod reload;
mod responses;
mod router;
mod serve;
pub mod template;

pub use config::{Arrivals, HttpConfig, KeepResponses, Listen, TlsFiles};
pub use host::HostModels;
pub use models::Models;
pub use serve::{ServeError, Server};
