//! Reads GBNF.
//!
//! As in llama.cpp a rule may go on after its line where a group is open or an alternative follows. Beyond it, an alternative may also begin
//! the next line. What is read is bounded on the way: the text is a stranger's.

use std::fmt::Write as _;

use super::{Part, Rules, named};

/// Rules and parts a grammar may have; groups inside each other; repetitions.
const MOST_RULES: usize = 2000;
const MOST_PARTS: usize = 4000;
const MOST_DEPTH: usize = 100;
const MOST_TIMES: u32 = 100_000;

/// The rules of a grammar, all of which are defined.
///
/// # Errors
/// What is wrong, and in which line.
pub(super) fn rules(text: &str) -> Result<Rules, String> {
    Reader { text, at: 0, parts: 0 }.rules()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    parts: usize,
}

impl Reader<'_> {
    fn rules(mut self) -> Result<Rules, String> {
        let mut rules = Rules::new();
        loop {
            self.space(true);
            if self.rest().is_empty() {
                break;
            }
            let name = self.name().ok_or_else(|| self.wrong("a rule's name was expected"))?;
            self.space(false);
            self.expect("::=")?;
            self.space(true);
            let part = self.choice(0)?;
            if !self.rest().is_empty() && !self.rest().starts_with(['\n', '\r']) {
                return Err(self.wrong("the end of the rule was expected"));
            }
            if rules.len() >= MOST_RULES {
                return Err(self.wrong(&format!("the grammar has more than {MOST_RULES} rules")));
            }
            if rules.insert(name.clone(), part).is_some() {
                return Err(self.wrong(&format!("the rule {name} is there twice")));
            }
        }
        if !rules.contains_key("root") {
            return Err("the grammar has no rule \"root\"".to_owned());
        }
        match rules.values().flat_map(named).find(|name| !rules.contains_key(*name)) {
            Some(name) => Err(format!("the rule {name} is used and not defined")),
            None => Ok(rules),
        }
    }

    fn choice(&mut self, depth: usize) -> Result<Part, String> {
        if depth > MOST_DEPTH {
            return Err(self.wrong(&format!("more than {MOST_DEPTH} groups stand inside each other")));
        }
        let mut choices = vec![self.sequence(depth)?];
        while self.alternative(depth > 0) {
            self.space(true);
            choices.push(self.sequence(depth)?);
        }
        Ok(match choices.len() {
            1 => choices.remove(0),
            _ => Part::Choice(choices),
        })
    }

    /// Takes a `|`, also from the next line.
    fn alternative(&mut self, nested: bool) -> bool {
        let before = self.at;
        self.space(true);
        let found = self.rest().starts_with('|');
        self.at = match found {
            true => self.at + 1,
            false if nested => self.at,
            false => before,
        };
        found
    }

    fn sequence(&mut self, depth: usize) -> Result<Part, String> {
        let mut parts = Vec::new();
        while let Some(part) = self.item(depth)? {
            self.parts += 1;
            if self.parts > MOST_PARTS {
                return Err(self.wrong(&format!("the grammar has more than {MOST_PARTS} parts")));
            }
            let part = self.repeated(part)?;
            parts.push(part);
            self.space(depth > 0);
        }
        Ok(Part::Sequence(parts))
    }

    fn item(&mut self, depth: usize) -> Result<Option<Part>, String> {
        let Some(first) = self.rest().chars().next() else { return Ok(None) };
        Ok(Some(match first {
            '"' => self.literal()?,
            '[' => self.class()?,
            '.' => {
                self.at += 1;
                Part::Class("(?s:.)".to_owned())
            }
            '(' => {
                self.at += 1;
                self.space(true);
                let part = self.choice(depth + 1)?;
                self.space(true);
                self.expect(")")?;
                part
            }
            '<' => {
                let end = self.rest().find('>').ok_or_else(|| self.wrong("a token has no end"))?;
                let token = self.rest()[..=end].to_owned();
                self.at += end + 1;
                Part::Token(token)
            }
            '!' => return Err(self.wrong("\"every token but\" (!<…>) is not supported")),
            _ => match self.name() {
                Some(name) => Part::Rule(name),
                None => return Ok(None),
            },
        }))
    }

    fn repeated(&mut self, mut part: Part) -> Result<Part, String> {
        loop {
            let (least, most) = match self.rest().chars().next() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => {
                    let (inner, _) = self.rest()[1..].split_once('}').ok_or_else(|| self.wrong("a repetition has no end"))?;
                    let (least, most) = inner.split_once(',').map_or((inner, Some(inner)), |(least, most)| (least, Some(most)));
                    let number = |text: &str| match text.trim() {
                        "" => Ok(None),
                        text => text.parse().ok().filter(|times| *times <= MOST_TIMES).map(Some).ok_or(text.to_owned()),
                    };
                    let wrong = |text: String| self.wrong(&format!("{text:?} is not a number of times from 0 to {MOST_TIMES}"));
                    let (least, most) = (number(least).map_err(wrong)?.unwrap_or(0), number(most.unwrap_or("")).map_err(wrong)?);
                    if inner.trim().is_empty() || most.is_some_and(|most| most < least) {
                        return Err(self.wrong(&format!("{{{inner}}} is no number of times")));
                    }
                    self.at += inner.len() + 1;
                    (least, most)
                }
                _ => return Ok(part),
            };
            self.at += 1;
            part = Part::Repeat(Box::new(part), least, most);
        }
    }

    fn literal(&mut self) -> Result<Part, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.rest().chars().next() {
                None | Some('\n') => return Err(self.wrong("a text has no end")),
                Some('"') => {
                    self.at += 1;
                    return Ok(Part::Literal(text));
                }
                Some(_) => text.push(self.character()?),
            }
        }
    }

    fn class(&mut self) -> Result<Part, String> {
        self.at += 1;
        let negated = self.rest().starts_with('^');
        self.at += usize::from(negated);
        let mut class = String::from(if negated { "[^" } else { "[" });
        let empty = class.len();
        while !self.rest().starts_with(']') {
            let first = self.character()?;
            let _ = write!(class, "\\x{{{:X}}}", u32::from(first));
            if self.rest().starts_with('-') && !self.rest().starts_with("-]") {
                self.at += 1;
                let last = self.character()?;
                if last < first {
                    return Err(self.wrong(&format!("the range {first:?} to {last:?} runs backwards")));
                }
                let _ = write!(class, "-\\x{{{:X}}}", u32::from(last));
            }
        }
        if class.len() == empty {
            return Err(self.wrong("a class has no characters"));
        }
        self.at += 1;
        class.push(']');
        Ok(Part::Class(class))
    }

    /// One character of a text or class, which may be escaped.
    fn character(&mut self) -> Result<char, String> {
        let mut characters = self.rest().chars();
        let first = characters.next().ok_or_else(|| self.wrong("a text or class has no end"))?;
        if first != '\\' {
            self.at += first.len_utf8();
            return Ok(first);
        }
        let kind = characters.next().ok_or_else(|| self.wrong("an escape has no end"))?;
        let digits = match kind {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            't' | 'r' | 'n' | '\\' | '"' | '[' | ']' | '-' | '^' => 0,
            other => return Err(self.wrong(&format!("\\{other} is not an escape"))),
        };
        self.at += 2;
        if digits == 0 {
            return Ok(match kind {
                't' => '\t',
                'r' => '\r',
                'n' => '\n',
                other => other,
            });
        }
        let number = self.rest().get(..digits).and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
        let character = number.ok_or_else(|| self.wrong(&format!("\\{kind} needs {digits} hexadecimal digits of a character")))?;
        self.at += digits;
        Ok(character)
    }

    fn name(&mut self) -> Option<String> {
        let length = self.rest().find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').unwrap_or(self.rest().len());
        let name = self.rest()[..length].to_owned();
        self.at += length;
        (length > 0).then_some(name)
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if !self.rest().starts_with(text) {
            return Err(self.wrong(&format!("{text:?} was expected")));
        }
        self.at += text.len();
        Ok(())
    }

    /// Whitespace and comments, over the ends of lines only with `lines`.
    fn space(&mut self, lines: bool) {
        loop {
            let length = match self.rest().chars().next() {
                Some(' ' | '\t') => 1,
                Some('\n' | '\r') if lines => 1,
                Some('#') => self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => return,
            };
            self.at += length;
        }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn wrong(&self, what: &str) -> String {
        format!("line {} of the grammar: {what}", self.text[..self.at].matches('\n').count() + 1)
    }
}
