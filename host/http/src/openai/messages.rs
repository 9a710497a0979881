//! From OpenAI's `messages` to a [`Conversation`].
//!
//! `content` of an assistant may be absent, `null` or empty beside tool calls, and all three mean the same. Parts of type `text` are joined by
//! a line break; pictures, sound and files are refused, as no model is served that can look at them. Arguments of tool calls arrive as a
//! JSON string and become a mapping, because templates walk over them.

use serde_json::{Map, Value};

use crate::body::{Object, describe};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::template::conversation::{Conversation, Message, Role, ToolCall};

/// Reads `messages` and the variables for the template.
pub fn read(fields: &Fields<'_>) -> Result<Conversation, ApiError> {
    let items = fields.list("messages")?.ok_or_else(|| fields.missing("messages", "a list of messages, the question last"))?;
    if items.is_empty() {
        return Err(ApiError::invalid("messages", "\"messages\" is empty; give at least one message"));
    }
    let messages = items.iter().enumerate().map(|(index, item)| message(index, item)).collect::<Result<_, _>>()?;
    let variables = fields.object("chat_template_kwargs")?.cloned().unwrap_or_default();
    Ok(Conversation { messages, variables, ..Conversation::default() })
}

fn message(index: usize, item: &Value) -> Result<Message, ApiError> {
    let path = format!("messages[{index}]");
    let Value::Object(object) = item else {
        return Err(ApiError::invalid(
            &path,
            format!("{path:?} is {}; it must be an object with \"role\" and \"content\"", describe(item)),
        ));
    };
    let fields = Fields::inside(object, &path);
    let role = role(&fields)?;
    let tool_calls = if role == Role::Assistant { tool_calls(&fields)? } else { Vec::new() };
    if role == Role::Assistant && fields.value("function_call").is_some() {
        return Err(ApiError::unsupported(
            fields.path("function_call"),
            "\"function_call\" is OpenAI's old form; send the call in \"tool_calls\"",
        ));
    }
    let content = match (content(&fields)?, role) {
        (Some(text), _) => text,
        (None, Role::Assistant) if !tool_calls.is_empty() => String::new(),
        (None, Role::Assistant) => match fields.string("refusal")? {
            Some(refusal) => refusal.to_owned(),
            None => return Err(fields.missing("content", "a string, or \"tool_calls\"")),
        },
        (None, _) => return Err(fields.missing("content", "a string or a list of text parts")),
    };
    Ok(Message {
        role,
        content,
        name: fields.string("name")?.map(str::to_owned),
        tool_calls,
        tool_call_id: fields.string("tool_call_id")?.map(str::to_owned),
        reasoning: fields.string("reasoning_content")?.map(str::to_owned),
    })
}

fn role(fields: &Fields<'_>) -> Result<Role, ApiError> {
    match fields.string("role")? {
        // Templates know no "developer"; OpenAI defines it as the system's successor.
        Some("system" | "developer") => Ok(Role::System),
        Some("user") => Ok(Role::User),
        Some("assistant") => Ok(Role::Assistant),
        Some("tool") => Ok(Role::Tool),
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            let path = fields.path("role");
            let message = format!("{path:?} is {shown:?}; it must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"");
            Err(ApiError::invalid(path, message))
        }
        None => Err(fields.missing("role", "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"")),
    }
}

fn content(fields: &Fields<'_>) -> Result<Option<String>, ApiError> {
    match fields.value("content") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(parts)) => {
            let path = fields.path("content");
            if parts.is_empty() {
                return Err(ApiError::invalid(&path, format!("{path:?} is an empty list; give at least one part, or a string")));
            }
            let texts =
                parts.iter().enumerate().map(|(index, item)| part(&format!("{path}[{index}]"), item)).collect::<Result<Vec<_>, _>>()?;
            Ok(Some(texts.join("\n")))
        }
        Some(other) => Err(fields.wrong("content", other, "a string or a list of text parts")),
    }
}

fn part<'a>(path: &str, item: &'a Value) -> Result<&'a str, ApiError> {
    let Value::Object(object) = item else {
        return Err(ApiError::invalid(path, format!("{path:?} is {}; it must be an object with \"type\"", describe(item))));
    };
    let fields = Fields::inside(object, path);
    match fields.string("type")? {
        Some(kind @ ("text" | "refusal")) => fields.string(kind)?.ok_or_else(|| fields.missing(kind, "a string")),
        Some(kind @ ("image_url" | "input_audio" | "file" | "video_url" | "image" | "audio")) => Err(ApiError::unsupported(
            path,
            format!("{path:?} is a part of type {kind:?}; this version of the server reads text parts only"),
        )),
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            Err(ApiError::invalid(path, format!("{path:?} has the type {shown:?}; it must be \"text\"")))
        }
        None => Err(fields.missing("type", "\"text\"")),
    }
}

fn tool_calls(fields: &Fields<'_>) -> Result<Vec<ToolCall>, ApiError> {
    let Some(items) = fields.list("tool_calls")? else { return Ok(Vec::new()) };
    let calls = items.iter().enumerate().map(|(index, item)| {
        let path = fields.path(&format!("tool_calls[{index}]"));
        let Value::Object(object) = item else {
            return Err(ApiError::invalid(&path, format!("{path:?} is {}; it must be an object", describe(item))));
        };
        tool_call(&Fields::inside(object, path))
    });
    calls.collect()
}

fn tool_call(fields: &Fields<'_>) -> Result<ToolCall, ApiError> {
    match fields.string("type")? {
        None | Some("function") => {}
        Some(_) => {
            let path = fields.path("type");
            let message = format!("{path:?} must be \"function\"");
            return Err(ApiError::invalid(path, message));
        }
    }
    let function = fields.object("function")?.ok_or_else(|| fields.missing("function", "an object with \"name\" and \"arguments\""))?;
    let inside = Fields::inside(function, fields.path("function"));
    let name = inside.string("name")?.ok_or_else(|| inside.missing("name", "the function's name"))?;
    Ok(ToolCall { id: fields.string("id")?.map(str::to_owned), name: name.to_owned(), arguments: arguments(&inside)? })
}

/// `arguments` of a call. Nesting inside the string is bounded here; the body's own limit does not see it.
pub fn arguments(fields: &Fields<'_>) -> Result<Object, ApiError> {
    let wrong = |found: &str| {
        let path = fields.path("arguments");
        let message = format!("{path:?} is {found}; it must be a JSON object, written as a string");
        ApiError::invalid(path, message)
    };
    match fields.value("arguments") {
        None => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object.clone()),
        Some(Value::String(text)) if text.trim_ascii().is_empty() => Ok(Map::new()),
        Some(Value::String(text)) => match crate::body::parse_bounded(text) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(other) => Err(wrong(&format!("a string that holds {}", describe(&other)))),
            Err(_) => Err(wrong("a string that is not JSON")),
        },
        Some(other) => Err(wrong(describe(other))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conversation(messages: Value) -> Result<Conversation, ApiError> {
        let body = json!({"messages": messages});
        read(&Fields::of(body.as_object().expect("an object")))
    }

    fn history(assistant: Value) -> Result<Conversation, ApiError> {
        conversation(json!([{"role": "user", "content": "Q"}, assistant, {"role": "tool", "tool_call_id": "c", "content": "4"}]))
    }

    #[test]
    fn null_absent_and_empty_content_beside_tool_calls_are_the_same() {
        let calls = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"city\":\"Oslo\"}"}}]);
        let null = history(json!({"role": "assistant", "content": null, "tool_calls": calls})).expect("null");
        let absent = history(json!({"role": "assistant", "tool_calls": calls})).expect("absent");
        let empty = history(json!({"role": "assistant", "content": "", "tool_calls": calls})).expect("empty");
        assert!(null == absent && absent == empty);
        assert!(history(json!({"role": "assistant", "content": [], "tool_calls": calls})).is_err());
        assert!(history(json!({"role": "assistant"})).is_err());
        assert!(history(json!({"role": "assistant", "content": null})).is_err());
    }

    #[test]
    fn arguments_that_are_no_object_are_refused_by_path() {
        for arguments in [json!("not json"), json!("[1]"), json!("null"), json!(3), json!("{\"a\":".to_owned() + &"[".repeat(5000))] {
            let call = json!([{"function": {"name": "f", "arguments": arguments}}]);
            let error = history(json!({"role": "assistant", "tool_calls": call})).expect_err("no object");
            assert_eq!(error.param.as_deref(), Some("messages[1].tool_calls[0].function.arguments"));
        }
    }

    #[test]
    fn a_string_and_one_text_part_are_the_same() {
        let string = conversation(json!([{"role": "assistant", "content": "Sure"}])).expect("string");
        let parts = conversation(json!([{"role": "assistant", "content": [{"type": "text", "text": "Sure"}]}])).expect("parts");
        assert_eq!(string, parts);
        assert!(string.continues());
    }

    #[test]
    fn an_empty_system_message_is_fine_and_an_unknown_role_is_not() {
        assert!(conversation(json!([{"role": "system", "content": ""}, {"role": "user", "content": "x"}])).is_ok());
        assert!(conversation(json!([{"role": "robot", "content": "x"}])).is_err());
        assert!(conversation(json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}])).is_err());
    }
}
