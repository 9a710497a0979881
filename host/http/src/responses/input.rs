//! `input` as a list of items, each with its type and an id, as they are kept and listed.
//!
//! A string is a message of the user. What an item holds is looked at where it becomes a message (`conversation.rs`); here it only gets what
//! it lacks.

use serde_json::{Value, json};

use crate::body::{Object, describe};
use crate::errors::ApiError;
use crate::fields::Fields;

/// The items that were sent.
pub fn items(fields: &Fields<'_>) -> Result<Vec<Value>, ApiError> {
    match fields.value("input") {
        None => Err(fields.missing("input", "a text, or a list of items")),
        Some(Value::String(text)) => Ok(vec![message("user", vec![json!({"type": "input_text", "text": text})])]),
        Some(Value::Array(items)) if items.is_empty() => Err(ApiError::invalid("input", "\"input\" is empty; give at least one item")),
        Some(Value::Array(items)) => items.iter().enumerate().map(|(index, item)| completed(index, item)).collect(),
        Some(other) => Err(fields.wrong("input", other, "a text or a list of items")),
    }
}

fn message(role: &str, content: Vec<Value>) -> Value {
    json!({"id": id("msg"), "type": "message", "status": "completed", "role": role, "content": content})
}

/// A new id.
pub fn id(prefix: &str) -> String {
    format!("{prefix}_{}", uuid::Uuid::new_v4().simple())
}

fn completed(index: usize, item: &Value) -> Result<Value, ApiError> {
    let path = format!("input[{index}]");
    let Value::Object(object) = item else {
        return Err(ApiError::invalid(&path, format!("{path:?} is {}; it must be an object", describe(item))));
    };
    let fields = Fields::inside(object, &path);
    let kind = match fields.string("type")? {
        Some(kind) => kind,
        // A message needs no type.
        None if object.contains_key("role") => "message",
        None => return Err(fields.missing("type", "\"message\", \"function_call\", \"function_call_output\" or \"reasoning\"")),
    };
    let prefix = match kind {
        "message" => "msg",
        "function_call" => "fc",
        "function_call_output" => "fco",
        "reasoning" => "rs",
        other => {
            let shown: String = other.chars().take(40).collect();
            return Err(ApiError::unsupported(
                &path,
                format!(
                    "{path:?} is an item of type {shown:?}; this server reads \"message\", \"function_call\", \"function_call_output\" and \"reasoning\""
                ),
            ));
        }
    };
    let mut completed = Object::new();
    completed.insert("id".into(), fields.string("id")?.map_or_else(|| id(prefix), str::to_owned).into());
    completed.insert("type".into(), kind.into());
    completed.insert("status".into(), "completed".into());
    for (key, value) in object.iter().filter(|(key, value)| !value.is_null() && !["id", "type", "status"].contains(&key.as_str())) {
        completed.insert(key.clone(), value.clone());
    }
    if kind == "message"
        && let Some(Value::String(text)) = object.get("content")
    {
        let part = if object.get("role").is_some_and(|role| role == "assistant") { "output_text" } else { "input_text" };
        completed.insert("content".into(), json!([{"type": part, "text": text}]));
    }
    Ok(Value::Object(completed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: Value) -> Result<Vec<Value>, ApiError> {
        let body = json!({"input": input});
        items(&Fields::of(body.as_object().expect("an object")))
    }

    #[test]
    fn every_item_gets_a_type_and_an_id_and_keeps_its_own() {
        let text = read(json!("Hi")).expect("a text");
        assert_eq!((&text[0]["role"], &text[0]["content"]), (&json!("user"), &json!([{"type": "input_text", "text": "Hi"}])));
        let all = read(json!([
            {"role": "assistant", "content": "Hello"},
            {"type": "function_call", "id": "fc_mine", "call_id": "c", "name": "f", "arguments": "{}", "status": null},
            {"type": "function_call_output", "call_id": "c", "output": "4"},
        ]))
        .expect("items");
        assert_eq!((&all[0]["type"], &all[0]["content"][0]["type"]), (&json!("message"), &json!("output_text")));
        assert_eq!((&all[1]["id"], &all[1]["status"], &all[1]["arguments"]), (&json!("fc_mine"), &json!("completed"), &json!("{}")));
        assert!(all[2]["id"].as_str().is_some_and(|id| id.starts_with("fco_")));
    }

    #[test]
    fn what_is_no_item_is_refused() {
        for bad in [
            json!(null),
            json!(3),
            json!([]),
            json!({}),
            json!(["x"]),
            json!([{}]),
            json!([{"type": 3}]),
            json!([{"type": "message", "role": "user", "id": 3}]),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
        for kind in ["item_reference", "web_search_call", "computer_call_output", "mcp_call", "unheard"] {
            let error = read(json!([{"type": kind, "id": "x"}])).expect_err(kind);
            assert!(error.param.as_deref() == Some("input[0]") && error.message.contains(kind), "{error}");
        }
    }
}
