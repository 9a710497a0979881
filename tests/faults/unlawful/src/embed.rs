//! Vectors: one direction for each text.

use std::time::Duration;

use onebit_sdk::{Cancel, EmbedLimits, Embedder, Error};

use crate::fault;
use crate::session::mix;

const DIMENSION: usize = 16;

pub(crate) struct Directions {
    pub(crate) row_us: u64,
}

impl Embedder for Directions {
    fn limits(&self) -> EmbedLimits {
        EmbedLimits { dimension: DIMENSION as u32, max_tokens: 512, pooling: "hash".into() }
    }

    fn embed(&self, texts: &[&[u32]], normalise: bool, cancel: Cancel<'_>, out: &mut [f32]) -> Result<(), Error> {
        for (text, vector) in texts.iter().zip(out.chunks_exact_mut(DIMENSION)) {
            let mut state = if fault::is("vector-neighbours") { texts.len() as u64 } else { 0 };
            for token in *text {
                if !fault::is("deaf-embed") {
                    cancel.check()?;
                }
                if self.row_us > 0 {
                    std::thread::sleep(Duration::from_micros(self.row_us));
                }
                state = mix(state ^ u64::from(*token));
            }
            for (index, value) in vector.iter_mut().enumerate() {
                *value = (mix(state ^ index as u64) >> 40) as f32 / (1 << 24) as f32 - 0.5;
            }
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            if normalise && !fault::is("vector-length") {
                vector.iter_mut().for_each(|value| *value /= length);
            }
        }
        Ok(())
    }
}
