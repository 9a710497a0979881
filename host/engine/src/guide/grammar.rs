//! Constraints become matchers, within bounds.
//!
//! A constraint is a stranger's program. Its text is bounded before it is parsed; what it is compiled to, and what one token may cost, is
//! bounded by [`limits`]; it is compiled on a thread with room for deep recursion; and a panic in the compiler is this request's error.
//! Nothing is ever approximated: a grammar that the compiler has a warning about is refused, because its warnings say which part of the
//! grammar it is going to ignore.

use std::panic::{AssertUnwindSafe, catch_unwind};

use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::derivre::ExprRef;
use llguidance::earley::lexerspec::LexerSpec;
use serde_json::Value;

use super::lexicon::{Lexicon, Mask};
use super::numerals::Numerals;
use super::{dialect, finite, gbnf, schema};
use crate::request::{Constraint, EngineError, TokenId};

/// For the threads that compile and follow constraints: both recurse as deep as the bounds below allow. It is only used if it is needed.
pub(crate) const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of text a constraint may have.
const MOST_BYTES: usize = 512 * 1024;
/// Bytes a Lark grammar may have besides the schemas in it. What may be missing costs its square, in every row of the parser.
const MOST_LARK_BYTES: usize = 64 * 1024;
/// Definitions a grammar may have: what compiles them recurses from one into the next.
const MOST_DEFINITIONS: usize = 2000;
/// Brackets that may stand inside each other: what reads them recurses.
const MOST_NESTING: usize = 200;

/// Characters of the compiler's words that are passed on: some of them repeat the grammar.
const MOST_WORDS: usize = 1000;
/// What rows of parts that may all be missing may cost: the first step through one of n parts makes n ways of different lengths, and no
/// limit of llguidance counts them.
const MOST_SKIPS: usize = 8_000_000;

/// What a grammar may cost: some tens of milliseconds to compile and per token, some tens of megabytes.
pub(super) fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2000,
        initial_lexer_fuel: 1_000_000,
        step_lexer_fuel: 200_000,
        step_max_items: 100_000,
        max_lexer_states: 50_000,
        max_grammar_size: 50_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

/// Where an answer is in its grammar.
pub(crate) struct Matcher {
    grammar: llguidance::Matcher,
    /// Where the constraint is a schema. A grammar's author bounds numbers by himself.
    numerals: Option<Numerals>,
}

/// Compiles a constraint for a vocabulary.
///
/// # Errors
/// [`EngineError::InvalidRequest`] in the compiler's words.
pub(crate) fn compile(constraint: &Constraint, lexicon: &Lexicon) -> Result<Matcher, EngineError> {
    let compiled = catch_unwind(AssertUnwindSafe(|| translated(constraint, lexicon).and_then(|grammar| matcher(lexicon, grammar))));
    let numerals = matches!(constraint, Constraint::JsonSchema(_) | Constraint::Marked { .. }).then(|| Numerals::new(lexicon));
    let compiled = compiled.map(|compiled| compiled.map(|grammar| Matcher { grammar, numerals }));
    compiled.unwrap_or_else(|_| Err("its compiler panicked".to_owned())).map_err(|message| EngineError::InvalidRequest {
        message: format!("the constraint cannot be followed: {}", words(&message)),
        param: Some("constraint".to_owned()),
    })
}

fn translated(constraint: &Constraint, lexicon: &Lexicon) -> Result<TopLevelGrammar, String> {
    let (Constraint::JsonSchema(text)
    | Constraint::Regex(text)
    | Constraint::Lark(text)
    | Constraint::Marked { lark: text, .. }
    | Constraint::Gbnf(text)) = constraint;
    check_size(text)?;
    match constraint {
        Constraint::JsonSchema(text) => Ok(TopLevelGrammar::from_json_schema(json_schema(parsed(text)?)?)),
        Constraint::Regex(text) => {
            check_pattern(text)?;
            Ok(TopLevelGrammar::from_regex(text))
        }
        Constraint::Lark(text) => {
            if definitions(text) > MOST_DEFINITIONS {
                return Err(format!("it has more than {MOST_DEFINITIONS} definitions"));
            }
            if sets_temperature(text) {
                return Err("a rule cannot set temperature=; it is a setting of the request".to_owned());
            }
            Ok(TopLevelGrammar::from_lark(with_schemas(text)?))
        }
        Constraint::Marked { lark, marks, schemas } => Ok(TopLevelGrammar::from_lark(marked(lark, marks, schemas, lexicon)?)),
        Constraint::Gbnf(text) => Ok(TopLevelGrammar::from_lark(gbnf::to_lark(text)?)),
    }
}

fn check_size(text: &str) -> Result<(), String> {
    if text.len() > MOST_BYTES {
        return Err(format!("it has {} bytes; at most {MOST_BYTES} are read", text.len()));
    }
    if nesting(text) > MOST_NESTING {
        return Err(format!("its brackets stand more than {MOST_NESTING} deep inside each other"));
    }
    Ok(())
}

/// The grammar with the rules of its marks and schemas. A control token ends the text before it by itself, as no text has it; a mark that is text ends
/// it where it first stands.
fn marked(lark: &str, marks: &[String], schemas: &[String], lexicon: &Lexicon) -> Result<String, String> {
    let mut grammar = format!("{lark}\n");
    for (number, mark) in marks.iter().enumerate() {
        let text = Value::from(mark.as_str());
        let until = regex_syntax::escape(mark).replace('/', "\\/").replace('\n', "\\n");
        let rules = match lexicon.control(mark) {
            Some(token) => format!("mark_{number}: <[{token}]>\nuntil_{number}: /(?s:.*)/ <[{token}]>\n"),
            None => format!("mark_{number}: {text}\nuntil_{number}[lazy]: /(?s:.*){until}/\n"),
        };
        grammar.push_str(&rules);
    }
    for (number, schema) in schemas.iter().enumerate() {
        check_size(schema)?;
        grammar.push_str(&format!("schema_{number}: %json {}\n", json_schema(parsed(schema)?)?));
    }
    Ok(grammar)
}

fn parsed(schema: &str) -> Result<Value, String> {
    serde_json::from_str(schema).map_err(|error| format!("the schema is not JSON: {error}"))
}

/// A schema as llguidance is to read it.
fn json_schema(mut schema: Value) -> Result<Value, String> {
    let subschemas = schema::check(&schema)?;
    finite::check(&schema, &subschemas)?;
    let spelling = schema::spelling(&subschemas)?;
    let addresses = subschemas.iter().map(|(_, schema)| std::ptr::from_ref(*schema).addr()).collect();
    dialect::rewrite(&mut schema, &addresses);
    Ok(schema::prepared(schema, spelling))
}

/// A Lark grammar whose own schemas (`%json {…}`) are treated like any schema.
fn with_schemas(text: &str) -> Result<String, String> {
    const MARK: &str = "%json";
    let mut grammar = String::with_capacity(text.len());
    let (mut rest, mut own) = (text, 0);
    while let Some(at) = rest.find(MARK) {
        let (before, after) = rest.split_at(at + MARK.len());
        grammar.push_str(before);
        own += before.len();
        rest = after;
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        // What is no JSON is left as it is: the compiler says so, unless it stands in a comment.
        if let Some(Ok(schema)) = values.next() {
            rest = &after[values.byte_offset()..];
            grammar.push(' ');
            grammar.push_str(&json_schema(schema)?.to_string());
        }
    }
    grammar.push_str(rest);
    own += rest.len();
    match own <= MOST_LARK_BYTES {
        true => Ok(grammar),
        false => Err(format!("the grammar has {own} bytes besides its schemas; at most {MOST_LARK_BYTES} are read")),
    }
}

fn matcher(lexicon: &Lexicon, grammar: TopLevelGrammar) -> Result<llguidance::Matcher, String> {
    let factory = lexicon.factory();
    let said = |error| format!("{error:#}");
    let (grammar, lexemes) =
        GrammarInit::Serialized(grammar).to_internal(Some(factory.tok_env().clone()), factory.limits().clone()).map_err(said)?;
    if let Some(warning) = lexemes.render_warnings().first() {
        return Err(warning.clone());
    }
    if skips(&lexemes) > MOST_SKIPS {
        return Err("it has too many parts in a row that may all be missing".to_owned());
    }
    let parser = factory.create_parser_from_init_default(GrammarInit::Internal(grammar, lexemes)).map_err(said)?;
    let mut matcher = llguidance::Matcher::new(Ok(parser));
    // What cannot begin is found out here and not by its first token.
    matcher.compute_mask_or_eos().map_err(said)?;
    Ok(matcher)
}

/// A pattern that ends inside an escape would lose it on its way into the grammar.
pub(super) fn check_pattern(pattern: &str) -> Result<(), String> {
    let backslashes = pattern.len() - pattern.trim_end_matches('\\').len();
    match backslashes % 2 {
        0 => Ok(()),
        _ => Err(format!("the pattern {pattern:?} ends with a backslash that escapes nothing")),
    }
}

/// The deepest that brackets stand inside each other, wherever they are: in strings too, so this is an upper bound.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Colons that do not stand behind a string, as they do in JSON: an upper bound of what a Lark grammar defines.
fn definitions(text: &str) -> usize {
    text.match_indices(':').filter(|(at, _)| !text[..*at].trim_end().ends_with('"')).count()
}

/// A rule has the attribute `temperature=`, which nothing here would follow.
fn sets_temperature(text: &str) -> bool {
    text.match_indices("temperature")
        .any(|(at, name)| text[..at].trim_end().ends_with(['[', ',']) && text[at + name.len()..].trim_start().starts_with('='))
}

/// How long the rows of parts that may be missing are, for every part that such a row may begin with. A row is a chain of pairs, and a
/// pair is made after its parts; other pairs are counted with them, and are short.
fn skips(lexemes: &LexerSpec) -> usize {
    let expressions = lexemes.regex_builder.exprset();
    let mut rows = vec![0usize; expressions.len()];
    for id in (1..expressions.len()).map(|id| ExprRef::new(id as u32)).filter(|id| expressions.is_valid(*id)) {
        if let [first, rest] = *expressions.get(id).args()
            && expressions.is_nullable(first)
        {
            rows[id.as_usize()] = 1 + rows.get(rest.as_usize()).copied().unwrap_or(0);
        }
    }
    rows.iter().sum()
}

/// What llguidance says, without its stack traces and states.
fn words(message: &str) -> String {
    let end = ["\n<backtrace>", "\n<non-verbose/>", "\n<state>"].iter().filter_map(|mark| message.find(mark)).min();
    let message: String = message[..end.unwrap_or(message.len())].chars().take(MOST_WORDS).collect();
    match message.trim() {
        "NoExtensionBias" => "no token of this model continues it".to_owned(),
        // One line, whatever of the grammar is in it.
        words => words.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "),
    }
}

impl Matcher {
    /// An independent one at the same place.
    pub(super) fn fork(&self) -> Self {
        Self { grammar: self.grammar.deep_clone(), numerals: self.numerals.clone() }
    }

    /// The tokens that may come next. Those that end an answer are among them exactly when it may end here.
    pub(super) fn mask(&mut self) -> Result<Mask, EngineError> {
        let mut mask = self.grammar.compute_mask_or_eos().map_err(|error| failed(&error.to_string()))?;
        if let Some(numerals) = &self.numerals {
            numerals.bound(&mut mask);
        }
        Ok(mask)
    }

    /// Nothing may come any more.
    pub(super) fn is_complete(&self) -> bool {
        self.grammar.is_stopped() && !self.grammar.is_error()
    }

    /// Goes on by a token that the mask allowed.
    pub(super) fn take(&mut self, token: TokenId) -> Result<(), EngineError> {
        if let Some(numerals) = &mut self.numerals {
            numerals.take(token);
        }
        self.grammar.consume_token(token).map_err(|error| failed(&error.to_string()))
    }

    /// Goes on by a token if the grammar allows it.
    pub(super) fn follow(mut self, token: TokenId) -> Result<Option<Self>, EngineError> {
        let taken = self.grammar.try_consume_tokens(&[token]).map_err(|error| failed(&error.to_string()))?;
        if let Some(numerals) = &mut self.numerals {
            numerals.take(token);
        }
        Ok((taken == 1).then_some(self))
    }
}

fn failed(error: &str) -> EngineError {
    EngineError::Constraint(words(error))
}
