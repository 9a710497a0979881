//! What is true of a model, read once at the start: its special tokens and what the front must know.

use std::collections::HashSet;
use std::sync::Arc;

use crate::backend::{EmbedLimits, ForwardLimits, RerankLimits, Vocabulary, VocabularyFacts};
use crate::request::{EmbeddingFacts, EngineError, ModelFacts, TokenId};

/// A vocabulary with its special tokens.
pub(crate) struct Tokens {
    vocabulary: Arc<dyn Vocabulary>,
    facts: VocabularyFacts,
    ends: HashSet<TokenId>,
    control: Vec<String>,
}

impl Tokens {
    /// Reads them all.
    ///
    /// # Errors
    /// The plugin's.
    pub(crate) fn read(vocabulary: Arc<dyn Vocabulary>) -> Result<Self, EngineError> {
        let facts = vocabulary.facts();
        let mut ends = HashSet::new();
        let mut control = Vec::new();
        for id in 0..facts.size {
            let token = vocabulary.token(id)?;
            if token.end {
                ends.insert(id);
            }
            if token.control && !token.text.is_empty() {
                control.push(token.text);
            }
        }
        Ok(Self { vocabulary, facts, ends, control })
    }

    /// The tokenizer.
    pub(crate) fn vocabulary(&self) -> &dyn Vocabulary {
        self.vocabulary.as_ref()
    }

    /// The tokenizer, to keep.
    pub(crate) fn share(&self) -> Arc<dyn Vocabulary> {
        Arc::clone(&self.vocabulary)
    }

    /// Its facts.
    pub(crate) fn facts(&self) -> &VocabularyFacts {
        &self.facts
    }

    /// The token ends a generation.
    pub(crate) fn ends(&self, token: TokenId) -> bool {
        self.ends.contains(&token)
    }

    fn text(&self, token: Option<TokenId>) -> Option<String> {
        token.and_then(|token| self.vocabulary.token(token).ok()).map(|token| token.text)
    }
}

/// Positions one request may use.
pub(crate) fn context_per_request(limits: &ForwardLimits) -> u32 {
    limits.context / limits.slots.max(1)
}

/// The facts that the parts themselves know; the loader's stay empty.
pub(crate) fn facts(
    tokens: &Tokens,
    forward: Option<ForwardLimits>,
    embed: Option<EmbedLimits>,
    rerank: Option<RerankLimits>,
) -> ModelFacts {
    let pair = rerank.map_or(0, |limits| limits.max_tokens.saturating_add(limits.joints));
    let at_once = embed.map_or(pair, |limits| limits.max_tokens);
    ModelFacts {
        plugin: String::new(),
        plugin_version: String::new(),
        device: String::new(),
        computes_on: String::new(),
        architecture: String::new(),
        quantisation: String::new(),
        context: forward.map_or(at_once, |limits| context_per_request(&limits)),
        context_trained: 0,
        slots: forward.map_or(1, |limits| limits.slots),
        vocabulary: tokens.facts.size,
        chat_template: tokens.facts.chat_template.clone().filter(|template| !template.is_empty()),
        bos: tokens.text(tokens.facts.bos),
        eos: tokens.text(tokens.facts.eos),
        control_tokens: tokens.control.clone(),
        embedding: embed.map(|limits| EmbeddingFacts { dimension: limits.dimension, tokens: limits.max_tokens }),
        ranks: rerank.is_some(),
        state_bytes: 0,
    }
}
