//! OpenAI's harmony format (gpt-oss): an answer is a chain of messages, each with a header that says what it is.
//!
//! `analysis` is reasoning, `final` is for the reader, a message `to=functions.f` is a call, and `commentary` to nobody is for the reader, too.

use super::json::{ValueScan, blank, is_object};
use super::piece::{Ids, Piece};
use super::reader::{is_name, too_long};
use super::tagged::held;

const MESSAGE: &str = "<|message|>";
/// What may end a message. The last two end the answer as well and are then not part of its text.
const ENDS: [&str; 4] = ["<|end|>", "<|start|>", "<|call|>", "<|return|>"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    Text {
        reasoning: bool,
    },
    Call {
        begun: bool,
    },
    /// After a whole call, up to the next message.
    Between,
}

/// Reads a whole answer.
#[derive(Debug)]
pub(super) struct Harmony {
    state: State,
    buffer: String,
    arguments: String,
    scan: ValueScan,
}

impl Harmony {
    pub(super) fn new() -> Self {
        Self { state: State::Header, buffer: String::new(), arguments: String::new(), scan: ValueScan::default() }
    }

    /// Takes more of the answer.
    pub(super) fn push(&mut self, text: &str, last: bool, out: &mut Vec<Piece>) {
        self.buffer.push_str(text);
        while let Some(taken) = self.step(last, out) {
            self.buffer.drain(..taken);
        }
        if last && !self.buffer.is_empty() {
            out.push(Piece::Text(std::mem::take(&mut self.buffer)));
        }
    }

    /// One step; the number of bytes it is done with, or nothing where more text is needed.
    fn step(&mut self, last: bool, out: &mut Vec<Piece>) -> Option<usize> {
        let text = self.buffer.as_str();
        if text.is_empty() {
            return None;
        }
        match self.state {
            State::Header => {
                let end = text.find(MESSAGE);
                let head = &text[..end.unwrap_or(text.len() - held(text, MESSAGE))];
                match end {
                    // A model that does not write headers writes text.
                    _ if !looks_like_header(head) => {
                        self.state = State::Text { reasoning: false };
                        Some(0)
                    }
                    Some(at) => {
                        self.state = header(head, out);
                        self.arguments.clear();
                        self.scan = ValueScan::default();
                        Some(at + MESSAGE.len())
                    }
                    None if last => {
                        self.state = State::Text { reasoning: false };
                        Some(0)
                    }
                    None => None,
                }
            }
            State::Text { reasoning } => {
                let (end, mark) = first_end(text);
                let piece = &text[..end];
                if !piece.is_empty() {
                    out.push(if reasoning { Piece::Reasoning(piece.into()) } else { Piece::Text(piece.into()) });
                }
                if mark > 0 {
                    self.state = State::Header;
                }
                // What may be the beginning of a mark waits.
                (end + mark > 0).then_some(end + mark)
            }
            State::Call { begun } => {
                let space = if begun { 0 } else { blank(text) };
                let rest = &text[space..];
                if rest.is_empty() {
                    return (space > 0).then_some(space);
                }
                if !begun && !rest.starts_with('{') {
                    // What it is made of is text, and so is what follows.
                    out.push(Piece::Broken(String::new()));
                    self.state = State::Text { reasoning: false };
                    return Some(space);
                }
                let end = self.scan.feed(rest, false);
                let piece = &rest[..end.unwrap_or(rest.len())];
                self.arguments.push_str(piece);
                out.push(Piece::Arguments(piece.to_owned()));
                self.state = match end {
                    None if !last => State::Call { begun: true },
                    Some(_) if is_object(&self.arguments) => {
                        out.push(Piece::CallEnd);
                        State::Between
                    }
                    _ => {
                        out.push(Piece::Broken(std::mem::take(&mut self.arguments)));
                        State::Text { reasoning: false }
                    }
                };
                Some(space + piece.len())
            }
            State::Between => {
                let (end, mark) = first_end(text);
                if mark > 0 {
                    self.state = State::Header;
                }
                (end + mark > 0).then_some(end + mark)
            }
        }
    }
}

/// Where the first mark that ends a message is, and its length; without one, where text begins that may become one.
fn first_end(text: &str) -> (usize, usize) {
    let found = ENDS.iter().filter_map(|mark| text.find(mark).map(|at| (at, mark.len()))).min();
    found.unwrap_or_else(|| (text.len() - ENDS.iter().map(|mark| held(text, mark)).max().unwrap_or(0), 0))
}

fn looks_like_header(text: &str) -> bool {
    let starts = ["<|channel|>", "<|start|>", "assistant", "to=", "commentary", "analysis", "final"];
    let text = text.trim_start();
    !too_long(text) && starts.iter().any(|start| text.starts_with(start) || start.starts_with(text))
}

/// What a header begins.
fn header(header: &str, out: &mut Vec<Piece>) -> State {
    let to = header.split_once("to=").map(|(_, to)| to);
    let name = to.map(|to| to.split(|c: char| c.is_whitespace() || c == '<').next().unwrap_or_default());
    match name.map(|name| name.strip_prefix("functions.").unwrap_or(name)) {
        Some(name) if is_name(name) => {
            out.push(Piece::Call { id: Ids::Long.make(), name: name.to_owned() });
            State::Call { begun: false }
        }
        _ => State::Text { reasoning: header.contains("analysis") },
    }
}
