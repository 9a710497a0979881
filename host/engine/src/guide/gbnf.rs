//! llama.cpp's notation for grammars (GBNF), translated into llguidance's Lark.
//!
//! GBNF describes texts character by character. Lark has a lexer that takes the longest piece of text it can, so a translation rule by rule
//! would lose texts: in `[a-z]* "b"` the first part would eat every `b`. Here a part becomes a lexeme only where the two cannot differ:
//! the whole grammar if it does not contain itself, because then it is one regular expression; otherwise single characters, and those
//! rules without recursion of which no text begins another of its texts and whose first bytes begin no other lexeme. The last is what JSON
//! strings are, and they are what most of a JSON text is made of.

mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use llguidance::derivre::{RegexAst, RegexBuilder};

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
    let rules = read::rules(text)?;
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

#[cfg(test)]
mod tests;
