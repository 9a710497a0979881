//! The front over real sockets, in front of a scripted host.
//!
//! The script stands at the crate's own border ([`onebit_http::Models`]); the real host is driven through the same border by the tests of the
//! product from outside.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod calls;
mod chat;
mod client;
mod completions;
mod connections;
mod drain;
mod embeddings;
mod gate;
mod keys;
mod malformed;
mod routes;
mod script;
mod templates;
mod tls;
