//! Fields that would change the answer and that this version does not carry out: one table.
//!
//! An unknown field is ignored, as OpenAI-shaped clients send many (`user`, `metadata`, `service_tier`, …). A field in this table is not:
//! an answer that silently lacks what was asked for is worse than a refusal. `null`, and a value that asks for what happens anyway, pass.

use serde_json::Value;

use crate::body::Object;
use crate::errors::ApiError;

/// A field, the values that ask for nothing, and what to do instead.
struct Refused {
    field: &'static str,
    neutral: fn(&Value) -> bool,
    instead: &'static str,
}

const fn refused(field: &'static str, neutral: fn(&Value) -> bool, instead: &'static str) -> Refused {
    Refused { field, neutral, instead }
}

fn never(_: &Value) -> bool {
    false
}

fn empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_str() == Some("")
}

fn off(value: &Value) -> bool {
    value == &Value::Bool(false)
}

fn zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn plain_text(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.len() == 1 && object.get("type").and_then(Value::as_str) == Some("text"))
}

fn text_only(value: &Value) -> bool {
    value.as_array().is_some_and(|kinds| kinds.iter().all(|kind| kind.as_str() == Some("text")))
}

fn no_choice(value: &Value) -> bool {
    matches!(value.as_str(), Some("none" | "auto"))
}

static EVERYWHERE: &[Refused] = &[
    refused("grammar", empty, "leave it out and check the answer yourself"),
    refused("json_schema", empty, "leave it out and check the answer yourself"),
    refused("guided_json", empty, "leave it out and check the answer yourself"),
    refused("guided_regex", empty, "leave it out and check the answer yourself"),
    refused("guided_choice", empty, "leave it out and check the answer yourself"),
    refused("guided_grammar", empty, "leave it out and check the answer yourself"),
    refused("structured_outputs", empty, "leave it out and check the answer yourself"),
    refused("stop_token_ids", empty, "use `stop` with the text of the token"),
    refused("min_tokens", zero, "leave it out"),
    refused("bad_words", empty, "use `logit_bias`"),
    refused("use_beam_search", off, "leave it out"),
    refused("mirostat", zero, "use `temperature`, `top_p`, `min_p` or `typical_p`"),
    refused("dry_multiplier", zero, "use `repetition_penalty`, `presence_penalty` or `frequency_penalty`"),
    refused("xtc_probability", zero, "use `temperature`, `top_p`, `min_p` or `typical_p`"),
    refused("logits_processors", empty, "use `logit_bias`"),
    refused("response_format", plain_text, "leave it out and check the answer yourself"),
];

static CHAT: &[Refused] = &[
    refused("functions", empty, "describe the functions in a message and read the answer yourself"),
    refused("function_call", no_choice, "leave it out"),
    refused("modalities", text_only, "ask for text"),
    refused("audio", never, "ask for text"),
    refused("web_search_options", never, "put what you found into a message"),
    refused("verbosity", |value| value.as_str() == Some("medium"), "ask for shorter or longer answers in a message"),
    refused("add_generation_prompt", |value| value == &Value::Bool(true), "end with an assistant message to continue it"),
    refused("documents", empty, "put the documents into a message"),
    refused("echo", off, "put the text together yourself"),
    refused("best_of", |value| value.as_i64() == Some(1), "use `n` and choose yourself"),
];

static COMPLETIONS: &[Refused] = &[
    refused("echo", off, "put the text together yourself: prompt, then answer"),
    refused("suffix", empty, "write the model's own fill-in-the-middle tokens into the prompt"),
];

/// Which table besides the common one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
}

/// Refuses the first field that would change the answer and is not carried out.
pub fn check(object: &Object, dialect: Dialect) -> Result<(), ApiError> {
    let own = match dialect {
        Dialect::Chat => CHAT,
        Dialect::Completions => COMPLETIONS,
    };
    for row in EVERYWHERE.iter().chain(own) {
        if let Some(value) = object.get(row.field).filter(|value| !value.is_null())
            && !(row.neutral)(value)
        {
            return Err(ApiError::unsupported(
                row.field,
                format!("{:?} is not supported by this version of the server; {}", row.field, row.instead),
            ));
        }
    }
    match dialect {
        Dialect::Chat => check_tools(object),
        Dialect::Completions => check_best_of(object),
    }
}

/// Tools pass only where the caller forbids their use; the model is then asked without them, and cannot call any.
fn check_tools(object: &Object) -> Result<(), ApiError> {
    let choice = object.get("tool_choice").filter(|value| !value.is_null());
    if let Some(choice) = choice
        && !no_choice(choice)
    {
        return Err(ApiError::unsupported(
            "tool_choice",
            "\"tool_choice\" is not supported by this version of the server; leave it out, or send \"none\"",
        ));
    }
    match object.get("tools").filter(|value| !value.is_null()) {
        None => Ok(()),
        Some(tools) if empty(tools) => Ok(()),
        Some(Value::Array(_)) if choice.and_then(Value::as_str) == Some("none") => Ok(()),
        Some(Value::Array(_)) => Err(ApiError::unsupported(
            "tools",
            "\"tools\" is not supported by this version of the server; leave it out, or send \"tool_choice\": \"none\" to get an answer without tools",
        )),
        Some(_) => Err(ApiError::invalid("tools", "\"tools\" must be a list")),
    }
}

fn check_best_of(object: &Object) -> Result<(), ApiError> {
    let Some(best_of) = object.get("best_of").filter(|value| !value.is_null()) else { return Ok(()) };
    let n = object.get("n").and_then(Value::as_i64).unwrap_or(1);
    match best_of.as_i64() {
        Some(best_of) if best_of == n => Ok(()),
        Some(best_of) if best_of > n => Err(ApiError::unsupported(
            "best_of",
            format!(
                "\"best_of\" above \"n\" is not supported by this version of the server (best_of {best_of}, n {n}); use \"n\" and choose yourself"
            ),
        )),
        _ => Err(ApiError::invalid("best_of", "\"best_of\" must be a whole number not below \"n\"")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(value: Value, dialect: Dialect) -> Result<(), String> {
        check(value.as_object().expect("an object"), dialect).map_err(|error| error.param.expect("a param"))
    }

    #[test]
    fn what_would_change_the_answer_is_refused_by_name() {
        for (field, value) in [
            ("tools", json!([{"type": "function"}])),
            ("response_format", json!({"type": "json_object"})),
            ("response_format", json!({"type": "json_schema", "json_schema": {}})),
            ("functions", json!([{"name": "f"}])),
            ("modalities", json!(["audio"])),
            ("tool_choice", json!("required")),
            ("grammar", json!("root ::= \"a\"")),
        ] {
            assert_eq!(verdict(json!({field: value}), Dialect::Chat), Err(field.to_owned()));
        }
        for (field, value) in [("echo", json!(true)), ("suffix", json!("x")), ("best_of", json!(3))] {
            assert_eq!(verdict(json!({field: value}), Dialect::Completions), Err(field.to_owned()));
        }
    }

    #[test]
    fn values_that_ask_for_nothing_pass() {
        let neutral = json!({"tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "functions": null, "modalities": ["text"], "user": "u"});
        assert_eq!(verdict(neutral, Dialect::Chat), Ok(()));
        assert_eq!(verdict(json!({"tools": [{}], "tool_choice": "none"}), Dialect::Chat), Ok(()));
        assert_eq!(verdict(json!({"echo": false, "suffix": "", "best_of": 2, "n": 2}), Dialect::Completions), Ok(()));
    }
}
