//! Readers of model files, for hosts and plugins alike.
//!
//! A model file is untrusted: it may be cut off, damaged or built to hurt. So every length, count, offset and product is checked against
//! the file's size before anything is allocated or skipped, memory stays in proportion to the bytes that were really read, and each
//! refusal names the key, tensor or offset where it happened.
//!
//! What this crate must never do: read weights to answer a question about the header, allocate by a number that a file claims, or guess
//! a value that the file does not state.

pub mod gguf;

pub use gguf::{GgmlType, Gguf, GgufError, GgufFacts, Purpose};
