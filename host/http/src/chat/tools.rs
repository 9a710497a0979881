//! How functions reach the prompt: through a template that knows them, else as messages of the host's own.
//!
//! A template without a word for tools would drop them, and most would drop the calls and results of earlier turns with them. So the host writes
//! them into the messages then, in the notation the answer is read by: what the model sees of its earlier calls is what it is to write.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::formats::Formats;
use super::request::ToolChoice;
use crate::errors::ApiError;
use crate::formats::{Tool, ToolFormat, written};
use crate::template::conversation::{Conversation, Message, Role};

/// The functions the model is told of.
pub(super) fn chosen(tools: Vec<Tool>, choice: &ToolChoice) -> Result<Vec<Tool>, ApiError> {
    match choice {
        ToolChoice::None => Ok(Vec::new()),
        ToolChoice::Auto => Ok(tools),
        ToolChoice::Required if tools.is_empty() => {
            Err(ApiError::invalid("tool_choice", "\"tool_choice\" demands a call, but there are no \"tools\"; send some, or leave it out"))
        }
        ToolChoice::Required => Ok(tools),
        ToolChoice::Named(name) if tools.iter().any(|tool| tool.name == *name) => Ok(tools),
        ToolChoice::Named(name) => {
            let shown: String = name.chars().take(64).collect();
            let known: Vec<&str> = tools.iter().take(20).map(|tool| tool.name.as_str()).collect();
            Err(ApiError::invalid("tool_choice", format!("\"tool_choice\" names the function {shown:?}; \"tools\" has {known:?}")))
        }
    }
}

/// Puts tools into the conversation.
pub(super) fn write(conversation: &mut Conversation, tools: &[Tool], formats: &Formats) {
    if formats.template_writes_tools {
        conversation.tools = tools.iter().map(described).collect();
        return;
    }
    if let Some(format) = formats.tools.filter(|_| !formats.template_writes_calls) {
        conversation.messages.iter_mut().for_each(|message| rewrite(message, format));
    }
    if tools.is_empty() {
        return;
    }
    let mut text = String::from("You have functions.");
    if let Some(format) = formats.tools.filter(|_| formats.told) {
        let arguments = Map::from_iter([("ARGUMENT".to_owned(), Value::from("VALUE"))]);
        text.push_str(" To call one, answer with its name and its arguments in this form:\n");
        text.push_str(&written(format, &[("NAME", &arguments)]));
        text.push('\n');
    }
    text.push_str("\nThe functions, each with the JSON schema of its arguments:");
    for tool in tools {
        // Writing to a string does not fail.
        let _ = write!(text, "\n{}", described(tool)["function"]);
    }
    match conversation.messages.first_mut() {
        Some(first) if first.role == Role::System => {
            first.content.push_str(if first.content.is_empty() { "" } else { "\n\n" });
            first.content.push_str(&text);
        }
        _ => conversation.messages.insert(0, Message::text(Role::System, text)),
    }
}

/// As clients describe functions, and as templates expect them.
fn described(tool: &Tool) -> Value {
    let mut function = json!({"name": tool.name});
    if let Some(description) = &tool.description {
        function["description"] = description.as_str().into();
    }
    function["parameters"] = tool.parameters.clone();
    json!({"type": "function", "function": function})
}

/// Calls and results as text.
fn rewrite(message: &mut Message, format: &ToolFormat) {
    let calls = std::mem::take(&mut message.tool_calls);
    if !calls.is_empty() {
        let calls: Vec<_> = calls.iter().map(|call| (call.name.as_str(), &call.arguments)).collect();
        message.content.push_str(if message.content.is_empty() { "" } else { "\n" });
        message.content.push_str(&written(format, &calls));
    }
    if message.role == Role::Tool {
        message.role = Role::User;
        message.content = format!("<tool_response>\n{}\n</tool_response>", message.content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tool_format;
    use crate::template::conversation::ToolCall;

    fn tool(name: &str) -> Tool {
        Tool { name: name.to_owned(), description: Some("What it does".into()), parameters: json!({"type": "object"}) }
    }

    fn by_host() -> Formats {
        Formats { tools: tool_format("hermes"), template_writes_tools: false, template_writes_calls: false, told: true, reasoning: None }
    }

    fn conversation() -> Conversation {
        let call = ToolCall { id: Some("1".into()), name: "f".into(), arguments: json!({"a": 1}).as_object().expect("an object").clone() };
        let messages = vec![
            Message::text(Role::User, "Q"),
            Message { tool_calls: vec![call], ..Message::text(Role::Assistant, "") },
            Message::text(Role::Tool, "42"),
        ];
        Conversation { messages, ..Conversation::default() }
    }

    #[test]
    fn a_template_that_knows_tools_gets_them_as_clients_send_them() {
        let mut with = conversation();
        write(&mut with, &[tool("f")], &Formats { template_writes_tools: true, template_writes_calls: true, ..by_host() });
        assert_eq!(with.tools[0]["function"]["name"], "f");
        assert_eq!(with.messages, conversation().messages);
    }

    #[test]
    fn otherwise_tools_calls_and_results_are_messages() {
        let mut with = conversation();
        write(&mut with, &[tool("f")], &by_host());
        assert!(with.tools.is_empty());
        let [system, _, call, result] = &with.messages[..] else { panic!("{:?}", with.messages) };
        assert!(system.role == Role::System && system.content.contains("\"name\":\"f\"") && system.content.contains("What it does"));
        assert_eq!(
            (call.content.as_str(), call.tool_calls.len()),
            ("<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>", 0)
        );
        assert_eq!((result.role, result.content.as_str()), (Role::User, "<tool_response>\n42\n</tool_response>"));
        assert!(system.content.contains("<tool_call>\n{\"name\":\"NAME\",\"arguments\":{\"ARGUMENT\":\"VALUE\"}}\n</tool_call>"));
        // And in another family's notation where the answer is read by that.
        let mut kimi = conversation();
        write(&mut kimi, &[tool("f")], &Formats { tools: tool_format("kimi-k2"), ..by_host() });
        assert!(kimi.messages[0].content.contains("functions.NAME:0") && kimi.messages[2].content.contains("functions.f:0"), "{kimi:?}");
        assert!(!kimi.messages.iter().any(|message| message.content.contains("<tool_call>")));
        // A family whose template writes calls and no tools is told of them only.
        let mut told = conversation();
        write(&mut told, &[tool("f")], &Formats { template_writes_calls: true, told: false, ..by_host() });
        assert!(told.messages[0].content.contains("\"name\":\"f\"") && !told.messages[0].content.contains("<tool_call>"));
        assert_eq!(told.messages[1..], conversation().messages);
        // Results of earlier turns stay readable when no tools are sent any more.
        let mut without = conversation();
        write(&mut without, &[], &by_host());
        assert_eq!(without.messages.len(), 3);
    }

    #[test]
    fn a_demand_that_cannot_be_met_is_refused() {
        assert!(chosen(Vec::new(), &ToolChoice::Required).is_err());
        assert!(chosen(vec![tool("f")], &ToolChoice::Named("g".into())).is_err());
        assert!(chosen(vec![tool("f")], &ToolChoice::None).expect("fine").is_empty());
    }
}
