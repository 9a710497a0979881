//! Splits an answer into text, reasoning and calls while it is being written.
//!
//! Text that may be the beginning of a mark waits until it is known to be one or not; nothing else waits. What begins like a call and is none
//! comes out as [`Piece::Broken`], whole: a model's mistake is an answer, never an error.

use std::sync::Arc;

use super::enclosed::EnclosedReader;
use super::harmony::Harmony;
use super::json_calls::JsonReader;
use super::named_json::NamedReader;
use super::piece::Piece;
use super::reader::{Reader, Tool, Verdict};
use super::table::{Syntax, ToolFormat};
use super::tagged::{TaggedReader, held};

/// Marks around reasoning, for one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// Before reasoning; `None` = the prompt has written it.
    pub start: Option<String>,
    /// After it.
    pub end: String,
}

/// What the answer is read by.
#[derive(Debug)]
enum State {
    /// At the beginning, where reasoning may start.
    Start,
    /// White space after the mark belongs to it; `begun`: there was some reasoning.
    Reasoning {
        begun: bool,
    },
    /// After reasoning: white space before the text belongs to the marks.
    Lead,
    Text,
    /// After something that was no call: all that follows is text, as it is. Where the next call begins is anybody's guess then.
    Plain,
    Calls(Box<dyn Reader>),
    Harmony(Harmony),
}

/// Reads one answer.
#[derive(Debug)]
pub struct Parser {
    reasoning: Option<Marks>,
    tools: Option<&'static ToolFormat>,
    known: Arc<[Tool]>,
    state: State,
    /// Text that is not read yet.
    buffer: String,
    /// Text of the calls since the last one that was complete.
    raw: String,
    /// No text has come before: calls may begin here also in families that have them at the beginning only.
    first: bool,
}

impl Parser {
    /// For an answer with these formats. `tools` are those the model was told of.
    pub fn new(reasoning: Option<Marks>, tools: Option<&'static ToolFormat>, known: Arc<[Tool]>) -> Self {
        let state = match (&reasoning, tools.map(|format| format.syntax)) {
            (_, Some(Syntax::Harmony)) => State::Harmony(Harmony::new()),
            (Some(Marks { start: None, .. }), _) => State::Reasoning { begun: false },
            (Some(_), _) => State::Start,
            (None, _) => State::Text,
        };
        Self { reasoning, tools, known, state, buffer: String::new(), raw: String::new(), first: true }
    }

    /// Takes more of the answer.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        self.read(text, false)
    }

    /// Nothing more will come.
    pub fn finish(&mut self) -> Vec<Piece> {
        self.read("", true)
    }

    fn read(&mut self, text: &str, last: bool) -> Vec<Piece> {
        let mut out = Vec::new();
        if let State::Harmony(harmony) = &mut self.state {
            harmony.push(text, last, &mut out);
            return joined(out);
        }
        self.buffer.push_str(text);
        while self.step(last, &mut out) {}
        joined(out)
    }

    /// One step; false when it needs more text.
    fn step(&mut self, last: bool, out: &mut Vec<Piece>) -> bool {
        match &mut self.state {
            State::Start => {
                let Some(start) = self.reasoning.as_ref().and_then(|marks| marks.start.as_deref()) else {
                    self.state = State::Text;
                    return true;
                };
                let lead = self.buffer.trim_start();
                let start = start.trim_end();
                if let Some(rest) = lead.strip_prefix(start) {
                    self.buffer = rest.to_owned();
                    self.state = State::Reasoning { begun: false };
                } else if last || !start.starts_with(lead) {
                    self.state = State::Text;
                } else {
                    return false;
                }
                true
            }
            State::Reasoning { begun } => {
                if !*begun {
                    let lead = self.buffer.len() - self.buffer.trim_start().len();
                    self.buffer.drain(..lead);
                }
                let end = self.reasoning.as_ref().map(|marks| marks.end.as_str()).unwrap_or_default();
                if let Some(at) = self.buffer.find(end) {
                    push_reasoning(out, self.buffer[..at].trim_end());
                    self.buffer.drain(..at + end.len());
                    self.state = State::Lead;
                    return true;
                }
                // White space at its end may be the one before the mark.
                let safe = if last { self.buffer.len() } else { self.buffer.len() - held(&self.buffer, end) };
                let safe = self.buffer[..safe].trim_end().len();
                push_reasoning(out, &self.buffer[..safe]);
                *begun |= safe > 0;
                self.buffer.drain(..if last { self.buffer.len() } else { safe });
                false
            }
            State::Lead => {
                let lead = self.buffer.len() - self.buffer.trim_start().len();
                self.buffer.drain(..lead);
                if self.buffer.is_empty() {
                    return false;
                }
                self.state = State::Text;
                true
            }
            State::Text => self.text(last, out),
            State::Plain => {
                push_text(out, &self.buffer);
                self.buffer.clear();
                false
            }
            State::Calls(_) => self.calls(last, out),
            State::Harmony(_) => false,
        }
    }

    /// Text up to the first opening mark.
    fn text(&mut self, last: bool, out: &mut Vec<Piece>) -> bool {
        let Some(format) = self.tools else {
            push_text(out, &self.buffer);
            self.buffer.clear();
            return false;
        };
        let text = self.buffer.as_str();
        if format.first_only {
            if !self.first || text.is_empty() {
                push_text(out, text);
                self.buffer.clear();
                return false;
            }
            let lead = text.trim_start();
            if let Some(opener) = format.openers.iter().find(|opener| lead.starts_with(**opener)) {
                // A mark before the object is not part of it.
                let skip = if *opener == "{" { 0 } else { opener.len() };
                self.buffer = lead[skip..].to_owned();
                self.open(format);
                return true;
            }
            if last || !format.openers.iter().any(|opener| opener.starts_with(lead)) {
                self.first = false;
                return true;
            }
            return false;
        }
        if let Some(at) = format.openers.iter().filter_map(|opener| text.find(opener)).min() {
            // A line break between text and calls is markup.
            push_text(out, text[..at].trim_end());
            self.buffer.drain(..at);
            self.open(format);
            return true;
        }
        let waits = if last { 0 } else { format.openers.iter().map(|opener| held(text, opener)).max().unwrap_or(0) };
        let mut safe = text.len() - waits;
        if !last {
            safe = text[..safe].trim_end().len();
        }
        push_text(out, &text[..safe]);
        self.buffer.drain(..safe);
        false
    }

    fn open(&mut self, format: &'static ToolFormat) {
        self.raw.clear();
        self.first = false;
        self.state = State::Calls(match format.syntax {
            Syntax::Json(form) => Box::new(JsonReader::new(form)),
            Syntax::Named(form) => Box::new(NamedReader::new(form)),
            Syntax::Tagged(form) => Box::new(TaggedReader::new(form, Arc::clone(&self.known))),
            Syntax::Enclosed(form) => Box::new(EnclosedReader::new(form)),
            Syntax::Harmony => return,
        });
    }

    fn calls(&mut self, last: bool, out: &mut Vec<Piece>) -> bool {
        let State::Calls(reader) = &mut self.state else { return false };
        match reader.step(&self.buffer, last, out) {
            Ok(taken) => {
                self.raw.push_str(&self.buffer[..taken]);
                self.buffer.drain(..taken);
                if reader.is_settled() {
                    self.raw.clear();
                }
                return true;
            }
            Err(Verdict::More) => return false,
            Err(Verdict::Done) => {
                let space = self.buffer.len() - self.buffer.trim_start().len();
                let end = reader.end();
                if !end.is_empty() && self.buffer[space..].starts_with(end) {
                    self.buffer.drain(..space + end.len());
                }
                self.state = State::Lead;
            }
            Err(Verdict::Broken) => {
                self.raw.push_str(&self.buffer);
                self.buffer.clear();
                out.push(Piece::Broken(std::mem::take(&mut self.raw)));
                self.state = State::Plain;
            }
        }
        !self.buffer.is_empty()
    }
}

fn push_text(out: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        out.push(Piece::Text(text.to_owned()));
    }
}

fn push_reasoning(out: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        out.push(Piece::Reasoning(text.to_owned()));
    }
}

/// Joins neighbours of one kind: one event becomes one write.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut all: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match (all.last_mut(), piece) {
            (Some(Piece::Text(text)), Piece::Text(more))
            | (Some(Piece::Reasoning(text)), Piece::Reasoning(more))
            | (Some(Piece::Arguments(text)), Piece::Arguments(more)) => text.push_str(&more),
            (_, piece) => all.push(piece),
        }
    }
    all
}
