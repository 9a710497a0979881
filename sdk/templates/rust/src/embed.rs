//! Embeddings, an optional capability: how often each of 32 classes of bytes stands in a text.

use onebit_sdk::{Cancel, EmbedLimits, Embedder, Error};

const DIMENSION: usize = 32;

/// Needs nothing of the model.
pub(crate) struct Histogram;

impl Embedder for Histogram {
    fn limits(&self) -> EmbedLimits {
        EmbedLimits { dimension: DIMENSION as u32, max_tokens: 512, pooling: "sum".into() }
    }

    fn embed(&self, texts: &[&[u32]], normalise: bool, cancel: Cancel<'_>, out: &mut [f32]) -> Result<(), Error> {
        for (text, vector) in texts.iter().zip(out.chunks_exact_mut(DIMENSION)) {
            cancel.check()?;
            vector.fill(0.0);
            for token in *text {
                vector[*token as usize % DIMENSION] += 1.0;
            }
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            if normalise && length > 0.0 {
                vector.iter_mut().for_each(|value| *value /= length);
            }
        }
        Ok(())
    }
}
