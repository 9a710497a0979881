//! The laws of constraints and reasoning, on whole answers: the toy would rather say something else.

mod hostile;
mod reasoning;

use std::time::{Duration, Instant};

use super::{Lexicon, compile};
use crate::request::*;
use crate::testing::{EOS, MARK, Said, Stream, Toy, alone, ask};

fn toy() -> Toy {
    Toy { ends: false, ..Toy::new(4, 400) }
}

fn under(constraint: Constraint, seed: u64) -> GenerateRequest {
    let sampling = Sampling { temperature: 1.0, seed: Some(seed), ..Sampling::default() };
    GenerateRequest { constraint: Some(constraint), sampling, max_tokens: Some(300), ..ask("say", 0) }
}

fn schema(text: &str) -> Constraint {
    Constraint::JsonSchema(text.to_owned())
}

fn regex(text: &str) -> Constraint {
    Constraint::Regex(text.to_owned())
}

fn lark(text: &str) -> Constraint {
    Constraint::Lark(text.to_owned())
}

/// Refused before a token was computed; the words.
fn refused(constraint: Constraint) -> String {
    let begin = Instant::now();
    let said = alone(&toy(), under(constraint, 1));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    match said.end {
        Event::Failed(EngineError::InvalidRequest { message, param }) if param.as_deref() == Some("constraint") => {
            assert_eq!(said.prompt_tokens, None, "it got a slot");
            message
        }
        other => panic!("{other:?}"),
    }
}

/// Which of `texts` a constraint accepts, byte by byte.
pub(super) fn accepts(constraint: &Constraint, texts: &[&str]) -> Vec<bool> {
    let lexicon = Lexicon::read(&toy()).expect("the toy's vocabulary");
    let start = compile(constraint, &lexicon).unwrap_or_else(|error| panic!("{error} for {constraint:?}"));
    let accepts = |text: &&str| {
        let mut matcher = start.fork();
        for byte in text.bytes().map(u32::from) {
            if matcher.is_complete() || !matcher.mask().expect("a mask").is_allowed(byte) {
                return false;
            }
            matcher.take(byte).expect("a token it allows");
        }
        matcher.is_complete() || matcher.mask().expect("a mask").is_allowed(EOS)
    };
    texts.iter().map(accepts).collect()
}

fn ended(said: &Said) -> bool {
    said.finished().reason == FinishReason::EndOfGeneration
}

#[test]
fn an_answer_is_what_its_constraint_says_and_ends_when_it_is_complete() {
    let object = schema(
        r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x","y"]}},"required":["a","b"],"additionalProperties":false}"#,
    );
    for seed in 0..20 {
        let mut request = under(object.clone(), seed);
        request.sampling.logit_bias = [32, 9, 10, 13].map(|space| (space, -9.0)).to_vec();
        let said = alone(&toy(), request);
        let value: serde_json::Value = serde_json::from_str(&said.text).unwrap_or_else(|error| panic!("{error} in {:?}", said.text));
        assert!(value["a"].is_i64() || value["a"].is_u64() || value["a"].is_f64(), "{}", said.text);
        assert!(["x", "y"].contains(&value["b"].as_str().expect("a string")), "{}", said.text);
        assert!(ended(&said));
        let said = alone(&toy(), under(regex("[a-c]{5}-(yes|no)"), seed));
        assert!(said.text.len() >= 8 && (said.text.ends_with("-yes") || said.text.ends_with("-no")) && ended(&said), "{:?}", said.text);
    }
    let said = alone(&toy(), under(lark("start: \"one\" | \"two\" \" \" \"three\""), 1));
    assert!((said.text == "one" || said.text == "two three") && ended(&said), "{:?}", said.text);
}

#[test]
fn an_answer_ends_only_where_it_is_complete_and_length_cuts_it_anywhere() {
    // The toy's end token is the best by far now and then; under a constraint only where the text may end.
    let toy = Toy::new(1, 400);
    for seed in 0..10 {
        let said = alone(&toy, under(regex("[a-h ]{40,60}"), seed));
        assert!((40..=60).contains(&said.text.len()) && ended(&said), "{:?}", said.text);
    }
    let cut = alone(&toy, GenerateRequest { max_tokens: Some(5), ..under(regex("[a-h]{40}"), 1) });
    assert_eq!((cut.text.len(), &cut.finished().reason, cut.finished().usage.completion_tokens), (5, &FinishReason::Length, 5));
    let exact = alone(&toy, GenerateRequest { max_tokens: Some(5), ..under(regex("[a-h]{5}"), 1) });
    assert_eq!((exact.text.len(), ended(&exact), exact.finished().usage.completion_tokens), (5, true, 5));
}

#[test]
fn a_vocabulary_without_an_end_can_still_end_an_answer_that_is_complete() {
    let said = alone(&Toy { bos: false, ..toy() }, under(regex("ab+c"), 3));
    assert!(said.text.starts_with("ab") && said.text.ends_with('c') && ended(&said), "{:?}", said.text);
}

#[test]
fn only_allowed_tokens_have_log_probabilities_and_no_number_is_infinite() {
    let said = alone(&toy(), GenerateRequest { logprobs: Some(20), ..under(regex("[xy]{4}"), 5) });
    for token in &said.tokens {
        let logprob = token.logprob.as_ref().expect("asked for");
        assert_eq!(logprob.top.len(), 2);
        let sum: f32 = logprob.top.iter().map(|(_, _, logprob)| logprob.exp()).sum();
        assert!((sum - 1.0).abs() < 1e-3 && logprob.logprob.is_finite());
        assert!(logprob.top.iter().all(|(id, ..)| [u32::from(b'x'), u32::from(b'y')].contains(id)));
    }
}

#[test]
fn a_bias_cannot_bring_in_what_the_constraint_forbids() {
    let mut request = under(regex("[xy]{4}"), 5);
    request.sampling.logit_bias = vec![(u32::from(b'q'), 100.0), (u32::from(b'x'), -100.0)];
    assert_eq!(alone(&toy(), request).text, "yyyy");
}

#[test]
fn several_constraints_at_once_are_each_followed() {
    let toy = Toy { per_batch: Duration::from_micros(300), ..toy() };
    let engine = toy.start();
    let constraints = [
        (schema(r#"{"type":"array","items":{"type":"integer"},"minItems":3,"maxItems":4}"#), "["),
        (regex("(ab|cd){10}!"), ""),
        (lark("start: \"<\" /[a-f]{20}/ \">\""), "<"),
        (regex("free of (speech|beer)"), "free"),
    ];
    let streams: Vec<Stream> = (0..16).map(|n| Stream::submit(&engine, n, under(constraints[n as usize % 4].0.clone(), n))).collect();
    let free = Stream::submit(&engine, 99, ask("free", 200));
    for (n, stream) in streams.into_iter().enumerate() {
        let said = stream.all();
        assert!(ended(&said) && said.text.starts_with(constraints[n % 4].1), "{:?}", said.text);
        assert_eq!(said.text, alone(&toy, under(constraints[n % 4].0.clone(), n as u64)).text, "company changes an answer");
    }
    assert_eq!(free.all().text, alone(&toy, ask("free", 200)).text);
}

#[test]
fn a_constraint_that_fails_midway_ends_its_own_request_only() {
    let toy = Toy { per_batch: Duration::from_micros(500), ..toy() };
    let engine = toy.start();
    let many: String = (0..700).map(|n| format!("\"p{n}\":{{}},")).collect();
    let too_wide = schema(&format!("{{\"type\":\"object\",\"properties\":{{{many}\"z\":{{}}}}}}"));
    let free = Stream::submit(&engine, 1, ask("free", 150));
    let fails = Stream::submit(&engine, 2, under(too_wide, 1));
    let other = Stream::submit(&engine, 3, under(regex("[a-h]{90}"), 1));
    assert!(matches!(fails.all().end, Event::Failed(EngineError::Constraint(_))));
    assert_eq!(free.all().text, alone(&toy, ask("free", 150)).text);
    assert_eq!(other.all().text.len(), 90);
    assert_eq!(Stream::submit(&engine, 4, under(regex("again"), 1)).all().text, "again");
}

#[test]
fn control_tokens_are_named_by_a_grammar_and_never_met_by_accident() {
    for grammar in ["start: \"a\" <|mark|> \"b\"", "start: \"a\" <[258]> \"b\""] {
        let said = alone(&toy(), GenerateRequest { control_text: true, ..under(lark(grammar), 2) });
        assert_eq!((said.text.as_str(), said.ids()), ("a<|mark|>b", vec![97, MARK, 98]), "{grammar}");
    }
    // The same text, spelled by ordinary tokens.
    let said = alone(&toy(), under(regex("a<\\|mark\\|>b"), 2));
    assert_eq!((said.text.as_str(), said.ids().contains(&MARK)), ("a<|mark|>b", false));
}

#[test]
fn constraints_that_cannot_be_followed_are_refused_in_words() {
    for (keyword, text) in [
        ("not", r#"{"not":{"type":"string"}}"#),
        ("if", r#"{"properties":{"a":{"if":{"type":"string"},"then":{"minLength":2}}}}"#),
        ("dependentSchemas", r#"{"anyOf":[{"type":"string"},{"dependentSchemas":{"a":{}}}]}"#),
        ("uniqueItems", r#"{"type":"array","uniqueItems":true}"#),
        ("propertyNames", r##"{"$defs":{"a":{"propertyNames":{"maxLength":3}}},"$ref":"#/$defs/a"}"##),
        ("contains", r#"{"items":{"contains":{"type":"null"}}}"#),
        ("x-guidance", r#"{"type":"object","x-guidance":{"lenient":true}}"#),
        ("x-guidance", r#"{"properties":{"a":{"x-guidance":{"coerce_one_of":true}}}}"#),
        ("oneOf", r#"{"oneOf":[{"type":"string","minLength":2},{"type":"string","maxLength":5}]}"#),
        ("format", r#"{"type":"string","format":"no-such-format"}"#),
        ("leaves the schema", r#"{"$ref":"http://127.0.0.1:9/schema"}"#),
        ("leaves the schema", r#"{"$ref":"other.json#/a"}"#),
        ("leads nowhere", r##"{"$ref":"#/$defs/none"}"##),
        ("has an escape", r##"{"$ref":"#/$defs/a~1b","$defs":{"a/b":{}}}"##),
        ("prefixItems", r#"{"prefixItems":[{"type":"string"}],"additionalItems":{"type":"null"}}"#),
        ("if", r#"{"$schema":"http://json-schema.org/draft-06/schema#","if":{}}"#),
        ("2^53", r#"{"const":9007199254740993}"#),
        ("2^53", r#"{"enum":[{"deep":[12345678901234567890]}]}"#),
        ("minProperties", r#"{"type":"object","minProperties":2}"#),
        ("backslash", r#"{"type":"string","pattern":"a\\"}"#),
        ("false", "false"),
        ("not JSON", "{"),
        ("neither an object", "3"),
    ] {
        let words = refused(schema(text));
        assert!(words.contains(keyword), "{text}: {words}");
    }
    assert!(refused(regex("a(b")).contains("a(b"), "{}", refused(regex("a(b")));
    assert!(refused(regex("ab\\")).contains("backslash"));
    refused(regex("a(?=b)c"));
    refused(regex("[z-a]"));
    assert!(refused(lark("start: other")).contains("other"));
    assert!(refused(lark("start: <|no such token|>")).contains("no such token"));
    assert!(refused(lark("start: %json {\"type\":\"object\",\"x-guidance\":{\"lenient\":true},\"not\":{}}")).contains("not"));
    assert!(refused(lark("start[temperature=0.5]: /a+/")).contains("temperature"));
    refused(lark(""));
}

#[test]
fn a_property_has_one_spelling_where_others_may_stand_beside_it() {
    let open = schema(r#"{"type":"object","properties":{"foo":{"type":"string"}},"required":["foo"]}"#);
    let texts = [r#"{"foo":"x","bar":3}"#, r#"{"foo":"x","foo":3}"#, r#"{"foo":"x","\u0066oo":3}"#, r#"{"foo":"\u001b"}"#];
    assert_eq!(accepts(&open, &texts), [true, false, false, false]);
    let closed = schema(r#"{"type":"object","properties":{"foo":{"type":"string"}},"additionalProperties":false}"#);
    assert_eq!(accepts(&closed, &[r#"{"foo":"\u001b\n"}"#, r#"{"\u0066oo":"x"}"#]), [true, false]);
    // What could not be written in one spelling is refused instead of being left out.
    for text in [r#"{"properties":{"a":{"const":"\u0000"}}}"#, r#"{"properties":{"a":{"pattern":"^a\\x00b$"}}}"#] {
        assert!(refused(schema(text)).contains("control character"), "{text}");
    }
    assert!(accepts(&schema(r#"{"properties":{"a":{"type":"string","pattern":"^[^\\x00-\\x1f]*$"}}}"#), &[r#"{"a":"b c"}"#])[0]);
}

#[test]
fn patterns_are_followed_in_strings_with_escapes() {
    let pattern = |pattern: &str| schema(&serde_json::json!({ "type": "string", "pattern": pattern }).to_string());
    // Classes that have every control character, but not quotes or backslashes.
    for none in [r#"^[^"\\]*$"#, r#"^[^"\n\\]*$"#, r#"^[\x00-!#-\[\]-~]*$"#] {
        let texts = [r#""ab""#, r#""\t""#, r#""a\"b""#, r#""a\\b""#];
        assert_eq!(accepts(&pattern(none), &texts), [true, true, false, false], "{none}");
    }
    assert_eq!(accepts(&pattern(r#"^"\\$"#), &[r#""\"\\""#, r#""\"""#]), [true, false]);
    assert_eq!(accepts(&pattern("^a.b$"), &[r#""a\tb""#, r#""a\nb""#, r#""a\rb""#]), [true, false, false]);
}

#[test]
fn schemas_in_a_grammar_are_schemas() {
    let grammar =
        lark("start: \"<call>\" %json {\"type\":\"object\",\"properties\":{\"foo\":{\"type\":\"string\"}}} \"</call>\" # %json of a tool");
    let texts = [r#"<call>{"foo":"x"}</call>"#, r#"<call>{"foo":3}</call>"#, r#"<call>{"\u0066oo":3}</call>"#];
    assert_eq!(accepts(&grammar, &texts), [true, false, false]);
    assert!(refused(lark("start: %json {\"contains\":{}}")).contains("contains"));
    assert!(refused(lark("start: %json {\"$ref\":\"#\"}")).contains("contains itself"));
}

#[test]
fn marks_are_control_tokens_where_there_are_such_and_text_elsewhere() {
    let marked = |lark: &str| Constraint::Marked {
        lark: lark.to_owned(),
        marks: vec!["<|mark|>".into(), "</call>".into()],
        schemas: vec!["{\"type\":\"integer\"}".into()],
    };
    let said = alone(&toy(), GenerateRequest { control_text: true, ..under(marked("start: \"a\" mark_0 \"7\" mark_1"), 2) });
    assert!(ended(&said), "{:?}", said.end);
    assert_eq!((said.text.as_str(), said.ids()[1]), ("a<|mark|>7</call>", MARK));
    // Any text up to a mark: it ends with the first.
    let texts = ["x < y</call>7", "</call>7", "a</call>b</call>7", "a</call>x", "a"];
    assert_eq!(accepts(&marked("start: until_1 schema_0"), &texts), [true, true, false, false, false]);
    assert!(
        refused(Constraint::Marked { lark: "start: schema_0".into(), marks: vec![], schemas: vec!["{\"not\":{}}".into()] }).contains("not")
    );
}

#[test]
fn formats_follow_the_calendar() {
    let texts = [r#""2024-02-29""#, r#""2023-02-29""#, r#""1900-02-29""#, r#""2000-02-29""#, r#""2023-13-01""#, r#""2023-04-31""#];
    assert_eq!(accepts(&schema(r#"{"type":"string","format":"date"}"#), &texts), [true, false, false, true, false, false]);
}

#[test]
fn a_pattern_cannot_leave_its_place_in_the_grammar() {
    let said = alone(&toy(), under(regex("a/b\n"), 1));
    assert_eq!(said.text, "a/b\n");
    let said = alone(&toy(), under(regex("x/ \nother: /y"), 1));
    assert_eq!(said.text, "x/ \nother: /y");
}

#[test]
fn schemas_without_end_are_refused_at_once_and_recursion_with_an_end_works() {
    for text in [
        r##"{"$ref":"#"}"##,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}"##,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/c"},"c":{"$ref":"#/$defs/a"}}}"##,
        r##"{"allOf":[{"$ref":"#"}]}"##,
        r##"{"anyOf":[{"$ref":"#"}]}"##,
        r##"{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}"##,
        r##"{"type":"array","items":{"$ref":"#"},"minItems":1}"##,
        r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/a"}}}"##,
    ] {
        let begin = Instant::now();
        let words = refused(schema(text));
        assert!(words.contains("contains itself"), "{text}: {words}");
        assert!(begin.elapsed() < Duration::from_secs(1), "{text}: {:?}", begin.elapsed());
    }
    let list = r##"{"type":"object","properties":{"head":{"type":"boolean"},"tail":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},
        "required":["head","tail"],"additionalProperties":false}"##;
    for seed in 0..8 {
        let mut request = under(schema(list), seed);
        request.sampling.logit_bias = vec![(u32::from(b'n'), 3.0), (u32::from(b' '), -20.0)];
        let said = alone(&toy(), request);
        if ended(&said) {
            let mut value: &serde_json::Value = &serde_json::from_str(&said.text).expect("JSON");
            while !value.is_null() {
                assert!(value["head"].is_boolean(), "{}", said.text);
                value = &value["tail"];
            }
        }
    }
    // A reference beside another way is left recursion, and has an end.
    let said = alone(&toy(), under(schema(r##"{"anyOf":[{"$ref":"#"},{"const":"done"}]}"##), 1));
    assert_eq!(said.text, "\"done\"");
}

#[test]
fn numbers_end_where_the_schema_lets_them_and_text_is_not_cut() {
    let long = "3".repeat(60);
    let number = |digits: usize| format!("0.{}", &long[..digits]);
    let (most, more) = (number(32), number(33));
    assert_eq!(accepts(&schema(r#"{"type":"number","minimum":0,"maximum":1}"#), &[&most, &more]), [true, false]);
    assert_eq!(accepts(&schema(r#"{"type":"integer"}"#), &[&long[..32], &long[..33]]), [true, false]);
    let time = |digits: usize| format!("\"10:01:36.{}Z\"", &long[..digits]);
    assert_eq!(accepts(&schema(r#"{"type":"string","format":"time"}"#), &[&time(9), &time(10)]), [true, false]);
    let text = format!("\"{long}\"");
    for whole in [r#"{"type":"string"}"#, r#"{"type":"string","pattern":"^[0-9]{60}$"}"#] {
        assert_eq!(accepts(&schema(whole), &[&text]), [true], "{whole}");
    }
    // Whoever writes a grammar bounds what it repeats.
    assert_eq!(accepts(&regex("[0-9]+"), &[&long]), [true]);
}

#[test]
fn whitespace_is_one_space_behind_a_comma_or_a_colon() {
    let list = schema(r#"{"type":"array","items":{"type":"integer"}}"#);
    assert_eq!(accepts(&list, &["[1, 2]", "[1,2]", "[]"]), [true; 3]);
    assert_eq!(accepts(&list, &["[\n1]", "[ 1]", "[1 ]", "[1 ,2]", "[1,  2]", "[1,\n2]", " [1]"]), [false; 7]);
    let object = schema(r#"{"type":"object","properties":{"a":{"enum":["x ,\n"]}},"required":["a"],"additionalProperties":false}"#);
    assert_eq!(accepts(&object, &[r#"{"a":"x ,\n"}"#, r#"{"a": "x ,\n"}"#]), [true; 2]);
    assert_eq!(accepts(&object, &[r#"{ "a":"x ,\n"}"#, r#"{"a" :"x ,\n"}"#, r#"{"a":  "x ,\n"}"#]), [false; 3]);
}
