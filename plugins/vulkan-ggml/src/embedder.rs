//! Embeddings: texts in, one vector each. Has a context of its own, made at the first call and as large as the texts need.
//!
//! Pooling is the model's own; a generative model states none and gets the mean over its tokens. A pooled text must be computed in one
//! piece, so its length is bounded by the batch, not by the trained context.

use std::sync::{Arc, Mutex, PoisonError};

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Cancel, EmbedLimits, Embedder, Error};
use onebit_weights::Gguf;

use crate::failure;
use crate::threads;
use crate::weights::{Context, Shape, Weights};

/// Texts computed together, at most.
const MOST_TEXTS: usize = 32;
/// The smallest context, so that short texts are computed together.
const LEAST_TOKENS: u32 = 512;

/// Makes embeddings of a model.
pub struct GgmlEmbedder {
    weights: Arc<Weights>,
    pooling: sys::llama_pooling_type,
    limits: EmbedLimits,
    context: Mutex<Option<(Context, u32)>>,
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
        let trained = u32::try_from(weights.facts.context_trained).unwrap_or(u32::MAX);
        let max_tokens = if trained == 0 { weights.settings.embed_tokens } else { weights.settings.embed_tokens.min(trained) };
        Ok(Some(Self {
            weights: Arc::clone(weights),
            pooling,
            limits: EmbedLimits { dimension, max_tokens, pooling: name.to_owned() },
            context: Mutex::new(None),
        }))
    }

    fn make(&self, tokens: u32) -> Result<Context, Error> {
        let shape = Shape {
            context: tokens,
            sequences: MOST_TEXTS as u32,
            batch: tokens,
            ubatch: tokens,
            threads: (self.weights.threads, self.weights.threads),
            pooling: Some(self.pooling),
        };
        Context::new(&self.weights, &self.weights.settings, &shape)
    }

    fn compute(&self, context: &mut Context, texts: &[&[u32]], normalise: bool, cancel: Cancel<'_>, out: &mut [f32]) -> Result<(), Error> {
        let n: usize = texts.iter().map(|text| text.len()).sum();
        let mut tokens = Vec::with_capacity(n);
        let mut positions = Vec::with_capacity(n);
        let mut sequences = Vec::with_capacity(n);
        for (sequence, text) in (0_i32..).zip(texts) {
            for (position, &token) in (0_i32..).zip(text.iter()) {
                tokens.push(i32::try_from(token).unwrap_or(-1));
                positions.push(position);
                sequences.push(sequence);
            }
        }
        let mut counts = vec![1_i32; n];
        let mut wanted = vec![1_i8; n];
        let mut pointers: Vec<*mut i32> = sequences.iter_mut().map(|sequence| &raw mut *sequence).collect();
        let batch = sys::llama_batch {
            n_tokens: i32::try_from(n).unwrap_or(i32::MAX),
            token: tokens.as_mut_ptr(),
            embd: core::ptr::null_mut(),
            pos: positions.as_mut_ptr(),
            n_seq_id: counts.as_mut_ptr(),
            seq_id: pointers.as_mut_ptr(),
            logits: wanted.as_mut_ptr(),
        };
        let memory = context.memory();
        if !memory.is_null() {
            // SAFETY: the context is alive.
            unsafe { sys::llama_memory_clear(memory, false) };
        }
        // SAFETY: all arrays have `n` entries and live for the call.
        let answer = unsafe { context.decode(&batch, cancel) };
        cancel.check()?;
        match answer {
            Ok(0) => {}
            Ok(answer) => {
                return Err(failure::compute(&[], &format!("llama_decode answers {answer}"), &self.weights.place));
            }
            Err(thrown) => return Err(failure::compute(&[], &thrown, &self.weights.place)),
        }
        let dimension = self.limits.dimension as usize;
        for (sequence, vector) in (0_i32..).zip(out.chunks_exact_mut(dimension)) {
            // SAFETY: the context is alive and has computed this sequence.
            let data = unsafe { sys::llama_get_embeddings_seq(context.as_ptr(), sequence) };
            if data.is_null() {
                return Err(Error::internal("llama.cpp computed and gives no embedding"));
            }
            // SAFETY: one vector of `dimension` values, valid until the next decode.
            vector.copy_from_slice(unsafe { core::slice::from_raw_parts(data, dimension) });
            if normalise {
                scale_to_one(vector);
            }
        }
        Ok(())
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
        let vocabulary = self.weights.n_vocab();
        let mut longest = 0;
        for (index, text) in texts.iter().enumerate() {
            if text.is_empty() {
                return Err(Error::invalid_argument(format!("text {index} has no tokens")));
            }
            if text.len() > self.limits.max_tokens as usize {
                return Err(Error::context_overflow(self.limits.max_tokens.into(), text.len() as u64));
            }
            if let Some(token) = text.iter().find(|&&token| token >= vocabulary) {
                return Err(Error::invalid_argument(format!("text {index}: token {token}, the vocabulary has {vocabulary}")));
            }
            longest = longest.max(text.len() as u32);
        }
        let mut held = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = longest.next_power_of_two().max(LEAST_TOKENS);
        let (mut context, capacity) = match held.take() {
            Some((context, capacity)) if capacity >= tokens => (context, capacity),
            // A smaller one is freed first: both at once might not fit.
            smaller => {
                drop(smaller);
                (self.make(tokens)?, tokens)
            }
        };
        let mut done = 0;
        while done < texts.len() {
            cancel.check()?;
            let mut room = capacity as usize;
            let group = texts[done..]
                .iter()
                .take(MOST_TEXTS)
                .take_while(|text| {
                    let fits = text.len() <= room;
                    room = room.saturating_sub(text.len());
                    fits
                })
                .count();
            let next = done + group;
            let vectors = &mut out[done * dimension..next * dimension];
            threads::apart(|| self.compute(&mut context, &texts[done..next], normalise, cancel, vectors))??;
            done = next;
        }
        *held = Some((context, capacity));
        Ok(())
    }
}
