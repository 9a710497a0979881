//! Ollama's `messages` to a conversation, and its `tools`, `format` and `think`.

use serde_json::Value;

use crate::body::describe;
use crate::chat::functions::{check, function_of};
use crate::chat::{AnswerFormat, AskedFormat, Thinking};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::formats::Tool;
use crate::openai::chat::effort_of;
use crate::template::conversation::{Message, Role, ToolCall};

/// Reads `messages`; an absent list is an empty one, which only loads the model.
pub fn messages(fields: &Fields<'_>) -> Result<Vec<Message>, ApiError> {
    let items = fields.list("messages")?.unwrap_or_default();
    items.iter().enumerate().map(|(index, item)| message(&format!("messages[{index}]"), item)).collect()
}

fn message(path: &str, item: &Value) -> Result<Message, ApiError> {
    let Value::Object(object) = item else {
        return Err(ApiError::invalid(path, format!("{path:?} is {}; it must be an object with \"role\" and \"content\"", describe(item))));
    };
    let fields = Fields::inside(object, path);
    let role = match fields.string("role")? {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => {
            return Err(ApiError::invalid(
                fields.path("role"),
                format!("{:?} must be \"system\", \"user\", \"assistant\" or \"tool\"", fields.path("role")),
            ));
        }
    };
    refuse_images(&fields)?;
    let calls = fields.list("tool_calls")?.unwrap_or_default();
    let calls = calls.iter().enumerate().map(|(index, call)| tool_call(&fields.path(&format!("tool_calls[{index}]")), call));
    let name = fields.string("tool_name")?.or(fields.string("name")?);
    Ok(Message {
        role,
        content: fields.string("content")?.unwrap_or_default().to_owned(),
        name: name.map(str::to_owned),
        tool_calls: calls.collect::<Result<_, _>>()?,
        tool_call_id: fields.string("tool_call_id")?.map(str::to_owned),
        reasoning: fields.string("thinking")?.map(str::to_owned),
    })
}

/// No model is served that looks at pictures.
pub fn refuse_images(fields: &Fields<'_>) -> Result<(), ApiError> {
    match fields.list("images")? {
        None | Some([]) => Ok(()),
        Some(_) => Err(ApiError::unsupported(
            fields.path("images"),
            format!("{:?} holds pictures; this version of the server reads text only", fields.path("images")),
        )),
    }
}

fn tool_call(path: &str, item: &Value) -> Result<ToolCall, ApiError> {
    let wrong = || ApiError::invalid(path, format!("{path:?} must be {{\"function\": {{\"name\": …, \"arguments\": {{…}}}}}}"));
    let object = item.as_object().ok_or_else(wrong)?;
    let fields = Fields::inside(object, path);
    let function = fields.object("function")?.ok_or_else(wrong)?;
    let inside = Fields::inside(function, fields.path("function"));
    let name = inside.string("name")?.ok_or_else(wrong)?;
    Ok(ToolCall {
        id: fields.string("id")?.map(str::to_owned),
        name: name.to_owned(),
        arguments: inside.object("arguments")?.cloned().unwrap_or_default(),
    })
}

/// Reads `tools`.
pub fn tools(fields: &Fields<'_>) -> Result<Vec<Tool>, ApiError> {
    let items = fields.list("tools")?.unwrap_or_default();
    let tool = |(index, item): (usize, &Value)| {
        let path = format!("tools[{index}]");
        let wrong = || ApiError::invalid(&path, format!("{path:?} must be {{\"type\": \"function\", \"function\": {{…}}}}"));
        let object = item.as_object().ok_or_else(wrong)?;
        let function = Fields::inside(object, &path).object("function")?.ok_or_else(wrong)?;
        function_of(&Fields::inside(function, format!("{path}.function")), "parameters")
    };
    let tools = items.iter().enumerate().map(tool).collect::<Result<Vec<_>, _>>()?;
    check("tools", &tools)?;
    Ok(tools)
}

/// Reads `format`: `"json"`, or a schema.
pub fn format(fields: &Fields<'_>) -> Result<Option<AskedFormat>, ApiError> {
    let format = match fields.value("format") {
        None => return Ok(None),
        Some(Value::String(word)) if word.is_empty() => return Ok(None),
        Some(Value::String(word)) if word == "json" => AnswerFormat::object(),
        Some(schema @ Value::Object(_)) => AnswerFormat::Schema(schema.clone()),
        Some(_) => return Err(ApiError::invalid("format", "\"format\" must be \"json\" or a JSON schema")),
    };
    Ok(Some(format.asked_in("format")))
}

/// Reads `think`: a boolean, or how much.
pub fn thinking(fields: &Fields<'_>) -> Result<Thinking, ApiError> {
    match fields.value("think") {
        None => Ok(Thinking::default()),
        Some(Value::Bool(wanted)) => Ok(Thinking { wanted: Some(*wanted), ..Thinking::default() }),
        Some(Value::String(word)) => effort_of("think", word),
        Some(other) => Err(fields.wrong("think", other, "true, false, \"low\", \"medium\" or \"high\"")),
    }
}
