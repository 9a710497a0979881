//! OpenAI's dialect: chat completions, completions, embeddings and models.

pub mod answer;
pub mod chat;
pub mod completions;
pub mod embeddings;
pub mod logprobs;
mod messages;
pub mod model_list;
mod prompts;
mod refused;
mod sampling;
mod sse;
