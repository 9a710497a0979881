//! What Anthropic's routes answer. The tests hold real answers against these shapes.

use super::super::model_list::LIFECYCLE;
use super::super::reply::STOP_REASONS;
use crate::openapi::shapes::{Record, Shape, amount, any_object, either, flag, list, list_of, named, nothing, or_null, record, text, word};
use crate::openapi::{event, event_of};

/// A whole message.
pub fn message() -> Record {
    head()
        .must("content", list(block(), ""))
        .must("stop_reason", word(STOP_REASONS, ""))
        .must("stop_sequence", or_null(text("Which of the request's ended it")))
}

fn head() -> Record {
    record("")
        .must("id", text(""))
        .must("type", word(&["message"], ""))
        .must("role", word(&["assistant"], ""))
        .must("model", text("The model's own name, also where an alias was asked for"))
        .must("usage", usage())
}

fn kind(kind: &str) -> Record {
    record("").must("type", word(&[kind], ""))
}

fn block() -> Shape {
    let thinking = kind("thinking").must("thinking", text("")).must("signature", text("Always empty"));
    let call = kind("tool_use")
        .must("id", text("To be sent back with the result"))
        .must("name", text(""))
        .must("input", any_object("The arguments; of a block that begins, none yet"));
    either([thinking, kind("text").must("text", text("")), call].map(Shape::from), "")
}

fn usage() -> Shape {
    record("")
        .must("input_tokens", amount(""))
        .must("cache_creation_input_tokens", amount(""))
        .must("cache_read_input_tokens", amount(""))
        .must("output_tokens", amount(""))
        .must("output_tokens_details", record("").must("thinking_tokens", amount("")).into())
        .into()
}

/// The events of a streamed message. One that breaks off ends with `error`.
pub fn events() -> Vec<Shape> {
    let begun = head()
        .must("content", list_of(block(), 0..=0, "Comes in blocks"))
        .must("stop_reason", nothing("Comes at the end"))
        .must("stop_sequence", nothing("Comes at the end"));
    let deltas = [
        kind("text_delta").must("text", text("")),
        kind("thinking_delta").must("thinking", text("")),
        kind("input_json_delta").must("partial_json", text("All of it: calls go out whole")),
        kind("signature_delta").must("signature", text("Always empty")),
    ];
    let end = record("").must("stop_reason", word(STOP_REASONS, "")).must("stop_sequence", or_null(text("")));
    let indexed = || record("").must("index", amount("Which of the message's blocks"));
    vec![
        event("message_start", record("").must("message", begun.into())),
        event("content_block_start", indexed().must("content_block", block())),
        event("content_block_delta", indexed().must("delta", either(deltas.map(Shape::from), ""))),
        event("content_block_stop", indexed()),
        event("message_delta", record("").must("delta", end.into()).must("usage", usage())),
        event("message_stop", record("")),
        event("ping", record("In a long silence")),
        event_of("error", named("AnthropicError")),
    ]
}

/// A model.
pub fn model_info() -> Record {
    kind("model")
        .must("id", text(""))
        .must("display_name", text("The same"))
        .must("created_at", text("As RFC 3339 has it"))
        .must("lifecycle", word(&[LIFECYCLE], ""))
}

/// A page of them.
pub fn model_page() -> Record {
    record("")
        .must("data", list(model_info().into(), ""))
        .must("has_more", flag(""))
        .must("first_id", or_null(text("")))
        .must("last_id", or_null(text("")))
}
