//! What OpenAI's routes answer. The tests hold real answers against these shapes.

use super::super::head::FINISH_REASONS;
use crate::openapi::shapes::{Record, Shape, amount, count, either, flag, list, map, measure, or_null, record, text, word};

/// A whole answer, or a chunk of a streamed one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Whole,
    Chunk,
}

fn head(object: &str) -> Record {
    record("")
        .must("id", text(""))
        .must("object", word(&[object], ""))
        .must("created", amount("Unix seconds"))
        .must("model", text("The model's own name, also where an alias was asked for"))
        .must("system_fingerprint", text("Which plugin, version and device computed"))
}

pub fn chat() -> Record {
    let function = record("").must("name", text("")).must("arguments", text("A JSON object, written as a string"));
    let call = record("").must("id", text("")).must("type", word(&["function"], "")).must("function", function.into());
    let message = record("")
        .must("role", word(&["assistant"], ""))
        .must("content", or_null(text("null beside calls without text")))
        .must("refusal", or_null(text("")))
        .sometimes("reasoning_content", text(""))
        .sometimes("tool_calls", list(call.into(), ""))
        .sometimes("tool_call_parse_error", broken());
    let choice = record("")
        .must("index", amount(""))
        .must("message", message.into())
        .must("logprobs", or_null(logprobs()))
        .must("finish_reason", word(FINISH_REASONS, ""));
    head("chat.completion").must("choices", list(choice.into(), "")).must("usage", usage()).must("timings", timings())
}

pub fn chat_chunk() -> Record {
    let function = record("").sometimes("name", text("")).must("arguments", text("The next part of it"));
    let call = record("")
        .must("index", amount("Which of the answer's calls"))
        .sometimes("id", text("Of its first part"))
        .sometimes("type", word(&["function"], ""))
        .must("function", function.into());
    let delta = record("")
        .sometimes("role", word(&["assistant"], ""))
        .sometimes("content", text(""))
        .sometimes("reasoning_content", text(""))
        .sometimes("tool_calls", list(call.into(), ""))
        .sometimes("tool_call_parse_error", broken());
    let choice = record("")
        .must("index", amount(""))
        .must("delta", delta.into())
        .must("logprobs", or_null(logprobs()))
        .must("finish_reason", or_null(word(FINISH_REASONS, "")));
    head("chat.completion.chunk")
        .must("choices", list(choice.into(), "Empty in the chunk with the usage"))
        .sometimes("usage", or_null(usage()))
        .sometimes("timings", timings())
}

fn broken() -> Shape {
    flag("Something began like a call and is none; it stands in content as the model wrote it")
}

/// `choices[].logprobs` of chat.
fn logprobs() -> Shape {
    record("").must("content", list(token(), "")).must("refusal", or_null(list(token(), ""))).into()
}

/// A token with its alternatives; Ollama has the same.
pub fn token() -> Shape {
    let known = || {
        record("")
            .must("token", text("A part of a character is shown as replacement marks"))
            .must("logprob", measure(""))
            .must("bytes", list(count(0..=255, ""), ""))
    };
    known().must("top_logprobs", list(known().into(), "")).into()
}

pub fn completion(part: Part) -> Record {
    let logprobs = record("")
        .must("tokens", list(text(""), ""))
        .must("token_logprobs", list(or_null(measure("")), "null for the first token of a prompt"))
        .must("top_logprobs", list(or_null(map(measure(""), "")), ""))
        .must("text_offset", list(amount(""), "Characters from the beginning of the answer"));
    let reason = word(FINISH_REASONS, "");
    let choice = record("")
        .must("text", text(""))
        .must("index", amount(""))
        .must("logprobs", or_null(logprobs.into()))
        .must("finish_reason", if part == Part::Chunk { or_null(reason) } else { reason });
    let head = head("text_completion").must("choices", list(choice.into(), ""));
    match part {
        Part::Whole => head.must("usage", usage()).must("timings", timings()),
        Part::Chunk => head.sometimes("usage", or_null(usage())).sometimes("timings", timings()),
    }
}

fn usage() -> Shape {
    record("")
        .must("prompt_tokens", amount(""))
        .must("completion_tokens", amount(""))
        .must("total_tokens", amount(""))
        .must("prompt_tokens_details", record("").must("cached_tokens", amount("")).into())
        .must("completion_tokens_details", record("").must("reasoning_tokens", amount("")).into())
        .into()
}

/// How long an answer took.
pub fn timings() -> Shape {
    record("Of several answers computed side by side, the longest")
        .must("queue_ms", measure(""))
        .must("prefill_ms", measure(""))
        .must("decode_ms", measure(""))
        .must("tokens_per_second", or_null(measure("null where no second token was made")))
        .into()
}

pub fn embeddings() -> Record {
    let vector = either([list(measure(""), ""), text("base64 of little-endian 32-bit floats")], "");
    let item = record("").must("object", word(&["embedding"], "")).must("index", amount("")).must("embedding", vector);
    record("")
        .must("object", word(&["list"], ""))
        .must("data", list(item.into(), ""))
        .must("model", text(""))
        .must("usage", record("").must("prompt_tokens", amount("")).must("total_tokens", amount("")).into())
        .must("system_fingerprint", text("Which plugin, version and device computed"))
}

pub fn model() -> Record {
    record("")
        .must("id", text(""))
        .must("object", word(&["model"], ""))
        .must("created", amount("Unix seconds"))
        .must("owned_by", text(""))
        .sometimes("aliases", list(text(""), "Other names that mean the same model"))
}

pub fn models() -> Record {
    record("").must("object", word(&["list"], "")).must("data", list(model().into(), ""))
}
