//! OpenAI's dialect: chat completions, completions, embeddings and models.

pub mod chat;
pub mod common;
pub mod completions;
pub mod embeddings;
pub mod format;
pub mod head;
pub mod logprobs;
pub mod messages;
pub mod middle;
pub mod model_list;
pub mod openapi;
pub mod prompts;
mod refused;
mod reply;
pub mod tools;
