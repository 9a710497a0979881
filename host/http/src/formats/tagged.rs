//! Calls whose arguments stand between tags, one by one: GLM, Qwen3-Coder, Seed, DeepSeek since V3.2, MiniMax.
//!
//! A value between tags has no type of its own. It is text where the schema says so, or where the tag does; anything else is read as JSON,
//! and is text if it is none. Long texts (a file to be written) go out as they come.

use std::sync::Arc;

use serde_json::Value;

use super::json::{Begins, begins, blank};
use super::piece::{Ids, Piece};
use super::reader::{Reader, Tool, Verdict, is_name, is_text, too_long};

/// How a family writes them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tagged {
    /// Marks around all calls; empty = none.
    pub(super) section: (&'static str, &'static str),
    /// Before the name, white space between the parts allowed.
    pub(super) open: &'static [&'static str],
    /// After the name; empty = the next tag or the end of the line.
    pub(super) name_end: &'static str,
    /// A tag that may stand between the name and the first argument; empty = none.
    pub(super) name_tag: &'static str,
    /// Before a key.
    pub(super) key: &'static str,
    /// After it.
    pub(super) key_end: &'static str,
    /// Before the value. What stands between key and value may say `string="false"` and the like.
    pub(super) value: &'static str,
    /// After it.
    pub(super) value_end: &'static str,
    /// After the last argument, white space between the parts allowed.
    pub(super) close: &'static [&'static str],
    /// A line break after the tag before a value and one before the tag after it are not part of it.
    pub(super) lines: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Section,
    Between,
    Name,
    Argument,
    Value { text: bool, begun: bool },
}

/// Reads them.
#[derive(Debug)]
pub(super) struct TaggedReader {
    form: Tagged,
    tools: Arc<[Tool]>,
    state: State,
    name: String,
    keys: Vec<String>,
    calls: usize,
}

impl TaggedReader {
    pub(super) fn new(form: Tagged, tools: Arc<[Tool]>) -> Self {
        let state = if form.section.0.is_empty() { State::Between } else { State::Section };
        Self { form, tools, state, name: String::new(), keys: Vec::new(), calls: 0 }
    }

    fn schema(&self, key: &str) -> Option<&Value> {
        self.tools.iter().find(|tool| tool.name == self.name)?.argument(key)
    }

    /// A key and what leads to its value, or the end of the call.
    fn argument(&mut self, text: &str, last: bool, out: &mut Vec<Piece>) -> Result<usize, Verdict> {
        let wait = |broken: bool| if last || broken { Verdict::Broken } else { Verdict::More };
        let form = self.form;
        let space = blank(text);
        let rest = &text[space..];
        let mut maybe = false;
        if self.keys.is_empty() && !form.name_tag.is_empty() {
            match begins(rest, form.name_tag) {
                Begins::Yes => return Ok(space + form.name_tag.len()),
                other => maybe |= other == Begins::Maybe,
            }
        }
        match parts(rest, form.close) {
            Parts::All(taken) => {
                out.push(Piece::Arguments(if self.keys.is_empty() { "{}" } else { "}" }.into()));
                out.push(Piece::CallEnd);
                self.calls += 1;
                self.state = State::Between;
                return Ok(space + taken);
            }
            other => maybe |= matches!(other, Parts::Some),
        }
        match begins(rest, form.key) {
            Begins::Yes => {}
            Begins::Maybe => return Err(wait(false)),
            Begins::No => return Err(if maybe { wait(false) } else { Verdict::Broken }),
        }
        let after = &rest[form.key.len()..];
        let Some(key_len) = after.find(form.key_end) else { return Err(wait(after.len() > 4096)) };
        let attributes_at = form.key.len() + key_len + form.key_end.len();
        let attributes = &rest[attributes_at..];
        let Some(attributes_len) = attributes.find(form.value) else { return Err(wait(attributes.len() > 4096)) };
        let (key, said) = (after[..key_len].trim().to_owned(), &attributes[..attributes_len]);
        let text_by_tag = match said {
            said if said.contains("string=\"true\"") => Some(true),
            said if said.contains("string=\"false\"") => Some(false),
            _ => None,
        };
        let text_value = text_by_tag.unwrap_or_else(|| self.schema(&key).is_some_and(is_text));
        // A name written twice would make an object with two of it.
        if self.keys.contains(&key) {
            return Err(Verdict::Broken);
        }
        let name = Value::from(key.as_str());
        out.push(Piece::Arguments(format!("{}{name}: ", if self.keys.is_empty() { "{" } else { ", " })));
        self.keys.push(key);
        self.state = State::Value { text: text_value, begun: false };
        Ok(space + attributes_at + attributes_len + form.value.len())
    }

    /// The text of a value, as far as it is here.
    fn text_value(&mut self, text: &str, begun: bool, last: bool, out: &mut Vec<Piece>) -> Result<usize, Verdict> {
        let form = self.form;
        let mut skipped = 0;
        if !begun {
            if form.lines && text.is_empty() {
                return Err(if last { Verdict::Broken } else { Verdict::More });
            }
            skipped = usize::from(form.lines && text.starts_with('\n'));
            out.push(Piece::Arguments("\"".into()));
            self.state = State::Value { text: true, begun: true };
        }
        let rest = &text[skipped..];
        if let Some(end) = rest.find(form.value_end) {
            let value = &rest[..end];
            let value = if form.lines { value.strip_suffix('\n').unwrap_or(value) } else { value };
            out.push(Piece::Arguments(format!("{}\"", escaped(value))));
            self.state = State::Argument;
            return Ok(skipped + end + form.value_end.len());
        }
        if last {
            return Err(Verdict::Broken);
        }
        // What may be the beginning of the closing tag waits, and a line break that may belong to it.
        let mut safe = rest.len() - held(rest, form.value_end);
        if form.lines && rest[..safe].ends_with('\n') {
            safe -= 1;
        }
        if safe == 0 {
            // The opening quote is out; it must not be written again.
            return if skipped > 0 { Ok(skipped) } else { Err(Verdict::More) };
        }
        out.push(Piece::Arguments(escaped(&rest[..safe])));
        Ok(skipped + safe)
    }
}

/// Bytes at the end of `text` that may be the beginning of `mark`.
pub(super) fn held(text: &str, mark: &str) -> usize {
    (1..mark.len().min(text.len() + 1)).rev().find(|len| mark.is_char_boundary(*len) && text.ends_with(&mark[..*len])).unwrap_or(0)
}

/// Text inside a JSON string, without the quotes.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn without_lines(text: &str) -> &str {
    let text = text.strip_prefix('\n').unwrap_or(text);
    text.strip_suffix('\n').unwrap_or(text)
}

/// A value that is not plainly text: JSON, or Python's spelling of it, else text.
fn typed(written: &str, schema: Option<&Value>) -> Value {
    if schema.is_some_and(is_text) {
        return written.into();
    }
    let trimmed = written.trim();
    match crate::body::parse_bounded(trimmed) {
        Ok(value) => value,
        Err(_) => super::python::value(trimmed).unwrap_or_else(|| written.into()),
    }
}

enum Parts {
    /// All of them, and so many bytes.
    All(usize),
    /// The beginning.
    Some,
    None,
}

/// Compares the beginning of `text` with literals that white space may part.
fn parts(text: &str, literals: &[&str]) -> Parts {
    let mut taken = 0;
    for literal in literals {
        let space = blank(&text[taken..]);
        match begins(&text[taken + space..], literal) {
            Begins::Yes => taken += space + literal.len(),
            Begins::Maybe => return Parts::Some,
            Begins::No => return Parts::None,
        }
    }
    Parts::All(taken)
}

impl Reader for TaggedReader {
    fn step(&mut self, text: &str, last: bool, out: &mut Vec<Piece>) -> Result<usize, Verdict> {
        let wait = |broken: bool| if last || broken { Verdict::Broken } else { Verdict::More };
        let form = self.form;
        match self.state {
            State::Section => match begins(text, form.section.0) {
                Begins::Yes => {
                    self.state = State::Between;
                    Ok(form.section.0.len())
                }
                Begins::Maybe => Err(wait(false)),
                Begins::No => Err(Verdict::Broken),
            },
            State::Between => {
                let rest = text.trim_start();
                let closes = !form.section.1.is_empty();
                match (parts(text, form.open), begins(rest, form.section.1)) {
                    (Parts::All(taken), _) => {
                        self.state = State::Name;
                        Ok(taken)
                    }
                    (_, Begins::Yes) if closes => Err(Verdict::Done),
                    _ if last && rest.is_empty() && self.calls > 0 => Err(Verdict::Done),
                    // An answer that is cut off in a mark after a whole call has called.
                    (Parts::Some, _) | (_, Begins::Maybe) if last && self.calls > 0 => Ok(text.len()),
                    (Parts::Some, _) | (_, Begins::Maybe) if !last => Err(Verdict::More),
                    _ if !closes && self.calls > 0 => Err(Verdict::Done),
                    _ => Err(Verdict::Broken),
                }
            }
            State::Name => {
                let space = blank(text);
                let rest = &text[space..];
                let (end, skip) = match form.name_end {
                    "" => (rest.find(['\n', '<']), 0),
                    mark => (rest.find(mark), mark.len()),
                };
                let Some(end) = end else { return Err(wait(too_long(rest))) };
                let name = rest[..end].trim();
                if !is_name(name) {
                    return Err(Verdict::Broken);
                }
                name.clone_into(&mut self.name);
                self.keys.clear();
                out.push(Piece::Call { id: Ids::Long.make(), name: name.to_owned() });
                self.state = State::Argument;
                Ok(space + end + skip)
            }
            State::Argument => self.argument(text, last, out),
            State::Value { text: true, begun } => self.text_value(text, begun, last, out),
            State::Value { text: false, .. } => {
                let Some(end) = text.find(form.value_end) else { return Err(wait(false)) };
                let written = if form.lines { without_lines(&text[..end]) } else { &text[..end] };
                let value = typed(written, self.keys.last().and_then(|key| self.schema(key)));
                out.push(Piece::Arguments(value.to_string()));
                self.state = State::Argument;
                Ok(end + form.value_end.len())
            }
        }
    }

    fn is_settled(&self) -> bool {
        self.calls > 0 && self.state == State::Between
    }

    fn end(&self) -> &'static str {
        self.form.section.1
    }
}
