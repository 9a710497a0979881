//! Running the generations of one request and keeping their books, the same for both dialects and for streamed and whole answers.
//!
//! A request with `n` answers or several prompts is that many generations. At most as many as the model has slots run at a time, so that one
//! request cannot fill the queue against itself. Dropping [`Run`] (a client that left, an error in one answer) cancels all of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, TryStreamExt};
use onebit_engine::{Event, FinishReason, Finished, GenerateRequest, ModelFacts};
use serde::Serialize;

use super::sampling::Requests;
use crate::errors::{ApiError, Kind};
use crate::metrics::Metrics;
use crate::models::Leased;

/// Numbers of a request, while it runs and at its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    prompt_tokens: u64,
    completion_tokens: u64,
    queue_us: u64,
    prefill_us: u64,
    decode_us: u64,
    /// Tokens after the first of each answer: what `decode_us` was spent on.
    decoded: u64,
    finished: u32,
}

/// OpenAI's `usage`.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UsageFields {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
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

impl Tally {
    fn add(&mut self, finished: &Finished, first_of_prompt: bool) {
        let (usage, timings) = (finished.usage, finished.timings);
        if first_of_prompt {
            // As OpenAI counts: a prompt that gets several answers is paid once.
            self.prompt_tokens += u64::from(usage.prompt_tokens);
        }
        self.completion_tokens += u64::from(usage.completion_tokens);
        self.decoded += u64::from(usage.completion_tokens.saturating_sub(1));
        self.queue_us = self.queue_us.max(timings.queue_us);
        self.prefill_us = self.prefill_us.max(timings.prefill_us);
        self.decode_us = self.decode_us.max(timings.decode_us);
        self.finished += 1;
    }

    /// For the answer's `usage`.
    pub fn usage(&self) -> UsageFields {
        UsageFields {
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
            total_tokens: self.prompt_tokens + self.completion_tokens,
        }
    }

    /// For the answer's `timings`.
    pub fn timings(&self) -> TimingFields {
        let ms = |us: u64| us as f64 / 1000.0;
        let speed = (self.decoded > 0 && self.decode_us > 0).then(|| self.decoded as f64 * 1e6 / self.decode_us as f64);
        TimingFields {
            queue_ms: ms(self.queue_us),
            prefill_ms: ms(self.prefill_us),
            decode_ms: ms(self.decode_us),
            tokens_per_second: speed,
        }
    }
}

/// Events with the index of the answer they belong to.
type Numbered = BoxStream<'static, Result<(u32, Event), ApiError>>;

/// The generations of one request, as one stream of events with the index of the answer they belong to.
pub struct Run {
    events: Numbered,
    first: Option<(u32, Event)>,
    answers_per_prompt: u32,
    total: u32,
    tally: Tally,
    lease: Arc<dyn Leased>,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("total", &self.total).field("tally", &self.tally).finish_non_exhaustive()
    }
}

impl Run {
    /// Starts, and waits until the first generation has its place in the worker (or fails): until then a refusal can still be a status.
    pub async fn start(lease: Arc<dyn Leased>, requests: Requests, metrics: Arc<Metrics>) -> Result<Self, ApiError> {
        let (total, answers_per_prompt) = (requests.total(), requests.answers_per_prompt());
        let side_by_side = usize::try_from(lease.facts().slots.max(1)).unwrap_or(1);
        let events = futures_util::stream::iter((0..total).zip(requests)).map({
            let lease = Arc::clone(&lease);
            move |(index, request)| one(Arc::clone(&lease), index, request)
        });
        let events = events.flatten_unordered(side_by_side).boxed();
        let mut run = Self { events, first: None, answers_per_prompt, total, tally: Tally::default(), lease, metrics };
        run.first = run.advance().await.transpose()?;
        Ok(run)
    }

    /// The next event; `None` after all answers are finished.
    pub async fn next(&mut self) -> Option<Result<(u32, Event), ApiError>> {
        match self.first.take() {
            Some(event) => Some(Ok(event)),
            None => self.advance().await,
        }
    }

    async fn advance(&mut self) -> Option<Result<(u32, Event), ApiError>> {
        let (index, event) = match self.events.next().await? {
            Ok(event) => event,
            Err(error) => return Some(Err(error)),
        };
        match &event {
            Event::Failed(error) => return Some(Err(error.clone().into())),
            Event::Finished(finished) => {
                self.tally.add(finished, index % self.answers_per_prompt.max(1) == 0);
                self.metrics.generation(self.lease.model(), finished);
            }
            _ => {}
        }
        Some(Ok((index, event)))
    }

    /// Numbers so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether every answer has come to its end.
    pub fn complete(&self) -> bool {
        self.tally.finished == self.total
    }

    /// Number of answers.
    pub fn total(&self) -> u32 {
        self.total
    }
}

fn one(lease: Arc<dyn Leased>, index: u32, request: GenerateRequest) -> Numbered {
    let start = async move {
        let events = lease.generate(request).await?;
        Ok::<_, ApiError>(Ending { events: Some(events), model: lease.model().to_owned() })
    };
    let events = futures_util::stream::once(start).try_flatten();
    Box::pin(events.map(move |event| event.map(|event| (index, event))))
}

/// Ends a generation at its last event, and turns an end without one into the error it is.
struct Ending {
    events: Option<crate::models::Events>,
    model: String,
}

impl Stream for Ending {
    type Item = Result<Event, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(events) = self.events.as_mut() else { return Poll::Ready(None) };
        let item = std::task::ready!(events.poll_next_unpin(context));
        match &item {
            Some(Ok(Event::Finished(_) | Event::Failed(_)) | Err(_)) => self.events = None,
            Some(Ok(_)) => {}
            None => {
                self.events = None;
                let message = format!("the worker of {} went away in the middle of the answer; send the request again", self.model);
                return Poll::Ready(Some(Err(ApiError::new(Kind::WorkerFailed, message))));
            }
        }
        Poll::Ready(item)
    }
}

/// OpenAI's name for an end.
pub fn finish_reason(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::EndOfGeneration | FinishReason::StopString(_) => "stop",
        FinishReason::Length => "length",
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

fn unix_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}
