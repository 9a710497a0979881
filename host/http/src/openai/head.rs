//! What OpenAI's answers repeat: ids, numbers, who computed.

use std::time::Duration;

use onebit_engine::ModelFacts;
use serde::Serialize;

use crate::generation::{End, Tally};
use crate::models::Leased;

/// OpenAI's `usage`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UsageFields {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl From<&Tally> for UsageFields {
    fn from(tally: &Tally) -> Self {
        Self {
            prompt_tokens: tally.prompt_tokens,
            completion_tokens: tally.completion_tokens,
            total_tokens: tally.prompt_tokens + tally.completion_tokens,
            prompt_tokens_details: PromptDetails { cached_tokens: tally.cached_tokens },
            completion_tokens_details: CompletionDetails { reasoning_tokens: tally.reasoning_tokens },
        }
    }
}

/// Our `timings`. Of several answers computed side by side, the longest.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct TimingFields {
    queue_ms: f64,
    prefill_ms: f64,
    decode_ms: f64,
    /// Generated tokens a second after the first; `null` where no second token was made.
    tokens_per_second: Option<f64>,
}

impl From<&Tally> for TimingFields {
    fn from(tally: &Tally) -> Self {
        let ms = |us: u64| us as f64 / 1000.0;
        Self {
            queue_ms: ms(tally.queue_us),
            prefill_ms: ms(tally.prefill_us),
            decode_ms: ms(tally.decode_us),
            tokens_per_second: tally.tokens_per_second(),
        }
    }
}

/// What [`finish_reason`] says.
pub const FINISH_REASONS: &[&str] = &["stop", "length", "tool_calls"];

/// OpenAI's name for an end.
pub fn finish_reason(end: &End) -> &'static str {
    match end {
        End::Stop | End::StopString(_) => "stop",
        End::Length => "length",
        End::Calls => "tool_calls",
    }
}

/// Which plugin, version and device computed: `vulkan-ggml-0.1.0/cpu`.
pub fn fingerprint(facts: &ModelFacts) -> String {
    format!("{}-{}/{}", facts.plugin, facts.plugin_version, facts.device)
}

/// What every chunk of an answer repeats.
#[derive(Debug)]
pub struct Head {
    /// `chatcmpl-…`, `cmpl-…`.
    pub id: String,
    /// Unix seconds.
    pub created: u64,
    /// The model's own name, also where an alias was asked for.
    pub model: String,
    /// See [`fingerprint`].
    pub fingerprint: String,
}

impl Head {
    /// Of an answer that begins now.
    pub fn new(prefix: &str, lease: &dyn Leased) -> Self {
        Self {
            id: format!("{prefix}-{}", uuid::Uuid::new_v4().simple()),
            created: unix_now(),
            model: lease.model().to_owned(),
            fingerprint: fingerprint(lease.facts()),
        }
    }
}

/// Unix seconds.
pub fn unix_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
