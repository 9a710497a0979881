//! Text or token ids, one or several: the shapes that `prompt` and `input` share.

use onebit_engine::{Prompt, PromptPart, TokenId};
use serde_json::Value;

use crate::body::describe;
use crate::errors::ApiError;
use crate::fields::Fields;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Text.
    Text(String),
    /// Token ids, not yet checked against a vocabulary.
    Tokens(Vec<TokenId>),
}

impl Entry {
    /// For the engine. `control` = texts of control tokens become those tokens.
    pub fn into_prompt(self, control: bool) -> Prompt {
        match self {
            Self::Text(text) => Prompt::Parts(vec![PromptPart { text, control }]),
            Self::Tokens(tokens) => Prompt::Tokens(tokens),
        }
    }
}

const SHAPES: &str = "a string, a list of strings, a list of token ids or a list of such lists";

/// Reads a field of this shape: a string, strings, ids or lists of ids.
pub fn read(fields: &Fields<'_>, name: &str, most: usize) -> Result<Vec<Entry>, ApiError> {
    let path = fields.path(name);
    let items = match fields.value(name) {
        None => return Err(fields.missing(name, SHAPES)),
        Some(Value::String(text)) => return Ok(vec![Entry::Text(text.clone())]),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(fields.wrong(name, other, SHAPES)),
    };
    match items.first() {
        None => Err(ApiError::invalid(&path, format!("{path:?} is an empty list; give {SHAPES}"))),
        Some(Value::Number(_)) => Ok(vec![Entry::Tokens(ids(&path, items)?)]),
        Some(_) if items.len() > most => {
            Err(ApiError::invalid(&path, format!("{path:?} has {} entries; at most {most} are allowed", items.len())))
        }
        Some(_) => items.iter().enumerate().map(|(index, item)| entry(&format!("{path}[{index}]"), item)).collect(),
    }
}

fn entry(path: &str, item: &Value) -> Result<Entry, ApiError> {
    match item {
        Value::String(text) => Ok(Entry::Text(text.clone())),
        Value::Array(items) if items.is_empty() => Err(ApiError::invalid(path, format!("{path:?} is an empty list; give token ids"))),
        Value::Array(items) => Ok(Entry::Tokens(ids(path, items)?)),
        other => Err(ApiError::invalid(path, format!("{path:?} is {}; it must be a string or a list of token ids", describe(other)))),
    }
}

fn ids(path: &str, items: &[Value]) -> Result<Vec<TokenId>, ApiError> {
    let id = |(index, item): (usize, &Value)| {
        item.as_u64().and_then(|id| TokenId::try_from(id).ok()).ok_or_else(|| {
            let shown: String = item.to_string().chars().take(40).collect();
            ApiError::invalid(format!("{path}[{index}]"), format!("\"{path}[{index}]\" is {shown}; a token id is a whole number from 0"))
        })
    };
    items.iter().enumerate().map(id).collect()
}

/// Refuses ids that the model does not have.
pub fn check_vocabulary(name: &str, entries: &[Entry], vocabulary: u32) -> Result<(), ApiError> {
    for entry in entries {
        if let Entry::Tokens(tokens) = entry
            && let Some(id) = tokens.iter().find(|id| **id >= vocabulary)
        {
            return Err(ApiError::invalid(
                name,
                format!("{name:?} holds token {id}; this model has tokens 0 to {}", vocabulary.saturating_sub(1)),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompt(value: Value) -> Result<Vec<Entry>, ApiError> {
        let body = json!({"prompt": value});
        read(&Fields::of(body.as_object().expect("an object")), "prompt", 4)
    }

    #[test]
    fn all_four_shapes_are_read() {
        assert_eq!(prompt(json!("a")).expect("text"), [Entry::Text("a".into())]);
        assert_eq!(prompt(json!(["a", "b"])).expect("texts").len(), 2);
        assert_eq!(prompt(json!([1, 2])).expect("ids"), [Entry::Tokens(vec![1, 2])]);
        assert_eq!(prompt(json!([[1], [2, 3]])).expect("lists").len(), 2);
    }

    #[test]
    fn wrong_ids_and_empty_lists_are_refused() {
        for bad in [
            json!([-1]),
            json!([1.5]),
            json!([1, "a"]),
            json!([]),
            json!([[]]),
            json!([99999999999u64]),
            json!([true]),
            json!({}),
            json!(null),
            json!(vec!["x"; 5]),
        ] {
            let shown = bad.to_string();
            assert!(prompt(bad).is_err(), "{shown}");
        }
        let entries = prompt(json!([99999999])).expect("a number");
        assert!(check_vocabulary("prompt", &entries, 49152).is_err());
    }
}
