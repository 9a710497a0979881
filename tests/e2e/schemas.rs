//! JSON schemas, held against the suite that validators are measured with.
//!
//! The engine computes with a model that wants to say one certain text, byte by byte. Under a constraint it says exactly that text, and
//! ends, if and only if the constraint accepts it. So every case of the suite becomes a question to the engine as it is.
//!
//! A grammar may be stricter than its schema: the order of properties is the schema's, and an integer has no point. So a value counts as
//! accepted if one of its spellings is. Never may a value be accepted that is invalid.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use onebit_engine::{
    Backend, Constraint, Engine, EngineError, Event, Fault, FinishReason, Forward, ForwardLimits, GenerateRequest, Prompt, RequestId, Rows,
    TokenFacts, TokenId, Vocabulary, VocabularyFacts,
};
use serde_json::Value;

use crate::clients::{clients, kept, run};

/// Ends a text.
const END: TokenId = 256;
const SIZE: u32 = 257;
/// Spellings that are tried of one value.
const MOST_SPELLINGS: usize = 200;

/// Says the prompt once more, if it may.
struct Echo {
    state: Vec<TokenId>,
    logits: Vec<f32>,
}

impl Forward for Echo {
    fn limits(&self) -> ForwardLimits {
        ForwardLimits { vocabulary: SIZE, batch: 4096, slots: 1, sequences: 1, context: 1 << 20, cuttable: true }
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], Fault> {
        self.state.extend_from_slice(rows.tokens);
        let text = self.state.iter().position(|token| *token == END).expect("the prompt ends");
        let said = self.state.len() - text - 1;
        self.logits = vec![0.0; SIZE as usize];
        self.logits[self.state[said.min(text)] as usize] = 100.0;
        Ok(&self.logits)
    }

    fn copy(&mut self, _source: u32, _destination: u32, _positions: u32) -> Result<(), Fault> {
        Ok(())
    }

    fn remove(&mut self, _: u32, from: u32) -> Result<(), Fault> {
        self.state.truncate(from as usize);
        Ok(())
    }
}

/// The 256 bytes, and an end.
struct Bytes;

impl Vocabulary for Bytes {
    fn facts(&self) -> VocabularyFacts {
        VocabularyFacts { size: SIZE, eos: Some(END), ..VocabularyFacts::default() }
    }

    fn token(&self, id: TokenId) -> Result<TokenFacts, Fault> {
        Ok(TokenFacts { control: id == END, end: id == END, text: if id == END { "</s>".into() } else { String::new() } })
    }

    fn encode(&self, text: &str, _: bool) -> Result<Vec<TokenId>, Fault> {
        Ok(text.bytes().map(TokenId::from).collect())
    }

    fn decode(&self, tokens: &[TokenId], _: bool) -> Result<Vec<u8>, Fault> {
        Ok(tokens.iter().filter_map(|token| u8::try_from(*token).ok()).collect())
    }
}

/// Whether `schema` accepts `text`, or why it is refused.
fn accepts(engine: &Engine, schema: &Value, text: &str) -> Result<bool, String> {
    let prompt = Prompt::Tokens(text.bytes().map(TokenId::from).chain([END]).collect());
    let constraint = Some(Constraint::JsonSchema(schema.to_string()));
    let request = GenerateRequest { constraint, max_tokens: Some(text.len() as u32 + 1), ..GenerateRequest::new(prompt) };
    let (send, events) = channel();
    engine.submit(RequestId(1), request, Box::new(move |event| drop(send.send(event))));
    let mut said = String::new();
    loop {
        match events.recv_timeout(Duration::from_secs(60)).expect("an event within a minute") {
            Event::Delta { text, .. } => said.push_str(&text),
            Event::Finished(finished) => return Ok(said == text && finished.reason == FinishReason::EndOfGeneration),
            Event::Failed(EngineError::InvalidRequest { message, .. }) => return Err(message),
            Event::Failed(other) => panic!("{other} for {schema} and {text}"),
            _ => {}
        }
    }
}

/// The same value, written in other ways.
fn spellings(value: &Value) -> Vec<String> {
    let mut found = match value {
        Value::Object(fields) => {
            let fields: Vec<(String, Vec<String>)> =
                fields.iter().map(|(name, value)| (Value::from(name.as_str()).to_string(), spellings(value))).collect();
            let one = |order: &[usize]| {
                let fields = order.iter().map(|at| {
                    let (name, values) = &fields[*at];
                    values.iter().map(|value| format!("{name}:{value}")).collect()
                });
                all(fields.collect()).into_iter().map(|fields| format!("{{{}}}", fields.join(","))).collect::<Vec<_>>()
            };
            orders(fields.len()).iter().flat_map(|order| one(order)).take(MOST_SPELLINGS).collect()
        }
        Value::Array(items) => {
            all(items.iter().map(spellings).collect()).into_iter().map(|items| format!("[{}]", items.join(","))).collect()
        }
        Value::Number(number) if number.is_f64() && number.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() < 1e15) => {
            vec![format!("{}", number.as_f64().unwrap_or(0.0) as i64), value.to_string()]
        }
        Value::Number(number) if number.is_f64() => vec![value.to_string(), format!("{}", number.as_f64().unwrap_or(0.0))],
        other => vec![other.to_string()],
    };
    found.dedup();
    found.truncate(MOST_SPELLINGS);
    found
}

/// One of each, in all ways.
fn all(parts: Vec<Vec<String>>) -> Vec<Vec<String>> {
    parts.into_iter().fold(vec![Vec::new()], |rows, part| {
        let longer = rows.iter().flat_map(|row| part.iter().map(move |one| [row.as_slice(), std::slice::from_ref(one)].concat()));
        longer.take(MOST_SPELLINGS).collect()
    })
}

/// The orders of `count` things; of many only some.
fn orders(count: usize) -> Vec<Vec<usize>> {
    (0..count).fold(vec![Vec::new()], |orders, next| {
        let longer = orders.iter().flat_map(|order| {
            (0..=order.len()).rev().map(move |at| {
                let mut order = order.clone();
                order.insert(at, next);
                order
            })
        });
        longer.take(MOST_SPELLINGS).collect()
    })
}

/// Keywords, patterns and formats in a schema, one of which the reason of a refusal must name.
fn names(schema: &Value) -> Vec<String> {
    match schema {
        // Of several, a message names each.
        Value::Object(fields) => fields.iter().flat_map(|(name, value)| names(value).into_iter().chain([singular(name)])).collect(),
        Value::Array(values) => values.iter().flat_map(names).collect(),
        Value::String(text) => vec![text.clone()],
        _ => Vec::new(),
    }
}

fn singular(keyword: &str) -> String {
    keyword.strip_suffix("Properties").map_or_else(|| keyword.to_owned(), |stem| format!("{stem}Propert"))
}

#[derive(Debug, Default)]
struct Count {
    refused: usize,
    valid: usize,
    invalid: usize,
    stricter: usize,
}

#[test]
fn no_invalid_value_is_accepted_and_what_cannot_be_followed_is_named() {
    let folder = kept().join("json-schema-4.26.0");
    let said = run(Command::new("python3").arg(clients().join("json_schemas.py")).arg(folder));
    let suite: BTreeMap<String, Value> = serde_json::from_str(&said).expect("JSON");
    let session = Echo { state: Vec::new(), logits: Vec::new() };
    let backend = Backend { session: Some(Box::new(session)), vocabulary: Arc::new(Bytes), embed: None, rerank: None, keeps: false };
    let (engine, _) = Engine::start_on(backend).expect("the echo starts");

    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    let (mut wrong, mut stricter, mut refusals, mut unnamed) = (Vec::new(), BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (file, cases) in &suite {
        for case in cases.as_array().expect("cases") {
            let count = counts.entry(file).or_default();
            let schema = &case["schema"];
            if let Err(refusal) = accepts(&engine, schema, "0") {
                count.refused += 1;
                if !names(schema).iter().any(|name| refusal.contains(name.as_str())) && !refusal.contains("schema is false") {
                    unnamed.push(format!("{refusal} for {schema}"));
                }
                refusals.insert(format!("{file}: {refusal}"));
                continue;
            }
            for test in case["tests"].as_array().expect("tests") {
                let accepted = spellings(&test["data"]).iter().any(|text| accepts(&engine, schema, text) == Ok(true));
                let label = format!("{file}: {}: {}", case["description"], test["description"]);
                match (accepted, test["valid"] == true) {
                    (true, true) => count.valid += 1,
                    (false, false) => count.invalid += 1,
                    (false, true) => {
                        count.stricter += 1;
                        stricter.insert(label);
                    }
                    (true, false) => wrong.push(format!("{label}: {} for {schema}", test["data"])),
                }
            }
        }
    }
    for (file, count) in &counts {
        println!("{file}: {count:?}");
    }
    let total = |of: fn(&Count) -> usize| counts.values().map(of).sum::<usize>();
    let (valid, invalid) = (total(|count| count.valid), total(|count| count.invalid));
    println!("stricter: {stricter:#?}\nrefused: {refusals:#?}");
    println!("{valid} valid and {invalid} invalid values told apart; {} schemas refused", total(|count| count.refused));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(unnamed.is_empty(), "{unnamed:#?}");
    // Nothing is refused or missed out of laziness: what the suite has of keywords that are followed is nearly all followed.
    assert!(valid > 500 && invalid > 400, "{valid} valid and {invalid} invalid");
    assert!(stricter.len() < 40, "{stricter:#?}");
}
