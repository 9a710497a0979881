//! `tools` and `tool_choice`.
//!
//! Functions of the client only. A tool that Anthropic runs itself, or that its models were trained on without a schema, has a type of its own
//! (`web_search_…`, `bash_…`) and is refused by that name.

use serde_json::Value;

use crate::body::describe;
use crate::chat::ToolChoice;
use crate::chat::functions::{check, function_of};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::formats::Tool;

/// What a request says of functions.
#[derive(Debug)]
pub struct Tools {
    /// What may be called.
    pub tools: Vec<Tool>,
    /// Whether something must be.
    pub choice: ToolChoice,
    /// More than one call in an answer.
    pub parallel: bool,
}

/// Reads both.
pub fn read(fields: &Fields<'_>) -> Result<Tools, ApiError> {
    let items = fields.list("tools")?.unwrap_or_default();
    let tools = items.iter().enumerate().map(|(index, item)| tool(&format!("tools[{index}]"), item)).collect::<Result<Vec<_>, _>>()?;
    check("tools", &tools)?;
    let (choice, parallel) = choice(fields)?;
    Ok(Tools { tools, choice, parallel })
}

fn tool(path: &str, item: &Value) -> Result<Tool, ApiError> {
    let Value::Object(object) = item else {
        return Err(ApiError::invalid(
            path,
            format!("{path:?} is {}; it must be an object with \"name\" and \"input_schema\"", describe(item)),
        ));
    };
    let fields = Fields::inside(object, path);
    match fields.string("type")? {
        None | Some("custom") => {}
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            return Err(ApiError::unsupported(
                fields.path("type"),
                format!("{path:?} is the tool {shown:?}; this server calls functions with an \"input_schema\" of the client's only"),
            ));
        }
    }
    let tool = function_of(&fields, "input_schema")?;
    match fields.value("input_schema") {
        Some(_) => Ok(tool),
        None => Err(fields.missing("input_schema", "the JSON schema of the arguments")),
    }
}

fn choice(fields: &Fields<'_>) -> Result<(ToolChoice, bool), ApiError> {
    let Some(object) = fields.object("tool_choice")? else { return Ok((ToolChoice::Auto, true)) };
    let inside = Fields::inside(object, "tool_choice");
    let choice = match inside.string("type")? {
        Some("auto") => ToolChoice::Auto,
        Some("any") => ToolChoice::Required,
        Some("none") => ToolChoice::None,
        Some("tool") => {
            let name = inside.string("name")?.ok_or_else(|| inside.missing("name", "the name of the function to call"))?;
            ToolChoice::Named(name.to_owned())
        }
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            return Err(ApiError::invalid(
                "tool_choice.type",
                format!("\"tool_choice.type\" is {shown:?}; it must be \"auto\", \"any\", \"tool\" or \"none\""),
            ));
        }
        None => return Err(inside.missing("type", "\"auto\", \"any\", \"tool\" or \"none\"")),
    };
    Ok((choice, !inside.boolean("disable_parallel_tool_use")?.unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::chat::functions::MAX_TOOLS;

    fn read_all(value: Value) -> Result<Tools, ApiError> {
        read(&Fields::of(value.as_object().expect("an object")))
    }

    #[test]
    fn functions_and_choices_are_read() {
        let tools = json!([
            {"name": "f", "description": "d", "input_schema": {"type": "object"}, "eager_input_streaming": true, "cache_control": {"type": "ephemeral"}},
            {"type": "custom", "name": "g", "input_schema": {}, "strict": true},
        ]);
        let read = read_all(json!({"tools": tools, "tool_choice": {"type": "tool", "name": "g", "disable_parallel_tool_use": true}}))
            .expect("fine");
        assert_eq!((read.tools.len(), read.choice, read.parallel), (2, ToolChoice::Named("g".into()), false));
        for (word, wanted) in [("auto", ToolChoice::Auto), ("none", ToolChoice::None), ("any", ToolChoice::Required)] {
            assert_eq!(read_all(json!({"tool_choice": {"type": word}})).expect("fine").choice, wanted);
        }
    }

    #[test]
    fn bad_functions_are_refused_by_name() {
        let schema = json!({"type": "object"});
        for bad in [
            json!({"tools": {}}),
            json!({"tools": ["f"]}),
            json!({"tools": [{"input_schema": schema}]}),
            json!({"tools": [{"name": "f"}]}),
            json!({"tools": [{"name": "f", "input_schema": []}]}),
            json!({"tools": [{"name": "", "input_schema": schema}]}),
            json!({"tools": [{"name": "a b", "input_schema": schema}]}),
            json!({"tools": [{"name": "x".repeat(129), "input_schema": schema}]}),
            json!({"tools": [{"name": "f", "input_schema": schema}, {"name": "f", "input_schema": schema}]}),
            json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
            json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}),
            json!({"tools": vec![json!({"name": "f", "input_schema": schema}); MAX_TOOLS + 1]}),
            json!({"tool_choice": "auto"}),
            json!({"tool_choice": {}}),
            json!({"tool_choice": {"type": "required"}}),
            json!({"tool_choice": {"type": "tool"}}),
        ] {
            let shown: String = bad.to_string().chars().take(100).collect();
            let error = read_all(bad).expect_err(&shown);
            assert!(error.param.is_some(), "{shown}");
        }
    }
}
