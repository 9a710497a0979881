//! Ranking: a query and documents to tokens, a few documents per call, scores back in the order asked.

use onebit_loader::CancelFlag;

use super::call::{TEXTS_PER_CALL, step};
use super::facts::Tokens;
use super::shared::Shared;
use crate::backend::Rerank;
use crate::request::{EngineError, Ranking, RerankRequest, TokenId};

/// All scores or an error.
pub(super) fn rerank(
    rerank: &dyn Rerank,
    tokens: &Tokens,
    shared: &Shared,
    request: &RerankRequest,
    cancel: &CancelFlag,
) -> Result<Ranking, EngineError> {
    if request.documents.is_empty() {
        return Err(EngineError::InvalidRequest {
            message: "there is nothing to rank; give at least one document".into(),
            param: Some("documents".into()),
        });
    }
    let limits = rerank.limits();
    // Query and documents are data: control tokens in them stay text.
    let encode = |text: &str| tokens.vocabulary().encode(text, false);
    let query = encode(&request.query)?;
    let room = (limits.max_tokens as usize).saturating_sub(query.len());
    if room == 0 {
        return Err(EngineError::QueryTooLong { have: limits.max_tokens, need: count(query.len()) });
    }
    let mut documents: Vec<Vec<TokenId>> = Vec::with_capacity(request.documents.len());
    let mut prompt_tokens = 0u32;
    for (index, document) in request.documents.iter().enumerate() {
        if cancel.is_set() {
            return Err(EngineError::Cancelled);
        }
        let mut document = encode(document)?;
        if document.len() > room && request.truncate {
            document.truncate(room);
        }
        let pair = count(query.len() + document.len());
        if document.len() > room {
            return Err(EngineError::DocumentTooLong { index: count(index), have: limits.max_tokens, need: pair });
        }
        prompt_tokens = prompt_tokens.saturating_add(pair).saturating_add(limits.joints);
        documents.push(document);
    }
    let mut scores = Vec::with_capacity(documents.len());
    for group in documents.chunks(TEXTS_PER_CALL) {
        let group: Vec<&[TokenId]> = group.iter().map(Vec::as_slice).collect();
        let computed = step(shared, cancel, || rerank.rerank(&query, &group, cancel))?;
        if computed.len() != group.len() || computed.iter().any(|score| !(0.0..=1.0).contains(score)) {
            return Err(EngineError::Plugin {
                status: "internal".into(),
                message: "the scores of the plugin are too few, or not between 0 and 1".into(),
            });
        }
        scores.extend(computed);
    }
    Ok(Ranking { scores, prompt_tokens })
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
