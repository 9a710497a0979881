//! Constraints from requests: programs of strangers, of four kinds.

use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use onebit_engine::{
    Backend, Constraint, Engine, EngineError, Event, Fault, FinishReason, Forward, ForwardLimits, GenerateRequest, Prompt, RequestId, Rows,
    Sampling, TokenFacts, TokenId, Vocabulary, VocabularyFacts,
};

use crate::law;

/// Ends an answer.
const END: TokenId = 256;
const SIZE: u32 = 257;

/// A model without an opinion, besides that an answer should end.
struct Flat(Vec<f32>);

impl Forward for Flat {
    fn limits(&self) -> ForwardLimits {
        ForwardLimits { vocabulary: SIZE, batch: 16, slots: 1, sequences: 1, context: 64, cuttable: true }
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], Fault> {
        let wanted = rows.wants_logits.iter().filter(|wanted| **wanted).count();
        self.0 = (0..wanted as u32 * SIZE).map(|column| if column % SIZE == END { 3.0 } else { 0.0 }).collect();
        Ok(&self.0)
    }

    fn copy(&mut self, _source: u32, _destination: u32, _positions: u32) -> Result<(), Fault> {
        Ok(())
    }

    fn remove(&mut self, _: u32, _: u32) -> Result<(), Fault> {
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

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let backend =
            Backend { session: Some(Box::new(Flat(Vec::new()))), vocabulary: Arc::new(Bytes), embed: None, rerank: None, keeps: false };
        Engine::start_on(backend).expect("a model without an opinion starts").0
    })
}

/// The first byte names the kind. A constraint is refused in a sentence, or it is followed: what ended under a JSON schema is JSON. It may
/// cost its own request, and never the engine.
pub fn run(bytes: &[u8]) {
    let Some((kind, text)) = bytes.split_first() else { return };
    let Ok(text) = String::from_utf8(text.to_vec()) else { return };
    let constraint = match kind {
        b'j' => Constraint::JsonSchema(text),
        b'r' => Constraint::Regex(text),
        b'l' => Constraint::Lark(text),
        b'g' => Constraint::Gbnf(text),
        _ => return,
    };
    let request = GenerateRequest {
        constraint: Some(constraint),
        max_tokens: Some(30),
        sampling: Sampling { temperature: 1.0, seed: Some(1), ..Sampling::default() },
        ..GenerateRequest::new(Prompt::Tokens(vec![65]))
    };
    let (send, events) = channel();
    engine().submit(RequestId(1), request, Box::new(move |event| drop(send.send(event))));
    let mut said = String::new();
    loop {
        match events.recv_timeout(Duration::from_secs(120)).expect("an event within two minutes") {
            Event::Delta { text, .. } => said.push_str(&text),
            Event::Finished(finished) => {
                if finished.reason == FinishReason::EndOfGeneration && *kind == b'j' {
                    assert!(serde_json::from_str::<serde_json::Value>(&said).is_ok(), "{said:?} is no JSON");
                }
                return;
            }
            Event::Failed(EngineError::InvalidRequest { message, .. } | EngineError::Constraint(message)) => {
                return law::is_a_sentence(&message);
            }
            Event::Failed(other) => panic!("{other}"),
            _ => {}
        }
    }
}
