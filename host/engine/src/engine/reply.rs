//! Where the events of a request go. Makes "exactly one last event" a property of a type: ending consumes the reply, and a reply that is
//! dropped without an end (a panic, a thread that is gone) says so itself.
//!
//! A sink that panics loses its request and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::shared::{Flags, Shared};
use crate::request::{EngineError, Event, RequestId};

/// Hears events.
pub(crate) type Sink = Box<dyn FnMut(Event) + Send>;

/// The way back of one request.
pub(crate) struct Reply {
    id: RequestId,
    shared: Arc<Shared>,
    flags: Arc<Flags>,
    sink: Option<Sink>,
}

impl Reply {
    /// For a request that is registered under `id`.
    pub(crate) fn new(id: RequestId, shared: Arc<Shared>, flags: Arc<Flags>, sink: Sink) -> Self {
        Self { id, shared, flags, sink: Some(sink) }
    }

    /// Sends an event that is not the last.
    pub(crate) fn event(&mut self, event: Event) {
        if !self.call(event) {
            self.flags.cancelled.store(true, Ordering::SeqCst);
        }
    }

    /// Sends the last event. The id is free before the sink hears it.
    pub(crate) fn end(mut self, event: Event) {
        self.last(event);
    }

    /// The request is to end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.flags.cancelled.load(Ordering::SeqCst)
    }

    /// Its rows are about to be computed, or are no longer.
    pub(crate) fn set_in_batch(&self, in_batch: bool) {
        self.flags.in_batch.store(in_batch, Ordering::SeqCst);
    }

    fn last(&mut self, event: Event) {
        if self.sink.is_some() {
            self.shared.forget(self.id);
            self.call(event);
            self.sink = None;
        }
    }

    /// False if there is no sink any more.
    fn call(&mut self, event: Event) -> bool {
        let Some(mut sink) = self.sink.take() else { return false };
        if catch_unwind(AssertUnwindSafe(|| sink(event))).is_err() {
            tracing::error!(request = self.id.0, "the receiver of a request panicked; the request is cancelled");
            self.shared.forget(self.id);
            return false;
        }
        self.sink = Some(sink);
        true
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        let error = self.shared.failure().unwrap_or_else(|| match self.shared.stop.load(Ordering::SeqCst) {
            true => EngineError::Cancelled,
            false => EngineError::Internal("a request was dropped without an answer".into()),
        });
        self.last(Event::Failed(error));
    }
}
