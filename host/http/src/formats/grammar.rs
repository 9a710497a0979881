//! The families' forms as a grammar: for requests that demand a call.
//!
//! The grammar is Lark as the engine's constraints take it. Marks are rules of their own, which the engine writes: a mark that is a control
//! token of the model must be that token, any other is its text.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::json_calls::JsonCalls;
use super::named_json::NamedJson;
use super::reader::{Tool, is_text};
use super::table::{Syntax, ToolFormat};
use super::tagged::Tagged;

/// What a request demands.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// Functions one of which must be called.
    pub tools: &'a [Tool],
    /// More than one call may be made.
    pub several: bool,
}

/// A grammar without the rules that only the engine can write: see [`onebit_engine::Constraint::Marked`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grammar {
    /// Rules; the first is `start`.
    pub lark: String,
    /// Texts of marks.
    pub marks: Vec<String>,
    /// JSON schemas.
    pub schemas: Vec<String>,
}

/// The grammar of at least one call, or of JSON that fits `answer`. `None` where this family's notation cannot be demanded.
pub fn grammar(format: &ToolFormat, demand: Demand<'_>, answer: Option<&Value>) -> Option<Grammar> {
    let mut writer = Writer::default();
    match answer {
        None => writer.rule("start", "calls"),
        Some(schema) if format.marks_whole_answer() => {
            writer.rule("start", "calls | thought? final");
            writer.harmony_final(schema);
        }
        Some(schema) => {
            writer.rule("start", "calls | answer");
            let answer = writer.schema(schema);
            writer.rule("answer", &answer);
        }
    }
    match format.syntax {
        Syntax::Json(form) => writer.json(form, demand),
        Syntax::Named(form) => writer.named(form, demand),
        Syntax::Tagged(form) => writer.tagged(form, demand),
        Syntax::Harmony => writer.harmony(demand),
        Syntax::Enclosed(_) => return None,
    }
    Some(writer.grammar)
}

#[derive(Debug, Default)]
struct Writer {
    grammar: Grammar,
}

impl Writer {
    fn rule(&mut self, name: &str, body: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.grammar.lark, "{name}: {body}");
    }

    fn number(&mut self, mark: &str) -> usize {
        let known = self.grammar.marks.iter().position(|known| known == mark);
        known.unwrap_or_else(|| {
            self.grammar.marks.push(mark.to_owned());
            self.grammar.marks.len() - 1
        })
    }

    /// A mark, or nothing where it is empty.
    fn mark(&mut self, mark: &str) -> String {
        if mark.is_empty() { String::new() } else { format!("mark_{}", self.number(mark)) }
    }

    /// Any text up to and with a mark.
    fn until(&mut self, mark: &str) -> String {
        format!("until_{}", self.number(mark))
    }

    /// JSON that fits a schema.
    fn schema(&mut self, schema: &Value) -> String {
        self.grammar.schemas.push(schema.to_string());
        format!("schema_{}", self.grammar.schemas.len() - 1)
    }

    /// `call`s, one or several, with this between them.
    fn calls(demand: Demand<'_>, between: &str) -> String {
        if demand.several { format!("call ({between} call)*") } else { "call".to_owned() }
    }

    fn alternatives(demand: Demand<'_>) -> String {
        (0..demand.tools.len()).map(|index| format!("call_{index}")).collect::<Vec<_>>().join(" | ")
    }

    fn json(&mut self, form: JsonCalls, demand: Demand<'_>) {
        let (open, close) = (self.mark(form.open), form.close.map(|close| self.mark(close)).unwrap_or_default());
        let line = if form.list || form.open.is_empty() || form.close.is_none() { "" } else { "\"\\n\"" };
        if form.list {
            let calls = Self::calls(demand, "\", \"");
            self.rule("calls", &format!("{open} \"[\" {calls} \"]\" {close}"));
            self.rule("call", &Self::alternatives(demand));
        } else {
            // Without a mark at the end there is no telling where a second call begins.
            let several = Demand { several: demand.several && form.close.is_some(), ..demand };
            self.rule("calls", &Self::calls(several, "\"\\n\""));
            self.rule("call", &format!("{open} {line} ({}) {line} {close}", Self::alternatives(demand)));
        }
        for (index, tool) in demand.tools.iter().enumerate() {
            let name = Value::from(tool.name.as_str());
            let head = match form.name {
                Some(key) => format!("{{{}: {name}, {}: ", quoted(key), quoted(form.arguments[0])),
                None => format!("{{{name}: "),
            };
            let arguments = self.schema(&tool.parameters);
            self.rule(&format!("call_{index}"), &format!("{} {arguments} \"}}\"", literal(&head)));
        }
    }

    fn named(&mut self, form: NamedJson, demand: Demand<'_>) {
        let (open, close) = (self.mark(form.section.0), self.mark(form.section.1));
        self.rule("calls", &format!("{open} {} {close}", Self::calls(demand, "")));
        self.rule("call", &Self::alternatives(demand));
        let id = if form.id_end.is_empty() { String::new() } else { format!("/call_[a-z0-9]{{8}}/ {}", self.mark(form.id_end)) };
        let (before, between, after) = (self.spelled(form.open), self.spelled(form.between), self.spelled(form.close));
        for (index, tool) in demand.tools.iter().enumerate() {
            let name =
                if form.kimi { format!("{} /[0-9]{{1,2}}/", literal(&format!("functions.{}:", tool.name))) } else { literal(&tool.name) };
            let arguments = self.schema(&tool.parameters);
            self.rule(&format!("call_{index}"), &format!("{before} {id} {name} {between} {arguments} {after}"));
        }
    }

    /// Marks and the plain text between them: a mark is one token, `<｜tool▁sep｜>get` is a token and text.
    fn spelled(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = match rest.find('<') {
                Some(0) => rest.find('>').map_or(rest.len(), |at| at + 1),
                Some(at) => at,
                None => rest.len(),
            };
            let piece = &rest[..end];
            let marked = piece.starts_with('<') || piece.starts_with('[');
            let _ = write!(out, "{} ", if marked { self.mark(piece) } else { literal(piece) });
            rest = &rest[end..];
        }
        out
    }

    fn tagged(&mut self, form: Tagged, demand: Demand<'_>) {
        let line = if form.lines { "\"\\n\"" } else { "" };
        let (section, end) = (self.mark(form.section.0), self.mark(form.section.1));
        let between = if form.section.0.is_empty() { "\"\\n\"" } else { "" };
        self.rule("calls", &format!("{section} {} {end}", Self::calls(demand, between)));
        self.rule("call", &Self::alternatives(demand));
        let open: Vec<String> = form.open.iter().map(|part| self.spelled(part)).collect();
        let close: Vec<String> = form.close.iter().map(|part| self.spelled(part)).collect();
        let (open, close) = (open.join(line), close.join(line));
        let name_end = match (form.name_end, form.name_tag) {
            ("", "") => literal("\n"),
            ("", tag) => self.mark(tag),
            (text, _) => literal(text),
        };
        for (index, tool) in demand.tools.iter().enumerate() {
            let mut arguments = String::new();
            let empty = Map::new();
            let properties = tool.parameters.get("properties").and_then(Value::as_object).unwrap_or(&empty);
            let required: Vec<&str> =
                tool.parameters.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
            for (key, schema) in properties {
                let argument = self.argument(form, key, schema, &tool.parameters);
                let optional = if required.contains(&key.as_str()) { "" } else { "?" };
                let _ = write!(arguments, " ({argument}){optional}");
            }
            let call = format!("{open} {} {name_end} {line} {arguments} {close}", literal(&tool.name));
            self.rule(&format!("call_{index}"), &call);
        }
    }

    /// One argument with its tags.
    fn argument(&mut self, form: Tagged, key: &str, schema: &Value, root: &Value) -> String {
        let line = if form.lines { "\"\\n\"" } else { "" };
        let attribute = match (form.key.contains("DSML"), is_text(schema)) {
            (true, true) => literal(" string=\"true\""),
            (true, false) => literal(" string=\"false\""),
            _ => String::new(),
        };
        let (before, after) = (self.spelled(form.key), self.spelled(form.key_end));
        let open = self.spelled(form.value);
        let head = format!("{before} {} {after} {attribute} {open} {line}", literal(key));
        let choices: Option<Vec<&str>> =
            schema.get("enum").and_then(Value::as_array).map(|all| all.iter().filter_map(Value::as_str).collect());
        match choices {
            Some(choices) if is_text(schema) && !choices.is_empty() => {
                let all: Vec<String> = choices.into_iter().map(literal).collect();
                format!("{head} ({}) {line} {} {line}", all.join(" | "), self.mark(form.value_end))
            }
            _ if is_text(schema) => format!("{head} {} {line}", self.until(form.value_end)),
            _ => {
                let mut schema = schema.clone();
                for definitions in ["$defs", "definitions"] {
                    if let (Some(object), Some(all)) = (schema.as_object_mut(), root.get(definitions)) {
                        object.insert(definitions.into(), all.clone());
                    }
                }
                format!("{head} {} {line} {} {line}", self.schema(&schema), self.mark(form.value_end))
            }
        }
    }

    fn harmony(&mut self, demand: Demand<'_>) {
        let (channel, message, constrain) = (self.mark("<|channel|>"), self.mark("<|message|>"), self.mark("<|constrain|>"));
        self.rule("calls", "thought? call");
        self.harmony_thought();
        self.rule("call", &Self::alternatives(demand));
        for (index, tool) in demand.tools.iter().enumerate() {
            let head = literal(&format!("commentary to=functions.{} ", tool.name));
            let arguments = self.schema(&tool.parameters);
            self.rule(&format!("call_{index}"), &format!("{channel} {head} {constrain} \"json\" {message} {arguments}"));
        }
    }

    fn harmony_thought(&mut self) {
        let (channel, message) = (self.mark("<|channel|>"), self.mark("<|message|>"));
        let (thought, start) = (self.until("<|end|>"), self.mark("<|start|>"));
        self.rule("thought", &format!("{channel} \"analysis\" {message} {thought} {start} \"assistant\""));
    }

    fn harmony_final(&mut self, schema: &Value) {
        let (channel, message) = (self.mark("<|channel|>"), self.mark("<|message|>"));
        self.rule("final", &format!("{channel} \"final\" {message} answer"));
        let answer = self.schema(schema);
        self.rule("answer", &answer);
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A text as Lark spells it: JSON's escapes are Lark's.
fn literal(text: &str) -> String {
    quoted(text)
}

/// The grammar of an answer in harmony's `final` channel that fits a JSON schema.
pub fn harmony_answer(schema: &Value) -> Grammar {
    let mut writer = Writer::default();
    writer.rule("start", "thought? final");
    writer.harmony_thought();
    writer.harmony_final(schema);
    writer.grammar
}
