//! A lease that counts for its call: every answer that is made with it, in whatever dialect, is counted and can be cancelled.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream, StreamExt};
use onebit_engine::{EmbedRequest, Embeddings, Event, GenerateRequest, ModelFacts};
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

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Events, ApiError>> {
        async move {
            let events = self.call.unless_cancelled(self.lease.generate(request)).await?;
            let ended = Box::pin(self.call.cancelled.clone().cancelled_owned());
            Ok(Counted { events: Some(events), ended, call: Arc::clone(&self.call), seen: 0 }.boxed())
        }
        .boxed()
    }

    fn embed(&self, request: EmbedRequest) -> BoxFuture<'_, Result<Embeddings, ApiError>> {
        async move {
            let embedded = self.call.unless_cancelled(self.lease.embed(request)).await?;
            self.call.add_tokens(u64::from(embedded.prompt_tokens));
            Ok(embedded)
        }
        .boxed()
    }
}

/// The events of one answer on their way to a dialect.
struct Counted {
    /// `None` after the end. Letting go of them ends the work.
    events: Option<Events>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    call: Arc<Call>,
    /// Tokens of this answer that have been counted.
    seen: u64,
}

impl Counted {
    fn count(&mut self, event: &Event) {
        let now = match event {
            Event::Started { prompt_tokens } => {
                self.call.started();
                u64::from(*prompt_tokens)
            }
            Event::Delta { tokens, .. } => self.seen + tokens.len() as u64,
            // Also the tokens that never came out, such as those of a stop string.
            Event::Finished(finished) => u64::from(finished.usage.prompt_tokens) + u64::from(finished.usage.completion_tokens),
            Event::Prefill { .. } | Event::Failed(_) => self.seen,
        };
        self.call.add_tokens(now.saturating_sub(self.seen));
        self.seen = self.seen.max(now);
    }
}

impl Stream for Counted {
    type Item = Result<Event, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(events) = &mut this.events else { return Poll::Ready(None) };
        if this.ended.as_mut().poll(context).is_ready() {
            this.events = None;
            return Poll::Ready(Some(Err(cancelled())));
        }
        let item = ready!(events.poll_next_unpin(context));
        if let Some(Ok(event)) = &item {
            this.count(event);
        }
        // Nothing comes after an end, a cancel neither.
        if !matches!(item, Some(Ok(Event::Started { .. } | Event::Prefill { .. } | Event::Delta { .. }))) {
            this.events = None;
        }
        Poll::Ready(item)
    }
}
