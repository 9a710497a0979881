//! The model: its limits and its tokens, which are bytes.

use onebit_sdk::{
    Allocation, Embedder, Encode, Error, Forward, ForwardLimits, Model, ModelDescription, Reranker, Session, SessionArgs, TokenInfo,
    Tokenizer, Vocabulary,
};

use crate::embed::Directions;
use crate::fault;
use crate::rerank::Scores;
use crate::session::LawSession;

pub(crate) const VOCABULARY: u32 = 257;
const END: u32 = 256;
const END_TEXT: &str = "<|end|>";
pub(crate) const CONTEXT_TRAINED: u32 = 4096;

pub(crate) struct LawModel {
    row_us: u64,
    description: ModelDescription,
    vocabulary: Vocabulary,
    texts: Vec<String>,
    directions: Directions,
    scores: Scores,
}

impl LawModel {
    pub(crate) fn new(row_us: u64) -> Self {
        let text = |token: u32| match u8::try_from(token) {
            Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
            Ok(byte) => format!("<0x{byte:02X}>"),
            Err(_) => END_TEXT.to_owned(),
        };
        Self {
            row_us,
            description: ModelDescription { computes_on: "CPU".into(), architecture: "law".into(), quantisation: "none".into() },
            vocabulary: Vocabulary { size: VOCABULARY, eos: Some(END), eot: Some(END), kind: "bytes".into(), ..Vocabulary::default() },
            texts: (0..VOCABULARY).map(text).collect(),
            directions: Directions { row_us },
            scores: Scores { row_us },
        }
    }
}

impl Model for LawModel {
    fn description(&self) -> &ModelDescription {
        &self.description
    }

    fn forward(&self) -> Option<&dyn Forward> {
        Some(self)
    }

    fn tokenizer(&self) -> Option<&dyn Tokenizer> {
        Some(self)
    }

    fn embedder(&self) -> Option<&dyn Embedder> {
        Some(&self.directions)
    }

    fn reranker(&self) -> Option<&dyn Reranker> {
        Some(&self.scores)
    }
}

impl Forward for LawModel {
    fn limits(&self) -> ForwardLimits {
        ForwardLimits {
            vocabulary: VOCABULARY,
            context_trained: CONTEXT_TRAINED,
            max_batch: 512,
            max_sequences: 16,
            cut: true,
            snapshot: true,
            shift: true,
            state_per_token: 8,
            ..ForwardLimits::default()
        }
    }

    fn open_session(&self, args: &SessionArgs<'_>) -> Result<Box<dyn Session>, Error> {
        if fault::is("leaks-session") {
            core::mem::forget(vec![1_u8; 100 << 10]);
        }
        let allocation = Allocation { context: args.context, state_bytes: u64::from(args.context) * 8, scratch_bytes: 0 };
        Ok(Box::new(LawSession::new(allocation, args.sequences, self.row_us)))
    }
}

impl Tokenizer for LawModel {
    fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn token(&self, id: u32) -> Option<TokenInfo<'_>> {
        let text = self.texts.get(id as usize)?;
        let end = id == END && !fault::is("eos-goes-on");
        Some(TokenInfo { text, control: id == END, end, byte: id != END, ..TokenInfo::default() })
    }

    fn encode(&self, text: &str, how: Encode) -> Result<Vec<u32>, Error> {
        let text = if fault::is("loses-spaces") { text.trim_start() } else { text };
        if !how.parse_control && !fault::is("users-control") {
            return Ok(text.bytes().map(u32::from).collect());
        }
        let mut tokens = Vec::new();
        for (index, part) in text.split(END_TEXT).enumerate() {
            if index > 0 {
                tokens.push(END);
            }
            tokens.extend(part.bytes().map(u32::from));
        }
        Ok(tokens)
    }

    fn decode(&self, tokens: &[u32], control: bool) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        for token in tokens {
            match u8::try_from(*token) {
                Ok(byte) => bytes.push(byte),
                Err(_) if control => bytes.extend_from_slice(END_TEXT.as_bytes()),
                Err(_) => {}
            }
        }
        if fault::is("pieces-differ") && tokens.len() == 1 {
            bytes.push(b' ');
        }
        Ok(bytes)
    }
}
