//! `onebit.embed/1`: texts (as tokens) in, one vector per text out.

use crate::basic::OnebitStr;
use crate::plugin::OnebitModel;
use crate::status::OnebitStatus;

/// Capability id.
pub const ONEBIT_EMBED_1: &str = "onebit.embed/1";

/// What a model gives as embeddings.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitEmbedLimits {
    /// `sizeof(OnebitEmbedLimits)` of the host.
    pub struct_size: usize,
    /// Values per vector.
    pub dimension: u32,
    /// Tokens one text may have at most.
    pub max_tokens: u32,
    /// How a text's vector is made, for people: `mean`, `cls`, `last`. Lives until `close`.
    pub pooling: OnebitStr,
}

/// Input of `embed`: `n` texts, text i = `tokens[offsets[i] ..< offsets[i + 1]]`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitEmbedArgs {
    /// `sizeof(OnebitEmbedArgs)` of the host.
    pub struct_size: usize,
    /// All texts' tokens, one after the other.
    pub tokens: *const u32,
    /// `n + 1` offsets into `tokens`.
    pub offsets: *const u32,
    /// Texts.
    pub n: u32,
    /// 1 = scale each vector to length 1.
    pub normalise: u32,
    /// Becomes non-zero when the work is to stop; looked at at least every 50 ms. May be null.
    pub cancel: *const u32,
    /// Written: `n × dimension` values, row-major. Owned and initialised by the caller.
    pub vectors: *mut f32,
    /// Values that fit into `vectors`.
    pub capacity: usize,
}

/// The table of `onebit.embed/1`. All functions must be there. `embed` from any thread, one call at a time per model.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitEmbed {
    /// `sizeof(OnebitEmbed)` of the plugin.
    pub struct_size: usize,
    /// Fills `out`.
    pub limits: Option<unsafe extern "C" fn(model: *mut OnebitModel, out: *mut OnebitEmbedLimits) -> OnebitStatus>,
    /// Computes all vectors or fails as a whole.
    pub embed: Option<unsafe extern "C" fn(model: *mut OnebitModel, args: *const OnebitEmbedArgs) -> OnebitStatus>,
}
