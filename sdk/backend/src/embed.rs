//! `onebit.embed/1`: texts (as tokens) in, one vector per text out.

use crate::{Cancel, Error};

/// What a model gives as embeddings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EmbedLimits {
    /// Values per vector.
    pub dimension: u32,
    /// Tokens one text may have at most.
    pub max_tokens: u32,
    /// How a text's vector is made, for people: `mean`, `cls`, `last`.
    pub pooling: String,
}

/// A model that embeds. The host makes one call at a time per model, from any thread; other threads may compute in sessions meanwhile.
pub trait Embedder: Sync {
    /// What it gives. Constant during the model's life.
    fn limits(&self) -> EmbedLimits;

    /// Computes all vectors or fails as a whole. `out` holds exactly `texts.len() × dimension` values, row-major. `normalise`: scale each
    /// vector to length 1.
    fn embed(&self, texts: &[&[u32]], normalise: bool, cancel: Cancel<'_>, out: &mut [f32]) -> Result<(), Error>;
}
