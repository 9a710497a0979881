//! Sequences, batches, sampling: text generation over any plugin.
mod request;
pub use request::*;
