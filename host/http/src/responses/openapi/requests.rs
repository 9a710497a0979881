//! The body of a request for a response, and what answers repeat of it.

use serde_json::json;

use super::super::conversation::{REFUSAL, RETURNED, SAID, THOUGHT};
use super::super::request::{INCLUDE, MAX_KEY, MAX_PAIRS, MAX_TEXT, MAX_TOP_LOGPROBS, SUMMARIES};
use super::super::tools::LEFT_OUT;
use crate::chat::functions::MAX_TOOLS;
use crate::openai::chat::EFFORTS;
use crate::openai::openapi::{arguments, function, model, sampling, schema};
use crate::openapi::shapes::{
    Record, Shape, anything, count, either, flag, list, list_of, map_under, measure, nothing, one_of, or_null, record, text,
    text_beginning, text_of, word,
};

/// Where a part of the request stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the request.
    Request,
    /// In an answer, which repeats it with whatever else it had.
    Answer,
}

impl Place {
    fn shape(self, record: Record) -> Shape {
        match self {
            Self::Request => record.into(),
            Self::Answer => record.and_others().into(),
        }
    }

    /// How an item of a type begins: kept items have got what they lacked.
    fn item(self, kind: &str) -> Record {
        let kinds = word(&[kind], "");
        match self {
            Self::Request if kind == "message" => record("").may("type", kinds).may("id", text("")),
            Self::Request => record("").must("type", kinds).may("id", text("")),
            Self::Answer => record("").must("type", kinds).must("id", text("")).must("status", word(&["completed", "incomplete"], "")),
        }
    }
}

/// `ResponseRequest`.
pub fn body() -> Record {
    let items = list_of(either(items(Place::Request), ""), 1..=usize::MAX, "The question last");
    let body = record("")
        .must("model", model())
        .must("input", either([text("What the user says"), items], ""))
        .may("instructions", text("Before all items; they do not go along with previous_response_id"))
        .may("previous_response_id", text("A kept response to go on from"))
        .may("stream", flag("Answer in events; not with background"))
        .may("background", flag("Answer at once, and go on; needs the response to be kept"))
        .may("store", flag("Whether the response is kept; if not said, it is where the server keeps any"))
        .may("max_output_tokens", count(1..=u32::MAX, "Tokens at most"))
        .may("tools", tools(Place::Request))
        .may("tool_choice", tool_choice(Place::Request))
        .may("parallel_tool_calls", flag("More than one call in an answer"))
        .may("text", format(Place::Request).may("verbosity", word(&["medium"], "Nothing else can be asked for")).into())
        .may("reasoning", thinking().may("generate_summary", summary()).into())
        .may("include", list(word(INCLUDE, ""), "Only the log-probabilities change anything"))
        .may("top_logprobs", count(0..=MAX_TOP_LOGPROBS, "Alternatives to each token; needs the log-probabilities in include"))
        .may("metadata", metadata())
        .may("truncation", word(&["disabled"], "Nothing is cut silently"));
    sampling(body).example(json!({"model": "demo", "max_output_tokens": 8, "input": "Say hello."}))
}

/// What answers repeat of it.
pub fn repeated(answer: Record) -> Record {
    let chosen = |about: &str| or_null(measure(about));
    answer
        .must("instructions", or_null(text("")))
        .must("max_output_tokens", or_null(count(1..=u32::MAX, "")))
        .must("max_tool_calls", nothing(""))
        .must("metadata", metadata())
        .must("parallel_tool_calls", flag(""))
        .must("previous_response_id", or_null(text("")))
        .must("reasoning", record("").must("effort", or_null(word(EFFORTS, ""))).must("summary", or_null(summary())).into())
        .must("service_tier", word(&["default"], ""))
        .must("store", flag("Whether it is kept"))
        .must("temperature", chosen("null until it is known what the model's manifest says"))
        .must("text", format(Place::Answer).into())
        .must("tool_choice", tool_choice(Place::Answer))
        .must("tools", tools(Place::Answer))
        .must("top_logprobs", count(0..=MAX_TOP_LOGPROBS, ""))
        .must("top_p", chosen("null until it is known what the model's manifest says"))
        .must("truncation", word(&["disabled"], ""))
        .must("user", nothing(""))
}

/// The items there are.
pub fn items(place: Place) -> Vec<Shape> {
    let part = |kinds: &[&str], member: &str| place.shape(record("").must("type", word(kinds, "")).must(member, text("")));
    let texts = |kinds: &[&str]| {
        let with_text: Vec<&str> = kinds.iter().copied().filter(|kind| *kind != REFUSAL).collect();
        let refusal = kinds.contains(&REFUSAL).then(|| part(&[REFUSAL], REFUSAL));
        either([text(""), list(one_of([part(&with_text, "text")].into_iter().chain(refusal)), "")], "")
    };
    let message = place.item("message").must("role", word(&["user", "assistant", "system", "developer"], "")).must("content", texts(SAID));
    let call = place
        .item("function_call")
        .must("call_id", text(""))
        .may("namespace", text(""))
        .must("name", text(""))
        .may("arguments", arguments());
    let output =
        place.item("function_call_output").must("call_id", text("Which call this is the result of")).must("output", texts(RETURNED));
    let thought = place.item("reasoning").may("summary", anything("Not looked at")).may("content", texts(THOUGHT));
    [message, call, output, thought].map(|item| place.shape(item)).into()
}

fn tools(place: Place) -> Shape {
    let function = || place.shape(function("parameters").must("type", word(&["function"], "")));
    let namespace = record("")
        .must("type", word(&["namespace"], ""))
        .must("name", text("Before each function's name: the two and what is between them are as long as a name may be"))
        .may("description", text("Of all of them"))
        .may("tools", list(function(), ""));
    let search = record("").must("type", text_beginning(LEFT_OUT, "Left out: there is none, and it is not repeated"));
    let tool = match place {
        Place::Request => either([function(), place.shape(namespace), search.into()], ""),
        Place::Answer => either([function(), place.shape(namespace)], ""),
    };
    list_of(tool, 0..=MAX_TOOLS, "Functions that the model may call, each under its own name")
}

fn tool_choice(place: Place) -> Shape {
    let kind = || record("").may("type", word(&["function"], ""));
    let named = || record("").must("name", text(""));
    let choices = [kind().must("name", text("")), kind().must("function", place.shape(named()))].map(|choice| place.shape(choice));
    either([word(&["none", "auto", "required", "any"], "")].into_iter().chain(choices), "Whether one must be called")
}

/// What holds `format`.
fn format(place: Place) -> Record {
    let kind = |kind: &str| record("").must("type", word(&[kind], ""));
    let formats = [kind("text"), kind("json_object"), kind("json_schema").must("schema", schema())];
    let format = either(formats.map(|format| place.shape(format)), "What the answer must look like");
    match place {
        Place::Request => record("").may("format", format),
        Place::Answer => record("").must("format", format),
    }
}

fn thinking() -> Record {
    record("").may("effort", word(EFFORTS, "")).may("summary", summary())
}

fn summary() -> Shape {
    word(SUMMARIES, "None is made: what was thought is told as it is")
}

fn metadata() -> Shape {
    map_under(text_of(0..=MAX_TEXT, ""), MAX_KEY, MAX_PAIRS, "Comes back with the response")
}
