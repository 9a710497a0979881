//! The bodies of OpenAI's generation routes, and the fields that other rooms read the same way.

use serde_json::json;

use super::super::chat::{EFFORTS, MAX_TOP_LOGPROBS};
use super::super::common::MAX_BIASES;
use super::super::completions::{DEFAULT_MAX_TOKENS, MAX_LOGPROBS};
use super::super::format::{MAX_BYTES, MAX_CHOICES as MAX_CHOICE_TEXTS};
use super::{model, prompts};
use crate::chat::functions::{MAX_NAME, MAX_TOOLS};
use crate::generation::{MAX_CHOICES, MAX_STOP_BYTES, MAX_STOPS};
use crate::openapi::shapes::{
    Record, Shape, any_object, anything, count, either, flag, list, list_of, map_of, number, positive, record as new, text, text_like,
    text_of, whole, word,
};

/// `ChatRequest`.
pub fn chat() -> Record {
    let record = common(new("")).must("messages", messages());
    format(tools(record))
        .may("logprobs", flag("With the log-probability of each token"))
        .may("top_logprobs", count(0..=MAX_TOP_LOGPROBS, "And of so many alternatives; needs logprobs"))
        .example(json!({"model": "demo", "max_tokens": 8, "messages": [{"role": "user", "content": "Say hello."}]}))
}

/// `CompletionRequest`.
pub fn completion(most: usize) -> Record {
    let record = common(new("")).must("prompt", prompts(most, 0, "What to continue; texts of control tokens in it become those tokens"));
    format(record)
        .may("suffix", text("What comes after the text that is to be written, for models that can fill in the middle"))
        .may("logprobs", count(0..=MAX_LOGPROBS, "Log-probabilities of each token and of so many alternatives"))
        .may("echo", flag("Begin with the prompt"))
        .may("best_of", count(1..=MAX_CHOICES, "Make so many and give the n likeliest; not streamed"))
        .example(json!({"model": "demo", "max_tokens": 8, "prompt": "Once upon a time"}))
}

fn common(record: Record) -> Record {
    let options = new("").may("include_usage", flag("A last chunk with the usage"));
    let most = format!("Tokens at most; on /v1/completions {DEFAULT_MAX_TOKENS} unless the model's manifest says otherwise");
    let record = record
        .must("model", model())
        .may("stream", flag("Answer in events"))
        .may("stream_options", options.into())
        .may("n", count(1..=MAX_CHOICES, "Answers"))
        .may("max_tokens", count(0..=u32::MAX, &most))
        .may("max_completion_tokens", count(0..=u32::MAX, "The same under its newer name"))
        .may("stop", stop())
        .may("ignore_eos", flag("Go on after the end token"));
    sampling(record)
}

/// How tokens are chosen.
pub fn sampling(record: Record) -> Record {
    let biases = map_of(number(-100.0..=100.0, ""), "^[0-9]+$", MAX_BIASES, "Added to the logits of these token ids");
    record
        .may("temperature", number(0.0..=2.0, "0 takes the likeliest token"))
        .may("top_p", number(0.0..=1.0, ""))
        .may("top_k", whole(-1..=i64::from(u32::MAX), "-1 and 0: all"))
        .may("min_p", number(0.0..=1.0, ""))
        .may("typical_p", positive(1.0, ""))
        .may("repetition_penalty", positive(10.0, "1 is none"))
        .may("presence_penalty", number(-2.0..=2.0, ""))
        .may("frequency_penalty", number(-2.0..=2.0, ""))
        .may("seed", whole(i64::MIN..=i64::MAX, "The same seed on the same plugin and device gives the same answer"))
        .may("logit_bias", biases)
}

/// One text that ends an answer, or several.
pub fn stop() -> Shape {
    let one = || text_of(1..=MAX_STOP_BYTES, "");
    either([one(), list_of(one(), 0..=MAX_STOPS, "")], "Texts that end the answer and are not in it")
}

/// `messages`.
pub fn messages() -> Shape {
    let part = |kind: &str| new("").must("type", word(&[kind], "")).must(kind, text("")).into();
    let content = || either([text(""), list_of(either([part("text"), part("refusal")], ""), 1..=usize::MAX, "")], "");
    let function = || new("").must("name", text("")).may("arguments", arguments()).into();
    let call = || new("").may("id", text("")).may("type", word(&["function"], "")).must("function", function()).into();
    let said = |roles: &[&str]| new("").must("role", word(roles, "")).may("name", text(""));
    let assistant = || said(&["assistant"]).may("reasoning_content", text("What it thought"));
    let message = [
        said(&["user", "system", "developer"]).must("content", content()),
        said(&["tool"]).must("content", content()).may("tool_call_id", text("Which call this is the result of")),
        assistant().must("content", content()).may("tool_calls", list(call(), "")),
        assistant().must("tool_calls", list_of(call(), 1..=usize::MAX, "")).may("content", content()),
        assistant().must("refusal", text("In place of content")),
    ];
    let message = either(message.map(Shape::from), "");
    list_of(message, 1..=usize::MAX, "The question last; an assistant's message at the end is continued")
}

/// What may be called, and how much the model thinks.
pub fn tools(record: Record) -> Record {
    let tool = new("").may("type", word(&["function"], "")).must("function", function("parameters").into());
    let named = new("").must("name", text(""));
    let choice = new("").may("type", word(&["function"], "")).must("function", named.into());
    record
        .may("tools", list_of(tool.into(), 0..=MAX_TOOLS, "Functions that the model may call, each under its own name"))
        .may("tool_choice", either([word(&["none", "auto", "required", "any"], ""), choice.into()], "Whether one must be called"))
        .may("parallel_tool_calls", flag("More than one call in an answer"))
        .may("reasoning_effort", word(EFFORTS, ""))
        .may("thinking_budget_tokens", count(0..=u32::MAX, "Tokens of reasoning at most"))
        .may("chat_template_kwargs", any_object("Variables for the chat template"))
}

/// A function; `schema` is what the dialect calls its arguments' schema.
pub fn function(schema: &str) -> Record {
    new("")
        .must("name", text_like("^[A-Za-z0-9_.:/-]+$", MAX_NAME, ""))
        .may("description", text(""))
        .may(schema, any_object("A JSON schema of the arguments"))
}

/// A JSON schema.
pub fn schema() -> Shape {
    either([any_object(""), flag(""), text("")], "A JSON schema, as such or written as a string")
}

/// The arguments of a call that was made.
pub fn arguments() -> Shape {
    either([text(""), any_object("")], "A JSON object, as such or written as a string")
}

/// What the answer must look like: one of these fields at most.
fn format(record: Record) -> Record {
    let long = |about: &str| text_of(0..=MAX_BYTES, about);
    let choice = || list_of(text_of(1..=usize::MAX, ""), 0..=MAX_CHOICE_TEXTS, "The answer is one of these");
    let kind = |kind: &str| new("").must("type", word(&[kind], ""));
    let named = new("").may("name", anything("Not looked at")).must("schema", schema());
    let response = [kind("text"), kind("json_object").may("schema", schema()), kind("json_schema").must("json_schema", named.into())];
    let structured = new("As vLLM has it; one of these")
        .may("json", schema())
        .may("regex", long(""))
        .may("grammar", long(""))
        .may("choice", choice())
        .may("json_object", flag(""));
    record
        .may("response_format", either(response.map(Shape::from), ""))
        .may("json_schema", schema())
        .may("guided_json", schema())
        .may("grammar", long("llama.cpp's notation, or llguidance's"))
        .may("guided_grammar", long("The same"))
        .may("guided_regex", long("A regular expression that the whole answer matches"))
        .may("guided_choice", choice())
        .may("structured_outputs", structured.into())
}
