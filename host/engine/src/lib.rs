//! Sequences, batches, sampling: text generation over any plugin.
//!
//! A plugin answers one question: given this batch of tokens, what are the logits. Everything a user feels of a generation is written
//! here, once, over every plugin: which request computes when ([`Engine`]), which token comes next (`sampling`), which tokens may come
//! next where an answer must look like something (`guide`), and which text may be shown already (`text`).
//!
//! The engine runs on one thread of its own and knows no socket and no HTTP. It never cuts a prompt, never answers for a request twice
//! and never leaves one without an answer.

mod backend;
mod engine;
mod guide;
mod prompt;
mod request;
mod sampling;
mod text;

#[cfg(test)]
mod testing;

pub use backend::{Embed, EmbedLimits, Fault, Forward, ForwardLimits, Rerank, RerankLimits, Rows, TokenFacts, Vocabulary, VocabularyFacts};
pub use engine::{Backend, Engine, EngineLoad, EngineOptions, Gauge, Health, Progress};
pub use onebit_loader::CancelFlag;
pub use request::*;
