//! What of a JSON schema is refused before it is compiled.
//!
//! Structured output is a promise: whoever parses the answer relies on it. llguidance keeps it for most of the language and refuses what
//! it knows that it cannot do, but there are corners where it would follow a schema less strictly than it reads, or where its leniency
//! could be switched on from inside the schema. Each of them is refused here, by name and place. Where its grammars are stricter than the
//! schema (the order of properties, `1.0` for an integer, escapes where a character can stand for itself), nothing is refused: the answer
//! is still valid.
//!
//! References stay inside the schema. Nothing is ever fetched.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::grammar::check_pattern;

/// How deep subschemas and references may stand inside each other: what compiles them recurses.
const MOST_DEPTH: usize = 400;
/// The largest integer that a double tells from its neighbours (2^53 - 1): bounds and constants are compared as doubles.
const MOST_EXACT: f64 = 9_007_199_254_740_991.0;
/// What stands between two members, and between a name and its value. All on one line: it is parsed, not read, tokens for line breaks and
/// indentation cost time, and a small model may never find out of what it may repeat.
const COMMA: &str = ", ?";
const COLON: &str = ": ?";

/// Keywords that narrow what is valid and that no grammar here carries out.
const REFUSED: &[&str] = &[
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "propertyNames",
    "contains",
    "minContains",
    "maxContains",
    "uniqueItems",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$dynamicRef",
    "$recursiveRef",
    "x-guidance",
];

/// Subschemas that a value may have to satisfy with their places, each before those it is part of.
pub(super) type Subschemas<'a> = Vec<(String, &'a Value)>;

/// How strings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Control characters as `\uXXXX`, others as themselves.
    Free,
    /// Never with `\uXXXX`: each string in one way only. Needed where an object has properties of its own and is open to others, because a
    /// property could be named a second time in another spelling and escape its own schema. Control characters without a short escape
    /// cannot be written then.
    One,
}

/// Looks at everything that can be reached in a schema.
///
/// # Errors
/// The first thing that would not be followed to the letter: what and where.
pub(super) fn check(root: &Value) -> Result<Subschemas<'_>, String> {
    let mut walk = Walk { root, seen: HashSet::new(), found: Vec::new() };
    walk.visit("#".to_owned(), root, 0)?;
    Ok(walk.found)
}

/// How the strings of a schema that was [checked](check) must be written.
///
/// # Errors
/// It has a string that cannot be written so.
pub(super) fn spelling(subschemas: &Subschemas<'_>) -> Result<Spelling, String> {
    if !subschemas.iter().filter_map(|(_, schema)| schema.as_object()).any(is_open_beside_names) {
        return Ok(Spelling::Free);
    }
    for (path, schema) in subschemas.iter().filter_map(|(path, schema)| Some((path, schema.as_object()?))) {
        let patterns = schema.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys).map(String::as_str);
        let mut patterns = patterns.chain(schema.get("pattern").and_then(Value::as_str));
        let keyword = if ["const", "enum"].iter().any(|keyword| schema.get(*keyword).is_some_and(has_control)) {
            "const or enum"
        } else if patterns.any(names_control) {
            "pattern"
        } else {
            continue;
        };
        return Err(format!(
            "{path}: its {keyword} has a control character, which is not written beside objects with properties of any name; \
             set \"additionalProperties\" to false, or leave it out"
        ));
    }
    Ok(Spelling::One)
}

/// The schema as llguidance is to read it.
///
/// Its own draft is dropped, because an older one would turn newer keywords into ignored ones. Of whitespace there is little.
pub(super) fn prepared(root: Value, spelling: Spelling) -> Value {
    let mut schema = match root {
        Value::Object(schema) => schema,
        other => Map::from_iter([("allOf".to_owned(), json!([other]))]),
    };
    let escapes = match spelling {
        Spelling::Free => "nrbtf\\\"u",
        Spelling::One => "nrbtf\\\"",
    };
    schema.shift_remove("$schema");
    let options = json!({
        "json_allowed_escapes": escapes,
        "whitespace_flexible": false,
        "item_separator": COMMA,
        "key_separator": COLON,
    });
    schema.insert("x-guidance".to_owned(), options);
    Value::Object(schema)
}

/// What a `$ref` names.
///
/// # Errors
/// A reference that leaves the schema or leads nowhere.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Result<&'a Value, String> {
    let pointer = match reference.strip_prefix('#') {
        Some("" | "/") => return Ok(root),
        Some(pointer) if pointer.starts_with('/') => pointer,
        _ => return Err(format!("$ref {reference:?} leaves the schema; only \"#\" and \"#/…\" are followed")),
    };
    if pointer.contains(['~', '%']) {
        return Err(format!("$ref {reference:?} has an escape; name the definition without \"/\", \"~\" and \"%\""));
    }
    root.pointer(pointer).ok_or_else(|| format!("$ref {reference:?} leads nowhere"))
}

struct Walk<'a> {
    root: &'a Value,
    /// By address: a schema may be reached in many ways.
    seen: HashSet<*const Value>,
    found: Subschemas<'a>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, path: String, schema: &'a Value, depth: usize) -> Result<(), String> {
        if depth > MOST_DEPTH {
            return Err(format!("{path} stands more than {MOST_DEPTH} subschemas and references deep"));
        }
        if !self.seen.insert(std::ptr::from_ref(schema)) {
            return Ok(());
        }
        if let Value::Object(object) = schema {
            self.check(&path, object).map_err(|error| format!("{path}: {error}"))?;
            if let Some(Value::String(reference)) = object.get("$ref") {
                let target = resolve(self.root, reference).map_err(|error| format!("{path}: {error}"))?;
                self.visit(reference.clone(), target, depth + 1)?;
            }
            for (step, inner) in inner(object) {
                self.visit(format!("{path}/{step}"), inner, depth + 1)?;
            }
        } else if !schema.is_boolean() {
            return Err(format!("{path} is neither an object nor true or false"));
        }
        self.found.push((path, schema));
        Ok(())
    }

    fn check(&self, path: &str, schema: &Map<String, Value>) -> Result<(), String> {
        if let Some(keyword) = REFUSED.iter().find(|keyword| schema.contains_key(**keyword)) {
            return Err(format!("{keyword:?} is not supported"));
        }
        if path != "#" && schema.get("$id").is_some_and(Value::is_string) {
            return Err("\"$id\" below the root is not supported: it would change what references mean".to_owned());
        }
        if schema.contains_key("prefixItems")
            && (schema.contains_key("additionalItems") || schema.get("items").is_some_and(Value::is_array))
        {
            return Err(
                "\"prefixItems\" beside \"additionalItems\" or a list of \"items\" mixes two drafts; use \"items\" for the rest".to_owned()
            );
        }
        for keyword in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "const", "enum"] {
            check_exact(schema.get(keyword).unwrap_or(&Value::Null))
                .map_err(|number| format!("{keyword:?} has the number {number}; from 2^53 on numbers cannot be told apart"))?;
        }
        if let Some(Value::String(pattern)) = schema.get("pattern") {
            check_pattern(pattern)?;
        }
        for pattern in schema.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            check_pattern(pattern)?;
        }
        check_least_properties(schema)
    }
}

/// A grammar can count properties but cannot keep a name from coming twice, and a parser counts such a name once.
fn check_least_properties(schema: &Map<String, Value>) -> Result<(), String> {
    let least = schema.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
    let required: HashSet<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false)) && !schema.contains_key("patternProperties");
    match closed || least <= required.len() as u64 {
        true => Ok(()),
        false => {
            Err("\"minProperties\" above the number of \"required\" names is not supported with names that the schema does not list"
                .to_owned())
        }
    }
}

fn is_open_beside_names(schema: &Map<String, Value>) -> bool {
    let names = ["properties", "required"].iter().any(|keyword| schema.contains_key(*keyword));
    names && (schema.contains_key("patternProperties") || schema.get("additionalProperties") != Some(&Value::Bool(false)))
}

fn is_unwritten(character: char) -> bool {
    character.is_ascii_control() && !"\n\r\t\u{8}\u{C}".contains(character)
}

fn has_control(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(is_unwritten),
        Value::Array(values) => values.iter().any(has_control),
        Value::Object(values) => values.values().any(has_control),
        _ => false,
    }
}

/// A pattern has a control character, or an escape that may stand for one. A class that is all but something has more members.
fn names_control(pattern: &str) -> bool {
    let (mut escaped, mut all_but) = (false, false);
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        if !all_but && (is_unwritten(character) || (escaped && "0xuUavc".contains(character))) {
            return true;
        }
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' if characters.peek() == Some(&'^') => all_but = true,
            ']' => all_but = false,
            _ => {}
        }
    }
    false
}

fn check_exact(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) if number.as_f64().is_none_or(|number| number.abs() > MOST_EXACT) => Err(number.to_string()),
        Value::Array(values) => values.iter().try_for_each(check_exact),
        Value::Object(values) => values.values().try_for_each(check_exact),
        _ => Ok(()),
    }
}

/// The subschemas that stand directly in a schema, with the rest of their paths. References are not among them, nor are definitions: they
/// matter only when something refers to them.
fn inner(schema: &Map<String, Value>) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("properties" | "patternProperties", Value::Object(named)) => {
                found.extend(named.iter().map(|(name, schema)| (format!("{keyword}/{name}"), schema)));
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(listed)) => {
                found.extend(listed.iter().enumerate().map(|(at, schema)| (format!("{keyword}/{at}"), schema)));
            }
            ("items" | "additionalItems" | "additionalProperties", schema) => found.push((keyword.clone(), schema)),
            _ => {}
        }
    }
    found
}
