//! Calls in a notation of their own between two marks, read when the second has come: Gemma's and LFM2's.

use serde_json::{Map, Value};

use super::json::{Begins, begins, blank};
use super::piece::{Ids, Piece};
use super::python;
use super::reader::{Reader, Verdict, is_name};

/// What stands between the marks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Notation {
    /// `call:f{city:<|"|>Oslo<|"|>,days:3}`, text between two of this mark.
    Gemma(&'static str),
    /// `[f(city='Oslo', days=3)]`.
    Python,
}

/// How a family writes them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Enclosed {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    pub(super) notation: Notation,
}

/// Longest text of calls that is waited for.
const MAX_BYTES: usize = 1 << 20;

/// Reads them.
#[derive(Debug)]
pub(super) struct EnclosedReader {
    form: Enclosed,
    /// A call was read: whatever is no call is text again.
    called: bool,
}

impl EnclosedReader {
    pub(super) fn new(form: Enclosed) -> Self {
        Self { form, called: false }
    }
}

impl Reader for EnclosedReader {
    /// A whole pair of marks at a time.
    fn step(&mut self, text: &str, last: bool, out: &mut Vec<Piece>) -> Result<usize, Verdict> {
        let form = self.form;
        let space = if self.called { blank(text) } else { 0 };
        match begins(&text[space..], form.open) {
            Begins::Yes => {}
            Begins::Maybe if !last => return Err(Verdict::More),
            _ => return Err(if self.called { Verdict::Done } else { Verdict::Broken }),
        }
        let inner_at = space + form.open.len();
        let Some(end) = text[inner_at..].find(form.close).filter(|end| *end <= MAX_BYTES) else {
            return Err(if last || text.len() > inner_at + MAX_BYTES + form.close.len() { Verdict::Broken } else { Verdict::More });
        };
        let inner = &text[inner_at..inner_at + end];
        let calls = match form.notation {
            Notation::Python => python::calls(inner.trim()),
            Notation::Gemma(quote) => gemma(inner.trim(), quote).map(|call| vec![call]),
        };
        let Some(calls) = calls.filter(|calls| calls.iter().all(|(name, _)| is_name(name))) else { return Err(Verdict::Broken) };
        for (name, arguments) in calls {
            out.push(Piece::Call { id: Ids::Long.make(), name });
            out.push(Piece::Arguments(Value::Object(arguments).to_string()));
            out.push(Piece::CallEnd);
        }
        self.called = true;
        Ok(inner_at + end + form.close.len())
    }

    fn is_settled(&self) -> bool {
        self.called
    }

    fn end(&self) -> &'static str {
        ""
    }
}

fn gemma(text: &str, quote: &'static str) -> Option<(String, Map<String, Value>)> {
    let (name, rest) = text.strip_prefix("call:")?.split_once('{')?;
    let mut gemma = Gemma { rest, quote };
    let arguments = gemma.members(0)?;
    gemma.rest.trim().is_empty().then(|| (name.trim().to_owned(), arguments))
}

/// Deepest nesting.
const MAX_DEPTH: usize = 64;

struct Gemma<'a> {
    rest: &'a str,
    quote: &'static str,
}

/// The lifetime of the mark is the table's; the text's is its own.
impl<'a> Gemma<'a> {
    fn took(&mut self, wanted: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(wanted) {
            Some(after) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }

    /// After the opening brace.
    fn members(&mut self, depth: usize) -> Option<Map<String, Value>> {
        let mut object = Map::new();
        while !self.took("}") {
            let (key, rest) = self.rest.split_once(':')?;
            let key = key.trim().trim_matches('"');
            // Keys may be written between the marks of text, too.
            let key = key.strip_prefix(self.quote).and_then(|key| key.strip_suffix(self.quote)).unwrap_or(key);
            self.rest = rest;
            object.insert(key.to_owned(), self.value(depth + 1)?);
            if !self.took(",") {
                return self.took("}").then_some(object);
            }
        }
        Some(object)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.took(self.quote) {
            let (text, rest) = self.rest.split_once(self.quote)?;
            self.rest = rest;
            return Some(text.into());
        }
        if self.took("{") {
            return self.members(depth).map(Value::Object);
        }
        if self.took("[") {
            let mut items = Vec::new();
            while !self.took("]") {
                items.push(self.value(depth + 1)?);
                if !self.took(",") {
                    return self.took("]").then_some(Value::Array(items));
                }
            }
            return Some(Value::Array(items));
        }
        let end = self.rest.find([',', '}', ']'])?;
        let atom: &'a str = self.rest[..end].trim();
        self.rest = &self.rest[end..];
        python::value(atom).or_else(|| (!atom.is_empty()).then(|| atom.into()))
    }
}
