//! GGUF versions 2 and 3: the header (key/value metadata, tensor infos), never the weights.
//!
//! [`Gguf::open`] reads and checks the whole header once; everything afterwards is a look into memory. A file that comes through is safe
//! to hand to a C reader that trusts more than it should: no zero dimension, no tensor outside the file, no two tensors in one place.

mod error;
mod facts;
mod header;
mod source;
mod split;
mod types;
mod value;

pub use error::GgufError;
pub use facts::{GgufFacts, Purpose};
pub use header::{Gguf, HEADER_LIMIT, TensorInfo};
pub use split::Split;
pub use types::{GGML_TYPES, GgmlType};
pub use value::{Array, Texts, Value};
