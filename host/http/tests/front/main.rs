//! The front over real sockets, in front of a scripted host.
//!
//! The script stands at the crate's own border ([`onebit_http::Models`]); the real host is driven through the same border by the tests of the
//! product from outside.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod anthropic;
mod calls;
mod chat;
mod client;
mod completions;
mod connections;
mod documented;
mod drain;
mod embeddings;
mod gate;
mod keys;
mod llama_server;
mod malformed;
mod ollama;
mod ollama_models;
mod openapi;
mod prefixes;
mod reranking;
mod responses;
mod routes;
mod script;
mod shapes;
mod templates;
mod tls;
mod tools;
