//! A model that embeds.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use onebit_plugin_api as abi;

use crate::model::ModelInner;
use crate::plugin::{absent, call};
use crate::{CancelFlag, EmbedLimits, PluginError, Status, raw};

/// A model that embeds. Usable from any thread; calls wait for each other. Keeps its model alive.
#[derive(Clone)]
pub struct Embedder {
    pub(crate) model: Arc<ModelInner>,
    pub(crate) parts: Arc<EmbedderParts>,
}

pub(crate) struct EmbedderParts {
    embed: unsafe extern "C" fn(*mut abi::OnebitModel, *const abi::OnebitEmbedArgs) -> abi::OnebitStatus,
    pub(crate) table: abi::OnebitEmbed,
    limits: EmbedLimits,
    one_at_a_time: Mutex<()>,
}

/// Values per vector that are believed.
const MAX_DIMENSION: u32 = 1 << 20;

impl EmbedderParts {
    pub(crate) fn read(table: Option<abi::OnebitEmbed>, model: NonNull<abi::OnebitModel>) -> Result<Self, PluginError> {
        let table = table.ok_or_else(|| PluginError::broken("the table of onebit.embed/1 lies about its size"))?;
        let limits = table.limits.ok_or_else(|| absent("limits"))?;
        let mut out: abi::OnebitEmbedLimits = raw::out();
        // SAFETY: a function of the table, a live model.
        call(|| unsafe { limits(model.as_ptr(), &raw mut out) })?;
        if out.dimension == 0 || out.dimension > MAX_DIMENSION {
            return Err(PluginError::broken(format!("vectors of {} values", out.dimension)));
        }
        Ok(Self {
            embed: table.embed.ok_or_else(|| absent("embed"))?,
            table,
            limits: EmbedLimits {
                dimension: out.dimension,
                max_tokens: out.max_tokens,
                // SAFETY: lives until `close`.
                pooling: unsafe { raw::text(out.pooling, "limits.pooling") }?,
            },
            one_at_a_time: Mutex::new(()),
        })
    }
}

impl Embedder {
    /// What it gives.
    pub fn limits(&self) -> &EmbedLimits {
        &self.parts.limits
    }

    /// One vector per text, or an error for all. `normalise`: each vector has length 1.
    pub fn embed(&self, texts: &[&[u32]], normalise: bool, cancel: Option<&CancelFlag>) -> Result<Vec<Vec<f32>>, PluginError> {
        let parts = &*self.parts;
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(longest) = texts.iter().map(|text| text.len()).max().filter(|longest| *longest > parts.limits.max_tokens as usize) {
            let (have, need) = (u64::from(parts.limits.max_tokens), longest as u64);
            let message = format!("a text of {need} tokens; this model embeds at most {have}");
            return Err(PluginError { have, need, ..PluginError::new(Status::CONTEXT_OVERFLOW, message) });
        }
        let (tokens, offsets) = raw::texts(texts)?;
        let dimension = parts.limits.dimension as usize;
        let mut vectors = vec![0.0f32; texts.len() * dimension];
        let args = abi::OnebitEmbedArgs {
            tokens: tokens.as_ptr(),
            offsets: offsets.as_ptr(),
            n: texts.len() as u32,
            normalise: normalise.into(),
            cancel: cancel.map_or(core::ptr::null(), CancelFlag::as_ptr),
            vectors: vectors.as_mut_ptr(),
            capacity: vectors.len(),
            ..raw::out()
        };
        {
            let _lock = parts.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: a function of the table, a live model, buffers that live for the call.
            call(|| unsafe { (parts.embed)(self.model.raw.as_ptr(), &raw const args) })?;
        }
        match vectors.iter().position(|value| !value.is_finite()) {
            Some(index) => {
                Err(PluginError::broken(format!("value {} of vector {} is {}", index % dimension, index / dimension, vectors[index])))
            }
            None => Ok(vectors.chunks_exact(dimension).map(<[f32]>::to_vec).collect()),
        }
    }
}
