//! Embeddings: texts to tokens, a few texts per call, vectors back in the order asked.

use onebit_loader::CancelFlag;

use super::call::{TEXTS_PER_CALL, step};
use super::facts::Tokens;
use super::shared::Shared;
use crate::backend::Embed;
use crate::prompt::{self, Purpose};
use crate::request::{EmbedRequest, Embeddings, EngineError, TokenId};

/// All vectors or an error.
pub(crate) fn embed(
    embed: &dyn Embed,
    tokens: &Tokens,
    shared: &Shared,
    request: &EmbedRequest,
    cancel: &CancelFlag,
) -> Result<Embeddings, EngineError> {
    if request.inputs.is_empty() {
        return Err(EngineError::InvalidRequest {
            message: "there is nothing to embed; give at least one text".into(),
            param: Some("inputs".into()),
        });
    }
    let limits = embed.limits();
    let mut texts: Vec<Vec<TokenId>> = Vec::with_capacity(request.inputs.len());
    let mut prompt_tokens = 0u32;
    for input in &request.inputs {
        if cancel.is_set() {
            return Err(EngineError::Cancelled);
        }
        let text = prompt::tokens(tokens.vocabulary(), tokens.facts(), input, Purpose::Embed)?;
        let need = u32::try_from(text.len()).unwrap_or(u32::MAX);
        if need > limits.max_tokens {
            return Err(EngineError::TextTooLong { have: limits.max_tokens, need });
        }
        prompt_tokens = prompt_tokens.saturating_add(need);
        texts.push(text);
    }
    let mut vectors = Vec::with_capacity(texts.len());
    for group in texts.chunks(TEXTS_PER_CALL) {
        let group: Vec<&[TokenId]> = group.iter().map(Vec::as_slice).collect();
        let computed = step(shared, cancel, || embed.embed(&group, cancel))?;
        let whole = computed.len() == group.len() && computed.iter().all(|vector| vector.len() == limits.dimension as usize);
        if !whole || computed.iter().flatten().any(|value| !value.is_finite()) {
            return Err(EngineError::Plugin {
                status: "internal".into(),
                message: "the vectors of the plugin are too few, of the wrong length, or hold NaN or infinity".into(),
            });
        }
        vectors.extend(computed);
    }
    Ok(Embeddings { vectors, prompt_tokens })
}
