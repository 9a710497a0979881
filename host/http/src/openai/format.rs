//! `response_format`, and the fields by which other servers ask for the same.

use onebit_engine::Constraint;
use serde_json::{Value, json};

use crate::chat::{AnswerFormat, AskedFormat};
use crate::errors::ApiError;
use crate::fields::Fields;

/// Longest grammar, pattern or schema as text. The engine bounds what it makes of them.
pub(super) const MAX_BYTES: usize = 256 << 10;
/// Most entries of a choice.
pub(super) const MAX_CHOICES: usize = 1000;

/// What the answer must look like; two ways of saying it at once are refused.
pub fn read(fields: &Fields<'_>) -> Result<Option<AskedFormat>, ApiError> {
    let mut found: Vec<(&'static str, AnswerFormat)> = Vec::new();
    found.extend(response_format(fields)?.map(|format| ("response_format", format)));
    for field in ["json_schema", "guided_json"] {
        found.extend(schema(fields, field)?.map(|format| (field, format)));
    }
    for field in ["grammar", "guided_grammar"] {
        found.extend(text(fields, field)?.map(|text| (field, grammar(text))));
    }
    found.extend(text(fields, "guided_regex")?.map(|text| ("guided_regex", AnswerFormat::Constraint(Constraint::Regex(text)))));
    found.extend(choice(fields, "guided_choice")?.map(|format| ("guided_choice", format)));
    if let Some(object) = fields.object("structured_outputs")? {
        let inside = Fields::inside(object, "structured_outputs");
        found.extend(schema(&inside, "json")?.map(|format| ("structured_outputs", format)));
        found.extend(text(&inside, "regex")?.map(|text| ("structured_outputs", AnswerFormat::Constraint(Constraint::Regex(text)))));
        found.extend(text(&inside, "grammar")?.map(|text| ("structured_outputs", grammar(text))));
        found.extend(choice(&inside, "choice")?.map(|format| ("structured_outputs", format)));
        if inside.boolean("json_object")?.unwrap_or(false) {
            found.push(("structured_outputs", AnswerFormat::object()));
        }
    }
    match found.len() {
        0 | 1 => Ok(found.pop().map(|(field, format)| format.asked_in(field))),
        _ => Err(ApiError::invalid(
            found[1].0,
            format!("both {:?} and {:?} say what the answer must look like; give one of them", found[0].0, found[1].0),
        )),
    }
}

fn response_format(fields: &Fields<'_>) -> Result<Option<AnswerFormat>, ApiError> {
    let Some(object) = fields.object("response_format")? else { return Ok(None) };
    let inside = Fields::inside(object, "response_format");
    match inside.string("type")? {
        Some("text") => Ok(None),
        // With a schema beside it, as llama-server and others take it.
        Some("json_object") => Ok(Some(schema(&inside, "schema")?.unwrap_or_else(AnswerFormat::object))),
        Some("json_schema") => {
            let named =
                inside.object("json_schema")?.ok_or_else(|| inside.missing("json_schema", "an object with \"name\" and \"schema\""))?;
            let named = Fields::inside(named, "response_format.json_schema");
            let found = schema(&named, "schema")?;
            Ok(Some(found.ok_or_else(|| named.missing("schema", "a JSON schema"))?))
        }
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            Err(ApiError::invalid(
                "response_format.type",
                format!("\"response_format.type\" is {shown:?}; it must be \"text\", \"json_object\" or \"json_schema\""),
            ))
        }
        None => Err(inside.missing("type", "\"text\", \"json_object\" or \"json_schema\"")),
    }
}

/// A schema, as JSON or as a string that holds it.
pub fn schema(fields: &Fields<'_>, name: &str) -> Result<Option<AnswerFormat>, ApiError> {
    let path = fields.path(name);
    let value = match fields.value(name) {
        None => return Ok(None),
        Some(Value::String(text)) => crate::body::parse_bounded(text)
            .map_err(|_| ApiError::invalid(&path, format!("{path:?} is a string that is not JSON; give a JSON schema")))?,
        Some(value) => value.clone(),
    };
    match value {
        Value::Object(_) | Value::Bool(_) => Ok(Some(AnswerFormat::Schema(value))),
        other => Err(fields.wrong(name, &other, "a JSON schema (an object)")),
    }
}

fn text(fields: &Fields<'_>, name: &str) -> Result<Option<String>, ApiError> {
    let path = fields.path(name);
    match fields.string(name)? {
        None | Some("") => Ok(None),
        Some(text) if text.len() > MAX_BYTES => {
            Err(ApiError::invalid(&path, format!("{path:?} has {} bytes; at most {MAX_BYTES} are allowed", text.len())))
        }
        Some(text) => Ok(Some(text.to_owned())),
    }
}

/// llama.cpp's notation, unless the text says that it is llguidance's.
fn grammar(text: String) -> AnswerFormat {
    let lark = text.trim_start().starts_with("%llguidance") || (text.contains("start:") && !text.contains("::="));
    AnswerFormat::Constraint(if lark { Constraint::Lark(text) } else { Constraint::Gbnf(text) })
}

fn choice(fields: &Fields<'_>, name: &str) -> Result<Option<AnswerFormat>, ApiError> {
    let path = fields.path(name);
    let Some(items) = fields.list(name)?.filter(|items| !items.is_empty()) else { return Ok(None) };
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let Some(texts) = texts.filter(|texts| texts.len() <= MAX_CHOICES && texts.iter().all(|text| !text.is_empty())) else {
        return Err(ApiError::invalid(&path, format!("{path:?} must be a list of up to {MAX_CHOICES} strings that are not empty")));
    };
    // Strings are spelled the same in Lark as in JSON.
    let alternatives: Vec<String> = texts.iter().map(|text| json!(text).to_string()).collect();
    Ok(Some(AnswerFormat::Constraint(Constraint::Lark(format!("start: {}", alternatives.join(" | "))))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(value: Value) -> Result<Option<AnswerFormat>, ApiError> {
        Ok(read(&Fields::of(value.as_object().expect("an object")))?.map(|asked| asked.format))
    }

    #[test]
    fn every_way_of_asking_is_read() {
        let schema = json!({"type": "integer"});
        let as_schema = Some(AnswerFormat::Schema(schema.clone()));
        for body in [
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}}}),
            json!({"response_format": {"type": "json_object", "schema": schema}}),
            json!({"json_schema": schema}),
            json!({"guided_json": schema.to_string()}),
            json!({"structured_outputs": {"json": schema}}),
        ] {
            assert_eq!(read_all(body.clone()).expect("fine"), as_schema, "{body}");
        }
        assert_eq!(read_all(json!({"response_format": {"type": "text"}, "grammar": ""})).expect("fine"), None);
        assert_eq!(read_all(json!({"response_format": {"type": "json_object"}})).expect("fine"), Some(AnswerFormat::object()));
        let constraint = |body: Value| match read_all(body).expect("fine") {
            Some(AnswerFormat::Constraint(constraint)) => constraint,
            other => panic!("{other:?}"),
        };
        assert_eq!(constraint(json!({"grammar": "root ::= \"a\""})), Constraint::Gbnf("root ::= \"a\"".into()));
        assert_eq!(constraint(json!({"guided_regex": "a+"})), Constraint::Regex("a+".into()));
        assert_eq!(constraint(json!({"guided_choice": ["a", "b\n"]})), Constraint::Lark("start: \"a\" | \"b\\n\"".into()));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for body in [
            json!({"response_format": {"type": "xml"}}),
            json!({"response_format": {}}),
            json!({"response_format": "json"}),
            json!({"response_format": {"type": "json_schema"}}),
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}),
            json!({"guided_json": "{oops"}),
            json!({"guided_choice": [1]}),
            json!({"guided_choice": [""]}),
            json!({"grammar": 1}),
            json!({"grammar": "x".repeat(MAX_BYTES + 1)}),
            json!({"json_schema": {}, "grammar": "root ::= \"a\""}),
        ] {
            let shown: String = body.to_string().chars().take(80).collect();
            assert!(read_all(body).is_err(), "{shown}");
        }
    }
}
