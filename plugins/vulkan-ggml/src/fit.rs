//! What a model would need, from its header: an estimate on the safe side, for a host that must choose before anything is loaded.

use onebit_sdk::{Error, Fit};
use onebit_weights::GgufFacts;

use crate::load::Files;
use crate::settings::Settings;

/// llama.cpp rounds a context up to this many positions.
const CONTEXT_STEP: u64 = 256;

/// Where the bytes would lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// All in host memory.
    Host,
    /// Weights, state and most buffers on a device.
    Device,
}

/// The estimate for `context` positions (`None` = as trained) and `sequences` sequences.
pub fn estimate(
    files: &Files,
    facts: &GgufFacts,
    settings: &Settings,
    side: Side,
    context: Option<u32>,
    sequences: u32,
) -> Result<Fit, Error> {
    let context = context.map_or(facts.context_trained, u64::from).max(1);
    let per_token = settings.kv_type.scaled(facts.kv_bytes_per_token_f16);
    let state = per_token
        .saturating_mul(context.next_multiple_of(CONTEXT_STEP))
        .saturating_add(facts.state_bytes_per_sequence.saturating_mul(sequences.into()));
    let scratch = scratch(files.first()?, facts, settings, context)?;
    let weights = files.weights_bytes();
    let mut fit = Fit {
        architecture: facts.architecture.clone(),
        quantisation: facts.quantisation.clone(),
        state,
        state_per_token: per_token,
        context_trained: facts.context_trained,
        parameters: files.headers.iter().map(onebit_weights::Gguf::parameters).sum(),
        ..Fit::usable()
    };
    match side {
        Side::Host => {
            fit.weights_host = weights;
            fit.scratch_host = scratch;
        }
        Side::Device => {
            // The table of input embeddings is looked up on the host; a model that shares it with its output needs it on both sides.
            let table = tensor_bytes(files, "token_embd.weight");
            let shared = tensor_bytes(files, "output.weight") == 0;
            fit.weights_host = table;
            fit.weights_device = if shared { weights } else { weights.saturating_sub(table) };
            fit.scratch_device = scratch;
            // Inputs of a batch and its logits on their way back.
            fit.scratch_host = u64::from(settings.ubatch).saturating_mul(facts.embedding.saturating_add(context)).saturating_mul(4);
        }
    }
    Ok(fit)
}

fn tensor_bytes(files: &Files, name: &str) -> u64 {
    files.headers.iter().find_map(|header| header.tensor(name)).map_or(0, |tensor| tensor.bytes)
}

/// Compute buffers for one piece of a batch: logits, the widest activations of a block, and the attention mask.
fn scratch(file: &onebit_weights::Gguf, facts: &GgufFacts, settings: &Settings, context: u64) -> Result<u64, Error> {
    let key = format!("{}.feed_forward_length", facts.architecture);
    let inner = match file.meta(&key) {
        Some(onebit_weights::gguf::Value::Array(array)) => (0..array.len()).filter_map(|index| array.unsigned(index)).max().unwrap_or(0),
        _ => file.unsigned(&key).map_err(|error| Error::corrupt(error.to_string()))?.unwrap_or(0),
    };
    let per_row = facts
        .vocabulary
        .saturating_add(facts.embedding.saturating_mul(8))
        .saturating_add(inner.saturating_mul(3))
        .saturating_mul(4)
        // The mask, in f32 and f16.
        .saturating_add(context.saturating_mul(6));
    Ok(u64::from(settings.ubatch).saturating_mul(per_row))
}
