//! Ollama's dialect, for clients written for it: chat, generate, embeddings, and what they ask about models.
//!
//! Answers are lines of JSON, streamed unless the request says otherwise; durations are nanoseconds; arguments of calls are objects. Names may
//! end in `:latest`, which Ollama's clients add to names without a tag.
//!
//! What changes the models that there are (pull, create, copy, delete, uploads) asks for an admin, and goes through the host: this room writes
//! no manifest, and downloads nothing.

pub mod arrivals;
mod blobs;
pub mod chat;
mod child;
pub mod create;
pub mod embed;
pub mod generate;
mod keep;
pub mod library;
mod line;
mod messages;
pub mod models;
mod name;
pub mod openapi;
mod options;
mod parameters;
mod progress;
pub mod pull;
pub mod show;
pub mod upload;

use crate::app::App;

/// The name that this host knows a model by.
fn known_name(app: &App, asked: &str) -> String {
    let known = |name: &str| app.models.cards().iter().any(|card| card.id == name || card.aliases.iter().any(|alias| alias == name));
    match asked.strip_suffix(":latest") {
        Some(bare) if !known(asked) => bare.to_owned(),
        _ => asked.to_owned(),
    }
}
