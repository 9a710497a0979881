//! The vocabulary as llguidance wants it: the bytes of every token in one trie.
//!
//! Built once for a model, with its first constrained answer, because it costs a call through the plugin's border for every token. Control
//! tokens and tokens that end an answer stand apart, under a byte that no text has: a grammar reaches them by name (`<|name|>`) or by
//! number (`<[id]>`) and never by accident. Tokens that cannot be part of any text, because that byte is in them or because they are
//! longer than the trie is deep, are left out: no constraint allows them.

use std::panic::catch_unwind;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, INVALID_TOKEN, InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie};

use super::grammar;
use crate::backend::Vocabulary;
use crate::request::{EngineError, TokenId};

/// A set of tokens.
pub(crate) type Mask = SimpleVob;

/// Stands before the text of a token that is not text. Never part of UTF-8.
const APART: u8 = TokTrie::SPECIAL_TOKEN_MARKER;
/// The deepest that the trie may get.
const MOST_TOKEN_BYTES: usize = 512;

/// The vocabulary of one model, ready to compile constraints for.
pub(crate) struct Lexicon {
    env: TokEnv,
    factory: ParserFactory,
    digits: OnceLock<Arc<Mask>>,
}

impl Lexicon {
    /// Asks for every token.
    ///
    /// # Errors
    /// The plugin's.
    pub(crate) fn read(vocabulary: &dyn Vocabulary) -> Result<Self, EngineError> {
        let begin = Instant::now();
        let size = vocabulary.facts().size;
        let mut words = Vec::with_capacity(size as usize);
        let mut ends = Vec::new();
        for id in 0..size {
            let token = vocabulary.token(id)?;
            if token.end {
                ends.push(id);
            }
            let mut word = Vec::new();
            if !(token.control || token.end) {
                word = vocabulary.decode(&[id], false)?;
            } else if !token.text.is_empty() {
                word.push(APART);
                word.extend_from_slice(token.text.as_bytes());
            }
            let is_text = !word.iter().skip(usize::from(token.control || token.end)).any(|byte| *byte == APART);
            words.push(if is_text && word.len() <= MOST_TOKEN_BYTES { word } else { Vec::new() });
        }
        let built = catch_unwind(|| Self::build(size, &words, &ends)).unwrap_or_else(|_| Err("its builder panicked".to_owned()));
        let lexicon = built.map_err(|error| EngineError::Constraint(format!("the vocabulary cannot be prepared: {error}")))?;
        tracing::debug!(tokens = size, took = ?begin.elapsed(), "the vocabulary is ready for constraints");
        Ok(lexicon)
    }

    fn build(size: u32, words: &[Vec<u8>], ends: &[TokenId]) -> Result<Self, String> {
        let mut trie = TokTrie::from(&TokRxInfo::new(size, ends.first().copied().unwrap_or(INVALID_TOKEN)), words);
        if !ends.is_empty() {
            trie = trie.with_eos_tokens(ends);
        }
        // Not canonical: the model chooses how to cut a text into tokens, also where the grammar leaves it only one text.
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &SlicedBiasComputer::general_slices())
            .map_err(|error| error.to_string())?;
        *factory.limits_mut() = grammar::limits();
        factory.quiet();
        Ok(Self { env, factory, digits: OnceLock::new() })
    }

    /// Compiles grammars.
    pub(super) fn factory(&self) -> &ParserFactory {
        &self.factory
    }

    /// The tokens that begin with a digit.
    pub(super) fn digits(&self) -> Arc<Mask> {
        Arc::clone(self.digits.get_or_init(|| Arc::new(self.select(|word| word.first().is_some_and(u8::is_ascii_digit)))))
    }

    /// The control token with this text.
    pub(super) fn control(&self, text: &str) -> Option<TokenId> {
        let mut word = vec![APART];
        word.extend_from_slice(text.as_bytes());
        self.env.tok_trie().token_id_at_bytes(&word)
    }

    /// The tokens that do not end an answer and whose text (of control tokens too) `is_wanted`.
    pub(super) fn select(&self, is_wanted: impl Fn(&[u8]) -> bool) -> Mask {
        let trie = self.env.tok_trie();
        let mut mask = trie.alloc_token_set();
        for token in 0..trie.vocab_size() as TokenId {
            let word = trie.token(token);
            if is_wanted(word.strip_prefix(&[APART]).unwrap_or(word)) {
                mask.allow_token(token);
            }
        }
        for end in trie.eos_tokens().iter().filter(|end| **end != INVALID_TOKEN) {
            mask.disallow_token(*end);
        }
        mask
    }
}
