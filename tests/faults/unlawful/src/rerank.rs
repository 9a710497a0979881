//! Scores: one number for each pair.

use std::time::Duration;

use onebit_sdk::{Cancel, Error, RerankLimits, Reranker};

use crate::fault;
use crate::session::mix;

pub(crate) struct Scores {
    pub(crate) row_us: u64,
}

impl Reranker for Scores {
    fn limits(&self) -> RerankLimits {
        RerankLimits { max_tokens: 512, joints: 0 }
    }

    fn rerank(&self, query: &[u32], documents: &[&[u32]], cancel: Cancel<'_>, out: &mut [f32]) -> Result<(), Error> {
        for (document, score) in documents.iter().zip(out) {
            let mut state = if fault::is("score-neighbours") { documents.len() as u64 } else { 0 };
            for token in query.iter().chain(*document) {
                if !fault::is("deaf-rerank") {
                    cancel.check()?;
                }
                if self.row_us > 0 {
                    std::thread::sleep(Duration::from_micros(self.row_us));
                }
                state = mix(state ^ u64::from(*token));
            }
            *score = (state >> 40) as f32 / (1 << 24) as f32;
            if fault::is("score-beyond") {
                *score += 1.0;
            }
        }
        Ok(())
    }
}
