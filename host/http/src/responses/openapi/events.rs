//! The events of a streamed response. One that breaks off ends with `response.failed`.

use super::answers::{item, said, thought};
use crate::openai::openapi::token;
use crate::openapi::event;
use crate::openapi::shapes::{Record, Shape, amount, either, list, named, record, text};

/// All of them.
pub fn all() -> Vec<Shape> {
    let part = || either([said(), thought()], "");
    let mut all: Vec<Shape> = ["created", "in_progress", "completed", "incomplete", "failed"]
        .map(|stage| event(&format!("response.{stage}"), numbered().must("response", named("Response"))))
        .into();
    all.extend([
        event("response.output_item.added", placed().must("item", item())),
        event("response.output_item.done", placed().must("item", item())),
        event("response.content_part.added", inside().must("part", part())),
        event("response.content_part.done", inside().must("part", part())),
        event("response.output_text.delta", inside().must("delta", text("The next of it")).must("logprobs", list(token(), ""))),
        event("response.output_text.done", inside().must("text", text("All of it")).must("logprobs", list(token(), ""))),
        event("response.reasoning_text.delta", inside().must("delta", text("The next of it"))),
        event("response.reasoning_text.done", inside().must("text", text("All of it"))),
        event("response.function_call_arguments.delta", of_item().must("delta", text("All of it: calls go out whole"))),
        event("response.function_call_arguments.done", of_item().must("name", text("")).must("arguments", text("All of it"))),
    ]);
    all
}

fn numbered() -> Record {
    record("").must("sequence_number", amount("From 0, without a gap"))
}

fn placed() -> Record {
    numbered().must("output_index", amount("Which of the response's items"))
}

fn of_item() -> Record {
    placed().must("item_id", text(""))
}

fn inside() -> Record {
    of_item().must("content_index", amount("Which of the item's parts"))
}
