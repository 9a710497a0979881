//! From Anthropic's `system` and `messages` to a [`Conversation`].
//!
//! One message of theirs may be several here: results of calls lie in the user's message beside text, and templates have them as messages of
//! their own. Several of theirs may be one: neighbours of the same speaker are one turn to them, and templates count turns. Texts that come
//! together are joined by a line break.

use std::collections::HashMap;

use serde_json::Value;

use crate::body::describe;
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::template::conversation::{Conversation, Message, Role, ToolCall};

/// What ids of calls begin with in this dialect. The rest is the id that the model's template knows; some refuse any other.
const ID: &str = "toolu_";

/// A call's id as clients of this dialect see it.
pub fn id_for_client(id: &str) -> String {
    format!("{ID}{}", id.strip_prefix("call_").unwrap_or(id))
}

/// And back.
fn id_of_client(id: &str) -> &str {
    id.strip_prefix(ID).unwrap_or(id)
}

/// Reads `system` and `messages`.
pub fn read(fields: &Fields<'_>) -> Result<Conversation, ApiError> {
    let items = fields.list("messages")?.ok_or_else(|| fields.missing("messages", "a list of messages, the question last"))?;
    if items.is_empty() {
        return Err(ApiError::invalid("messages", "\"messages\" is empty; give at least one message"));
    }
    let mut turns = Turns::default();
    if let Some(system) = texts(fields, "system")? {
        turns.push(Message::text(Role::System, system));
    }
    for (index, item) in items.iter().enumerate() {
        let path = format!("messages[{index}]");
        let Value::Object(object) = item else {
            return Err(ApiError::invalid(
                &path,
                format!("{path:?} is {}; it must be an object with \"role\" and \"content\"", describe(item)),
            ));
        };
        turns.message(&Fields::inside(object, &path), index + 1 == items.len())?;
    }
    Ok(Conversation { messages: turns.messages, ..Conversation::default() })
}

/// The messages so far.
#[derive(Default)]
struct Turns {
    messages: Vec<Message>,
    /// Which function a call's id called, for templates that want the name beside the result.
    called: HashMap<String, String>,
}

impl Turns {
    fn message(&mut self, fields: &Fields<'_>, last: bool) -> Result<(), ApiError> {
        let role = fields.string("role")?.ok_or_else(|| fields.missing("role", "\"user\" or \"assistant\""))?;
        match role {
            "user" => self.user(fields),
            "assistant" => self.assistant(fields, last),
            "system" => match texts(fields, "content")? {
                Some(text) if !text.is_empty() => {
                    self.push(Message::text(Role::System, text));
                    Ok(())
                }
                _ => Err(empty(fields)),
            },
            other => {
                let shown: String = other.chars().take(40).collect();
                let path = fields.path("role");
                let message = format!("{path:?} is {shown:?}; it must be \"user\", \"assistant\" or \"system\"");
                Err(ApiError::invalid(path, message))
            }
        }
    }

    fn user(&mut self, fields: &Fields<'_>) -> Result<(), ApiError> {
        let mut text = String::new();
        let mut results = false;
        for block in blocks(fields, "content")? {
            match block {
                Block::Text(more) => join(&mut text, more),
                Block::Other(block) if block.kind == "tool_result" => {
                    results = true;
                    self.push_text(std::mem::take(&mut text));
                    let result = self.result(&block)?;
                    self.push(result);
                }
                Block::Other(block) => return Err(block.foreign("\"text\" and \"tool_result\"")),
            }
        }
        if text.is_empty() && !results {
            return Err(empty(fields));
        }
        self.push_text(text);
        Ok(())
    }

    fn push_text(&mut self, text: String) {
        if !text.is_empty() {
            self.push(Message::text(Role::User, text));
        }
    }

    fn result(&self, block: &Other<'_>) -> Result<Message, ApiError> {
        let id = id_of_client(block.string("tool_use_id")?);
        let mut content = texts(&block.fields, "content")?.unwrap_or_default();
        if block.fields.boolean("is_error")?.unwrap_or(false) {
            // Templates have no place for this but the text.
            content.insert_str(0, "Error: ");
        }
        Ok(Message { name: self.called.get(id).cloned(), tool_call_id: Some(id.to_owned()), ..Message::text(Role::Tool, content) })
    }

    fn assistant(&mut self, fields: &Fields<'_>, last: bool) -> Result<(), ApiError> {
        let mut message = Message::text(Role::Assistant, "");
        let mut hidden = false;
        for block in blocks(fields, "content")? {
            match block {
                Block::Text(text) => join(&mut message.content, text),
                Block::Other(block) => match block.kind {
                    "thinking" => join(message.reasoning.get_or_insert_default(), block.string("thinking")?),
                    // Nobody but its maker can read it.
                    "redacted_thinking" => hidden = true,
                    "tool_use" => message.tool_calls.push(self.call(&block)?),
                    _ => return Err(block.foreign("\"text\", \"tool_use\" and \"thinking\"")),
                },
            }
        }
        let said = !message.content.is_empty() || !message.tool_calls.is_empty() || message.reasoning.is_some();
        match said || last {
            true => self.push(message),
            false if hidden => {}
            false => return Err(empty(fields)),
        }
        Ok(())
    }

    fn call(&mut self, block: &Other<'_>) -> Result<ToolCall, ApiError> {
        let (id, name) = (id_of_client(block.string("id")?), block.string("name")?);
        let input =
            block.fields.object("input")?.ok_or_else(|| block.fields.missing("input", "an object, {} where there are no arguments"))?;
        self.called.insert(id.to_owned(), name.to_owned());
        Ok(ToolCall { id: Some(id.to_owned()), name: name.to_owned(), arguments: input.clone() })
    }

    /// Adds a message, to the one before it where that has the same speaker.
    fn push(&mut self, message: Message) {
        match self.messages.last_mut() {
            Some(last) if last.role == message.role && message.role != Role::Tool => {
                join(&mut last.content, &message.content);
                last.tool_calls.extend(message.tool_calls);
                if let Some(reasoning) = message.reasoning {
                    join(last.reasoning.get_or_insert_default(), &reasoning);
                }
            }
            _ => self.messages.push(message),
        }
    }
}

/// A block of content.
enum Block<'a> {
    Text(&'a str),
    Other(Other<'a>),
}

struct Other<'a> {
    kind: &'a str,
    fields: Fields<'a>,
    path: String,
}

impl<'a> Other<'a> {
    /// A string that must be there.
    fn string(&self, name: &str) -> Result<&'a str, ApiError> {
        self.fields.string(name)?.ok_or_else(|| self.fields.missing(name, "a string"))
    }

    /// The error for a kind that cannot be taken here.
    fn foreign(&self, known: &str) -> ApiError {
        let shown: String = self.kind.chars().take(40).collect();
        let path = &self.path;
        ApiError::unsupported(path, format!("{path:?} is a block of type {shown:?}; this server reads {known} here"))
    }
}

/// The blocks of a message; a string is one of text.
fn blocks<'a>(fields: &Fields<'a>, name: &str) -> Result<Vec<Block<'a>>, ApiError> {
    match fields.value(name) {
        None => Err(fields.missing(name, "a string or a list of blocks")),
        Some(Value::String(text)) => Ok(vec![Block::Text(text)]),
        Some(Value::Array(items)) => {
            let path = fields.path(name);
            items.iter().enumerate().map(|(index, item)| block(format!("{path}[{index}]"), item)).collect()
        }
        Some(other) => Err(fields.wrong(name, other, "a string or a list of blocks")),
    }
}

fn block(path: String, item: &Value) -> Result<Block<'_>, ApiError> {
    let Value::Object(object) = item else {
        return Err(ApiError::invalid(&path, format!("{path:?} is {}; it must be an object with \"type\"", describe(item))));
    };
    let fields = Fields::inside(object, &path);
    let kind = fields.string("type")?.ok_or_else(|| fields.missing("type", "the type of the block, such as \"text\""))?;
    let other = Other { kind, fields, path };
    if kind == "text" { other.string("text").map(Block::Text) } else { Ok(Block::Other(other)) }
}

/// A string or blocks of text, joined; `None` = absent, or no blocks.
fn texts(fields: &Fields<'_>, name: &str) -> Result<Option<String>, ApiError> {
    if fields.value(name).is_none() {
        return Ok(None);
    }
    let mut all: Option<String> = None;
    for block in blocks(fields, name)? {
        match block {
            Block::Text(text) => join(all.get_or_insert_default(), text),
            Block::Other(block) => return Err(block.foreign("\"text\"")),
        }
    }
    Ok(all)
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

fn empty(fields: &Fields<'_>) -> ApiError {
    let path = fields.path("content");
    let message = format!("{path:?} is empty; only a last message of the assistant may be");
    ApiError::invalid(path, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conversation(body: Value) -> Result<Vec<Message>, ApiError> {
        read(&Fields::of(body.as_object().expect("an object"))).map(|conversation| conversation.messages)
    }

    fn messages(messages: Value) -> Result<Vec<Message>, ApiError> {
        conversation(json!({"messages": messages}))
    }

    #[test]
    fn system_and_messages_are_read_as_strings_and_as_blocks_alike() {
        let text = |text: &str| json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
        let strings = conversation(json!({"system": "S", "messages": [{"role": "user", "content": "Q"}]})).expect("strings");
        let blocks = conversation(json!({"system": text("S"), "messages": [{"role": "user", "content": text("Q")}]})).expect("blocks");
        assert_eq!(strings, blocks);
        assert_eq!(strings, [Message::text(Role::System, "S"), Message::text(Role::User, "Q")]);
        let several = json!({"system": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}], "messages": [{"role": "user", "content": "Q"}]});
        assert_eq!(conversation(several).expect("several")[0].content, "A\nB");
    }

    #[test]
    fn calls_and_results_find_each_other_and_keep_their_order() {
        let read = messages(json!([
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Ask.", "signature": ""},
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "text", "text": "One moment."},
                {"type": "tool_use", "id": "toolu_ab12", "name": "weather", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "anything", "name": "time", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_ab12", "content": [{"type": "text", "text": "4"}, {"type": "text", "text": "rain"}]},
                {"type": "tool_result", "tool_use_id": "anything", "content": "no clock", "is_error": true},
                {"type": "text", "text": "Go on."},
            ]},
        ]))
        .expect("fine");
        let [_, asked, first, second, user] = &read[..] else { panic!("{read:?}") };
        assert_eq!((asked.content.as_str(), asked.reasoning.as_deref()), ("One moment.", Some("Ask.")));
        assert_eq!(asked.tool_calls[0].id.as_deref(), Some("ab12"));
        assert_eq!((first.role, first.content.as_str(), first.name.as_deref()), (Role::Tool, "4\nrain", Some("weather")));
        assert_eq!(first.tool_call_id, asked.tool_calls[0].id);
        assert_eq!((second.content.as_str(), second.name.as_deref()), ("Error: no clock", Some("time")));
        assert_eq!((user.role, user.content.as_str()), (Role::User, "Go on."));
    }

    #[test]
    fn neighbours_of_one_speaker_are_one_turn() {
        let read = messages(json!([
            {"role": "user", "content": "A"}, {"role": "user", "content": "B"},
            {"role": "assistant", "content": "C"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]},
        ]))
        .expect("fine");
        let words =
            conversation(json!({"system": "A", "messages": [{"role": "system", "content": "B"}, {"role": "user", "content": "Q"}]}));
        assert_eq!(words.expect("fine")[0].content, "A\nB");
        assert_eq!(read.iter().map(|message| message.role).collect::<Vec<_>>(), [Role::User, Role::Assistant, Role::Tool]);
        assert_eq!((read[0].content.as_str(), read[1].content.as_str(), read[1].tool_calls.len()), ("A\nB", "C", 1));
    }

    #[test]
    fn an_id_survives_the_way_to_a_client_and_back() {
        for (id, back) in [("call_0123456789abcdef01234567", "0123456789abcdef01234567"), ("Ab1Cd2Ef3", "Ab1Cd2Ef3")] {
            let shown = id_for_client(id);
            assert!(shown.starts_with("toolu_"));
            assert_eq!(id_of_client(&shown), back);
        }
    }

    #[test]
    fn only_a_last_assistant_message_may_be_empty() {
        let empty = |role: &str, content: Value, after: Value| {
            let mut all = vec![json!({"role": "user", "content": "Q"}), json!({"role": role, "content": content})];
            all.extend(after.as_array().expect("a list").clone());
            messages(Value::Array(all))
        };
        let more = json!([{"role": "user", "content": "Q"}]);
        for (role, content) in
            [("user", json!("")), ("user", json!([])), ("assistant", json!("")), ("assistant", json!([])), ("system", json!(""))]
        {
            let error = empty(role, content.clone(), more.clone()).expect_err(role);
            assert_eq!(error.param.as_deref(), Some("messages[1].content"), "{role} {content}");
        }
        assert!(empty("assistant", json!(""), json!([])).is_ok());
        let hidden = json!([{"type": "redacted_thinking", "data": "x"}]);
        assert_eq!(empty("assistant", hidden, more).expect("dropped").len(), 1);
    }
}
