//! What the OpenAI routes say of themselves in `/openapi.json`.

mod answers;
mod requests;

pub use answers::{model as model_object, models as model_objects, timings, token};
pub use requests::{arguments, function, messages, sampling, schema, stop, tools};

use super::embeddings::MAX_INPUTS;
use crate::errors::Kind;
use crate::generation::MAX_CHOICES;
use crate::generation::stream::EVENTS;
use crate::openapi::shapes::{Shape, count, either, list_of, record, text_of, word};
use crate::openapi::{CHATTING, Description};

const TAG: &str = "OpenAI";

/// `POST /v1/chat/completions`.
pub fn chat() -> Description {
    Description::new(TAG, "Messages in, an answer out")
        .body("ChatRequest", requests::chat())
        .computes()
        .ends(CHATTING)
        .ends(&[Kind::ConstraintFailed])
        .answer("ChatCompletion", answers::chat())
        .answer_as(EVENTS, "ChatCompletionChunk", answers::chat_chunk())
}

/// `POST /v1/completions`.
pub fn completions() -> Description {
    Description::new(TAG, "A raw prompt in, its continuation out")
        .body("CompletionRequest", requests::completion(MAX_CHOICES as usize))
        .computes()
        .ends(&[Kind::ConstraintFailed])
        .answer("Completion", answers::completion(answers::Part::Whole))
        .answer_as(EVENTS, "CompletionChunk", answers::completion(answers::Part::Chunk))
}

/// `POST /v1/embeddings`.
pub fn embeddings() -> Description {
    let body = record("")
        .must("model", model())
        .must("input", prompts(MAX_INPUTS, 1, "What to embed"))
        .may("encoding_format", word(&["float", "base64"], "base64: of little-endian 32-bit floats"))
        .may("dimensions", count(1..=u32::MAX, "Only what the model's vectors have"))
        .example(serde_json::json!({"model": "demo", "input": ["A text"]}));
    Description::new(TAG, "Texts or token ids in, vectors of length one out")
        .body("EmbeddingRequest", body)
        .computes()
        .answer("Embeddings", answers::embeddings())
}

/// The model asked for.
pub fn model() -> Shape {
    text_of(1..=usize::MAX, "The name of a model of GET /v1/models")
}

/// Texts or token ids; a text has `least` characters.
fn prompts(most: usize, least: usize, about: &str) -> Shape {
    let id = || count(0..=u32::MAX, "A token id of the model's vocabulary");
    let ids = || list_of(id(), 1..=usize::MAX, "");
    let one = || text_of(least..=usize::MAX, "");
    either([one(), list_of(one(), 1..=most, ""), ids(), list_of(ids(), 1..=most, "")], about)
}
