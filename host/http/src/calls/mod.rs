//! The requests that ask a model, from their head to the last byte of their answer: whose they are, how far they are, and their end.
//!
//! A [`Call`] is made when such a request comes in and lives as long as anybody works on it: the handler, the lease it takes and, in a
//! streamed answer, the body that is still being written. So it needs no clean-up of its own. When the last of them lets go, the call leaves
//! the list, its key's place is free again, and the tokens are charged, whichever way it ended.

mod lease;
mod routes;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Instant, SystemTime};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request};
use tokio_util::sync::CancellationToken;

use crate::errors::{ApiError, Kind};
use crate::gate::{Caller, Running};
use crate::models::Leased;
use lease::Answer;

pub(crate) use routes::{cancel, list};

/// All calls of a server.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    running: Mutex<BTreeMap<u64, Weak<Call>>>,
    count: AtomicU64,
}

/// One request that asks a model.
#[derive(Debug)]
pub(crate) struct Call {
    calls: Arc<Calls>,
    number: u64,
    id: Arc<str>,
    caller: Caller,
    route: String,
    since: SystemTime,
    model: OnceLock<String>,
    tokens: AtomicU64,
    cancelled: CancellationToken,
    answers: Mutex<Vec<Weak<Answer>>>,
    queue: Queue,
    /// The key's place for a running request.
    _running: Option<Running>,
}

/// What is known of how it waited, as it becomes known.
#[derive(Debug, Default)]
struct Queue {
    asked: OnceLock<Instant>,
    position: OnceLock<u32>,
    waited_ms: OnceLock<u64>,
}

impl Calls {
    /// A request has come in.
    pub(crate) fn begin(self: &Arc<Self>, id: Arc<str>, caller: Caller, route: String, running: Option<Running>) -> Arc<Call> {
        let number = self.count.fetch_add(1, Relaxed);
        let call = Arc::new(Call {
            calls: Arc::clone(self),
            number,
            id,
            caller,
            route,
            since: SystemTime::now(),
            model: OnceLock::new(),
            tokens: AtomicU64::new(0),
            cancelled: CancellationToken::new(),
            answers: Mutex::default(),
            queue: Queue::default(),
            _running: running,
        });
        self.lock().insert(number, Arc::downgrade(&call));
        call
    }

    /// Those that `caller` may see and end, oldest first.
    fn of(&self, caller: &Caller) -> Vec<Arc<Call>> {
        // The last one to hold a call takes it off this list: nothing may be let go while the list is locked.
        let all: Vec<Arc<Call>> = self.lock().values().filter_map(Weak::upgrade).collect();
        all.into_iter().filter(|call| caller.commands(&call.caller)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<Call>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    /// `x-request-id`. A client may choose it, and may choose the same one twice.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Who asks.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Waits for `work`, which gets hold of the model; a cancelled call gives it up.
    pub(crate) async fn lease<F>(self: &Arc<Self>, work: F) -> Result<Arc<dyn Leased>, ApiError>
    where
        F: Future<Output = Result<Arc<dyn Leased>, ApiError>>,
    {
        self.queue.asked.get_or_init(Instant::now);
        let lease = self.unless_cancelled(work).await?;
        self.model.get_or_init(|| lease.model().to_owned());
        if let Some(position) = lease.queue_position() {
            self.queue.position.get_or_init(|| position);
        }
        Ok(lease::hold(lease, Arc::clone(self)))
    }

    /// How it waited, as far as that is known now.
    pub(crate) fn show(&self, headers: &mut HeaderMap) {
        if let Some(position) = self.queue.position.get() {
            headers.insert("x-onebit-queue-position", HeaderValue::from(*position));
        }
        if let Some(waited_ms) = self.queue.waited_ms.get() {
            headers.insert("x-onebit-queue-ms", HeaderValue::from(*waited_ms));
        }
    }

    /// Ends it. Its work ends here and now, not when somebody looks for the next event: a client that does not read its answer would otherwise
    /// keep the model at work.
    fn cancel(&self) {
        self.cancelled.cancel();
        let answers = std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner));
        answers.iter().filter_map(Weak::upgrade).for_each(|answer| answer.end());
    }

    /// An answer is being made for it.
    fn answering(&self, answer: &Arc<Answer>) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(answer));
        // It came while this was on its way.
        if self.cancelled.is_cancelled() {
            answer.end();
        }
    }

    /// The model has begun with it.
    fn started(&self) {
        if let Some(asked) = self.queue.asked.get() {
            self.queue.waited_ms.get_or_init(|| u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX));
        }
    }

    fn add_tokens(&self, count: u64) {
        self.tokens.fetch_add(count, Relaxed);
    }

    async fn unless_cancelled<T>(&self, work: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        tokio::select! {
            biased;
            () = self.cancelled.cancelled() => Err(cancelled()),
            result = work => result,
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.number);
        self.caller.charge(self.tokens.load(Relaxed));
    }
}

/// The call of a request on a route that asks a model.
pub(crate) fn call(request: &Request<Body>) -> Result<Arc<Call>, ApiError> {
    let call = request.extensions().get::<Arc<Call>>().cloned();
    call.ok_or_else(|| ApiError::new(Kind::Internal, "this route is not set up to ask models; please report this with the request id"))
}

fn cancelled() -> ApiError {
    ApiError::new(Kind::Cancelled, "the request was cancelled with POST /v1/requests/{id}/cancel; what it had produced is lost")
}
