//! A prompt becomes tokens.
//!
//! Text comes in parts, each with a word whether the texts of control tokens in it are control tokens. Template text is; what a user
//! typed is not: a turn marker in a message reaches the model as ordinary text and cannot fake a turn. Neighbours with the same word are
//! joined first, because a tokenizer may give other tokens for a text than for its pieces.
//!
//! The start token stands exactly once: it is added only when the vocabulary asks for it and the text did not bring it. The end token is
//! never added to a prompt that is to be continued.

use std::borrow::Cow;

use crate::backend::{Vocabulary, VocabularyFacts};
use crate::request::{EngineError, Prompt, PromptPart, TokenId};

/// What the tokens are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be continued; the start token only if asked for.
    Continue {
        /// The request's wish.
        add_special: bool,
    },
    /// To be embedded: start and end as the vocabulary wants them.
    Embed,
}

/// The tokens of `prompt`; at least one.
///
/// # Errors
/// [`EngineError::InvalidRequest`] for an empty prompt where there is no start token, or for ids outside the vocabulary; the plugin's.
pub(crate) fn tokens(
    vocabulary: &dyn Vocabulary,
    facts: &VocabularyFacts,
    prompt: &Prompt,
    purpose: Purpose,
) -> Result<Vec<TokenId>, EngineError> {
    let mut tokens = match prompt {
        Prompt::Tokens(tokens) => {
            if let Some((place, token)) = tokens.iter().enumerate().find(|(_, token)| **token >= facts.size) {
                return Err(invalid(format!(
                    "token {token} at place {place} of the prompt does not exist; this model has the tokens 0 to {}",
                    facts.size.saturating_sub(1)
                )));
            }
            tokens.clone()
        }
        Prompt::Parts(parts) => {
            let mut tokens = Vec::new();
            for (text, control) in joined(parts) {
                tokens.append(&mut vocabulary.encode(&text, control)?);
            }
            let (start, end) = match purpose {
                Purpose::Continue { add_special } => (add_special && facts.adds_bos, false),
                Purpose::Embed => (facts.adds_bos, facts.adds_eos),
            };
            if let Some(bos) = facts.bos.filter(|bos| start && tokens.first() != Some(bos)) {
                tokens.insert(0, bos);
            }
            if let Some(eos) = facts.eos.filter(|eos| end && tokens.last() != Some(eos)) {
                tokens.push(eos);
            }
            tokens
        }
    };
    if tokens.is_empty() {
        match facts.bos {
            Some(bos) => tokens.push(bos),
            None => {
                return Err(invalid("the prompt is empty and this model has no start token; give at least one token".to_owned()));
            }
        }
    }
    Ok(tokens)
}

/// Bytes of text to encode: what it costs.
pub(crate) fn text_bytes(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Parts(parts) => parts.iter().map(|part| part.text.len()).sum(),
        Prompt::Tokens(_) => 0,
    }
}

fn invalid(message: String) -> EngineError {
    EngineError::InvalidRequest { message, param: Some("prompt".to_owned()) }
}

fn joined(parts: &[PromptPart]) -> Vec<(Cow<'_, str>, bool)> {
    let mut joined: Vec<(Cow<'_, str>, bool)> = Vec::new();
    for part in parts.iter().filter(|part| !part.text.is_empty()) {
        match joined.last_mut() {
            Some((text, control)) if *control == part.control => text.to_mut().push_str(&part.text),
            _ => joined.push((Cow::Borrowed(&part.text), part.control)),
        }
    }
    joined
}
