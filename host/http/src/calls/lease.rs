//! A lease that counts for its call: every answer that is made with it, in whatever dialect, is counted, can be cancelled, and waits with the
//! priority of its key.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt};
use onebit_engine::{EmbedRequest, Embeddings, Event, GenerateRequest, ModelFacts, Prompt, Ranking, RerankRequest, TokenId};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{Call, cancelled};
use crate::errors::ApiError;
use crate::models::{Defaults, Events, Leased};

/// Makes `lease` count for `call`.
pub(super) fn hold(lease: Arc<dyn Leased>, call: Arc<Call>) -> Arc<dyn Leased> {
    Arc::new(Held { lease, call })
}

/// A lease and the call it was taken for.
struct Held {
    lease: Arc<dyn Leased>,
    call: Arc<Call>,
}

impl Leased for Held {
    fn model(&self) -> &str {
        self.lease.model()
    }

    fn facts(&self) -> &ModelFacts {
        self.lease.facts()
    }

    fn defaults(&self) -> &Defaults {
        self.lease.defaults()
    }

    fn queue_position(&self) -> Option<u32> {
        self.lease.queue_position()
    }

    fn generate(&self, mut request: GenerateRequest) -> BoxFuture<'_, Result<Events, ApiError>> {
        request.priority = self.call.caller.priority();
        request.scope = self.call.caller.prefix_scope();
        async move {
            let events = self.call.unless_cancelled(self.lease.generate(request)).await?;
            let answer = Arc::new(Answer(Mutex::new(Some(events))));
            self.call.answering(&answer);
            let cancelled = Box::pin(self.call.cancelled.clone().cancelled_owned());
            Ok(Counted { answer, cancelled, call: Arc::clone(&self.call), seen: 0, over: false }.boxed())
        }
        .boxed()
    }

    fn encode(&self, prompt: Prompt, add_special: bool) -> BoxFuture<'_, Result<Vec<TokenId>, ApiError>> {
        self.lease.encode(prompt, add_special)
    }

    fn decode(&self, tokens: Vec<TokenId>) -> BoxFuture<'_, Result<Vec<u8>, ApiError>> {
        self.lease.decode(tokens)
    }

    fn embed(&self, request: EmbedRequest) -> BoxFuture<'_, Result<Embeddings, ApiError>> {
        async move {
            let embedded = self.call.unless_cancelled(self.lease.embed(request)).await?;
            self.call.add_tokens(u64::from(embedded.prompt_tokens));
            Ok(embedded)
        }
        .boxed()
    }

    fn rerank(&self, request: RerankRequest) -> BoxFuture<'_, Result<Ranking, ApiError>> {
        async move {
            let ranking = self.call.unless_cancelled(self.lease.rerank(request)).await?;
            self.call.add_tokens(u64::from(ranking.prompt_tokens));
            Ok(ranking)
        }
        .boxed()
    }
}

/// An answer that is being made. Letting go of its events ends the work.
pub(super) struct Answer(Mutex<Option<Events>>);

impl Answer {
    pub(super) fn end(&self) {
        self.events().take();
    }

    fn events(&self) -> MutexGuard<'_, Option<Events>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answer")
    }
}

/// The events of one answer on their way to a dialect.
struct Counted {
    answer: Arc<Answer>,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
    call: Arc<Call>,
    /// Tokens of this answer that have been counted.
    seen: u64,
    over: bool,
}

impl Counted {
    fn count(&mut self, event: &Event) {
        let now = match event {
            Event::Started { prompt_tokens, .. } => {
                self.call.started();
                u64::from(*prompt_tokens)
            }
            Event::Delta { tokens, .. } => self.seen + tokens.len() as u64,
            // Also the tokens that never came out, such as those of a stop string.
            Event::Finished(finished) => u64::from(finished.usage.prompt_tokens) + u64::from(finished.usage.completion_tokens),
            Event::Prefill { .. } | Event::Prompt { .. } | Event::Failed(_) => self.seen,
        };
        self.call.add_tokens(now.saturating_sub(self.seen));
        self.seen = self.seen.max(now);
    }
}

impl Stream for Counted {
    type Item = Result<Event, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        let item = if this.cancelled.as_mut().poll(context).is_ready() {
            Some(Err(cancelled()))
        } else {
            // Nothing but a cancel takes the events away.
            match &mut *this.answer.events() {
                Some(events) => ready!(events.poll_next_unpin(context)),
                None => Some(Err(cancelled())),
            }
        };
        if let Some(Ok(event)) = &item {
            this.count(event);
        }
        if !matches!(item, Some(Ok(Event::Started { .. } | Event::Prefill { .. } | Event::Prompt { .. } | Event::Delta { .. }))) {
            this.over = true;
            this.answer.end();
        }
        Poll::Ready(item)
    }
}
