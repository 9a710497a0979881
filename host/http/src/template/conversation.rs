//! A conversation as templates see it: no dialect's JSON, but the roles and fields that chat templates agree on.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who speaks. Never taken from a user's text as it is: a role is written by the template next to control tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// As templates spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A call the model made earlier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The client's id of it.
    pub id: Option<String>,
    /// The function.
    pub name: String,
    /// Its arguments, as a mapping in the order sent: templates walk over them.
    pub arguments: Map<String, Value>,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said; empty where the client sent none. Templates join strings, so this is never `none`.
    pub content: String,
    /// Name of the speaker or of the tool.
    pub name: Option<String>,
    /// Calls of an assistant.
    pub tool_calls: Vec<ToolCall>,
    /// Which call a tool message answers.
    pub tool_call_id: Option<String>,
    /// What the assistant thought, for templates that keep it.
    pub reasoning: Option<String>,
}

impl Message {
    /// A message that is only text.
    pub fn text(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), name: None, tool_calls: Vec::new(), tool_call_id: None, reasoning: None }
    }
}

/// What is rendered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Conversation {
    /// At least one.
    pub messages: Vec<Message>,
    /// Functions the model may call, as clients describe them: `{"type": "function", "function": {…}}`. Empty = templates see none.
    pub tools: Vec<Value>,
    /// More variables for the template (`enable_thinking`, …).
    pub variables: Map<String, Value>,
}

impl Conversation {
    /// Puts a system message before a conversation that has none.
    pub fn begin_with(&mut self, system: &str) {
        if !self.messages.iter().any(|message| message.role == Role::System) {
            self.messages.insert(0, Message::text(Role::System, system));
        }
    }

    /// A last message of the assistant is continued, not answered.
    pub fn continues(&self) -> bool {
        self.messages.last().is_some_and(|last| last.role == Role::Assistant && last.tool_calls.is_empty())
    }

    /// Applies `change` to every string that comes from the client.
    pub(super) fn map_text(&self, change: &mut dyn FnMut(&str) -> String) -> Self {
        let messages = self.messages.iter().map(|message| Message {
            role: message.role,
            content: change(&message.content),
            name: message.name.as_deref().map(&mut *change),
            tool_calls: message
                .tool_calls
                .iter()
                .map(|call| ToolCall {
                    id: call.id.as_deref().map(&mut *change),
                    name: change(&call.name),
                    arguments: map_object(&call.arguments, change),
                })
                .collect(),
            tool_call_id: message.tool_call_id.as_deref().map(&mut *change),
            reasoning: message.reasoning.as_deref().map(&mut *change),
        });
        let messages = messages.collect();
        let tools = self.tools.iter().map(|tool| map_value(tool, change)).collect();
        // The names of variables are the template's own and reach no output.
        let variables = self.variables.iter().map(|(name, value)| (name.clone(), map_value(value, change))).collect();
        Self { messages, tools, variables }
    }

    /// The messages as JSON values, for the template's context.
    pub(super) fn message_values(&self) -> Vec<Value> {
        self.messages.iter().map(message_value).collect()
    }
}

fn map_value(value: &Value, change: &mut dyn FnMut(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => Value::Array(items.iter().map(|item| map_value(item, change)).collect()),
        Value::Object(object) => Value::Object(map_object(object, change)),
        other => other.clone(),
    }
}

fn map_object(object: &Map<String, Value>, change: &mut dyn FnMut(&str) -> String) -> Map<String, Value> {
    object.iter().map(|(key, value)| (change(key), map_value(value, change))).collect()
}

fn message_value(message: &Message) -> Value {
    let mut object = Map::new();
    object.insert("role".into(), message.role.name().into());
    object.insert("content".into(), message.content.as_str().into());
    let optional = [("name", &message.name), ("tool_call_id", &message.tool_call_id), ("reasoning_content", &message.reasoning)];
    for (key, value) in optional {
        if let Some(text) = value {
            object.insert(key.into(), text.as_str().into());
        }
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let mut entry = Map::new();
            if let Some(id) = &call.id {
                entry.insert("id".into(), id.as_str().into());
            }
            entry.insert("type".into(), "function".into());
            entry.insert("function".into(), serde_json::json!({"name": call.name, "arguments": call.arguments}));
            Value::Object(entry)
        });
        object.insert("tool_calls".into(), Value::Array(calls.collect()));
    }
    Value::Object(object)
}
