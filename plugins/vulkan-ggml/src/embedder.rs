//! Embeddings: texts in, one vector each. Pooling is the model's own; a generative model states none and gets the mean over its tokens.

use std::sync::Arc;

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Cancel, EmbedLimits, Embedder, Error};
use onebit_weights::Gguf;

use crate::pooled::{Pooled, Text};
use crate::weights::Weights;

/// Makes embeddings of a model.
pub struct GgmlEmbedder {
    pooled: Pooled,
    vocabulary: u32,
    limits: EmbedLimits,
}

impl GgmlEmbedder {
    /// For `weights`; `None` for a model that ranks instead.
    pub fn new(weights: &Arc<Weights>, file: &Gguf) -> Result<Option<Self>, Error> {
        let key = format!("{}.pooling_type", weights.facts.architecture);
        let stated = file.unsigned(&key).map_err(|error| Error::corrupt(error.to_string()))?;
        let (pooling, name) = match stated {
            None | Some(0 | 1) => (sys::LLAMA_POOLING_TYPE_MEAN, "mean"),
            Some(2) => (sys::LLAMA_POOLING_TYPE_CLS, "cls"),
            Some(3) => (sys::LLAMA_POOLING_TYPE_LAST, "last"),
            Some(_) => return Ok(None),
        };
        // SAFETY: the model is alive.
        let dimension = u32::try_from(unsafe { sys::llama_model_n_embd_out(weights.as_ptr()) }).unwrap_or(0);
        Ok(Some(Self {
            // One text has tokens of one kind.
            pooled: Pooled::new(weights, pooling, dimension as usize, None),
            vocabulary: weights.n_vocab(),
            limits: EmbedLimits { dimension, max_tokens: Pooled::most_tokens(weights), pooling: name.to_owned() },
        }))
    }
}

fn scale_to_one(vector: &mut [f32]) {
    let length = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    if length > 0.0 {
        for x in vector {
            *x = (f64::from(*x) / length) as f32;
        }
    }
}

impl Embedder for GgmlEmbedder {
    fn limits(&self) -> EmbedLimits {
        self.limits.clone()
    }

    fn embed(&self, texts: &[&[u32]], normalise: bool, cancel: Cancel<'_>, out: &mut [f32]) -> Result<(), Error> {
        let dimension = self.limits.dimension as usize;
        if dimension == 0 || out.len() != texts.len() * dimension {
            return Err(Error::invalid_argument(format!("room for {} values, {} texts of {dimension}", out.len(), texts.len())));
        }
        for (index, text) in texts.iter().enumerate() {
            if text.is_empty() {
                return Err(Error::invalid_argument(format!("text {index} has no tokens")));
            }
            if text.len() > self.limits.max_tokens as usize {
                return Err(Error::context_overflow(self.limits.max_tokens.into(), text.len() as u64));
            }
            if let Some(token) = text.iter().find(|&&token| token >= self.vocabulary) {
                return Err(Error::invalid_argument(format!("text {index}: token {token}, the vocabulary has {}", self.vocabulary)));
            }
        }
        let texts: Vec<Text> = texts.iter().map(|text| Text { tokens: text.to_vec(), second: text.len() }).collect();
        self.pooled.compute(&texts, cancel, out)?;
        if normalise {
            out.chunks_exact_mut(dimension).for_each(scale_to_one);
        }
        Ok(())
    }
}
