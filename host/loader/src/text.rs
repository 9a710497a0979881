//! Texts of strangers, on their way to a terminal or a log.

use std::fmt::Write;

/// The text on one line, with nothing in it that a terminal would obey: line ends become `; `, other control characters their escapes.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.trim_end().lines().enumerate() {
        if index > 0 {
            out.push_str("; ");
        }
        for character in line.chars() {
            if character.is_control() {
                // Writing into a String cannot fail.
                write!(out, "{}", character.escape_default()).ok();
            } else {
                out.push(character);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_text_becomes_one_line_that_a_terminal_only_shows() {
        assert_eq!(one_line("expected a value\nfound \u{1b}[2J\r\n"), "expected a value; found \\u{1b}[2J");
        assert_eq!(one_line("漢字 é"), "漢字 é");
        assert_eq!(one_line(""), "");
    }
}
