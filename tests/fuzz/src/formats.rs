//! What models write, through the readers of all families: a model's output is foreign text.

use std::sync::Arc;

use onebit_http::formats::{Parser, Piece, TOOL_FORMATS, Tool};
use serde_json::{Value, json};

/// The first byte chooses the family, the second where the text is cut in two.
///
/// Whatever is written: calls begin, go on and end in that order, the arguments of one that ended are a JSON object, its name is a name, and
/// the same text in two portions means the same.
pub fn run(bytes: &[u8]) {
    let [family, cut, rest @ ..] = bytes else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let format = &TOOL_FORMATS[usize::from(*family) % TOOL_FORMATS.len()];
    let whole = read(format.name, &[text]);
    let cut = text.floor_char_boundary(text.len() * usize::from(*cut) / 256);
    assert_eq!(read(format.name, &[&text[..cut], &text[cut..]]), whole, "{}: cut at {cut}", format.name);
}

/// Text with reasoning and what is no call, and the calls.
fn read(format: &str, portions: &[&str]) -> (String, Vec<(String, Value)>) {
    let properties = json!({"city": {"type": "string"}, "days": {"type": "integer"}});
    let tool = Tool { name: "f".into(), description: None, parameters: json!({"type": "object", "properties": properties}) };
    let mut parser = Parser::new(None, onebit_http::formats::tool_format(format), Arc::from([tool]));
    let mut pieces: Vec<Piece> = portions.iter().flat_map(|portion| parser.push(portion)).collect();
    pieces.extend(parser.finish());
    let (mut text, mut calls, mut open) = (String::new(), Vec::new(), None::<(String, String)>);
    for piece in pieces {
        match piece {
            Piece::Text(more) | Piece::Reasoning(more) => text.push_str(&more),
            Piece::Broken(more) => {
                open = None;
                text.push_str(&more);
            }
            Piece::Call { id, name } => {
                assert!(!id.is_empty() && !name.is_empty() && !name.contains(char::is_whitespace), "{id:?} {name:?}");
                // One that was begun before and has no end is void.
                open = Some((name, String::new()));
            }
            Piece::Arguments(more) => open.as_mut().expect("arguments of no call").1.push_str(&more),
            Piece::CallEnd => {
                let (name, arguments) = open.take().expect("the end of no call");
                let arguments: Value = serde_json::from_str(&arguments).expect("JSON");
                assert!(arguments.is_object(), "{arguments}");
                calls.push((name, arguments));
            }
        }
    }
    (text, calls)
}
