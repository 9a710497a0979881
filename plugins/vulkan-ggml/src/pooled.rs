//! Whole texts in, a few values for each out: a vector, or a score. Has a context of its own, made at the first call and as large as the
//! texts need.
//!
//! A pooled text must be computed in one piece, so its length is bounded by the batch, not by the trained context.

use std::sync::{Arc, Mutex, PoisonError};

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Cancel, Error};

use crate::failure;
use crate::kinds::Kinds;
use crate::threads;
use crate::weights::{Context, Shape, Weights};

/// Texts computed together, at most.
const MOST_TEXTS: usize = 32;
/// The smallest context, so that short texts are computed together.
const LEAST_TOKENS: u32 = 512;

/// A text.
pub struct Text {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// From here on they are of the second kind; of no account where the model knows one kind.
    pub second: usize,
}

/// Computes texts.
pub struct Pooled {
    weights: Arc<Weights>,
    pooling: sys::llama_pooling_type,
    /// Values per text.
    width: usize,
    /// Rows of input embeddings, for a model that tells two kinds of tokens apart.
    kinds: Option<Kinds>,
    context: Mutex<Option<(Context, u32)>>,
}

impl Pooled {
    /// For texts of which `width` values come out.
    pub fn new(weights: &Arc<Weights>, pooling: sys::llama_pooling_type, width: usize, kinds: Option<Kinds>) -> Self {
        Self { weights: Arc::clone(weights), pooling, width, kinds, context: Mutex::new(None) }
    }

    /// The longest text, with everything that belongs to it.
    pub fn most_tokens(weights: &Weights) -> u32 {
        let trained = u32::try_from(weights.facts.context_trained).unwrap_or(u32::MAX);
        if trained == 0 { weights.settings.embed_tokens } else { weights.settings.embed_tokens.min(trained) }
    }

    /// Computes all texts, none of them empty or too long, into `out`: one row of `width` values each.
    pub fn compute(&self, texts: &[Text], cancel: Cancel<'_>, out: &mut [f32]) -> Result<(), Error> {
        let longest = texts.iter().map(|text| text.tokens.len()).max().unwrap_or(0) as u32;
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
                    let fits = text.tokens.len() <= room;
                    room = room.saturating_sub(text.tokens.len());
                    fits
                })
                .count();
            let next = done + group;
            let rows = &mut out[done * self.width..next * self.width];
            threads::apart(|| self.compute_group(&mut context, &texts[done..next], cancel, rows))??;
            done = next;
        }
        *held = Some((context, capacity));
        Ok(())
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

    fn compute_group(&self, context: &mut Context, texts: &[Text], cancel: Cancel<'_>, out: &mut [f32]) -> Result<(), Error> {
        let n: usize = texts.iter().map(|text| text.tokens.len()).sum();
        let mut tokens = Vec::with_capacity(n);
        let mut positions = Vec::with_capacity(n);
        let mut sequences = Vec::with_capacity(n);
        for (sequence, text) in (0_i32..).zip(texts) {
            for (position, &token) in (0_i32..).zip(&text.tokens) {
                tokens.push(i32::try_from(token).unwrap_or(-1));
                positions.push(position);
                sequences.push(sequence);
            }
        }
        let mut rows = match &self.kinds {
            None => Vec::new(),
            Some(kinds) => kinds.rows(texts)?,
        };
        let mut counts = vec![1_i32; n];
        let mut wanted = vec![1_i8; n];
        let mut pointers: Vec<*mut i32> = sequences.iter_mut().map(|sequence| &raw mut *sequence).collect();
        let batch = sys::llama_batch {
            n_tokens: i32::try_from(n).unwrap_or(i32::MAX),
            token: if rows.is_empty() { tokens.as_mut_ptr() } else { core::ptr::null_mut() },
            embd: if rows.is_empty() { core::ptr::null_mut() } else { rows.as_mut_ptr() },
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
        // SAFETY: all arrays have `n` entries (`rows` as many rows) and live for the call.
        let answer = unsafe { context.decode(&batch, cancel) };
        cancel.check()?;
        match answer {
            Ok(0) => {}
            Ok(answer) => {
                return Err(failure::compute(&[], &format!("llama_decode answers {answer}"), &self.weights.place));
            }
            Err(thrown) => return Err(failure::compute(&[], &thrown, &self.weights.place)),
        }
        for (sequence, row) in (0_i32..).zip(out.chunks_exact_mut(self.width)) {
            // SAFETY: the context is alive and has computed this sequence.
            let data = unsafe { sys::llama_get_embeddings_seq(context.as_ptr(), sequence) };
            if data.is_null() {
                return Err(Error::internal("llama.cpp computed and gives no values"));
            }
            // SAFETY: one row of `width` values, valid until the next decode.
            row.copy_from_slice(unsafe { core::slice::from_raw_parts(data, self.width) });
        }
        Ok(())
    }
}
