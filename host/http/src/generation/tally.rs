//! What a request cost.

use onebit_engine::Finished;

/// Numbers of a request, while it runs and at its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Tokens of the prompts.
    pub prompt_tokens: u64,
    /// Of these, tokens that had been computed before.
    pub cached_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// Of these, tokens of reasoning.
    pub reasoning_tokens: u64,
    /// Microseconds of waiting. Of several answers computed side by side, the longest; so for the next two.
    pub queue_us: u64,
    /// Microseconds until the first token.
    pub prefill_us: u64,
    /// Microseconds from there to the last.
    pub decode_us: u64,
    /// Tokens after the first of each answer: what `decode_us` was spent on.
    decoded: u64,
    /// Answers that came to their end.
    pub(super) finished: u32,
}

impl Tally {
    pub(super) fn add(&mut self, finished: &Finished, first_of_prompt: bool) {
        let (usage, timings) = (finished.usage, finished.timings);
        if first_of_prompt {
            // As OpenAI counts: a prompt that gets several answers is paid once.
            self.prompt_tokens += u64::from(usage.prompt_tokens);
            self.cached_tokens += u64::from(usage.cached_tokens);
        }
        self.completion_tokens += u64::from(usage.completion_tokens);
        self.decoded += u64::from(usage.completion_tokens.saturating_sub(1));
        self.queue_us = self.queue_us.max(timings.queue_us);
        self.prefill_us = self.prefill_us.max(timings.prefill_us);
        self.decode_us = self.decode_us.max(timings.decode_us);
        self.finished += 1;
    }

    /// Generated tokens a second after the first; `None` where no second token was made.
    pub fn tokens_per_second(&self) -> Option<f64> {
        (self.decoded > 0 && self.decode_us > 0).then(|| self.decoded as f64 * 1e6 / self.decode_us as f64)
    }
}
