//! The requests a worker is working on, and where their answers go.
//!
//! A request leaves this table only with its last event or reply, or with the worker. One whose client has left stays as "abandoned" until the
//! worker confirms the end: only so does the watchdog see a plugin that hangs on a request which nobody waits for any more.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use onebit_engine::{Embeddings, EngineError, Event, Ranking, TokenId};
use tokio::sync::{mpsc, oneshot};

use crate::error::WorkerError;
use crate::protocol::FromWorker;

/// What a call gets.
#[derive(Debug)]
pub(crate) enum Reply {
    Embedded(Result<Embeddings, EngineError>),
    Ranked(Result<Ranking, EngineError>),
    Encoded(Result<Vec<TokenId>, EngineError>),
    Decoded(Result<Vec<u8>, EngineError>),
}

pub(crate) type EventSender = mpsc::UnboundedSender<Result<Event, WorkerError>>;
pub(crate) type ReplySender = oneshot::Sender<Result<Reply, WorkerError>>;

#[derive(Debug)]
enum Caller {
    Generation(EventSender),
    Call(ReplySender),
    Abandoned,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    callers: HashMap<u64, Caller>,
    /// Set once, when the worker is gone; later requests get it at once.
    end: Option<WorkerError>,
}

impl Calls {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, caller: Caller) -> Result<u64, WorkerError> {
        let mut inner = self.lock();
        if let Some(end) = &inner.end {
            return Err(end.clone());
        }
        inner.next += 1;
        let id = inner.next;
        inner.callers.insert(id, caller);
        Ok(id)
    }

    pub(crate) fn add_generation(&self, events: EventSender) -> Result<u64, WorkerError> {
        self.add(Caller::Generation(events))
    }

    pub(crate) fn add_call(&self, reply: ReplySender) -> Result<u64, WorkerError> {
        self.add(Caller::Call(reply))
    }

    /// The request never reached the worker.
    pub(crate) fn forget(&self, id: u64) {
        self.lock().callers.remove(&id);
    }

    /// The client has left. True if the worker must be told.
    pub(crate) fn abandon(&self, id: u64) -> bool {
        match self.lock().callers.get_mut(&id) {
            Some(caller) => {
                *caller = Caller::Abandoned;
                true
            }
            None => false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().callers.len()
    }

    /// Hands a message to its request. An unknown number is a late word to somebody who has left, and is dropped.
    ///
    /// # Errors
    /// The message is none that a loaded worker may send.
    pub(crate) fn deliver(&self, message: FromWorker) -> Result<(), String> {
        let (id, reply) = match message {
            FromWorker::Event { id, event } => {
                self.event(id, event);
                return Ok(());
            }
            FromWorker::Embedded { id, result } => (id, Reply::Embedded(result)),
            FromWorker::Ranked { id, result } => (id, Reply::Ranked(result)),
            FromWorker::Encoded { id, result } => (id, Reply::Encoded(result)),
            FromWorker::Decoded { id, result } => (id, Reply::Decoded(result)),
            FromWorker::LoadProgress { .. } | FromWorker::Ready { .. } | FromWorker::LoadFailed(_) => {
                return Err("a message of a load came from a worker that has loaded already".into());
            }
            FromWorker::Stats(_) | FromWorker::Failed(_) => return Err("a message about the worker does not belong to a request".into()),
        };
        match self.lock().callers.remove(&id) {
            Some(Caller::Call(caller)) => {
                // The caller may have left between two lines; that is its right.
                caller.send(Ok(reply)).ok();
                Ok(())
            }
            Some(Caller::Abandoned) | None => Ok(()),
            Some(Caller::Generation(_)) => Err(format!("request {id} is a generation, the worker answered it as a call")),
        }
    }

    fn event(&self, id: u64, event: Event) {
        let last = matches!(event, Event::Finished(_) | Event::Failed(_));
        let mut inner = self.lock();
        if let Some(Caller::Generation(events)) = inner.callers.get(&id) {
            // As above: a receiver that is gone has sent, or is about to send, its cancel.
            events.send(Ok(event)).ok();
        }
        if last {
            inner.callers.remove(&id);
        }
    }

    /// The worker is gone: everybody hears why, now and later.
    pub(crate) fn end(&self, why: &WorkerError) {
        let callers = {
            let mut inner = self.lock();
            inner.end.get_or_insert_with(|| why.clone());
            std::mem::take(&mut inner.callers)
        };
        for caller in callers.into_values() {
            match caller {
                Caller::Generation(events) => drop(events.send(Err(why.clone()))),
                Caller::Call(reply) => drop(reply.send(Err(why.clone()))),
                Caller::Abandoned => {}
            }
        }
    }

    /// Why the worker is gone, if it is.
    pub(crate) fn ended(&self) -> Option<WorkerError> {
        self.lock().end.clone()
    }
}
