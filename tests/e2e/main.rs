//! The staged product from outside: real processes, real sockets, the real model.
//!
//! Tests are grouped by what a user would call the subject. Each starts a server of its own; what they share is in the library of this crate.

mod authors;
mod cancel;
mod chat;
mod clients;
mod command_line;
mod completions;
mod configuration;
mod conversations;
mod crash;
mod crowd;
mod damaged_files;
mod devices;
mod embeddings;
mod faults;
mod formats;
mod front;
mod malformed;
mod openapi;
mod reranking;
mod schemas;
mod shapes;
mod structured;
mod system;
mod templates;
mod tools;

use onebit_tests::MODEL;
use serde_json::{Value, json};

/// A greedy chat request with one question.
fn question(text: &str, max_tokens: u32) -> Value {
    json!({"model": MODEL, "temperature": 0, "max_tokens": max_tokens, "messages": [{"role": "user", "content": text}]})
}

/// A greedy completion request.
fn continuation(prompt: impl Into<Value>, max_tokens: u32) -> Value {
    json!({"model": MODEL, "temperature": 0, "max_tokens": max_tokens, "prompt": prompt.into()})
}

/// `body` with more fields.
fn with(mut body: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}
