//! `onebit.rerank/1`: a query and documents (as tokens) in, one score per document out.

use crate::{Cancel, Error};

/// How long a query and a document may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RerankLimits {
    /// Tokens that a query and one document may have together at most, without what the plugin puts around them.
    pub max_tokens: u32,
    /// Tokens that the plugin puts around a query and a document; for counting.
    pub joints: u32,
}

/// A model that reads a query and a document together and says how well they fit. The host makes one call at a time per model, from any
/// thread; other threads may compute in sessions meanwhile.
pub trait Reranker: Sync {
    /// How much it reads. Constant during the model's life.
    fn limits(&self) -> RerankLimits;

    /// Computes all scores or fails as a whole: 0 = the document has nothing to do with the query, 1 = it answers it. `out` holds exactly
    /// `documents.len()` values. Neither `query` nor `documents` have start, end or separating tokens; the model's own way to put a pair
    /// together is the plugin's work.
    fn rerank(&self, query: &[u32], documents: &[&[u32]], cancel: Cancel<'_>, out: &mut [f32]) -> Result<(), Error>;
}
