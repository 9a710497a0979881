//! Real chat templates, rendered by us and by transformers: the same prompt, byte for byte.
//!
//! What transformers refuses we may answer: a template that walks over the tools of a request that has none fails there, and sees an empty
//! list here.

use std::process::Command;

use onebit_http::template::conversation::{Conversation, Message, Role, ToolCall};
use onebit_http::template::{ChatTemplate, TemplateSource};
use serde_json::Value;

use crate::clients::{clients, environment, run, templates};

/// It joins texts marked as safe with JSON, which Python then escapes for HTML. Ours has the quotes that the model was trained with.
const ESCAPED: &str = "meetkai-functionary-medium-v3.1.jinja";

fn unescaped(text: &str) -> String {
    let entities = [("&#34;", "\""), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    entities.into_iter().fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(String::from)
}

fn message(value: &Value) -> Message {
    let call = |call: &Value| ToolCall {
        id: text(&call["id"]),
        name: text(&call["function"]["name"]).unwrap(),
        arguments: call["function"]["arguments"].as_object().unwrap().clone(),
    };
    Message {
        role: [Role::System, Role::User, Role::Assistant, Role::Tool].into_iter().find(|role| value["role"] == role.name()).unwrap(),
        content: text(&value["content"]).unwrap(),
        name: text(&value["name"]),
        tool_calls: value["tool_calls"].as_array().into_iter().flatten().map(call).collect(),
        tool_call_id: text(&value["tool_call_id"]),
        reasoning: text(&value["reasoning_content"]),
    }
}

fn conversation(case: &Value, tools: &Value) -> Conversation {
    Conversation {
        messages: case["messages"].as_array().unwrap().iter().map(message).collect(),
        tools: if case["tools"] == true { tools.as_array().unwrap().clone() } else { Vec::new() },
        variables: case["variables"].as_object().unwrap().clone(),
    }
}

fn ours(template: &str, conversation: &Conversation) -> Result<String, String> {
    let source = TemplateSource { text: template.into(), bos: Some("<s>".into()), eos: Some("</s>".into()), control_tokens: Vec::new() };
    let parts = ChatTemplate::new(source).and_then(|template| template.render(conversation)).map_err(|error| error.to_string())?;
    Ok(parts.into_iter().map(|part| part.text).collect())
}

/// Where two texts part.
fn parting(ours: &str, theirs: &str) -> String {
    let at = ours.bytes().zip(theirs.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(40)..text.len().min(at + 60)]).into_owned();
    format!("ours {:?}, theirs {:?}", around(ours), around(theirs))
}

#[test]
fn seventy_real_templates_give_what_transformers_gives() {
    let cases_file = clients().join("conversations.json");
    let cases: Value = serde_json::from_slice(&std::fs::read(&cases_file).unwrap()).unwrap();
    let python = environment("templates.txt");
    let templates = templates();
    let said = run(Command::new(python).arg(clients().join("chat_templates.py")).arg(&templates).arg(&cases_file));
    let reference: Value = serde_json::from_str(&said).unwrap();
    let (mut same, mut escaped, mut refused, mut wrong) = (0, 0, 0, Vec::new());
    for (name, entry) in reference.as_object().unwrap() {
        for case in cases["conversations"].as_array().unwrap() {
            let ours = ours(entry["text"].as_str().unwrap(), &conversation(case, &cases["tools"]));
            let label = format!("{name}, {}", case["about"].as_str().unwrap());
            match (ours, entry["results"][case["name"].as_str().unwrap()]["text"].as_str()) {
                (Ok(ours), Some(theirs)) if ours == theirs => same += 1,
                (Ok(ours), Some(theirs)) if name == ESCAPED && ours == unescaped(theirs) => escaped += 1,
                (Ok(ours), Some(theirs)) => wrong.push(format!("{label}: {}", parting(&ours, theirs))),
                (Err(error), Some(_)) => wrong.push(format!("{label}: {error}")),
                (_, None) => refused += 1,
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!((same, escaped, refused), (778, 4, 58));
}
