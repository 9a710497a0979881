//! The Jinja machine: set up as Hugging Face sets it up, with bounds.
//!
//! Fuel is the one budget for time and memory: minijinja charges every instruction, every byte a template makes or reads and every item it
//! visits, and refuses an allocation it could not pay for. What runs outside its books (`str.format`, `tojson`) is charged here. The budget
//! grows with the conversation, so a long chat is not refused and a short one cannot burn the machine.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind, State, context};
use minijinja_contrib::pycompat;
use onebit_worker::one_line;

use super::conversation::Conversation;
use super::filters::{Raised, escape, is_iterable, raise_exception, strftime_now, tojson};
use super::{TemplateError, TemplateSource};

/// Bytes of a template's text; the largest known ones have 30 KiB.
const MAX_TEMPLATE: usize = 1 << 20;
/// What every rendering may spend; one fuel pays an instruction or 64 bytes.
const BASE_FUEL: u64 = 500_000;
/// What a message adds: real templates spend about a hundred instructions on one, more where they look back over all others.
const FUEL_PER_MESSAGE: u64 = 5_000;
/// How often a byte of the conversation may be copied or read by filters.
const PASSES: u64 = 32;
const NAME: &str = "chat_template";

/// A compiled template.
#[derive(Debug)]
pub struct Program {
    environment: Environment<'static>,
}

impl Program {
    /// Compiles; the error says what is wrong with the template, and where.
    pub fn compile(text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_TEMPLATE {
            return Err(unusable(format!("it has {} bytes, at most {MAX_TEMPLATE} are allowed", text.len())));
        }
        let mut environment = Environment::new();
        environment.set_syntax(syntax()?);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(method);
        environment.set_formatter(|out, _, value| if value.is_undefined() { Ok(()) } else { Ok(write!(out, "{value}")?) });
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_filter("tojson", tojson);
        environment.add_filter("escape", escape);
        environment.add_filter("e", escape);
        environment.add_test("iterable", is_iterable);
        environment.add_template_owned(NAME, without_generation_marks(text)).map_err(|error| unusable(describe(&error)))?;
        Ok(Self { environment })
    }

    /// Runs it.
    pub fn render(
        &self,
        conversation: &Conversation,
        source: &TemplateSource,
        add_generation_prompt: bool,
    ) -> Result<String, TemplateError> {
        let messages = conversation.message_values();
        let variables = &conversation.variables;
        let tools = &conversation.tools;
        let given = text_bytes(messages.iter().chain(tools).chain(variables.values()));
        // The clone shares the compiled template; only the budget is its own.
        let mut environment = self.environment.clone();
        let messages_sent = messages.len() as u64;
        environment.set_fuel(Some(BASE_FUEL + FUEL_PER_MESSAGE * messages_sent + given * PASSES / 64));
        let template = environment.get_template(NAME).map_err(|error| unusable(describe(&error)))?;
        let own = context! {
            messages => Serde(messages),
            add_generation_prompt => add_generation_prompt,
            bos_token => source.bos.as_deref().unwrap_or_default(),
            eos_token => source.eos.as_deref().unwrap_or_default(),
            tools => if tools.is_empty() { Value::from(()) } else { Value::from(Serde(tools)) },
            documents => Value::from(()),
        };
        // On the left wins: a client's variable cannot take the place of the messages.
        let all = context! { ..own, ..Value::from(Serde(variables)) };
        template.render(all).map_err(|error| refused(&error))
    }
}

/// As Hugging Face's tokenizers set Jinja up.
fn syntax() -> Result<SyntaxConfig, TemplateError> {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(|error| unusable(describe(&error)))
}

/// Python's string methods, with `str.format` under the fuel's books.
fn method(state: &mut State<'_, '_>, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if method == "format"
        && let Some(format) = value.as_str()
    {
        charge_format(state, format, args)?;
    }
    pycompat::unknown_method_callback(state, value, method, args)
}

fn charge_format(state: &State<'_, '_>, format: &str, args: &[Value]) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::new(ErrorKind::InvalidOperation, format!("str.format: {why}")));
    // Widths above 999 have no use in a prompt, and `{:999999999}` would be obeyed.
    if format.as_bytes().windows(4).any(|digits| digits.iter().all(u8::is_ascii_digit)) {
        return refuse("numbers above 999 are not allowed in the format");
    }
    let mut largest = 1000;
    for arg in args {
        match arg.as_str() {
            Some(text) => largest = largest.max(text.len()),
            None if arg.is_number() || arg.is_none() || arg.is_undefined() => {}
            None if arg.kind() == minijinja::value::ValueKind::Bool => {}
            None => return refuse("only strings and numbers may be formatted"),
        }
    }
    let fields = format.bytes().filter(|byte| *byte == b'{').count();
    state.consume_fuel((fields.saturating_mul(largest) / 64) as u64)
}

fn text_bytes<'a>(values: impl Iterator<Item = &'a serde_json::Value>) -> u64 {
    values
        .map(|value| match value {
            serde_json::Value::String(text) => text.len() as u64,
            serde_json::Value::Array(items) => 32 + text_bytes(items.iter()),
            serde_json::Value::Object(object) => 32 + object.keys().map(|key| key.len() as u64).sum::<u64>() + text_bytes(object.values()),
            _ => 16,
        })
        .sum()
}

/// `{% generation %}` marks an assistant's text for training and means nothing here; it becomes a block that is always entered, so that its
/// whitespace control still works.
fn without_generation_marks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find("{%") {
        let (before, tag) = rest.split_at(open + 2);
        out.push_str(before);
        let sign = usize::from(tag.starts_with(['-', '+']));
        let word_at = tag.len() - tag[sign..].trim_start().len();
        let word_end = word_at + tag[word_at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tag.len() - word_at);
        out.push_str(&tag[..word_at]);
        match &tag[word_at..word_end] {
            "generation" => out.push_str("if true"),
            "endgeneration" => out.push_str("endif"),
            word => out.push_str(word),
        }
        rest = &tag[word_end..];
    }
    out.push_str(rest);
    out
}

fn unusable(why: String) -> TemplateError {
    TemplateError::Unusable(format!("the chat template of this model cannot be used: {why}"))
}

fn refused(error: &Error) -> TemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(Raised(words)) = current.downcast_ref::<Raised>() {
            return TemplateError::Refused(format!("the chat template of this model refuses these messages: {}", one_line(words)));
        }
        cause = current.source();
    }
    if error.kind() == ErrorKind::OutOfFuel {
        return TemplateError::Refused(
            "the chat template of this model needs too much time or memory for these messages; send fewer".to_owned(),
        );
    }
    TemplateError::Refused(format!("the chat template of this model fails on these messages: {}", describe(error)))
}

/// The kind, detail and line, without the dump of source and variables.
fn describe(error: &Error) -> String {
    let mut text = error.kind().to_string();
    if let Some(detail) = error.detail() {
        text = format!("{text}: {detail}");
    }
    if let Some(line) = error.line() {
        text = format!("{text} (line {line})");
    }
    one_line(&text)
}
