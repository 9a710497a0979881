//! llama.cpp's notation for grammars (GBNF), translated into llguidance's Lark.
//!
//! GBNF describes texts character by character. Lark has a lexer that takes the longest piece of text it can, so a translation rule by rule
//! would lose texts: in `[a-z]* "b"` the first part would eat every `b`. Here a part becomes a lexeme only where the two cannot differ:
//! the whole grammar if it does not contain itself, because then it is one regular expression; otherwise single characters, and those
//! rules without recursion of which no text begins another of its texts and whose first bytes begin no other lexeme. The last is what JSON
//! strings are, and they are what most of a JSON text is made of.
//!
//! Like llama.cpp, a rule may go on after its line where a group is open or an alternative follows. Beyond it, an alternative may also
//! begin the next line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use llguidance::derivre::{RegexAst, RegexBuilder};

/// Rules and parts a grammar may have; groups inside each other; repetitions.
const MOST_RULES: usize = 2000;
const MOST_PARTS: usize = 4000;
const MOST_DEPTH: usize = 100;
const MOST_TIMES: u32 = 100_000;
/// Rules looked at as lexemes, and what each look may cost.
const MOST_LEXEMES: usize = 32;
const LOOK_FUEL: u64 = 20_000;
/// Bytes of regular expression a rule may be spelled out as, rules it names included, and groups inside each other there.
const MOST_SPELLED_BYTES: usize = 64 * 1024;
const MOST_SPELLED_DEPTH: usize = 100;

/// A part of a rule.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// These characters, one after the other.
    Literal(String),
    /// One character, as a class of a regular expression.
    Class(String),
    /// A token, as Lark names it.
    Token(String),
    Rule(String),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Repeat(Box<Part>, u32, Option<u32>),
}

type Rules = BTreeMap<String, Part>;

/// Translates.
///
/// # Errors
/// What is wrong, and in which line.
pub(super) fn to_lark(text: &str) -> Result<String, String> {
    let rules = Reader { text, at: 0, parts: 0 }.rules()?;
    let endless = recursive(&rules);
    let lexemes = match !endless.contains("root") && spelled(&rules, "root").is_some() {
        true => BTreeSet::from(["root".to_owned()]),
        false => lexemes(&rules, &endless),
    };
    Writer { rules: &rules, lexemes: &lexemes, lark: String::new() }.write()
}

/// The rules that contain themselves, and those that lead to one.
fn recursive(rules: &Rules) -> BTreeSet<String> {
    // Rules that name only rules which are known to end, end.
    let mut ends: BTreeSet<&str> = BTreeSet::new();
    loop {
        let more: Vec<&str> = rules
            .iter()
            .filter(|(name, part)| !ends.contains(name.as_str()) && named(part).iter().all(|name| ends.contains(name)))
            .map(|(name, _)| name.as_str())
            .collect();
        if more.is_empty() {
            break;
        }
        ends.extend(more);
    }
    rules.keys().filter(|name| !ends.contains(name.as_str())).cloned().collect()
}

fn named(part: &Part) -> Vec<&str> {
    match part {
        Part::Rule(name) => vec![name],
        Part::Sequence(parts) | Part::Choice(parts) => parts.iter().flat_map(named).collect(),
        Part::Repeat(part, ..) => named(part),
        Part::Literal(_) | Part::Class(_) | Part::Token(_) => Vec::new(),
    }
}

fn has_token<'a>(rules: &'a Rules, name: &'a str, seen: &mut BTreeSet<&'a str>) -> bool {
    fn within(part: &Part) -> bool {
        match part {
            Part::Token(_) => true,
            Part::Sequence(parts) | Part::Choice(parts) => parts.iter().any(within),
            Part::Repeat(part, ..) => within(part),
            Part::Literal(_) | Part::Class(_) | Part::Rule(_) => false,
        }
    }
    let Some(part) = rules.get(name).filter(|_| seen.insert(name)) else { return false };
    within(part) || named(part).into_iter().any(|name| has_token(rules, name, seen))
}

/// The rules that can be lexemes beside single characters.
fn lexemes(rules: &Rules, endless: &BTreeSet<String>) -> BTreeSet<String> {
    let candidates = rules.keys().filter(|name| !endless.contains(*name) && !has_token(rules, name, &mut BTreeSet::new()));
    let mut chosen: BTreeSet<String> = candidates.take(MOST_LEXEMES).cloned().collect();
    chosen.retain(|name| spelled(rules, name).is_some_and(|spelled| is_prefix_free(&spelled)));
    // Each that falls is spelled out in characters, which may stand in another's way.
    loop {
        let used = used(rules, &chosen);
        chosen.retain(|name| used.rules.contains(name));
        let fallen = chosen.iter().find(|name| !begins_alone(rules, name, &chosen, &used.characters)).cloned();
        match fallen {
            Some(name) => chosen.remove(&name),
            None => return chosen,
        };
    }
}

/// What a grammar is made of once `lexemes` are not looked into.
#[derive(Default)]
struct Used {
    rules: BTreeSet<String>,
    /// Classes of regular expressions.
    characters: BTreeSet<String>,
}

fn used(rules: &Rules, lexemes: &BTreeSet<String>) -> Used {
    let mut used = Used::default();
    let mut open = vec!["root".to_owned()];
    while let Some(name) = open.pop() {
        if used.rules.insert(name.clone())
            && !lexemes.contains(&name)
            && let Some(part) = rules.get(&name)
        {
            characters(part, &mut used.characters);
            open.extend(named(part).into_iter().map(str::to_owned));
        }
    }
    used
}

fn characters(part: &Part, into: &mut BTreeSet<String>) {
    match part {
        Part::Literal(text) => into.extend(text.chars().map(class_of)),
        Part::Class(class) => drop(into.insert(class.clone())),
        Part::Sequence(parts) | Part::Choice(parts) => parts.iter().for_each(|part| characters(part, into)),
        Part::Repeat(part, ..) => characters(part, into),
        Part::Rule(_) | Part::Token(_) => {}
    }
}

fn is_prefix_free(pattern: &str) -> bool {
    let pattern = || RegexAst::Regex(pattern.to_owned());
    let longer = RegexAst::Concat(vec![pattern(), RegexAst::Regex("(?s:.+)".to_owned())]);
    // The empty text begins every other.
    is_empty(vec![pattern(), longer]) && is_empty(vec![pattern(), RegexAst::EmptyString])
}

fn begins_alone(rules: &Rules, name: &str, lexemes: &BTreeSet<String>, characters: &BTreeSet<String>) -> bool {
    let Some(own) = spelled(rules, name) else { return false };
    let others = lexemes.iter().filter(|other| *other != name).filter_map(|other| spelled(rules, other));
    let others = RegexAst::Or(others.chain(characters.iter().cloned()).map(RegexAst::Regex).collect());
    // With any bytes behind them: characters that share their first byte begin alike.
    let bytes = || RegexAst::Repeat(Box::new(RegexAst::ByteSet(vec![u32::MAX; 8])), 0, u32::MAX);
    let first = |ast: RegexAst| RegexAst::Concat(vec![ast, bytes()]);
    is_empty(vec![first(RegexAst::Regex(own)), first(others)])
}

/// No text matches all of `patterns`, as far as a little work can tell.
fn is_empty(patterns: Vec<RegexAst>) -> bool {
    let mut builder = RegexBuilder::new();
    let built = builder.mk(&RegexAst::And(patterns)).and_then(|all| builder.to_regex_limited(all, LOOK_FUEL));
    built.is_ok_and(|mut regex| regex.always_empty())
}

/// A rule without recursion as a regular expression; `None` if that is too long or too deep, or if the rule has a token in it.
fn spelled(rules: &Rules, name: &str) -> Option<String> {
    spelled_part(rules, rules.get(name)?, 0)
}

fn spelled_part(rules: &Rules, part: &Part, depth: usize) -> Option<String> {
    if depth > MOST_SPELLED_DEPTH {
        return None;
    }
    let inner = |part: &Part| spelled_part(rules, part, depth + 1);
    let all = |parts: &[Part], between: &str| -> Option<String> {
        let parts: Vec<String> = parts.iter().map(inner).collect::<Option<_>>()?;
        Some(format!("(?:{})", parts.join(between)))
    };
    let spelled = match part {
        Part::Literal(text) => text.chars().map(class_of).collect(),
        Part::Class(class) => class.clone(),
        Part::Token(_) => return None,
        Part::Rule(name) => inner(rules.get(name)?)?,
        Part::Sequence(parts) => all(parts, "")?,
        Part::Choice(parts) => all(parts, "|")?,
        Part::Repeat(part, least, most) => {
            let most = most.map_or_else(String::new, |most| most.to_string());
            format!("(?:{}){{{least},{most}}}", inner(part)?)
        }
    };
    (spelled.len() <= MOST_SPELLED_BYTES).then_some(spelled)
}

/// A class of one character. By number, so that nothing in it means anything.
fn class_of(character: char) -> String {
    format!("[\\x{{{:X}}}]", u32::from(character))
}

/// Writes Lark: rules in lower case with numbers, because GBNF's names may be anything.
struct Writer<'a> {
    rules: &'a Rules,
    lexemes: &'a BTreeSet<String>,
    lark: String,
}

impl Writer<'_> {
    fn write(mut self) -> Result<String, String> {
        let used = used(self.rules, self.lexemes);
        let numbers: BTreeMap<&str, usize> = used.rules.iter().enumerate().map(|(number, name)| (name.as_str(), number)).collect();
        let root = numbers.get("root").copied().unwrap_or_default();
        let _ = writeln!(self.lark, "start: r{root}");
        for (name, number) in &numbers {
            let Some(part) = self.rules.get(*name) else { continue };
            let _ = write!(self.lark, "r{number}: ");
            if self.lexemes.contains(*name) {
                let spelled = spelled(self.rules, name).ok_or("the grammar is too long")?;
                let _ = write!(self.lark, "/{spelled}/");
            } else {
                self.part(part, &numbers);
            }
            self.lark.push('\n');
        }
        Ok(self.lark)
    }

    fn part(&mut self, part: &Part, numbers: &BTreeMap<&str, usize>) {
        match part {
            Part::Literal(text) if text.is_empty() => self.lark.push_str("\"\" "),
            Part::Literal(text) => text.chars().for_each(|character| self.class(&class_of(character))),
            Part::Class(class) => self.class(class),
            Part::Token(token) => drop(write!(self.lark, "{token} ")),
            Part::Rule(name) => drop(write!(self.lark, "r{} ", numbers.get(name.as_str()).copied().unwrap_or_default())),
            Part::Sequence(parts) if parts.is_empty() => self.lark.push_str("\"\" "),
            Part::Sequence(parts) => self.group(parts, "", numbers),
            Part::Choice(parts) => self.group(parts, "| ", numbers),
            Part::Repeat(part, least, most) => {
                self.group(std::slice::from_ref(part), "", numbers);
                let most = most.map_or_else(String::new, |most| most.to_string());
                let _ = write!(self.lark, "{{{least},{most}}} ");
            }
        }
    }

    fn group(&mut self, parts: &[Part], between: &str, numbers: &BTreeMap<&str, usize>) {
        self.lark.push('(');
        for (at, part) in parts.iter().enumerate() {
            self.lark.push_str(if at == 0 { "" } else { between });
            self.part(part, numbers);
        }
        self.lark.push(')');
    }

    fn class(&mut self, class: &str) {
        let _ = write!(self.lark, "/{class}/ ");
    }
}

/// Reads GBNF.
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

#[cfg(test)]
mod tests;
