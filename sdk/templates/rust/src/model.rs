//! What a loaded model can do: its limits, and the tokenizer that comes with it. Here every byte is a token, and one more ends an answer.

use std::sync::Arc;

use onebit_sdk::{
    Allocation, Embedder, Encode, Error, Forward, ForwardLimits, Model, ModelDescription, Session, SessionArgs, TokenInfo, Tokenizer,
    Vocabulary,
};

use crate::embed::Histogram;
use crate::session::NgramSession;
use crate::table::{END, Table, VOCABULARY};

pub(crate) const CONTEXT_TRAINED: u32 = 4096;
pub(crate) const MAX_BATCH: u32 = 512;
const MAX_SEQUENCES: u32 = 64;
const END_TEXT: &str = "<|end|>";

/// Never changes after it was loaded, so sessions on several threads share it.
pub(crate) struct NgramModel {
    table: Arc<Table>,
    /// Pretend that each row takes this long.
    row_us: u64,
    description: ModelDescription,
    vocabulary: Vocabulary,
    texts: Vec<String>,
}

impl NgramModel {
    pub(crate) fn new(table: Table, row_us: u64) -> Self {
        let byte_text = |byte: u8| {
            if byte.is_ascii() { char::from(byte).to_string() } else { format!("<0x{byte:02X}>") }
        };
        Self {
            table: Arc::new(table),
            row_us,
            description: ModelDescription { computes_on: "CPU".into(), architecture: "ngram".into(), quantisation: "counts".into() },
            vocabulary: Vocabulary {
                size: VOCABULARY,
                eos: Some(END),
                eot: Some(END),
                chat_template: Some("{% for message in messages %}{{ message.content }}{% endfor %}".into()),
                kind: "bytes".into(),
                ..Vocabulary::default()
            },
            texts: (0..=u8::MAX).map(byte_text).chain([END_TEXT.into()]).collect(),
        }
    }
}

impl Model for NgramModel {
    fn description(&self) -> &ModelDescription {
        &self.description
    }

    fn forward(&self) -> Option<&dyn Forward> {
        Some(self)
    }

    fn tokenizer(&self) -> Option<&dyn Tokenizer> {
        Some(self)
    }

    // A capability that is not offered is simply not implemented: the default is `None`.
    fn embedder(&self) -> Option<&dyn Embedder> {
        Some(&Histogram)
    }
}

impl Forward for NgramModel {
    fn limits(&self) -> ForwardLimits {
        ForwardLimits {
            vocabulary: VOCABULARY,
            context_trained: CONTEXT_TRAINED,
            max_batch: MAX_BATCH,
            max_sequences: MAX_SEQUENCES,
            // Only what is exact. A recurrent model cannot be cut; without `shift` the host computes the moved part again.
            cut: true,
            snapshot: true,
            shift: true,
            state_per_token: 8,
            ..ForwardLimits::default()
        }
    }

    fn open_session(&self, args: &SessionArgs<'_>) -> Result<Box<dyn Session>, Error> {
        let allocation = Allocation {
            context: args.context,
            state_bytes: u64::from(args.context) * 8,
            scratch_bytes: u64::from(args.batch) * u64::from(VOCABULARY) * 4,
        };
        Ok(Box::new(NgramSession::new(Arc::clone(&self.table), allocation, args.sequences, self.row_us)))
    }
}

impl Tokenizer for NgramModel {
    fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn token(&self, id: u32) -> Option<TokenInfo<'_>> {
        let text = self.texts.get(id as usize)?;
        Some(TokenInfo { text, control: id == END, end: id == END, byte: id != END, ..TokenInfo::default() })
    }

    fn encode(&self, text: &str, how: Encode) -> Result<Vec<u32>, Error> {
        // Then the text is a user's: `<|end|>` in it is seven bytes, never the token.
        if !how.parse_control {
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
                Err(_) if control => bytes.extend(END_TEXT.bytes()),
                Err(_) => {}
            }
        }
        Ok(bytes)
    }
}
