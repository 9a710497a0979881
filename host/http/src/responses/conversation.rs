//! From items to a [`Conversation`].
//!
//! A turn of the model is several items: what it thought, what it said, what it called. Templates have them in one message. Words of the
//! system that follow each other, `instructions` before all, are one message too: many templates take only one.

use std::collections::HashMap;

use serde_json::Value;

use super::tools::joined;
use crate::body::describe;
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::openai::messages::arguments;
use crate::template::conversation::{Conversation, Message, Role, ToolCall};

/// Types of parts with a text: of messages, which may also hold a refusal, of what a function returned, of what was thought.
pub(super) const SAID: &[&str] = &["input_text", "output_text", "text", REFUSAL];
pub(super) const RETURNED: &[&str] = &["input_text", "output_text", "text"];
pub(super) const THOUGHT: &[&str] = &["reasoning_text"];
/// Has its text under its own name.
pub(super) const REFUSAL: &str = "refusal";

/// Reads items into messages, one after the other.
#[derive(Debug, Default)]
pub struct Turns {
    messages: Vec<Message>,
    /// Thought before what comes next.
    reasoning: Option<String>,
    /// Which function a call's id called, for templates that want the name beside the result.
    called: HashMap<String, String>,
}

impl Turns {
    /// Begins with instructions.
    pub fn instructed(instructions: Option<&str>) -> Self {
        let messages = instructions.map(|text| Message::text(Role::System, text)).into_iter().collect();
        Self { messages, ..Self::default() }
    }

    /// Adds items; `list` is what they are called in errors.
    pub fn add(&mut self, list: &str, items: &[Value]) -> Result<(), ApiError> {
        for (index, item) in items.iter().enumerate() {
            let path = format!("{list}[{index}]");
            let Value::Object(object) = item else {
                return Err(ApiError::invalid(&path, format!("{path:?} is {}; it must be an object", describe(item))));
            };
            self.item(&Fields::inside(object, path))?;
        }
        Ok(())
    }

    /// All of it.
    pub fn end(self) -> Conversation {
        Conversation { messages: self.messages, ..Conversation::default() }
    }

    fn item(&mut self, fields: &Fields<'_>) -> Result<(), ApiError> {
        match fields.string("type")? {
            Some("function_call") => self.call(fields),
            Some("function_call_output") => self.output(fields),
            Some("reasoning") => self.thought(fields),
            _ => self.message(fields),
        }
    }

    fn message(&mut self, fields: &Fields<'_>) -> Result<(), ApiError> {
        let role = match fields.string("role")? {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system" | "developer") => Role::System,
            Some(other) => {
                let shown: String = other.chars().take(40).collect();
                let path = fields.path("role");
                let message = format!("{path:?} is {shown:?}; it must be \"user\", \"assistant\", \"system\" or \"developer\"");
                return Err(ApiError::invalid(path, message));
            }
            None => return Err(fields.missing("role", "\"user\", \"assistant\", \"system\" or \"developer\"")),
        };
        let content = texts(fields, "content", SAID)?;
        let content = content.ok_or_else(|| fields.missing("content", "a text or a list of parts"))?;
        match (self.messages.last_mut(), role) {
            (Some(last), Role::System) if last.role == Role::System => {
                last.content.push_str("\n\n");
                last.content.push_str(&content);
            }
            (_, Role::Assistant) => {
                let reasoning = self.reasoning.take();
                self.messages.push(Message { reasoning, ..Message::text(role, content) });
            }
            _ => self.messages.push(Message::text(role, content)),
        }
        Ok(())
    }

    fn call(&mut self, fields: &Fields<'_>) -> Result<(), ApiError> {
        let id = fields.string("call_id")?.ok_or_else(|| fields.missing("call_id", "the id of the call"))?;
        let name = fields.string("name")?.ok_or_else(|| fields.missing("name", "the function's name"))?;
        let name = joined(fields.string("namespace")?, name);
        let call = ToolCall { id: Some(id.to_owned()), name: name.clone(), arguments: arguments(fields)? };
        self.called.insert(id.to_owned(), name);
        match self.messages.last_mut() {
            Some(last) if last.role == Role::Assistant && self.reasoning.is_none() => last.tool_calls.push(call),
            _ => {
                let reasoning = self.reasoning.take();
                self.messages.push(Message { reasoning, tool_calls: vec![call], ..Message::text(Role::Assistant, "") });
            }
        }
        Ok(())
    }

    fn output(&mut self, fields: &Fields<'_>) -> Result<(), ApiError> {
        let id = fields.string("call_id")?.ok_or_else(|| fields.missing("call_id", "the id of the call that this answers"))?;
        let output = texts(fields, "output", RETURNED)?;
        let output = output.ok_or_else(|| fields.missing("output", "what the function returned, as a text"))?;
        let name = self.called.get(id).cloned();
        self.messages.push(Message { name, tool_call_id: Some(id.to_owned()), ..Message::text(Role::Tool, output) });
        Ok(())
    }

    fn thought(&mut self, fields: &Fields<'_>) -> Result<(), ApiError> {
        // A summary is for people; it is not what the model thought.
        if let Some(text) = texts(fields, "content", THOUGHT)? {
            let reasoning = self.reasoning.get_or_insert_default();
            if !reasoning.is_empty() {
                reasoning.push('\n');
            }
            reasoning.push_str(&text);
        }
        Ok(())
    }
}

/// A text or parts of these types, joined by a line break; `None` = absent.
fn texts(fields: &Fields<'_>, name: &str, kinds: &[&str]) -> Result<Option<String>, ApiError> {
    match fields.value(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(parts)) => {
            let path = fields.path(name);
            let texts = parts.iter().enumerate().map(|(index, part)| text(&format!("{path}[{index}]"), part, kinds));
            Ok(Some(texts.collect::<Result<Vec<_>, _>>()?.join("\n")))
        }
        Some(other) => Err(fields.wrong(name, other, "a text or a list of parts")),
    }
}

fn text<'a>(path: &str, part: &'a Value, kinds: &[&str]) -> Result<&'a str, ApiError> {
    let Value::Object(object) = part else {
        return Err(ApiError::invalid(path, format!("{path:?} is {}; it must be an object with \"type\"", describe(part))));
    };
    let fields = Fields::inside(object, path);
    match fields.string("type")? {
        Some(kind) if kinds.contains(&kind) => {
            let name = if kind == REFUSAL { kind } else { "text" };
            fields.string(name)?.ok_or_else(|| fields.missing(name, "a string"))
        }
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            Err(ApiError::unsupported(path, format!("{path:?} is a part of type {shown:?}; this server reads {:?} here", kinds[0])))
        }
        None => Err(fields.missing("type", kinds[0])),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(instructions: Option<&str>, items: Value) -> Result<Vec<Message>, ApiError> {
        let mut turns = Turns::instructed(instructions);
        turns.add("input", items.as_array().expect("a list"))?;
        Ok(turns.end().messages)
    }

    fn said(role: &str, kind: &str, text: &str) -> Value {
        json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
    }

    #[test]
    fn a_turn_of_the_model_is_one_message() {
        let read = read(
            None,
            json!([
                said("user", "input_text", "Weather?"),
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Ask."}]},
                said("assistant", "output_text", "One moment."),
                {"type": "function_call", "call_id": "1", "name": "weather", "arguments": "{\"city\":\"Oslo\"}"},
                {"type": "function_call", "call_id": "2", "name": "time", "arguments": ""},
                {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "4"}]},
                {"type": "function_call_output", "call_id": "2", "output": "noon"},
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Again."}]},
                {"type": "function_call", "call_id": "3", "name": "time", "arguments": "{}"},
            ]),
        )
        .expect("fine");
        let [_, asked, first, second, again] = &read[..] else { panic!("{read:?}") };
        assert_eq!((asked.content.as_str(), asked.reasoning.as_deref(), asked.tool_calls.len()), ("One moment.", Some("Ask."), 2));
        assert_eq!((first.content.as_str(), first.name.as_deref(), first.tool_call_id.as_deref()), ("4", Some("weather"), Some("1")));
        assert_eq!((second.role, second.content.as_str()), (Role::Tool, "noon"));
        assert_eq!((again.reasoning.as_deref(), again.tool_calls.len()), (Some("Again."), 1));
    }

    #[test]
    fn words_of_the_system_that_follow_each_other_are_one_message() {
        let items = json!([said("developer", "input_text", "B"), said("user", "input_text", "Q"), said("system", "input_text", "C")]);
        let read = read(Some("A"), items).expect("fine");
        assert_eq!(read.iter().map(|message| message.content.as_str()).collect::<Vec<_>>(), ["A\n\nB", "Q", "C"]);
    }

    #[test]
    fn bad_items_are_refused_by_path() {
        for (bad, param) in [
            (json!({"role": "robot", "content": "x"}), "input[0].role"),
            (json!({"content": "x"}), "input[0].role"),
            (json!({"role": "user"}), "input[0].content"),
            (json!({"role": "user", "content": 3}), "input[0].content"),
            (json!({"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}), "input[0].content[0]"),
            (json!({"role": "user", "content": [{"type": "input_file"}]}), "input[0].content[0]"),
            (json!({"role": "user", "content": [{"type": "input_text"}]}), "input[0].content[0].text"),
            (json!({"type": "function_call", "name": "f", "arguments": "{}"}), "input[0].call_id"),
            (json!({"type": "function_call", "call_id": "1", "arguments": "{}"}), "input[0].name"),
            (json!({"type": "function_call", "call_id": "1", "name": "f", "arguments": "[1]"}), "input[0].arguments"),
            (json!({"type": "function_call_output", "output": "x"}), "input[0].call_id"),
            (json!({"type": "function_call_output", "call_id": "1"}), "input[0].output"),
            (json!({"type": "reasoning", "content": [{"type": "output_text", "text": "x"}]}), "input[0].content[0]"),
        ] {
            assert_eq!(read(None, json!([bad])).expect_err("bad").param.as_deref(), Some(param), "{bad}");
        }
    }
}
