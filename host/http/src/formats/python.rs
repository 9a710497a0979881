//! Values as Python writes them (`{'a': [1, True, None]}`), for models whose template prints them so, and calls written as Python calls.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::{Map, Number, Value};

/// Deepest nesting.
const MAX_DEPTH: usize = 64;

/// One value; `None` where it is none.
pub(super) fn value(text: &str) -> Option<Value> {
    let mut python = Python { chars: text.chars().peekable() };
    let value = python.value(0)?;
    python.blank();
    python.chars.next().is_none().then_some(value)
}

/// A list of calls: `[f(a='x', b=3), g()]`.
pub(super) fn calls(text: &str) -> Option<Vec<(String, Map<String, Value>)>> {
    let mut python = Python { chars: text.chars().peekable() };
    let mut calls = Vec::new();
    python.expect('[')?;
    while !python.took(']') {
        let name = python.word();
        if name.is_empty() {
            return None;
        }
        python.expect('(')?;
        let mut arguments = Map::new();
        while !python.took(')') {
            let key = python.word();
            python.expect('=')?;
            if key.is_empty() || arguments.insert(key, python.value(0)?).is_some() {
                return None;
            }
            if !python.took(',') {
                python.expect(')')?;
                break;
            }
        }
        calls.push((name, arguments));
        if !python.took(',') {
            python.expect(']')?;
            break;
        }
    }
    python.blank();
    (python.chars.next().is_none() && !calls.is_empty()).then_some(calls)
}

struct Python<'a> {
    chars: Peekable<Chars<'a>>,
}

impl Python<'_> {
    fn blank(&mut self) {
        while self.chars.next_if(|c| c.is_whitespace()).is_some() {}
    }

    fn took(&mut self, wanted: char) -> bool {
        self.blank();
        self.chars.next_if_eq(&wanted).is_some()
    }

    fn expect(&mut self, wanted: char) -> Option<()> {
        self.took(wanted).then_some(())
    }

    fn word(&mut self) -> String {
        self.blank();
        std::iter::from_fn(|| self.chars.next_if(|c| c.is_alphanumeric() || "_.-".contains(*c))).collect()
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.blank();
        if depth > MAX_DEPTH {
            return None;
        }
        match *self.chars.peek()? {
            quote @ ('\'' | '"') => self.string(quote).map(Value::String),
            '[' => self.items('[', ']', depth).map(Value::Array),
            '(' => self.items('(', ')', depth).map(Value::Array),
            '{' => self.object(depth).map(Value::Object),
            _ => match self.atom().as_str() {
                "True" | "true" => Some(Value::Bool(true)),
                "False" | "false" => Some(Value::Bool(false)),
                "None" | "null" => Some(Value::Null),
                number => {
                    number.parse::<i64>().map(Number::from).ok().or_else(|| Number::from_f64(number.parse().ok()?)).map(Value::Number)
                }
            },
        }
    }

    fn atom(&mut self) -> String {
        std::iter::from_fn(|| self.chars.next_if(|c| c.is_ascii_alphanumeric() || "+-._".contains(*c))).collect()
    }

    fn items(&mut self, open: char, close: char, depth: usize) -> Option<Vec<Value>> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.took(close) {
            items.push(self.value(depth + 1)?);
            if !self.took(',') {
                self.expect(close)?;
                break;
            }
        }
        Some(items)
    }

    fn object(&mut self, depth: usize) -> Option<Map<String, Value>> {
        self.expect('{')?;
        let mut object = Map::new();
        while !self.took('}') {
            let Value::String(key) = self.value(depth + 1)? else { return None };
            self.expect(':')?;
            object.insert(key, self.value(depth + 1)?);
            if !self.took(',') {
                self.expect('}')?;
                break;
            }
        }
        Some(object)
    }

    fn string(&mut self, quote: char) -> Option<String> {
        self.chars.next();
        let mut text = String::new();
        loop {
            match self.chars.next()? {
                c if c == quote => return Some(text),
                '\\' => match self.chars.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'u' => {
                        let digits: String = (0..4).map_while(|_| self.chars.next_if(char::is_ascii_hexdigit)).collect();
                        text.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                    }
                    c @ ('\\' | '\'' | '"') => text.push(c),
                    // As Python does: an escape it does not know stays as it is.
                    c => text.extend(['\\', c]),
                },
                c => text.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_as_python_means_them() {
        for (text, wanted) in [
            ("{'a': [1, True, None]}", Some(json!({"a": [1, true, null]}))),
            ("'it\\'s \\\\ \\n'", Some(json!("it's \\ \n"))),
            ("(1, -2.5)", Some(json!([1, -2.5]))),
            ("{}", Some(json!({}))),
            ("Oslo", None),
            ("{'a': }", None),
            ("[1, 2", None),
            ("1 2", None),
        ] {
            assert_eq!(value(text), wanted, "{text}");
        }
        assert_eq!(value(&"[".repeat(100_000)), None);
    }

    #[test]
    fn calls_are_read_with_their_arguments() {
        let read = calls("[get_weather(city='Oslo', days=3), now()]").expect("calls");
        assert_eq!(read[0].1, json!({"city": "Oslo", "days": 3}).as_object().expect("an object").clone());
        assert_eq!((read[1].0.as_str(), read[1].1.len()), ("now", 0));
        for bad in ["[]", "f()", "[f(a)]", "[f(a=1, a=2)]", "[f()] x", "[f(", "[(a=1)]"] {
            assert_eq!(calls(bad), None, "{bad}");
        }
    }
}
