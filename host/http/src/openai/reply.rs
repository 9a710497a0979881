//! An assistant's message in OpenAI's shape, put together from what happened.

use serde::Serialize;

use crate::formats::Piece;

/// `message` of a whole answer.
#[derive(Debug, Serialize, Default)]
pub struct Message {
    role: Assistant,
    /// `null` beside calls without text.
    content: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning_content: String,
    refusal: Option<()>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    /// Ours: something began like a call and is none. It stands in `content` as the model wrote it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tool_call_parse_error: bool,
    /// A call that has begun and not ended.
    #[serde(skip)]
    open: Option<Call>,
}

/// The role of every answer.
#[derive(Debug, Serialize, Default)]
enum Assistant {
    #[default]
    #[serde(rename = "assistant")]
    Assistant,
}

/// One call.
#[derive(Debug, Serialize)]
struct Call {
    id: String,
    r#type: &'static str,
    function: Function,
}

#[derive(Debug, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

impl Message {
    /// Adds what was said.
    pub fn take(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.content.get_or_insert_default().push_str(&text),
                Piece::Reasoning(text) => self.reasoning_content.push_str(&text),
                Piece::Call { id, name } => {
                    self.open = Some(Call { id, r#type: "function", function: Function { name, arguments: String::new() } });
                }
                Piece::Arguments(text) => {
                    if let Some(call) = &mut self.open {
                        call.function.arguments.push_str(&text);
                    }
                }
                Piece::CallEnd => self.tool_calls.extend(self.open.take()),
                Piece::Broken(text) => {
                    self.open = None;
                    self.tool_call_parse_error = true;
                    self.content.get_or_insert_default().push_str(&text);
                }
            }
        }
    }

    /// Nothing more will come.
    pub fn finish(&mut self) {
        if self.tool_calls.is_empty() {
            self.content.get_or_insert_default();
        }
    }
}

/// `delta` of a chunk.
#[derive(Debug, Serialize, Default)]
pub struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<[CallDelta<'a>; 1]>,
    /// See [`Message`]; a call whose parts went out before it is void.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tool_call_parse_error: bool,
}

/// A part of a call: the first has id and name, the others only arguments.
#[derive(Debug, Serialize)]
pub struct CallDelta<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    function: FunctionDelta<'a>,
}

#[derive(Debug, Serialize)]
struct FunctionDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

/// Numbers the calls of one streamed answer.
#[derive(Debug, Default, Clone, Copy)]
pub struct Calls {
    begun: u32,
}

impl Calls {
    /// The delta of a piece; `None` where there is nothing to say.
    pub fn delta<'a>(&mut self, piece: &'a Piece) -> Option<Delta<'a>> {
        let part = |index, id: Option<&'a str>, name, arguments| {
            let r#type = id.map(|_| "function");
            Some(Delta {
                tool_calls: Some([CallDelta { index, id, r#type, function: FunctionDelta { name, arguments } }]),
                ..Delta::default()
            })
        };
        match piece {
            Piece::Text(text) => Some(Delta { content: Some(text), ..Delta::default() }),
            Piece::Reasoning(text) => Some(Delta { reasoning_content: Some(text), ..Delta::default() }),
            Piece::Call { id, name } => {
                self.begun += 1;
                part(self.begun - 1, Some(id.as_str()), Some(name.as_str()), "")
            }
            Piece::Arguments(text) => part(self.begun.saturating_sub(1), None, None, text),
            Piece::CallEnd => None,
            Piece::Broken(text) => Some(Delta { content: Some(text), tool_call_parse_error: true, ..Delta::default() }),
        }
    }
}
