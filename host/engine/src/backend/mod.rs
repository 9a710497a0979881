//! What the engine asks of a plugin, in the engine's own words.
//!
//! Four small traits instead of the loader's handles, so that scheduling and sampling can be tested against a backend whose every
//! answer is known. The loader's handles implement them in [`loaded`]; both sides pass the same laws.

mod loaded;

pub(crate) use loaded::LoadedSession;

use std::time::Duration;

use onebit_loader::CancelFlag;

use crate::request::{EngineError, TokenId};

/// What a model can do at token level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardLimits {
    /// Columns of the logits. May be more than the vocabulary has tokens (padding).
    pub vocabulary: u32,
    /// Tokens one batch may have at most.
    pub batch: u32,
    /// Requests computed side by side, each in a sequence of its own.
    pub slots: u32,
    /// Sequences the session holds: those of the slots, and others in which state is kept for later.
    pub sequences: u32,
    /// Positions in all sequences together.
    pub context: u32,
    /// State can be cut at any position; otherwise only a whole sequence can be removed.
    pub cuttable: bool,
}

/// One batch: row i is `tokens[i]` at `positions[i]` of sequence `sequences[i]`. All four have the same length.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Token ids.
    pub tokens: &'a [TokenId],
    /// Positions; those of one sequence follow its state without a gap, in rising order.
    pub positions: &'a [u32],
    /// Sequence numbers.
    pub sequences: &'a [u32],
    /// Rows whose logits are wanted.
    pub wants_logits: &'a [bool],
    /// Is set when the work is to stop.
    pub cancel: &'a CancelFlag,
}

/// A session: sequences and their state. Belongs to the engine's thread.
pub trait Forward: Send {
    /// What was allocated.
    fn limits(&self) -> ForwardLimits;

    /// Computes a batch and appends it to the state. Answers with the logits of the rows that wanted them, row-major, each
    /// [`ForwardLimits::vocabulary`] wide.
    ///
    /// # Errors
    /// After any error the rows may or may not have entered the state; the engine removes them.
    fn forward(&mut self, rows: &Rows<'_>) -> Result<&[f32], Fault>;

    /// Copies the first `positions` of a sequence into one that is empty; only with [`ForwardLimits::cuttable`].
    ///
    /// # Errors
    /// The plugin's; the state of `destination` is then unknown.
    fn copy(&mut self, source: u32, destination: u32, positions: u32) -> Result<(), Fault>;

    /// Removes the positions `from ..` of a sequence. `from = 0` always works, another only with [`ForwardLimits::cuttable`].
    ///
    /// # Errors
    /// The plugin's; the state is then unknown.
    fn remove(&mut self, sequence: u32, from: u32) -> Result<(), Fault>;
}

/// Facts about a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VocabularyFacts {
    /// Tokens are `0 ..< size`.
    pub size: u32,
    /// Beginning of a text.
    pub bos: Option<TokenId>,
    /// End of a text.
    pub eos: Option<TokenId>,
    /// The model wants `bos` first.
    pub adds_bos: bool,
    /// The model wants `eos` last (texts to embed; never a prompt to continue).
    pub adds_eos: bool,
    /// The chat template of the model file.
    pub chat_template: Option<String>,
}

/// Facts about one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFacts {
    /// Never made from a user's text.
    pub control: bool,
    /// Ends a generation.
    pub end: bool,
    /// As a template writes it.
    pub text: String,
}

/// The tokenizer of a model. From any thread, also while the session computes.
pub trait Vocabulary: Send + Sync {
    /// Its facts.
    fn facts(&self) -> VocabularyFacts;

    /// Facts of one token of the vocabulary.
    ///
    /// # Errors
    /// The plugin's.
    fn token(&self, id: TokenId) -> Result<TokenFacts, Fault>;

    /// Text to tokens, without start and end tokens. `control`: texts of control tokens become those tokens.
    ///
    /// # Errors
    /// The plugin's.
    fn encode(&self, text: &str, control: bool) -> Result<Vec<TokenId>, Fault>;

    /// Tokens to bytes (not text: a token may end inside a character). The bytes of tokens simply follow each other.
    ///
    /// # Errors
    /// The plugin's.
    fn decode(&self, tokens: &[TokenId], control: bool) -> Result<Vec<u8>, Fault>;
}

/// What a model gives as embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbedLimits {
    /// Values per vector.
    pub dimension: u32,
    /// Tokens one text may have at most.
    pub max_tokens: u32,
}

/// Texts in, vectors out. Calls wait for each other.
pub trait Embed: Send + Sync {
    /// Its limits.
    fn limits(&self) -> EmbedLimits;

    /// One vector of length 1 per text, each [`EmbedLimits::dimension`] long.
    ///
    /// # Errors
    /// The plugin's.
    fn embed(&self, texts: &[&[TokenId]], cancel: &CancelFlag) -> Result<Vec<Vec<f32>>, Fault>;
}

/// How long a query and a document may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RerankLimits {
    /// Tokens both may have together at most.
    pub max_tokens: u32,
    /// Tokens that the plugin puts around them; for counting.
    pub joints: u32,
}

/// A query and documents in, scores out. Calls wait for each other.
pub trait Rerank: Send + Sync {
    /// Its limits.
    fn limits(&self) -> RerankLimits;

    /// One score, 0 ..= 1, per document. No text has start, end or separating tokens.
    ///
    /// # Errors
    /// The plugin's.
    fn rerank(&self, query: &[TokenId], documents: &[&[TokenId]], cancel: &CancelFlag) -> Result<Vec<f32>, Fault>;
}

/// How a call into the plugin failed, sorted by what the engine does about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The cancel flag was seen.
    Cancelled,
    /// Bytes wanted and free. Ends one request; the others go on.
    OutOfMemory {
        /// Bytes wanted.
        want: u64,
        /// Bytes free.
        free: u64,
    },
    /// The plugin has no room for the positions. Ends one request; the others go on.
    ContextOverflow {
        /// Positions there are.
        have: u64,
        /// Positions asked for.
        need: u64,
    },
    /// Try again then.
    Busy {
        /// When.
        retry: Duration,
    },
    /// The call was refused (bad argument, not offered); the plugin itself is sound.
    Refused {
        /// Name of the status.
        status: String,
        /// The plugin's sentence.
        message: String,
    },
    /// The plugin or its device is broken; nothing that comes after can be trusted.
    Broken {
        /// Name of the status.
        status: String,
        /// The plugin's sentence.
        message: String,
    },
}

impl From<Fault> for EngineError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Cancelled => Self::Cancelled,
            Fault::OutOfMemory { want, free } => Self::OutOfMemory { want, free },
            Fault::ContextOverflow { have, need } => {
                Self::ContextOverflow { have: u32::try_from(have).unwrap_or(u32::MAX), need: u32::try_from(need).unwrap_or(u32::MAX) }
            }
            Fault::Busy { retry } => Self::Plugin {
                status: "busy".into(),
                message: format!("the plugin asked to come back in {} ms, too often in a row", retry.as_millis()),
            },
            Fault::Refused { status, message } | Fault::Broken { status, message } => Self::Plugin { status, message },
        }
    }
}
