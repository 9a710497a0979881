//! `tools`, `tool_choice` and `parallel_tool_calls`.

use serde_json::Value;

use crate::body::describe;
use crate::chat::ToolChoice;
use crate::chat::functions::{check, function_of};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::formats::Tool;

/// What a request says of functions.
#[derive(Debug, Default)]
pub struct Tools {
    /// What may be called.
    pub tools: Vec<Tool>,
    /// Whether something must be.
    pub choice: ToolChoice,
    /// More than one call in an answer.
    pub parallel: Option<bool>,
}

/// Reads all three.
pub fn read(fields: &Fields<'_>) -> Result<Tools, ApiError> {
    let items = fields.list("tools")?.unwrap_or_default();
    let tools = items
        .iter()
        .enumerate()
        .map(|(index, item)| tool(&fields.path(&format!("tools[{index}]")), item))
        .collect::<Result<Vec<_>, _>>()?;
    check("tools", &tools)?;
    Ok(Tools { tools, choice: choice(fields)?, parallel: fields.boolean("parallel_tool_calls")? })
}

fn tool(path: &str, item: &Value) -> Result<Tool, ApiError> {
    let Value::Object(object) = item else {
        return Err(ApiError::invalid(
            path,
            format!("{path:?} is {}; it must be an object with \"type\" and \"function\"", describe(item)),
        ));
    };
    let fields = Fields::inside(object, path);
    match fields.string("type")? {
        Some("function") | None => {}
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            return Err(ApiError::unsupported(
                fields.path("type"),
                format!("{path:?} has the type {shown:?}; this server calls functions only"),
            ));
        }
    }
    let function = fields.object("function")?.ok_or_else(|| fields.missing("function", "an object with \"name\" and \"parameters\""))?;
    function_of(&Fields::inside(function, fields.path("function")), "parameters")
}

/// `tool_choice`, in the form of either API.
pub fn choice(fields: &Fields<'_>) -> Result<ToolChoice, ApiError> {
    let forms = "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": …}}";
    match fields.value("tool_choice") {
        None => Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" | "any" => Ok(ToolChoice::Required),
            other => {
                let shown: String = other.chars().take(40).collect();
                Err(ApiError::invalid("tool_choice", format!("\"tool_choice\" is {shown:?}; it must be {forms}")))
            }
        },
        Some(Value::Object(object)) => {
            let inside = Fields::inside(object, "tool_choice");
            let function = inside.object("function")?;
            // The Responses API has the name one level up.
            let name = match function {
                Some(function) => Fields::inside(function, "tool_choice.function").string("name")?,
                None => inside.string("name")?,
            };
            match (inside.string("type")?, name) {
                (Some("function") | None, Some(name)) => Ok(ToolChoice::Named(name.to_owned())),
                _ => Err(ApiError::invalid("tool_choice", format!("\"tool_choice\" must be {forms}"))),
            }
        }
        Some(other) => Err(fields.wrong("tool_choice", other, forms)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_all(value: Value) -> Result<Tools, ApiError> {
        read(&Fields::of(value.as_object().expect("an object")))
    }

    #[test]
    fn functions_and_choices_are_read() {
        let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}, {"type": "function", "function": {"name": "g"}}]);
        let read =
            read_all(json!({"tools": tools, "tool_choice": {"type": "function", "function": {"name": "g"}}, "parallel_tool_calls": false}))
                .expect("fine");
        assert_eq!((read.tools.len(), read.choice, read.parallel), (2, ToolChoice::Named("g".into()), Some(false)));
        for (word, wanted) in [("auto", ToolChoice::Auto), ("none", ToolChoice::None), ("required", ToolChoice::Required)] {
            assert_eq!(read_all(json!({"tool_choice": word})).expect("fine").choice, wanted);
        }
    }

    #[test]
    fn bad_functions_are_refused_by_name() {
        let function = |function: Value| json!({"tools": [{"type": "function", "function": function}]});
        for bad in [
            function(json!({})),
            function(json!({"name": ""})),
            function(json!({"name": "a b"})),
            function(json!({"name": "f", "parameters": []})),
            function(json!({"name": "x".repeat(129)})),
            json!({"tools": [{"type": "web_search"}]}),
            json!({"tools": {}}),
            json!({"tools": ["f"]}),
            json!({"tools": [{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}]}),
            json!({"tool_choice": "maybe"}),
            json!({"tool_choice": {"type": "function"}}),
            json!({"tool_choice": 1}),
        ] {
            let shown = bad.to_string();
            let error = read_all(bad).expect_err(&shown);
            assert!(error.param.is_some(), "{shown}");
        }
    }
}
