//! The bytes of each token that was ever made, asked for once.
//!
//! A call through the plugin border per token and stream is time that the decode loop does not have; a table of all tokens would be
//! megabytes that are never read. So: a map that grows with use.

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend::{Fault, Vocabulary};
use crate::request::TokenId;

/// Bytes of tokens, as text. Control tokens have none, unless their texts are asked for.
pub(crate) struct Pieces {
    vocabulary: Arc<dyn Vocabulary>,
    known: HashMap<(TokenId, bool), Box<[u8]>>,
}

impl Pieces {
    /// An empty map over `vocabulary`.
    pub(crate) fn new(vocabulary: Arc<dyn Vocabulary>) -> Self {
        Self { vocabulary, known: HashMap::new() }
    }

    /// The bytes of `token`; with `control` of a control token its text.
    pub(crate) fn of(&mut self, token: TokenId, control: bool) -> Result<&[u8], Fault> {
        use std::collections::hash_map::Entry;
        match self.known.entry((token, control)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let bytes = self.vocabulary.decode(&[token], control)?;
                Ok(new.insert(bytes.into()))
            }
        }
    }
}
