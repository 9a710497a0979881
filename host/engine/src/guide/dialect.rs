//! Where llguidance reads a schema in a way of its own, and how it is told the right one.
//!
//! Patterns are ECMA's: its whitespace has other members than Rust's, and its dot stops at more line ends. A class that has every control
//! character in it would let quotes and backslashes in with them once it is written as JSON, so none keeps the first of them. Dates have leap years; llguidance
//! takes a 29th of February in any year, and a leap second at any minute. So patterns are rewritten, and the formats of dates and times
//! become patterns of ours (without leap seconds, which stand before a midnight that a regular expression cannot find in every time zone, and not finer than nanoseconds).

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// ECMA's `WhiteSpace` and `LineTerminator`, as members of a class.
const SPACE: &str = r"\x{9}-\x{D}\x{20}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}";
/// What ECMA's dot does not match.
const LINE_ENDS: &str = r"\x{A}\x{D}\x{2028}\x{2029}";

const DATE: &str = concat!(
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))",
    r"|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
);
const TIME: &str = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";

/// Rewrites `schema` and everything in it that is among `subschemas`, which are addresses: not everything that looks like a schema is one.
pub(super) fn rewrite(value: &mut Value, subschemas: &HashSet<usize>) {
    // Children first: a map that is made anew moves them.
    let address = std::ptr::from_ref(value).addr();
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| rewrite(value, subschemas)),
        Value::Object(values) => {
            values.values_mut().for_each(|value| rewrite(value, subschemas));
            if subschemas.contains(&address) {
                one(values);
            }
        }
        _ => {}
    }
}

fn one(schema: &mut Map<String, Value>) {
    if let Some(Value::String(pattern)) = schema.get_mut("pattern") {
        *pattern = ecma(pattern);
    }
    if let Some(Value::Object(named)) = schema.get_mut("patternProperties") {
        *named = std::mem::take(named).into_iter().map(|(pattern, schema)| (ecma(&pattern), schema)).collect();
    }
    let format = match schema.get("format").and_then(Value::as_str) {
        Some("date") => format!("^{DATE}$"),
        Some("time") => format!("^{TIME}$"),
        Some("date-time") => format!("^{DATE}[tT]{TIME}$"),
        _ => return,
    };
    schema.shift_remove("format");
    let also = json!({ "pattern": format });
    match schema.get_mut("allOf") {
        Some(Value::Array(all)) => all.push(also),
        _ => drop(schema.insert("allOf".to_owned(), json!([also]))),
    }
}

/// An ECMA pattern, so that Rust reads it alike.
fn ecma(pattern: &str) -> String {
    let mut rewritten = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '[' => class_length(rest),
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => character.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        match piece {
            r"\s" => rewritten.extend(["[", SPACE, "]"]),
            r"\S" => rewritten.extend(["[^", SPACE, "]"]),
            "." => rewritten.extend(["[^", LINE_ENDS, "]"]),
            // Rust also takes a repetition without a least number for one.
            "{" if after.starts_with(',') => rewritten.push_str(r"\{"),
            piece if character == '[' => class(piece, &mut rewritten),
            piece => rewritten.push_str(piece),
        }
        rest = after;
    }
    rewritten
}

/// A class, in which Rust would find other classes and operations on them.
fn class(piece: &str, rewritten: &mut String) {
    let may_be_wide = piece.starts_with("[^") || piece.contains('\\') || piece.contains(|c: char| c.is_ascii_control());
    let (open, close) = if may_be_wide { ("[[", r"]&&[^\x{0}]]") } else { ("[", "]") };
    rewritten.push_str(open);
    let inner = &piece[1..];
    let (mut escaped, mut dash) = (false, false);
    for character in inner.strip_suffix(']').unwrap_or(inner).chars() {
        match character {
            's' if escaped => rewritten.push_str(SPACE),
            'S' if escaped => rewritten.extend(["[^", SPACE, "]"]),
            other if escaped => rewritten.extend(['\\', other]),
            '\\' => {}
            '[' | '&' | '~' => rewritten.extend(['\\', character]),
            '-' if dash => rewritten.push_str(r"\-"),
            other => rewritten.push(other),
        }
        dash = !escaped && character == '-';
        escaped = !escaped && character == '\\';
    }
    // What has no end is left so, for the compiler to say it.
    rewritten.push_str(if inner.ends_with(']') { close } else { "" });
}

/// Bytes of the class that `text` begins with, to its end.
fn class_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        if character == ']' && !escaped {
            return at + 1;
        }
        escaped = !escaped && character == '\\';
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_keep_what_is_the_same_in_both() {
        for pattern in [r"^[a-z.]+\.(com|net)$", r"\[\.\]", r"\\", "", r"[.]", r"\d{2,3}", "[a", "\\"] {
            assert_eq!(ecma(pattern), pattern);
        }
        assert_eq!(ecma(r"\s\S."), format!("[{SPACE}][^{SPACE}][^{LINE_ENDS}]"));
        assert_eq!(ecma(r"[\s\S]"), format!(r"[[{SPACE}[^{SPACE}]]&&[^\x{{0}}]]"));
        assert_eq!(ecma(r#"[^"\\]"#), r#"[[^"\\]&&[^\x{0}]]"#);
        assert_eq!(ecma(r"[[a&&b][+--]x{,3}"), r"[\[a\&\&b][+-\-]x\{,3}");
    }

    #[test]
    fn only_schemas_are_rewritten() {
        let mut value = json!({ "properties": { "pattern": { "pattern": "." } }, "const": { "pattern": "." } });
        let inner = std::ptr::from_ref(&value["properties"]["pattern"]).addr();
        rewrite(&mut value, &HashSet::from([inner]));
        assert_eq!(value["properties"]["pattern"]["pattern"], format!("[^{LINE_ENDS}]"));
        assert_eq!(value["const"]["pattern"], ".");
    }
}
