//! JSON that arrives in pieces: where a value ends, and the calls of a list of objects.

use serde_json::Value;

/// Finds the end of one JSON value, however it is cut into pieces. It looks at brackets and quotes only; whether the value is JSON is asked
/// of a parser once it is complete.
#[derive(Debug, Default, Clone)]
pub(super) struct ValueScan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl ValueScan {
    /// Looks at more text; the number of bytes up to the end of the value, once it is there. `last`: nothing will follow, so a number ends.
    pub(super) fn feed(&mut self, text: &str, last: bool) -> Option<usize> {
        for (at, byte) in text.bytes().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.in_string = false;
                        if self.depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => (self.in_string, self.begun) = (true, true),
                b'{' | b'[' => {
                    self.begun = true;
                    self.depth += 1;
                }
                b'}' | b']' => {
                    if self.depth == 0 {
                        // A number or word before the end of what surrounds it.
                        return Some(at);
                    }
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                b',' | b' ' | b'\n' | b'\r' | b'\t' if self.depth == 0 && self.begun => return Some(at),
                b' ' | b'\n' | b'\r' | b'\t' => {}
                _ => self.begun = true,
            }
        }
        (last && self.begun && self.depth == 0 && !self.in_string).then_some(text.len())
    }
}

/// Whether `text` is one JSON object, within the bounds of a request's body.
pub(super) fn is_object(text: &str) -> bool {
    matches!(crate::body::parse_bounded(text), Ok(Value::Object(_)))
}

/// Number of bytes of white space at the beginning.
pub(super) fn blank(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// Whether `text` begins with `literal`, or may once more of it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    Yes,
    /// So far it agrees.
    Maybe,
    No,
}

/// Compares the beginning of `text`.
pub(super) fn begins(text: &str, literal: &str) -> Begins {
    if text.starts_with(literal) {
        Begins::Yes
    } else if literal.starts_with(text) {
        Begins::Maybe
    } else {
        Begins::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_value_is_found_however_it_is_cut() {
        for (text, end) in [
            ("{\"a\": \"}\\\"]\"} rest", 13),
            ("[1, [2]], 3", 8),
            ("\"a\\\\\" x", 5),
            ("12, 3", 2),
            ("true}", 4),
            ("  {\"b\":1}", 9),
            ("null\n", 4),
        ] {
            for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let mut scan = ValueScan::default();
                let found = scan.feed(&text[..cut], false).or_else(|| scan.feed(&text[cut..], true).map(|more| cut + more));
                assert_eq!(found, Some(end), "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn an_open_value_has_no_end_and_a_last_number_has() {
        assert_eq!(ValueScan::default().feed("{\"a\": [1", true), None);
        assert_eq!(ValueScan::default().feed("42", true), Some(2));
        assert_eq!(ValueScan::default().feed("42", false), None);
    }
}
