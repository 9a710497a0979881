//! Calls as seventy real templates write them, read back: what a template says of earlier calls is what its model was taught to write.

use std::sync::Arc;

use onebit_http::formats::{Parser, Piece, Tool, tool_format_of};
use onebit_http::template::conversation::{Conversation, Message, Role, ToolCall};
use onebit_http::template::{ChatTemplate, TemplateSource};
use serde_json::{Value, json};

use crate::clients::templates;

/// Templates that write no calls, or in a notation that is not read. Their models get tools from the host, in its own notation.
const BY_HOST: &[&str] = &[
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "GigaChat3-10B-A1.8B",
    "HuggingFaceTB-SmolLM3-3B",
    "Kimi-K3",
    "LFM2.5-Instruct",
    "MiniMax-M3",
    "fireworks-ai-llama-3-firefunction-v2",
    "google-gemma-2-2b-it",
    "llama-cpp-rwkv-world",
    "meetkai-functionary-medium-v3.2",
    "microsoft-Phi-3.5-mini-instruct",
    "muse-glimmer",
    "openbmb-MiniCPM5-1B",
];

fn tool() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Which"},
            "days": {"type": "integer", "description": "How many"},
            "deep": {"type": "object", "description": "More"}
        },
        "required": ["city"]
    });
    Tool { name: "get_weather".into(), description: Some("Tells the weather".into()), parameters }
}

fn call(id: &str, arguments: &Value) -> ToolCall {
    ToolCall { id: Some(id.into()), name: "get_weather".into(), arguments: arguments.as_object().unwrap().clone() }
}

fn render(template: &str, messages: Vec<Message>) -> Result<String, String> {
    let source = TemplateSource { text: template.into(), bos: Some("<s>".into()), eos: Some("</s>".into()), control_tokens: Vec::new() };
    let tool = tool();
    let tools =
        vec![json!({"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}})];
    let conversation = Conversation { messages, tools, ..Conversation::default() };
    let parts = ChatTemplate::new(source).and_then(|template| template.render(&conversation)).map_err(|error| error.to_string())?;
    Ok(parts.into_iter().map(|part| part.text).collect())
}

/// What the template writes of an assistant's turn with these calls, from a little before it.
fn turn(template: &str, calls: &[Value]) -> Result<String, String> {
    let user = Message::text(Role::User, "Weather in Oslo?");
    let prompt = render(template, vec![user.clone()])?;
    let ids = ["abcdefgh1", "abcdefgh2"];
    let tool_calls = calls.iter().zip(ids).map(|(arguments, id)| call(id, arguments)).collect();
    let whole = render(template, vec![user, Message { tool_calls, ..Message::text(Role::Assistant, "") }])?;
    let common = prompt.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
    // The prompt may have opened reasoning where the turn begins with a call, and both begin with `<`.
    let common = whole.floor_char_boundary(common);
    let mark = whole[..common].rfind(['<', '[']).filter(|at| !whole[*at..common].contains(['>', ']']));
    Ok(whole[mark.unwrap_or(common)..].to_owned())
}

fn read(template: &str, turn: &str) -> (Vec<Value>, bool) {
    let format = tool_format_of(template).unwrap();
    let mut parser = Parser::new(None, Some(format), Arc::from([tool()]));
    let (mut calls, mut open, mut broken) = (Vec::new(), String::new(), false);
    let cut = turn.floor_char_boundary(turn.len() / 2);
    let pieces = [parser.push(&turn[..cut]), parser.push(&turn[cut..]), parser.finish()].concat();
    for piece in pieces {
        match piece {
            Piece::Call { name, .. } => {
                assert_eq!(name, "get_weather");
                open.clear();
            }
            Piece::Arguments(text) => open.push_str(&text),
            Piece::CallEnd => calls.push(serde_json::from_str(&open).unwrap()),
            Piece::Broken(_) => broken = true,
            Piece::Text(_) | Piece::Reasoning(_) => {}
        }
    }
    (calls, broken)
}

#[test]
fn calls_are_read_back_from_what_seventy_real_templates_write_of_them() {
    let two = [json!({"city": "Oslo", "days": 3}), json!({"city": "Bergen <x>", "deep": {"a": [1, true, null]}})];
    let (mut whole, mut silent, mut by_host, mut wrong) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut names: Vec<_> = std::fs::read_dir(templates()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for path in names.iter().filter(|path| path.extension().is_some_and(|extension| extension == "jinja")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let template = std::fs::read_to_string(path).unwrap();
        let Some(format) = tool_format_of(&template) else {
            by_host.push(name);
            continue;
        };
        // Some templates take one call in a turn.
        let turns = [turn(&template, &two).map(|turn| (turn, 2)), turn(&template, &two[..1]).map(|turn| (turn, 1))];
        let Some(Ok((turn, calls))) = turns.into_iter().find(Result::is_ok) else {
            silent.push(name);
            continue;
        };
        // And some write nothing of earlier calls.
        if !turn.contains("Oslo") {
            silent.push(name);
            continue;
        }
        let (read, broken) = read(&template, &turn);
        let wanted = if turn.contains("Bergen") { calls } else { 1 };
        if read[..] == two[..wanted] && !broken {
            whole.push(name);
        } else {
            wrong.push(format!("{name} ({}): {read:?} of {turn:?}", format.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(by_host, BY_HOST);
    assert_eq!((whole.len(), silent.len()), (51, 6), "{silent:?}");
}
