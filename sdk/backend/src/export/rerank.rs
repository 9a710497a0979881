//! The table of `onebit.rerank/1`.

use onebit_plugin_api as abi;

use super::guard::guard;
use super::model::{ModelBox, model};
use super::wire;
use crate::{Cancel, Error, RerankLimits, Reranker};

pub(super) static TABLE: abi::OnebitRerank =
    abi::OnebitRerank { struct_size: size_of::<abi::OnebitRerank>(), limits: Some(limits), rerank: Some(rerank) };

fn reranker_of(boxed: &ModelBox) -> Result<(&dyn Reranker, RerankLimits), Error> {
    let reranker = boxed.model.reranker().ok_or_else(|| Error::unsupported("this model has no onebit.rerank/1"))?;
    Ok((reranker, reranker.limits()))
}

unsafe extern "C" fn limits(raw: *mut abi::OnebitModel, out: *mut abi::OnebitRerankLimits) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for `raw`.
        let (_, limits) = reranker_of(unsafe { model(raw) }?)?;
        let value = abi::OnebitRerankLimits { struct_size: 0, max_tokens: limits.max_tokens, joints: limits.joints };
        // SAFETY: the host's promise for `out`.
        unsafe { wire::write(out, &value) }
    })
}

unsafe extern "C" fn rerank(raw: *mut abi::OnebitModel, args: *const abi::OnebitRerankArgs) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for all arguments.
        let (boxed, args) = unsafe { (model(raw)?, wire::read(args)?) };
        let (reranker, limits) = reranker_of(boxed)?;
        let n = args.n as usize;
        // SAFETY: as above.
        let query = unsafe { wire::slice(args.query, args.n_query as usize, "query") }?;
        // SAFETY: as above.
        let documents = unsafe { wire::texts(args.tokens, args.offsets, n) }?;
        let longest = query.len() + documents.iter().map(|document| document.len()).max().unwrap_or(0);
        if longest > limits.max_tokens as usize {
            return Err(Error::context_overflow(limits.max_tokens.into(), longest as u64));
        }
        boxed.check_tokens(query)?;
        documents.iter().try_for_each(|document| boxed.check_tokens(document))?;
        if args.capacity < n {
            return Err(Error::buffer_too_small(args.capacity as u64, n as u64));
        }
        // SAFETY: as above.
        let (out, cancel) = unsafe { (wire::slice_mut(args.scores, n, "scores")?, Cancel::from_raw(args.cancel)) };
        reranker.rerank(query, &documents, cancel, out)
    })
}
