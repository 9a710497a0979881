//! `onebit.rerank/1`: a query and documents (as tokens) in, how well each document answers the query out. Since 1.1.

use crate::plugin::OnebitModel;
use crate::status::OnebitStatus;

/// Capability id.
pub const ONEBIT_RERANK_1: &str = "onebit.rerank/1";

/// How long a query and a document may be.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitRerankLimits {
    /// `sizeof(OnebitRerankLimits)` of the host.
    pub struct_size: usize,
    /// Tokens that a query and one document may have together at most, without what the plugin puts around them.
    pub max_tokens: u32,
    /// Tokens that the plugin puts around a query and a document; for counting.
    pub joints: u32,
}

/// Input of `rerank`: a query and `n` documents, document i = `tokens[offsets[i] ..< offsets[i + 1]]`. None of them has start, end or
/// separating tokens: how a pair is put together is the model's own, so the plugin does it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitRerankArgs {
    /// `sizeof(OnebitRerankArgs)` of the host.
    pub struct_size: usize,
    /// The query's tokens.
    pub query: *const u32,
    /// All documents' tokens, one after the other.
    pub tokens: *const u32,
    /// `n + 1` offsets into `tokens`.
    pub offsets: *const u32,
    /// Tokens of the query.
    pub n_query: u32,
    /// Documents.
    pub n: u32,
    /// Becomes non-zero when the work is to stop; looked at at least every 50 ms. May be null.
    pub cancel: *const u32,
    /// Written: `n` scores, 0 = the document has nothing to do with the query, 1 = it answers it. Owned and initialised by the caller.
    pub scores: *mut f32,
    /// Values that fit into `scores`.
    pub capacity: usize,
}

/// The table of `onebit.rerank/1`. All functions must be there. `rerank` from any thread, one call at a time per model.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitRerank {
    /// `sizeof(OnebitRerank)` of the plugin.
    pub struct_size: usize,
    /// Fills `out`.
    pub limits: Option<unsafe extern "C" fn(model: *mut OnebitModel, out: *mut OnebitRerankLimits) -> OnebitStatus>,
    /// Computes all scores or fails as a whole.
    pub rerank: Option<unsafe extern "C" fn(model: *mut OnebitModel, args: *const OnebitRerankArgs) -> OnebitStatus>,
}
