//! The bodies of Anthropic's routes.

use serde_json::json;

use super::super::request::{EFFORTS, LEAST_BUDGET};
use crate::chat::functions::MAX_TOOLS;
use crate::generation::{MAX_STOP_BYTES, MAX_STOPS};
use crate::openai::openapi::{function, model, schema};
use crate::openapi::shapes::{
    Record, Shape, any_object, count as count_of, either, flag, list, list_of, number, record, text, text_like, text_of, word,
};

/// `MessageRequest`.
pub fn message() -> Record {
    common(record("").must("max_tokens", most())).example(example())
}

/// `MessageCountRequest`.
pub fn count() -> Record {
    common(record("").may("max_tokens", most())).example(example())
}

fn most() -> Shape {
    count_of(1..=u32::MAX, "Tokens at most, thinking included")
}

fn example() -> serde_json::Value {
    json!({"model": "demo", "max_tokens": 8, "messages": [{"role": "user", "content": "Say hello."}]})
}

fn common(body: Record) -> Record {
    let stop = text_like(r"\S", MAX_STOP_BYTES, "Not only white space");
    body.must("model", model())
        .must("messages", messages())
        .may("system", either([text(""), list(block_of_text(), "")], ""))
        .may("stream", flag("Answer in events"))
        .may("stop_sequences", list_of(stop, 0..=MAX_STOPS, "Texts that end the answer and are not in it"))
        .may("temperature", number(0.0..=1.0, "0 takes the likeliest token"))
        .may("top_p", number(0.0..=1.0, ""))
        .may("top_k", count_of(0..=u32::MAX, "0: all"))
        .may("tools", tools())
        .may("tool_choice", tool_choice())
        .may("thinking", thinking())
        .may("output_config", record("").may("effort", word(EFFORTS, "How much to think")).may("format", format()).into())
        .may("output_format", format())
}

fn kind(kind: &str) -> Record {
    record("").must("type", word(&[kind], ""))
}

fn block_of_text() -> Shape {
    kind("text").must("text", text("")).into()
}

fn messages() -> Shape {
    let said = |role: &str| record("").must("role", word(&[role], ""));
    let result = kind("tool_result")
        .must("tool_use_id", text("Which call this is the result of"))
        .may("content", either([text(""), list(block_of_text(), "")], ""))
        .may("is_error", flag("The text begins with \"Error: \" then"));
    let call = kind("tool_use").must("id", text("")).must("name", text("")).must("input", any_object("The arguments"));
    let thought = kind("thinking").must("thinking", text(""));
    let hidden = kind("redacted_thinking");
    let of_user = either([block_of_text(), result.into()], "");
    let of_assistant = either([block_of_text(), call.into(), thought.into(), hidden.into()], "");
    let not_empty = |blocks: Shape| either([text_of(1..=usize::MAX, ""), list_of(blocks, 1..=usize::MAX, "")], "");
    let messages = [
        said("user").must("content", not_empty(of_user)),
        said("assistant").must("content", either([text(""), list(of_assistant, "")], "Only that of the last message may be empty")),
        said("system").must("content", not_empty(block_of_text())),
    ];
    let message = either(messages.map(Shape::from), "");
    list_of(message, 1..=usize::MAX, "The question last; an assistant's message at the end is continued")
}

fn tools() -> Shape {
    let tool = function(SCHEMA).must(SCHEMA, any_object("A JSON schema of the arguments")).may("type", word(&["custom"], ""));
    list_of(tool.into(), 0..=MAX_TOOLS, "Functions that the model may call, each under its own name")
}

/// What a function's arguments' schema is called.
const SCHEMA: &str = "input_schema";

fn tool_choice() -> Shape {
    let choice = |kinds: &[&str]| {
        record("").must("type", word(kinds, "")).may("disable_parallel_tool_use", flag("The answer ends with its first call"))
    };
    let choices = [choice(&["auto", "any", "none"]), choice(&["tool"]).must("name", text("The one that must be called"))];
    either(choices.map(Shape::from), "Whether one must be called")
}

fn thinking() -> Shape {
    let shown = |record: Record| record.may("display", word(&["summarized", "omitted"], "omitted: no blocks of thinking"));
    let off_or_free = record("").must("type", word(&["disabled", "adaptive"], ""));
    let budget = count_of(LEAST_BUDGET..=u32::MAX, "Tokens of thinking at most; less than max_tokens");
    let bounded = kind("enabled").must("budget_tokens", budget);
    either([shown(off_or_free), shown(bounded)].map(Shape::from), "Without it, the model does as its template has it")
}

fn format() -> Shape {
    kind("json_schema").must("schema", schema()).into()
}
