//! Calls as a name and a JSON object between marks: Kimi, DeepSeek V3, Mistral since 2025, Functionary, Solar.

use super::json::{Begins, ValueScan, begins, blank, is_object};
use super::piece::{Ids, Piece};
use super::reader::{Reader, Verdict, is_name, too_long};

/// How a family writes them.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedJson {
    /// Marks around all calls; empty = none.
    pub(super) section: (&'static str, &'static str),
    /// Before a call.
    pub(super) open: &'static str,
    /// Between [`NamedJson::open`] and the name there may be an id, ended by this; empty = none.
    pub(super) id_end: &'static str,
    /// The name may be followed by this and an id; empty = never.
    pub(super) id_mark: &'static str,
    /// Between the name and the arguments.
    pub(super) between: &'static str,
    /// After the arguments; may be empty.
    pub(super) close: &'static str,
    /// The name as written (`functions.f:0`) holds the name that was meant, and is itself the id.
    pub(super) kimi: bool,
    /// How ids look.
    pub(super) ids: Ids,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Section,
    Between,
    Id,
    Name,
    Arguments,
    Close,
}

/// Reads them.
#[derive(Debug)]
pub(super) struct NamedReader {
    form: NamedJson,
    state: State,
    id: Option<String>,
    arguments: String,
    scan: ValueScan,
    calls: usize,
}

impl NamedReader {
    pub(super) fn new(form: NamedJson) -> Self {
        let state = if form.section.0.is_empty() { State::Between } else { State::Section };
        Self { form, state, id: None, arguments: String::new(), scan: ValueScan::default(), calls: 0 }
    }
}

/// `functions.get_weather:0` → `get_weather`.
fn kimi_name(written: &str) -> &str {
    let name = written.strip_prefix("functions.").unwrap_or(written);
    match name.rsplit_once(':') {
        Some((name, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

impl Reader for NamedReader {
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
                let space = blank(text);
                let rest = &text[space..];
                let (open, close) = (begins(rest, form.open), begins(rest, form.section.1));
                if open == Begins::Yes {
                    self.state = if form.id_end.is_empty() { State::Name } else { State::Id };
                    return Ok(space + form.open.len());
                }
                let closed = !form.section.1.is_empty() && close == Begins::Yes;
                if closed || (last && rest.is_empty() && self.calls > 0) {
                    return Err(Verdict::Done);
                }
                // An answer that is cut off in a mark after a whole call has called.
                if last && self.calls > 0 && (open == Begins::Maybe || (!form.section.1.is_empty() && close == Begins::Maybe)) {
                    return Ok(text.len());
                }
                if !last && (open == Begins::Maybe || (!form.section.1.is_empty() && close == Begins::Maybe)) {
                    return Err(Verdict::More);
                }
                // Without a mark at the end of all, whatever is no call is text again.
                Err(if form.section.1.is_empty() && self.calls > 0 { Verdict::Done } else { Verdict::Broken })
            }
            State::Id => match text.find(form.id_end) {
                Some(at) => {
                    let id = text[..at].trim();
                    self.id = is_name(id).then(|| id.to_owned());
                    self.state = State::Name;
                    Ok(at + form.id_end.len())
                }
                None => Err(wait(too_long(text))),
            },
            State::Name => match text.find(form.between) {
                Some(at) => {
                    let written = text[..at].trim();
                    let written = match written.split_once(form.id_mark).filter(|_| !form.id_mark.is_empty()) {
                        Some((name, id)) => {
                            self.id = is_name(id).then(|| id.to_owned());
                            name
                        }
                        None => written,
                    };
                    let name = if form.kimi { kimi_name(written) } else { written };
                    if !is_name(name) {
                        return Err(Verdict::Broken);
                    }
                    let id = if form.kimi && written != name { Some(written.to_owned()) } else { self.id.take() };
                    out.push(Piece::Call { id: id.unwrap_or_else(|| form.ids.make()), name: name.to_owned() });
                    (self.state, self.scan) = (State::Arguments, ValueScan::default());
                    self.arguments.clear();
                    Ok(at + form.between.len())
                }
                None => Err(wait(too_long(text))),
            },
            State::Arguments => {
                let space = if self.arguments.is_empty() { blank(text) } else { 0 };
                let rest = &text[space..];
                if self.arguments.is_empty() && !rest.is_empty() && !rest.starts_with('{') {
                    return Err(Verdict::Broken);
                }
                if rest.is_empty() {
                    return Err(wait(false));
                }
                let end = self.scan.feed(rest, false);
                let piece = &rest[..end.unwrap_or(rest.len())];
                self.arguments.push_str(piece);
                out.push(Piece::Arguments(piece.to_owned()));
                if end.is_some() {
                    if !is_object(&self.arguments) {
                        return Err(Verdict::Broken);
                    }
                    out.push(Piece::CallEnd);
                    self.calls += 1;
                    self.state = State::Close;
                }
                Ok(space + piece.len())
            }
            State::Close => match begins(text, form.close) {
                Begins::Yes => {
                    self.state = State::Between;
                    Ok(form.close.len())
                }
                Begins::Maybe if !last => Err(Verdict::More),
                Begins::Maybe => {
                    self.state = State::Between;
                    Ok(text.len())
                }
                // The call itself is complete; a model that leaves its closing mark out has still called.
                Begins::No => {
                    self.state = State::Between;
                    Ok(blank(text))
                }
            },
        }
    }

    fn is_settled(&self) -> bool {
        self.calls > 0 && matches!(self.state, State::Between | State::Close)
    }

    fn end(&self) -> &'static str {
        self.form.section.1
    }
}
