//! How long masks take, and what is left of that once they are made beside the device, on a vocabulary of the size and shape of the demo model's. Ignored, because it says something in release builds only:
//! `cargo test --release -p onebit-engine guide::speed -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use std::sync::Arc;

use super::{Lexicon, Mask, compile};
use crate::backend::{Fault, Forward, ForwardLimits, Rows, TokenFacts, Vocabulary, VocabularyFacts};
use crate::engine::{Backend, Engine};
use crate::request::{Constraint, GenerateRequest, Prompt, Sampling, TokenId};
use crate::testing::Stream;

const SIZE: u32 = 49_152;
const END: TokenId = SIZE - 1;

/// The bytes, what JSON is made of, numbers, and words of syllables with and without a space before them.
struct Words(Vec<Vec<u8>>);

impl Words {
    fn new() -> Self {
        let mut words: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        words.extend(
            ["{\"", "\":", "\", \"", "\"},", " {", "}]", "\": \"", "\n  ", "\n    ", "[{", "\\n", "true", "false", "null"].map(Vec::from),
        );
        words.extend((0..1000).map(|number| number.to_string().into_bytes()));
        let syllables: Vec<String> = "bcdfghklmnprstvw"
            .chars()
            .flat_map(|a| "aeiou".chars().flat_map(move |b| ["", "n", "s"].map(|c| format!("{a}{b}{c}"))))
            .collect();
        let mut state = 1u64;
        while words.len() < SIZE as usize - 1 {
            let mut word = String::from(if words.len().is_multiple_of(2) { " " } else { "" });
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            for part in 0..1 + (state >> 60) % 4 {
                word.push_str(&syllables[(state >> (8 + part * 12)) as usize % syllables.len()]);
            }
            words.push(word.into_bytes());
        }
        words.push(b"</s>".to_vec());
        Self(words)
    }
}

impl Vocabulary for Words {
    fn facts(&self) -> VocabularyFacts {
        VocabularyFacts { size: SIZE, eos: Some(END), ..VocabularyFacts::default() }
    }

    fn token(&self, id: TokenId) -> Result<TokenFacts, Fault> {
        let end = id == END;
        Ok(TokenFacts { control: end, end, text: if end { "</s>".into() } else { String::new() } })
    }

    fn encode(&self, _: &str, _: bool) -> Result<Vec<TokenId>, Fault> {
        Ok(Vec::new())
    }

    fn decode(&self, tokens: &[TokenId], _: bool) -> Result<Vec<u8>, Fault> {
        Ok(tokens.iter().flat_map(|token| self.0[*token as usize].clone()).collect())
    }
}

const JSON: &str = r#"
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ws ":" ws value ws ("," ws string ws ":" ws value ws)*)? "}"
array ::= "[" ws (value ws ("," ws value ws)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= [ \t\n]*
"#;

/// A device that takes this long for a step and has no opinion.
struct Device(Duration, Vec<f32>);

impl Forward for Device {
    fn limits(&self) -> ForwardLimits {
        ForwardLimits { vocabulary: SIZE, batch: 64, slots: 8, sequences: 8, context: 8 * 1000, cuttable: true }
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], Fault> {
        std::thread::sleep(self.0);
        self.1.resize(rows.wants_logits.iter().filter(|wanted| **wanted).count() * SIZE as usize, 0.0);
        Ok(&self.1)
    }

    fn copy(&mut self, _source: u32, _destination: u32, _positions: u32) -> Result<(), Fault> {
        Ok(())
    }

    fn remove(&mut self, _: u32, _: u32) -> Result<(), Fault> {
        Ok(())
    }
}

#[test]
#[ignore = "a measurement"]
fn constrained_answers_are_nearly_as_fast_as_free_ones() {
    let words: Arc<dyn Vocabulary> = Arc::new(Words::new());
    for (step, side_by_side) in [(2, 1), (2, 8), (10, 8)] {
        let device = Device(Duration::from_millis(step), Vec::new());
        let backend = Backend { session: Some(Box::new(device)), vocabulary: Arc::clone(&words), embed: None, rerank: None, keeps: false };
        let (engine, _) = Engine::start_on(backend).expect("the device starts");
        let rate = |constraint: Option<Constraint>| {
            let request = |seed| GenerateRequest {
                max_tokens: Some(300),
                sampling: Sampling { temperature: 1.0, seed: Some(seed), ..Sampling::default() },
                constraint: constraint.clone(),
                ..GenerateRequest::new(Prompt::Tokens(vec![1]))
            };
            let streams: Vec<Stream> = (0..side_by_side).map(|id| Stream::submit(&engine, id, request(id))).collect();
            let ends: Vec<_> = streams.into_iter().map(|stream| stream.all().finished().clone()).collect();
            let tokens: u32 = ends.iter().map(|end| end.usage.completion_tokens).sum();
            let time: u64 = ends.iter().map(|end| end.timings.decode_us).sum();
            f64::from(tokens) / time as f64 * 1e6
        };
        let endless = Constraint::JsonSchema(r#"{"type":"array","items":{"type":"object"},"minItems":1000}"#.to_owned());
        // The first compiles the vocabulary.
        rate(Some(endless.clone()));
        let (free, constrained) = (rate(None), rate(Some(endless)));
        println!(
            "{side_by_side} answers, steps of {step} ms: {free:.0} tokens/s each, constrained {constrained:.0} ({:.3})",
            constrained / free
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn masks_take_a_small_part_of_a_token() {
    let begin = Instant::now();
    let lexicon = Lexicon::read(&Words::new()).expect("a vocabulary");
    println!("the vocabulary of {SIZE} tokens: {:?}", begin.elapsed());
    let person = r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
        "mail":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string","maxLength":40},"maxItems":5},
        "kind":{"enum":["person","company","robot"]}},"required":["name","age","mail","tags","kind"],"additionalProperties":false}"#;
    for (name, constraint) in [
        ("any object", Constraint::JsonSchema(r#"{"type":"object"}"#.to_owned())),
        ("a person", Constraint::JsonSchema(person.to_owned())),
        ("a pattern", Constraint::Regex(r"([a-z]+ ){20,200}[0-9]{4}-[0-9]{2}-[0-9]{2}".to_owned())),
        ("JSON in GBNF", Constraint::Gbnf(JSON.to_owned())),
    ] {
        let begin = Instant::now();
        let start = compile(&constraint, &lexicon).expect("a lawful constraint");
        let compiled = begin.elapsed();
        let mut times = Vec::new();
        for seed in 0..20 {
            let mut matcher = start.fork();
            let mut state = seed;
            for _ in 0..100 {
                let begin = Instant::now();
                if matcher.is_complete() {
                    break;
                }
                let mask = matcher.mask().expect("a mask");
                let token = any_of(&mask, &mut state);
                if token == END {
                    break;
                }
                matcher.take(token).expect("a token it allows");
                times.push(begin.elapsed());
            }
        }
        times.sort_unstable();
        let mean = times.iter().sum::<Duration>() / times.len() as u32;
        let at = |part: usize| times[times.len() * part / 100];
        println!(
            "{name}: compiled in {compiled:?}; {} tokens, mean {mean:?} ({:.0} a second), half {:?}, 99 of 100 {:?}, worst {:?}",
            times.len(),
            1.0 / mean.as_secs_f64(),
            at(50),
            at(99),
            times[times.len() - 1]
        );
    }
}

/// A token of the mask, whichever.
fn any_of(mask: &Mask, state: &mut u64) -> TokenId {
    let allowed = mask.to_list();
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    allowed[(*state >> 33) as usize % allowed.len()]
}
