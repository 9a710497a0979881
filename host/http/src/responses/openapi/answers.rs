//! What the Responses routes answer. The tests hold real answers against these shapes.

use super::super::object::{FAILURES, STATUSES};
use super::requests::{Place, items, repeated};
use crate::openai::openapi::{timings, token};
use crate::openapi::shapes::{Record, Shape, amount, either, flag, list, list_of, nothing, or_null, record, text, word};

/// A response, at any time of its life.
pub fn response() -> Record {
    let error = record("").must("code", word(FAILURES, "")).must("message", text("What happened, to what, and what to do next"));
    let incomplete = record("").must("reason", word(&["max_output_tokens"], ""));
    let response = record("")
        .must("id", text(""))
        .must("object", word(&["response"], ""))
        .must("created_at", amount("Unix seconds"))
        .must("completed_at", or_null(amount("Unix seconds")))
        .must("status", word(STATUSES, ""))
        .must("background", flag(""))
        .must("error", or_null(error.into()))
        .must("incomplete_details", or_null(incomplete.into()))
        .must("model", text("The model's own name, also where an alias was asked for"))
        .must("system_fingerprint", or_null(text("Which plugin, version and device compute; null until that is known")))
        .must("output", list(item(), ""))
        .must("usage", or_null(usage()))
        .must("timings", or_null(timings()));
    repeated(response)
}

/// An item of the answer.
pub fn item() -> Shape {
    let kind = |kind: &str| {
        record("")
            .must("type", word(&[kind], ""))
            .must("id", text(""))
            .must("status", word(&["in_progress", "completed", "incomplete"], ""))
    };
    let reasoning = kind("reasoning")
        .must("summary", list_of(text(""), 0..=0, "None is made"))
        .must("content", list(thought(), "What the model thought"))
        .must("encrypted_content", nothing("Nothing is hidden"));
    let message = kind("message").must("role", word(&["assistant"], "")).must("content", list(said(), ""));
    let call = kind("function_call")
        .must("call_id", text("To be sent back with the result"))
        .sometimes("namespace", text("Where the function is in one"))
        .must("name", text(""))
        .must("arguments", text("A JSON object, written as a string"));
    either([reasoning, message, call].map(Shape::from), "")
}

/// A part of what was thought.
pub fn thought() -> Shape {
    record("").must("type", word(&["reasoning_text"], "")).must("text", text("")).into()
}

/// A part of what was said.
pub fn said() -> Shape {
    record("")
        .must("type", word(&["output_text"], ""))
        .must("annotations", list_of(text(""), 0..=0, "There are none"))
        .must("logprobs", list(token(), "Empty unless include asks for them"))
        .must("text", text(""))
        .into()
}

fn usage() -> Shape {
    record("")
        .must("input_tokens", amount(""))
        .must("input_tokens_details", record("").must("cached_tokens", amount("")).must("cache_write_tokens", amount("")).into())
        .must("output_tokens", amount(""))
        .must("output_tokens_details", record("").must("reasoning_tokens", amount("")).into())
        .must("total_tokens", amount(""))
        .into()
}

pub fn deleted() -> Record {
    record("").must("id", text("")).must("object", word(&["response"], "")).must("deleted", flag(""))
}

/// Items that a response was made from.
pub fn page() -> Record {
    record("")
        .must("object", word(&["list"], ""))
        .must("data", list(either(items(Place::Answer), ""), ""))
        .must("first_id", or_null(text("")))
        .must("last_id", or_null(text("")))
        .must("has_more", flag(""))
}
