//! A backend whose every answer is known, for laws that no real model can check.
//!
//! Its vocabulary is the 256 bytes and three control tokens. The next token depends on *every* token before it, so one wrong, missing or
//! foreign token in a sequence's state gives another answer. It panics when the engine breaks a rule of the border: a gap in the
//! positions, a sequence or a batch out of range, a cut where none is offered. The laws are checked on a real plugin too, in
//! `tests/real_model.rs`.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use onebit_loader::CancelFlag;

use crate::backend::{
    Embed, EmbedLimits, Fault, Forward, ForwardLimits, Rerank, RerankLimits, Rows, TokenFacts, Vocabulary, VocabularyFacts,
};
use crate::engine::{Backend, Engine};
use crate::request::{Event, Finished, GenerateRequest, Prompt, PromptPart, RequestId, TokenId, TokenOut};

pub(crate) const BOS: TokenId = 256;
pub(crate) const EOS: TokenId = 257;
pub(crate) const MARK: TokenId = 258;
const SIZE: u32 = 259;
/// Columns of logits that belong to no token; they are always the highest and must never be chosen.
const PADDING: u32 = 5;
const CONTROL: [(&str, TokenId); 3] = [("<s>", BOS), ("</s>", EOS), ("<|mark|>", MARK)];

/// What a batch was, for tests that look at the schedule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) rows: usize,
    pub(crate) sequences: Vec<u32>,
}

/// How the toy behaves.
#[derive(Clone)]
pub(crate) struct Toy {
    pub(crate) limits: ForwardLimits,
    /// What each batch costs, and each row.
    pub(crate) per_batch: Duration,
    pub(crate) per_row: Duration,
    /// Next outcomes of `forward`; empty = success.
    pub(crate) faults: Arc<Mutex<VecDeque<Misdeed>>>,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    /// The end token can be chosen.
    pub(crate) ends: bool,
    pub(crate) bos: bool,
    pub(crate) adds_bos: bool,
    /// State is kept for requests to come.
    pub(crate) keeps: bool,
    /// Copies fail with this, half done.
    pub(crate) no_copies: Option<Fault>,
}

/// What the toy does wrong when asked to.
#[derive(Debug, Clone)]
pub(crate) enum Misdeed {
    None,
    Fault(Fault),
    Nan,
    /// In the first row only.
    NanFirst,
    Panic,
    FewLogits,
}

impl Toy {
    pub(crate) fn new(slots: u32, context_per_slot: u32) -> Self {
        Self {
            limits: ForwardLimits {
                vocabulary: SIZE + PADDING,
                batch: 64,
                slots,
                sequences: slots + 2,
                context: slots * context_per_slot,
                cuttable: true,
            },
            per_batch: Duration::ZERO,
            per_row: Duration::ZERO,
            faults: Arc::default(),
            seen: Arc::default(),
            ends: true,
            bos: true,
            adds_bos: true,
            keeps: true,
            no_copies: None,
        }
    }

    pub(crate) fn start(&self) -> Engine {
        let session = Session { toy: self.clone(), state: vec![Vec::new(); self.limits.sequences as usize], logits: Vec::new() };
        let toy = Arc::new(self.clone());
        let backend = Backend {
            session: Some(Box::new(session)),
            vocabulary: toy.clone(),
            embed: Some(toy.clone()),
            rerank: Some(toy),
            keeps: self.keeps,
        };
        Engine::start_on(backend).expect("the toy starts").0
    }

    pub(crate) fn misbehave(&self, misdeeds: impl IntoIterator<Item = Misdeed>) {
        self.faults.lock().expect("no panic").extend(misdeeds);
    }

    pub(crate) fn batches(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }

    /// The logits after `history`.
    pub(crate) fn row(&self, history: &[TokenId], out: &mut Vec<f32>) {
        let hash = history.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, token| mix(hash ^ u64::from(*token)));
        for id in 0..u64::from(SIZE) {
            let noise = (mix(hash ^ (id << 32)) >> 40) as f32 / (1u64 << 24) as f32;
            // Readable bytes, so that texts are texts; now and then the end.
            let lift = match id as u32 {
                EOS if self.ends && hash % 24 == 0 => 9.0,
                b if (97..105).contains(&b) || b == 32 => 6.0,
                b if b < 256 => 0.0,
                _ => -9.0,
            };
            out.push(noise * 4.0 + lift);
        }
        out.extend(std::iter::repeat_n(50.0, PADDING as usize));
    }
}

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

struct Session {
    toy: Toy,
    state: Vec<Vec<TokenId>>,
    logits: Vec<f32>,
}

impl Forward for Session {
    fn limits(&self) -> ForwardLimits {
        self.toy.limits
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], Fault> {
        let limits = self.toy.limits;
        let n = rows.tokens.len();
        assert!(n > 0 && n <= limits.batch as usize, "a batch of {n} rows");
        assert!(rows.positions.len() == n && rows.sequences.len() == n && rows.wants_logits.len() == n, "columns of different length");
        let mut sequences = rows.sequences.to_vec();
        sequences.dedup();
        self.toy.seen.lock().expect("no panic").push(Seen { rows: n, sequences });
        let misdeed = self.toy.faults.lock().expect("no panic").pop_front().unwrap_or(Misdeed::None);
        let until = Instant::now() + self.toy.per_batch;
        self.logits.clear();
        for i in 0..n {
            let until = until + self.toy.per_row * (i as u32 + 1);
            loop {
                // What was computed before the flag was seen stays, as a real plugin may leave it.
                if rows.cancel.is_set() {
                    return Err(Fault::Cancelled);
                }
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                std::thread::sleep(left.min(Duration::from_millis(2)));
            }
            let state = &mut self.state[rows.sequences[i] as usize];
            assert_eq!(state.len(), rows.positions[i] as usize, "a gap in sequence {}", rows.sequences[i]);
            assert!(rows.tokens[i] < SIZE, "token {} does not exist", rows.tokens[i]);
            state.push(rows.tokens[i]);
            let all: usize = self.state.iter().map(Vec::len).sum();
            assert!(all <= limits.context as usize, "{all} positions in a context of {}", limits.context);
            if rows.wants_logits[i] {
                self.toy.row(&self.state[rows.sequences[i] as usize], &mut self.logits);
            }
            if let (Misdeed::Fault(fault), true) = (&misdeed, i >= n / 2) {
                return Err(fault.clone());
            }
        }
        match misdeed {
            Misdeed::Nan => self.logits.iter_mut().step_by(37).for_each(|logit| *logit = f32::NAN),
            Misdeed::NanFirst => self.logits[0] = f32::NAN,
            Misdeed::Panic => panic!("the toy was asked to panic"),
            Misdeed::FewLogits => self.logits.truncate(3),
            Misdeed::None | Misdeed::Fault(_) => {}
        }
        Ok(&self.logits)
    }

    fn copy(&mut self, source: u32, destination: u32, positions: u32) -> Result<(), Fault> {
        assert!(self.toy.limits.cuttable, "a copy of state that cannot be cut");
        assert!(self.state[destination as usize].is_empty(), "a copy into sequence {destination}, which is not empty");
        self.state[destination as usize] = self.state[source as usize][..positions as usize].to_vec();
        if let Some(fault) = &self.toy.no_copies {
            self.state[destination as usize].truncate(positions as usize / 2);
            return Err(fault.clone());
        }
        let all: usize = self.state.iter().map(Vec::len).sum();
        assert!(all <= self.toy.limits.context as usize, "{all} positions in a context of {}", self.toy.limits.context);
        Ok(())
    }

    fn remove(&mut self, sequence: u32, from: u32) -> Result<(), Fault> {
        assert!(from == 0 || self.toy.limits.cuttable, "a cut at {from} in state that cannot be cut");
        self.state[sequence as usize].truncate(from as usize);
        Ok(())
    }
}

impl Vocabulary for Toy {
    fn facts(&self) -> VocabularyFacts {
        VocabularyFacts {
            size: SIZE,
            bos: self.bos.then_some(BOS),
            eos: Some(EOS),
            adds_bos: self.adds_bos,
            adds_eos: false,
            chat_template: None,
        }
    }

    fn token(&self, id: TokenId) -> Result<TokenFacts, Fault> {
        let control = CONTROL.iter().find(|(_, token)| *token == id);
        Ok(TokenFacts {
            control: control.is_some(),
            end: id == EOS,
            text: control.map_or_else(String::new, |(text, _)| (*text).to_owned()),
        })
    }

    fn encode(&self, text: &str, control: bool) -> Result<Vec<TokenId>, Fault> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(byte) = rest.as_bytes().first() {
            match CONTROL.iter().find(|(text, _)| control && rest.starts_with(text)) {
                Some((text, token)) => {
                    tokens.push(*token);
                    rest = &rest[text.len()..];
                }
                None => {
                    tokens.push(u32::from(*byte));
                    let mut bytes = rest.chars();
                    let first = bytes.next().map_or(0, char::len_utf8);
                    tokens.extend(rest.as_bytes()[1..first].iter().map(|byte| u32::from(*byte)));
                    rest = &rest[first..];
                }
            }
        }
        Ok(tokens)
    }

    fn decode(&self, tokens: &[TokenId], control: bool) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        for token in tokens {
            match u8::try_from(*token) {
                Ok(byte) => bytes.push(byte),
                Err(_) if control => bytes.extend(CONTROL.iter().find(|(_, id)| id == token).map_or("", |(text, _)| *text).bytes()),
                Err(_) => {}
            }
        }
        Ok(bytes)
    }
}

impl Embed for Toy {
    fn limits(&self) -> EmbedLimits {
        EmbedLimits { dimension: 4, max_tokens: 32 }
    }

    fn embed(&self, texts: &[&[TokenId]], cancel: &CancelFlag) -> Result<Vec<Vec<f32>>, Fault> {
        if cancel.is_set() {
            return Err(Fault::Cancelled);
        }
        Ok(texts.iter().map(|text| vec![text.len() as f32, text[0] as f32, 0.0, 1.0]).collect())
    }
}

impl Rerank for Toy {
    fn limits(&self) -> RerankLimits {
        RerankLimits { max_tokens: 32, joints: 3 }
    }

    /// The share of the document's tokens that the query has.
    fn rerank(&self, query: &[TokenId], documents: &[&[TokenId]], cancel: &CancelFlag) -> Result<Vec<f32>, Fault> {
        if cancel.is_set() {
            return Err(Fault::Cancelled);
        }
        let share =
            |document: &&[TokenId]| document.iter().filter(|token| query.contains(token)).count() as f32 / document.len().max(1) as f32;
        Ok(documents.iter().map(share).collect())
    }
}

/// A request for the text `prompt`, greedy.
pub(crate) fn ask(prompt: &str, max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        add_special: true,
        max_tokens: Some(max_tokens),
        ..GenerateRequest::new(Prompt::Parts(vec![PromptPart { text: prompt.to_owned(), control: false }]))
    }
}

/// Everything a request said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) tokens: Vec<TokenOut>,
    pub(crate) deltas: usize,
    pub(crate) prompt_tokens: Option<u32>,
    pub(crate) prefill: Vec<u32>,
    /// Told before the first text, if it was.
    pub(crate) prompt: Option<Vec<TokenOut>>,
    pub(crate) end: Event,
}

impl Said {
    pub(crate) fn finished(&self) -> &Finished {
        match &self.end {
            Event::Finished(finished) => finished,
            other => panic!("not finished but {other:?}"),
        }
    }

    pub(crate) fn ids(&self) -> Vec<TokenId> {
        self.tokens.iter().map(|token| token.id).collect()
    }
}

/// Events of a request that was submitted.
pub(crate) struct Stream(Receiver<Event>);

impl Stream {
    pub(crate) fn submit(engine: &Engine, id: u64, request: GenerateRequest) -> Self {
        let (send, receive) = channel();
        engine.submit(RequestId(id), request, Box::new(move |event| drop(send.send(event))));
        Self(receive)
    }

    pub(crate) fn next(&self) -> Event {
        self.0.recv_timeout(Duration::from_secs(20)).expect("an event within 20 s")
    }

    /// All of it. Panics unless there is exactly one last event, and it is last.
    pub(crate) fn all(self) -> Said {
        let mut said = Said {
            text: String::new(),
            tokens: Vec::new(),
            deltas: 0,
            prompt_tokens: None,
            prefill: Vec::new(),
            prompt: None,
            end: Event::Prefill { done: 0 },
        };
        loop {
            match self.next() {
                Event::Started { prompt_tokens, .. } => {
                    assert_eq!(said.prompt_tokens.replace(prompt_tokens), None, "started twice");
                }
                Event::Prefill { done } => said.prefill.push(done),
                Event::Prompt { tokens } => {
                    assert_eq!(said.deltas, 0, "the prompt after text");
                    assert_eq!(said.prompt.replace(tokens), None, "the prompt twice");
                }
                Event::Delta { text, tokens } => {
                    said.text.push_str(&text);
                    said.tokens.extend(tokens);
                    said.deltas += 1;
                }
                end => {
                    said.end = end;
                    break;
                }
            }
        }
        assert!(self.0.recv_timeout(Duration::from_secs(5)).is_err(), "something after the last event");
        said
    }
}

/// What `request` is answered on an engine of its own.
pub(crate) fn alone(toy: &Toy, request: GenerateRequest) -> Said {
    let toy = Toy { faults: Arc::default(), seen: Arc::default(), per_row: Duration::ZERO, per_batch: Duration::ZERO, ..toy.clone() };
    let engine = toy.start();
    Stream::submit(&engine, 0, request).all()
}
