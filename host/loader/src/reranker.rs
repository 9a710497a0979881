//! A model that says how well documents answer a query.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use onebit_plugin_api as abi;

use crate::model::ModelInner;
use crate::plugin::{absent, call};
use crate::{CancelFlag, PluginError, RerankLimits, Status, raw};

/// A model that ranks. Usable from any thread; calls wait for each other. Keeps its model alive.
#[derive(Clone)]
pub struct Reranker {
    pub(crate) model: Arc<ModelInner>,
    pub(crate) parts: Arc<RerankerParts>,
}

pub(crate) struct RerankerParts {
    rerank: unsafe extern "C" fn(*mut abi::OnebitModel, *const abi::OnebitRerankArgs) -> abi::OnebitStatus,
    pub(crate) table: abi::OnebitRerank,
    limits: RerankLimits,
    one_at_a_time: Mutex<()>,
}

impl RerankerParts {
    pub(crate) fn read(table: Option<abi::OnebitRerank>, model: NonNull<abi::OnebitModel>) -> Result<Self, PluginError> {
        let table = table.ok_or_else(|| PluginError::broken("the table of onebit.rerank/1 lies about its size"))?;
        let limits = table.limits.ok_or_else(|| absent("limits"))?;
        let mut out: abi::OnebitRerankLimits = raw::out();
        // SAFETY: a function of the table, a live model.
        call(|| unsafe { limits(model.as_ptr(), &raw mut out) })?;
        if out.max_tokens == 0 {
            return Err(PluginError::broken("it ranks documents of 0 tokens"));
        }
        Ok(Self {
            rerank: table.rerank.ok_or_else(|| absent("rerank"))?,
            table,
            limits: RerankLimits { max_tokens: out.max_tokens, joints: out.joints },
            one_at_a_time: Mutex::new(()),
        })
    }
}

impl Reranker {
    /// How much it reads.
    pub fn limits(&self) -> RerankLimits {
        self.parts.limits
    }

    /// One score per document, 0 ..= 1, or an error for all.
    pub fn rerank(&self, query: &[u32], documents: &[&[u32]], cancel: Option<&CancelFlag>) -> Result<Vec<f32>, PluginError> {
        if documents.is_empty() {
            return Ok(Vec::new());
        }
        let have = self.parts.limits.max_tokens;
        let longest = query.len() + documents.iter().map(|document| document.len()).max().unwrap_or(0);
        if longest > have as usize {
            let (have, need) = (u64::from(have), longest as u64);
            let message = format!("a query and a document of {need} tokens together; this model reads at most {have}");
            return Err(PluginError { have, need, ..PluginError::new(Status::CONTEXT_OVERFLOW, message) });
        }
        let scores = self.submit(query, documents, cancel)?;
        match scores.iter().position(|score| !(0.0..=1.0).contains(score)) {
            Some(index) => Err(PluginError::broken(format!("the score of document {index} is {}, not between 0 and 1", scores[index]))),
            None => Ok(scores),
        }
    }

    /// The call itself, whatever is in it.
    pub(crate) fn submit(&self, query: &[u32], documents: &[&[u32]], cancel: Option<&CancelFlag>) -> Result<Vec<f32>, PluginError> {
        let (tokens, offsets) = raw::texts(documents)?;
        let mut scores = vec![0.0f32; documents.len()];
        let args = abi::OnebitRerankArgs {
            query: query.as_ptr(),
            tokens: tokens.as_ptr(),
            offsets: offsets.as_ptr(),
            n_query: u32::try_from(query.len()).map_err(|_| raw::too_many_tokens())?,
            n: documents.len() as u32,
            cancel: cancel.map_or(core::ptr::null(), CancelFlag::as_ptr),
            scores: scores.as_mut_ptr(),
            capacity: scores.len(),
            ..raw::out()
        };
        let _lock = self.parts.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a function of the table, a live model, buffers that live for the call.
        call(|| unsafe { (self.parts.rerank)(self.model.raw.as_ptr(), &raw const args) })?;
        Ok(scores)
    }
}
