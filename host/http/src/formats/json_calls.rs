//! Calls as JSON objects: `{"name": …, "arguments": {…}}`, alone or in a list, between two marks or up to the end.

use super::json::{Begins, ValueScan, begins, blank, is_object};
use super::piece::{Ids, Piece};
use super::reader::{Reader, Verdict, is_name};

/// How a family writes its objects.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonCalls {
    /// Text before the first object; empty where the object itself opens.
    pub(super) open: &'static str,
    /// Text after the last; `None` = the end of the answer.
    pub(super) close: Option<&'static str>,
    /// Member that holds the name; `None` = the one member's key is the name, its value the arguments.
    pub(super) name: Option<&'static str>,
    /// Members that may hold the arguments.
    pub(super) arguments: &'static [&'static str],
    /// The objects stand in a list.
    pub(super) list: bool,
    /// How ids look.
    pub(super) ids: Ids,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the opening mark.
    Open,
    /// Before an object, a comma between two, or the end.
    Between,
    /// Before a member's key or the end of the object.
    Member,
    /// Before the value of a member.
    Value(Member),
    /// Inside the arguments, whose text goes out as it comes.
    Arguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    Name,
    Arguments,
    Id,
    Other,
}

/// Reads them.
#[derive(Debug)]
pub(super) struct JsonReader {
    form: JsonCalls,
    state: State,
    in_list: bool,
    /// Of the object that is being read.
    name: Option<String>,
    id: Option<String>,
    /// Arguments that came before the name, and the text of those that are going out.
    arguments: Option<String>,
    scan: ValueScan,
    /// Calls that are complete.
    calls: usize,
    /// The call was announced.
    begun: bool,
    /// Its arguments were text that holds JSON or are complete.
    complete: bool,
}

impl JsonReader {
    pub(super) fn new(form: JsonCalls) -> Self {
        Self {
            form,
            state: State::Open,
            in_list: false,
            name: None,
            id: None,
            arguments: None,
            scan: ValueScan::default(),
            calls: 0,
            begun: false,
            complete: false,
        }
    }

    fn begin(&mut self, out: &mut Vec<Piece>) {
        if let Some(name) = &self.name
            && !std::mem::replace(&mut self.begun, true)
        {
            out.push(Piece::Call { id: self.id.take().unwrap_or_else(|| self.form.ids.make()), name: name.clone() });
        }
    }

    /// The object is over.
    fn end(&mut self, out: &mut Vec<Piece>) -> bool {
        if self.name.is_none() {
            return false;
        }
        self.begin(out);
        if !std::mem::take(&mut self.complete) {
            match self.arguments.take() {
                Some(text) if is_object(&text) => out.push(Piece::Arguments(text)),
                Some(_) => return false,
                None => out.push(Piece::Arguments("{}".into())),
            }
        }
        out.push(Piece::CallEnd);
        (self.name, self.id, self.arguments, self.begun) = (None, None, None, false);
        self.calls += 1;
        self.state = State::Between;
        true
    }

    fn member(&self, key: &str) -> Member {
        if Some(key) == self.form.name {
            Member::Name
        } else if self.form.arguments.contains(&key) {
            Member::Arguments
        } else if matches!(key, "id" | "tool_call_id" | "call_id") {
            Member::Id
        } else {
            Member::Other
        }
    }

    /// A whole value of a member.
    fn value(&mut self, member: Member, text: &str) -> bool {
        let string = || serde_json::from_str::<String>(text).ok();
        match member {
            Member::Name => match string() {
                Some(name) if is_name(&name) => self.name = Some(name),
                _ => return false,
            },
            // The id a model writes counts up from nought in every answer; only one that looks like an id is kept.
            Member::Id => self.id = string().filter(|id| id.len() >= 9 && is_name(id)),
            // Some models write the arguments as a string that holds JSON.
            Member::Arguments if text.starts_with('"') => match string() {
                Some(inner) if inner.trim().is_empty() => self.arguments = Some("{}".into()),
                Some(inner) => self.arguments = Some(inner),
                None => return false,
            },
            Member::Arguments if text == "null" => self.arguments = Some("{}".into()),
            Member::Arguments => self.arguments = Some(text.to_owned()),
            Member::Other => {}
        }
        true
    }

    fn between(&mut self, rest: &str, last: bool) -> Result<usize, Verdict> {
        if let Some(close) = self.form.close {
            match begins(rest, close) {
                Begins::Yes if !self.in_list => return Err(Verdict::Done),
                Begins::Maybe if !last && !self.in_list => return Err(Verdict::More),
                // An answer that is cut off in the mark after a whole call has called.
                Begins::Maybe if last && !self.in_list && self.calls > 0 && !rest.is_empty() => return Ok(rest.len()),
                _ => {}
            }
        }
        match rest.chars().next() {
            Some('{') => {
                self.state = State::Member;
                Ok(1)
            }
            Some('[') if self.form.list && !self.in_list => {
                self.in_list = true;
                Ok(1)
            }
            Some(']') if self.in_list => {
                self.in_list = false;
                Ok(1)
            }
            Some(',' | ';') => Ok(1),
            Some(_) => Err(if self.form.close.is_none() && !self.in_list { Verdict::Done } else { Verdict::Broken }),
            // Models leave the closing mark out where their turn ends anyway.
            None => Err(if last && !self.in_list {
                Verdict::Done
            } else if last {
                Verdict::Broken
            } else {
                Verdict::More
            }),
        }
    }
}

impl Reader for JsonReader {
    fn step(&mut self, text: &str, last: bool, out: &mut Vec<Piece>) -> Result<usize, Verdict> {
        let space = blank(text);
        let rest = &text[space..];
        let wait = |broken: bool| if last || broken { Verdict::Broken } else { Verdict::More };
        match self.state {
            State::Open => match begins(text, self.form.open) {
                Begins::Yes => {
                    self.state = State::Between;
                    Ok(self.form.open.len())
                }
                Begins::Maybe => Err(wait(false)),
                Begins::No => Err(Verdict::Broken),
            },
            State::Between => self.between(rest, last).map(|taken| space + taken),
            State::Member => {
                if rest.starts_with('}') {
                    return if self.end(out) { Ok(space + 1) } else { Err(Verdict::Broken) };
                }
                if rest.starts_with(',') {
                    return Ok(space + 1);
                }
                if !rest.is_empty() && !rest.starts_with('"') {
                    return Err(Verdict::Broken);
                }
                let Some(end) = ValueScan::default().feed(rest, false) else { return Err(wait(rest.len() > 4096)) };
                let after = &rest[end..];
                let colon = blank(after);
                match after[colon..].chars().next() {
                    Some(':') => {
                        let Ok(key) = serde_json::from_str::<String>(&rest[..end]) else { return Err(Verdict::Broken) };
                        let member = match self.form.name {
                            Some(_) => self.member(&key),
                            None if is_name(&key) && self.name.is_none() => {
                                self.name = Some(key);
                                Member::Arguments
                            }
                            None => return Err(Verdict::Broken),
                        };
                        let twice = match member {
                            Member::Name => self.name.is_some(),
                            Member::Arguments => self.complete || self.arguments.is_some(),
                            Member::Id | Member::Other => false,
                        };
                        if twice {
                            return Err(Verdict::Broken);
                        }
                        self.state = State::Value(member);
                        Ok(space + end + colon + 1)
                    }
                    Some(_) => Err(Verdict::Broken),
                    None => Err(wait(false)),
                }
            }
            State::Value(Member::Arguments) if self.name.is_some() && rest.starts_with('{') => {
                self.begin(out);
                self.scan = ValueScan::default();
                self.arguments = Some(String::new());
                self.state = State::Arguments;
                Ok(space)
            }
            State::Value(member) => {
                let Some(end) = ValueScan::default().feed(rest, false) else { return Err(wait(false)) };
                if !self.value(member, &rest[..end]) {
                    return Err(Verdict::Broken);
                }
                self.state = State::Member;
                Ok(space + end)
            }
            State::Arguments => {
                let end = self.scan.feed(text, false);
                let piece = &text[..end.unwrap_or(text.len())];
                let whole = self.arguments.get_or_insert_default();
                whole.push_str(piece);
                if !piece.is_empty() {
                    out.push(Piece::Arguments(piece.to_owned()));
                }
                if end.is_some() {
                    if !is_object(whole) {
                        return Err(Verdict::Broken);
                    }
                    (self.complete, self.state) = (true, State::Member);
                } else if piece.is_empty() {
                    return Err(wait(false));
                }
                Ok(piece.len())
            }
        }
    }

    fn is_settled(&self) -> bool {
        self.calls > 0 && self.state == State::Between
    }

    fn end(&self) -> &'static str {
        self.form.close.unwrap_or_default()
    }
}
