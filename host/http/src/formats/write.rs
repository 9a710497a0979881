//! Calls in a family's own notation: what the host writes of earlier calls, and shows as an example, for a template that writes none.
//!
//! The inverse of the readers, and tested as that: what is written here is read back as the same calls, for every family.

use serde_json::{Map, Value, json};

use super::enclosed::Notation;
use super::table::{Syntax, ToolFormat};
use super::tagged::Tagged;

/// A call: its name and its arguments.
pub type Written<'a> = (&'a str, &'a Map<String, Value>);

/// The calls of one turn.
pub fn written(format: &ToolFormat, calls: &[Written<'_>]) -> String {
    let each = |call: &dyn Fn(usize, &Written<'_>) -> String, between: &str| {
        calls.iter().enumerate().map(|(number, written)| call(number, written)).collect::<Vec<_>>().join(between)
    };
    match format.syntax {
        Syntax::Json(form) => {
            let object = |(name, arguments): &Written<'_>| match (form.name, form.arguments.first()) {
                (Some(key), Some(rest)) => json!({key: name, *rest: arguments}).to_string(),
                _ => json!({*name: arguments}).to_string(),
            };
            let close = form.close.unwrap_or_default();
            if form.list {
                format!("{}[{}]{close}", form.open, each(&|_, call| object(call), ", "))
            } else if close.is_empty() {
                format!("{}{}", form.open, each(&|_, call| object(call), "; "))
            } else {
                each(&|_, call| format!("{}\n{}\n{close}", form.open, object(call)), "\n")
            }
        }
        Syntax::Named(form) => {
            let call = |number: usize, (name, arguments): &Written<'_>| {
                let id = if form.id_end.is_empty() { String::new() } else { format!("call_{number}{}", form.id_end) };
                let name = if form.kimi { format!("functions.{name}:{number}") } else { (*name).to_owned() };
                format!("{}{id}{name}{}{}{}", form.open, form.between, Value::from((*arguments).clone()), form.close)
            };
            format!("{}{}{}", form.section.0, each(&call, ""), form.section.1)
        }
        Syntax::Tagged(form) => {
            let between = if form.section.0.is_empty() { "\n" } else { "" };
            format!("{}{}{}", form.section.0, each(&|_, call| tagged(&form, call), between), form.section.1)
        }
        Syntax::Enclosed(form) => match form.notation {
            Notation::Gemma(quote) => {
                let call =
                    |_, (name, arguments): &Written<'_>| format!("{}call:{name}{}{}", form.open, gemma(arguments, quote), form.close);
                each(&call, "")
            }
            Notation::Python => {
                let argument = |(key, value): (&String, &Value)| format!("{key}={value}");
                let call = |_, (name, arguments): &Written<'_>| {
                    format!("{name}({})", arguments.iter().map(argument).collect::<Vec<_>>().join(", "))
                };
                format!("{}[{}]{}", form.open, each(&call, ", "), form.close)
            }
        },
        Syntax::Harmony => {
            let call = |_, (name, arguments): &Written<'_>| {
                format!("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{}", Value::from((*arguments).clone()))
            };
            each(&call, "<|end|><|start|>assistant")
        }
    }
}

fn tagged(form: &Tagged, (name, arguments): &Written<'_>) -> String {
    let line = if form.lines { "\n" } else { "" };
    let name_end = if form.name_end.is_empty() && form.name_tag.is_empty() { "\n" } else { form.name_end };
    let mut text = format!("{}{name}{name_end}{}{line}", form.open.join(line), form.name_tag);
    for (key, value) in *arguments {
        let said = match (form.key.contains("DSML"), value.is_string()) {
            (true, is_text) => format!(" string=\"{is_text}\""),
            (false, _) => String::new(),
        };
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.push_str(&format!("{}{key}{}{said}{}{line}{value}{line}{}{line}", form.key, form.key_end, form.value, form.value_end));
    }
    text + &form.close.join(line)
}

/// An object in Gemma's notation: text between marks, keys bare.
fn gemma(object: &Map<String, Value>, quote: &str) -> String {
    let members: Vec<String> = object.iter().map(|(key, member)| format!("{key}:{}", gemma_value(member, quote))).collect();
    format!("{{{}}}", members.join(","))
}

fn gemma_value(value: &Value, quote: &str) -> String {
    match value {
        Value::String(text) => format!("{quote}{text}{quote}"),
        Value::Array(items) => format!("[{}]", items.iter().map(|item| gemma_value(item, quote)).collect::<Vec<_>>().join(",")),
        Value::Object(object) => gemma(object, quote),
        other => other.to_string(),
    }
}
