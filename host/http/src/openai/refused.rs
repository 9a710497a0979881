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

fn text_only(value: &Value) -> bool {
    value.as_array().is_some_and(|kinds| kinds.iter().all(|kind| kind.as_str() == Some("text")))
}

fn no_choice(value: &Value) -> bool {
    matches!(value.as_str(), Some("none" | "auto"))
}

static EVERYWHERE: &[Refused] = &[
    refused("stop_token_ids", empty, "use `stop` with the text of the token"),
    refused("min_tokens", zero, "leave it out"),
    refused("bad_words", empty, "use `logit_bias`"),
    refused("use_beam_search", off, "leave it out"),
    refused("mirostat", zero, "use `temperature`, `top_p`, `min_p` or `typical_p`"),
    refused("dry_multiplier", zero, "use `repetition_penalty`, `presence_penalty` or `frequency_penalty`"),
    refused("xtc_probability", zero, "use `temperature`, `top_p`, `min_p` or `typical_p`"),
    refused("logits_processors", empty, "use `logit_bias`"),
];

static CHAT: &[Refused] = &[
    refused("functions", empty, "use \"tools\""),
    refused("function_call", no_choice, "use \"tool_choice\""),
    refused("modalities", text_only, "ask for text"),
    refused("audio", never, "ask for text"),
    refused("web_search_options", never, "put what you found into a message"),
    refused("verbosity", |value| value.as_str() == Some("medium"), "ask for shorter or longer answers in a message"),
    refused("add_generation_prompt", |value| value == &Value::Bool(true), "end with an assistant message to continue it"),
    refused("documents", empty, "put the documents into a message"),
    refused("echo", off, "put the text together yourself"),
    refused("best_of", |value| value.as_i64() == Some(1), "use `n` and choose yourself"),
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
        Dialect::Completions => &[],
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
    Ok(())
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
        for (field, value) in [("functions", json!([{"name": "f"}])), ("modalities", json!(["audio"])), ("echo", json!(true))] {
            assert_eq!(verdict(json!({field: value}), Dialect::Chat), Err(field.to_owned()));
        }
        assert_eq!(verdict(json!({"min_tokens": 5}), Dialect::Completions), Err("min_tokens".to_owned()));
    }

    #[test]
    fn values_that_ask_for_nothing_pass() {
        let neutral = json!({"functions": null, "function_call": "auto", "modalities": ["text"], "user": "u", "min_tokens": 0});
        assert_eq!(verdict(neutral, Dialect::Chat), Ok(()));
        assert_eq!(verdict(json!({"echo": true, "best_of": 2}), Dialect::Completions), Ok(()));
    }
}
