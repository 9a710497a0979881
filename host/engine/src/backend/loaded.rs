//! The loader's handles, as the engine sees them. Nothing is decided here; the loader has checked what the plugin said.

use std::time::Duration;

use onebit_loader::{Batch, CancelFlag, Embedder, Encode, Input, PluginError, Reranker, Session, Status, Tokenizer};

use super::{Embed, EmbedLimits, Fault, Forward, ForwardLimits, Rerank, RerankLimits, Rows, TokenFacts, Vocabulary, VocabularyFacts};
use crate::request::TokenId;

/// A session with the size it was opened with.
pub(crate) struct LoadedSession {
    session: Session,
    limits: ForwardLimits,
}

impl LoadedSession {
    /// Wraps a session that was opened with these sizes. A plugin may round the context up; nobody was promised that.
    pub(crate) fn new(session: Session, context: u32, slots: u32, sequences: u32, batch: u32) -> Self {
        let model = session.limits();
        let limits = ForwardLimits { vocabulary: model.vocabulary, batch, slots, sequences, context, cuttable: model.cut };
        Self { session, limits }
    }
}

impl Forward for LoadedSession {
    fn limits(&self) -> ForwardLimits {
        self.limits
    }

    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], Fault> {
        let batch = Batch {
            input: Input::Tokens(rows.tokens),
            positions: rows.positions,
            sequences: rows.sequences,
            wants_logits: rows.wants_logits,
            cancel: Some(rows.cancel),
        };
        Ok(self.session.forward(&batch)?.data())
    }

    fn copy(&mut self, source: u32, destination: u32, positions: u32) -> Result<(), Fault> {
        Ok(self.session.seq_copy(source, destination, 0, positions)?)
    }

    fn remove(&mut self, sequence: u32, from: u32) -> Result<(), Fault> {
        Ok(self.session.seq_remove(sequence, from, u32::MAX)?)
    }
}

impl Vocabulary for Tokenizer {
    fn facts(&self) -> VocabularyFacts {
        let facts = self.vocabulary();
        VocabularyFacts {
            size: facts.size,
            bos: facts.bos,
            eos: facts.eos,
            adds_bos: facts.adds_bos,
            adds_eos: facts.adds_eos,
            chat_template: facts.chat_template.clone(),
        }
    }

    fn token(&self, id: TokenId) -> Result<TokenFacts, Fault> {
        let facts = Tokenizer::token(self, id)?;
        Ok(TokenFacts { control: facts.control, end: facts.end, text: facts.text })
    }

    fn encode(&self, text: &str, control: bool) -> Result<Vec<TokenId>, Fault> {
        Ok(Tokenizer::encode(self, text, Encode { parse_control: control, add_special: false })?)
    }

    fn decode(&self, tokens: &[TokenId], control: bool) -> Result<Vec<u8>, Fault> {
        Ok(Tokenizer::decode(self, tokens, control)?)
    }
}

impl Embed for Embedder {
    fn limits(&self) -> EmbedLimits {
        let limits = Embedder::limits(self);
        EmbedLimits { dimension: limits.dimension, max_tokens: limits.max_tokens }
    }

    fn embed(&self, texts: &[&[TokenId]], cancel: &CancelFlag) -> Result<Vec<Vec<f32>>, Fault> {
        Ok(Embedder::embed(self, texts, true, Some(cancel))?)
    }
}

impl Rerank for Reranker {
    fn limits(&self) -> RerankLimits {
        let limits = Reranker::limits(self);
        RerankLimits { max_tokens: limits.max_tokens, joints: limits.joints }
    }

    fn rerank(&self, query: &[TokenId], documents: &[&[TokenId]], cancel: &CancelFlag) -> Result<Vec<f32>, Fault> {
        Ok(Reranker::rerank(self, query, documents, Some(cancel))?)
    }
}

impl From<PluginError> for Fault {
    fn from(error: PluginError) -> Self {
        let PluginError { status, have, need, want, free, retry_ms, message } = error;
        match status {
            Status::CANCELLED => Self::Cancelled,
            Status::OUT_OF_DEVICE_MEMORY | Status::OUT_OF_HOST_MEMORY => Self::OutOfMemory { want, free },
            Status::CONTEXT_OVERFLOW => Self::ContextOverflow { have, need },
            Status::BUSY => Self::Busy { retry: Duration::from_millis(retry_ms) },
            Status::INVALID_ARGUMENT | Status::UNSUPPORTED => Self::Refused { status: status.to_string(), message },
            _ => Self::Broken { status: status.to_string(), message },
        }
    }
}
