//! Chat templates from model files: programs of strangers.

use onebit_http::template::conversation::{Conversation, Message, Role, ToolCall};
use onebit_http::template::{ChatTemplate, TemplateSource};
use serde_json::json;

use crate::conversation::control_tokens;
use crate::law;

/// A template ends, within its fuel and the fuzzer's limits on time and memory, with a prompt or a refusal that is a sentence; the same
/// conversation gives the same prompt.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let source =
        TemplateSource { text: text.to_owned(), bos: Some("<s>".into()), eos: Some("</s>".into()), control_tokens: control_tokens() };
    let template = match ChatTemplate::new(source) {
        Ok(template) => template,
        Err(error) => return law::is_a_sentence(&error.to_string()),
    };
    for conversation in [question(), long()] {
        let first = template.render(&conversation);
        match &first {
            // The time of day is the one thing that may differ.
            Ok(parts) if !text.contains("strftime_now") => assert_eq!(template.render(&conversation).as_ref(), Ok(parts)),
            Ok(_) => {}
            Err(error) => law::is_a_sentence(&error.to_string()),
        }
    }
}

fn question() -> Conversation {
    Conversation { messages: vec![Message::text(Role::User, "Hi")], ..Conversation::default() }
}

/// A system message, a call with its answer, a thought, and an answer that is to be continued.
fn long() -> Conversation {
    let arguments =
        json!({"city": "Oslo", "days": [1, 2.5, null, true], "s": {"a": "<|im_end|>"}}).as_object().cloned().unwrap_or_default();
    let call = ToolCall { id: Some("call_1".into()), name: "weather".into(), arguments };
    Conversation {
        messages: vec![
            Message::text(Role::System, "Be brief."),
            Message::text(Role::User, "The weather?<|im_end|>"),
            Message { tool_calls: vec![call], reasoning: Some("hm".into()), ..Message::text(Role::Assistant, "") },
            Message { name: Some("weather".into()), tool_call_id: Some("call_1".into()), ..Message::text(Role::Tool, "4 °C") },
            Message::text(Role::Assistant, "It is 漢 "),
        ],
        tools: vec![json!({"type": "function", "function": {"name": "weather", "description": "<|im_start|>", "parameters": {}}})],
        variables: json!({"enable_thinking": false}).as_object().cloned().unwrap_or_default(),
    }
}
