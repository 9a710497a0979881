//! What a request holds while it needs a model: a [`Lease`] on the loaded model and, per answer, a [`Generation`].
//!
//! If the worker dies before a request has been answered at all, the request is sent to the restarted worker, once. As soon as a piece of text
//! has been handed out there is no second try: repeated text is worse than an honest error.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use onebit_engine::{EmbedRequest, Embeddings, Event, GenerateRequest, ModelFacts, Prompt, Ranking, RerankRequest, TokenId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Inner;
use super::admission::Ticket;
use super::calls::Reply;
use super::entry::Entry;
use super::events::Lifecycle;
use super::instance::{Instance, Seat};
use crate::error::WorkerError;
use crate::protocol::ToWorker;
use crate::spec::LaunchSpec;

/// The right to use a loaded model. As long as it lives the model is neither evicted nor expired.
pub struct Lease {
    bond: Arc<Bond>,
    facts: Arc<ModelFacts>,
    seat: Mutex<Seat>,
    /// The place in the queue that the lease was given; its first request takes it over.
    ticket: Mutex<Option<Ticket>>,
    /// Requests that had a place when this lease got its own.
    ahead: usize,
    request_id: Option<String>,
    deadline: Option<Instant>,
}

/// What is needed to get another seat on the same model.
struct Bond {
    inner: Arc<Inner>,
    entry: Arc<Entry>,
    spec: LaunchSpec,
}

impl Bond {
    async fn seat(&self) -> Result<Seat, WorkerError> {
        self.inner.seat(&self.entry, &self.spec).await
    }

    fn replayed(&self, error: &WorkerError) {
        tracing::warn!(model = self.entry.model, %error, "sent again: the worker died before it had answered");
        self.inner.observers.tell(&Lifecycle::Replayed { model: self.entry.model.clone() });
    }
}

/// Whether a request that has not been answered may be sent to a new worker; `begun`: the old one had begun to compute it.
fn replayable(error: &WorkerError, begun: bool) -> bool {
    match error {
        WorkerError::Died(_) => true,
        // A request on which a plugin may have hung for minutes is not given another chance to do so; one that only waited behind it is.
        WorkerError::Hang(_) => !begun,
        _ => false,
    }
}

impl Lease {
    pub(super) fn new(inner: Arc<Inner>, entry: Arc<Entry>, spec: LaunchSpec, seat: Seat, ticket: Ticket) -> Self {
        Self {
            facts: seat.instance().facts.clone(),
            bond: Arc::new(Bond { inner, entry, spec }),
            seat: Mutex::new(seat),
            ahead: ticket.ahead(),
            ticket: Mutex::new(Some(ticket)),
            request_id: None,
            deadline: None,
        }
    }

    /// An answer that has not begun by then is not waited for any longer: [`WorkerError::Deadline`]. One that has begun may take its time.
    #[must_use]
    pub fn by(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Names the requests of this lease in the logs of host and worker.
    #[must_use]
    pub fn named(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }

    /// What is loaded, from the worker itself.
    #[must_use]
    pub fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    /// The specification the lease was taken for.
    #[must_use]
    pub fn spec(&self) -> &LaunchSpec {
        &self.bond.spec
    }

    /// How many requests had to end before this one could be computed, when it got its place: 0 = none, 1 = it was the next.
    #[must_use]
    pub fn queue_position(&self) -> u32 {
        let slots = self.facts.slots.max(1) as usize;
        u32::try_from((self.ahead + 1).saturating_sub(slots)).unwrap_or(u32::MAX)
    }

    /// Starts an answer.
    ///
    /// # Errors
    /// [`WorkerError::QueueFull`], [`WorkerError::RequestTooLarge`]; the worker's end and the engine's refusals come through the stream,
    /// unless the worker is gone already and cannot be started again.
    pub async fn generate(&self, request: GenerateRequest) -> Result<Generation, WorkerError> {
        let ticket = self.ticket()?;
        let seat = self.living_seat().await?;
        let request = Arc::new(request);
        let request_id = self.request_id();
        let line = Line::open(&seat, &request_id, &request)?;
        Ok(Generation {
            bond: self.bond.clone(),
            request,
            request_id,
            line: Some(line),
            seat: Some(seat),
            next_seat: None,
            ticket: Some(ticket),
            began: Instant::now(),
            alarm: self.deadline.map(|deadline| Box::pin(sleep_until(deadline))),
            started: false,
            may_replay: true,
        })
    }

    /// Turns texts into vectors. Dropping the future stops the work.
    ///
    /// # Errors
    /// Any; the engine's as [`WorkerError::Engine`].
    pub async fn embed(&self, request: EmbedRequest) -> Result<Embeddings, WorkerError> {
        let request_id = self.request_id();
        let make = |id| ToWorker::Embed { id, request_id: request_id.clone(), request: request.clone() };
        match self.queued_call(make).await? {
            Reply::Embedded(result) => Ok(result?),
            other => Err(self.confused(&other)),
        }
    }

    /// Says how well documents answer a query. Dropping the future stops the work.
    ///
    /// # Errors
    /// Any; the engine's as [`WorkerError::Engine`].
    pub async fn rerank(&self, request: RerankRequest) -> Result<Ranking, WorkerError> {
        let request_id = self.request_id();
        let make = |id| ToWorker::Rerank { id, request_id: request_id.clone(), request: request.clone() };
        match self.queued_call(make).await? {
            Reply::Ranked(result) => Ok(result?),
            other => Err(self.confused(&other)),
        }
    }

    /// The tokens of a prompt.
    ///
    /// # Errors
    /// Any; the engine's as [`WorkerError::Engine`].
    pub async fn encode(&self, prompt: Prompt, add_special: bool) -> Result<Vec<TokenId>, WorkerError> {
        match self.call(|id| ToWorker::Encode { id, prompt: prompt.clone(), add_special }).await? {
            Reply::Encoded(result) => Ok(result?),
            other => Err(self.confused(&other)),
        }
    }

    /// The bytes of tokens; not always whole characters.
    ///
    /// # Errors
    /// Any; the engine's as [`WorkerError::Engine`].
    pub async fn decode(&self, tokens: Vec<TokenId>) -> Result<Vec<u8>, WorkerError> {
        match self.call(|id| ToWorker::Decode { id, tokens: tokens.clone() }).await? {
            Reply::Decoded(result) => Ok(result?),
            other => Err(self.confused(&other)),
        }
    }

    fn confused(&self, reply: &Reply) -> WorkerError {
        WorkerError::Protocol { model: self.bond.entry.model.clone(), reason: format!("the answer belongs to another question: {reply:?}") }
    }

    fn request_id(&self) -> String {
        self.request_id.clone().unwrap_or_else(|| format!("r{}", self.bond.inner.next_request()))
    }

    /// The lease's own place in the queue, or another one for a second request beside the first.
    fn ticket(&self) -> Result<Ticket, WorkerError> {
        match self.ticket.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(ticket) => Ok(ticket),
            None => self.bond.inner.admit(&self.bond.entry),
        }
    }

    fn current_seat(&self) -> Seat {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A seat on a worker that is alive; a new one if this lease's has died.
    async fn living_seat(&self) -> Result<Seat, WorkerError> {
        let seat = self.current_seat();
        match seat.instance().calls.ended() {
            None => Ok(seat),
            Some(error) if replayable(&error, false) => {
                let new = self.bond.seat().await?;
                let old = std::mem::replace(&mut *self.seat.lock().unwrap_or_else(PoisonError::into_inner), new.clone());
                drop(old);
                Ok(new)
            }
            Some(error) => Err(error),
        }
    }

    /// A question with one answer that is work enough to have a place in the queue.
    async fn queued_call(&self, make: impl Fn(u64) -> ToWorker) -> Result<Reply, WorkerError> {
        let ticket = self.ticket()?;
        let reply = self.call(make).await?;
        ticket.answered();
        self.bond.entry.answered();
        Ok(reply)
    }

    /// A question with one answer. Asked again, once, if the worker dies over it.
    async fn call(&self, make: impl Fn(u64) -> ToWorker) -> Result<Reply, WorkerError> {
        let seat = self.living_seat().await?;
        match ask(&seat, &make).await {
            Err(error) if replayable(&error, true) => {
                let seat = self.living_seat().await?;
                self.bond.replayed(&error);
                ask(&seat, &make).await
            }
            outcome => outcome,
        }
    }
}

async fn ask(seat: &Seat, make: &impl Fn(u64) -> ToWorker) -> Result<Reply, WorkerError> {
    let (sender, reply) = oneshot::channel();
    let id = seat.instance().calls.add_call(sender)?;
    let mut open = Open { instance: seat.instance().clone(), id, over: false };
    open.submit(make(id))?;
    // A channel that closes without a word would be a fault of the table of calls; it always answers before it forgets.
    let outcome = reply.await.unwrap_or_else(|_| {
        Err(WorkerError::Protocol { model: seat.instance().spec.model.clone(), reason: "the request was lost".into() })
    });
    open.over = true;
    outcome
}

/// A request in a worker. Dropped before its end, it is cancelled there.
struct Open {
    instance: Arc<Instance>,
    id: u64,
    over: bool,
}

impl Open {
    /// Sends the request; if that is impossible the worker never knew of it.
    fn submit(&mut self, message: ToWorker) -> Result<(), WorkerError> {
        self.instance.send(message).inspect_err(|_| {
            self.over = true;
            self.instance.calls.forget(self.id);
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.over {
            self.instance.abandon(self.id);
        }
    }
}

/// A generation in a worker and the channel its events come through.
struct Line {
    open: Open,
    events: mpsc::UnboundedReceiver<Result<Event, WorkerError>>,
}

impl Line {
    fn open(seat: &Seat, request_id: &str, request: &Arc<GenerateRequest>) -> Result<Self, WorkerError> {
        let (sender, events) = mpsc::unbounded_channel();
        let instance = seat.instance().clone();
        let id = instance.calls.add_generation(sender)?;
        let mut open = Open { instance, id, over: false };
        open.submit(ToWorker::Generate { id, request_id: request_id.to_owned(), request: Box::new(request.as_ref().clone()) })?;
        Ok(Self { open, events })
    }
}

type NextSeat = Pin<Box<dyn Future<Output = Result<Seat, WorkerError>> + Send>>;

/// One answer, as it is made. The last item is [`Event::Finished`], [`Event::Failed`] or an `Err`; after it the stream ends. Dropping it
/// before that stops the work in the worker.
pub struct Generation {
    bond: Arc<Bond>,
    request: Arc<GenerateRequest>,
    request_id: String,
    /// `None` between two workers and after the end.
    line: Option<Line>,
    /// Keeps the model loaded until the end.
    seat: Option<Seat>,
    /// The way to another worker.
    next_seat: Option<NextSeat>,
    ticket: Option<Ticket>,
    began: Instant,
    /// Goes off at the deadline; gone once the answer has begun.
    alarm: Option<Pin<Box<Sleep>>>,
    /// [`Event::Started`] was handed out.
    started: bool,
    /// No text was handed out and no second try was made.
    may_replay: bool,
}

impl Generation {
    /// The next event; `None` after the last. Same as the stream.
    pub async fn next(&mut self) -> Option<Result<Event, WorkerError>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// Everything is over: gives back place and seat at once, not only when the stream is dropped.
    fn end(&mut self) {
        self.line = None;
        self.next_seat = None;
        self.ticket = None;
        self.seat = None;
    }

    fn fail(&mut self, error: WorkerError) -> Poll<Option<Result<Event, WorkerError>>> {
        self.end();
        Poll::Ready(Some(Err(error)))
    }
}

impl Stream for Generation {
    type Item = Result<Event, WorkerError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(alarm) = &mut this.alarm
            && alarm.as_mut().poll(context).is_ready()
        {
            this.alarm = None;
            if this.line.is_some() || this.next_seat.is_some() {
                return this.fail(WorkerError::Deadline { model: this.bond.entry.model.clone(), waited: this.began.elapsed() });
            }
        }
        loop {
            if let Some(next_seat) = &mut this.next_seat {
                let seat = match ready!(next_seat.as_mut().poll(context)) {
                    Ok(seat) => seat,
                    Err(error) => return this.fail(error),
                };
                this.next_seat = None;
                match Line::open(&seat, &this.request_id, &this.request) {
                    Ok(line) => {
                        this.line = Some(line);
                        this.seat = Some(seat);
                    }
                    Err(error) => return this.fail(error),
                }
            }
            let Some(line) = &mut this.line else { return Poll::Ready(None) };
            let item = match ready!(line.events.poll_recv(context)) {
                Some(item) => item,
                None => {
                    let model = this.bond.entry.model.clone();
                    return this.fail(WorkerError::Protocol { model, reason: "the request was lost".into() });
                }
            };
            match item {
                Ok(event) => {
                    match &event {
                        Event::Started { .. } => {
                            this.alarm = None;
                            if std::mem::replace(&mut this.started, true) {
                                continue;
                            }
                        }
                        Event::Delta { .. } | Event::Prompt { .. } => this.may_replay = false,
                        Event::Finished(_) | Event::Failed(_) => {
                            line.open.over = true;
                            if matches!(event, Event::Finished(_)) {
                                this.bond.entry.answered();
                                if let Some(ticket) = &this.ticket {
                                    ticket.answered();
                                }
                            }
                            this.end();
                        }
                        Event::Prefill { .. } => {}
                    }
                    return Poll::Ready(Some(Ok(event)));
                }
                Err(error) => {
                    line.open.over = true;
                    this.line = None;
                    this.seat = None;
                    if !(this.may_replay && replayable(&error, this.started)) {
                        return this.fail(error);
                    }
                    this.may_replay = false;
                    this.bond.replayed(&error);
                    let bond = this.bond.clone();
                    this.next_seat = Some(Box::pin(async move { bond.seat().await }));
                }
            }
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("model", &self.bond.entry.model).field("plugin", &self.facts.plugin).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generation").field("model", &self.bond.entry.model).field("request_id", &self.request_id).finish_non_exhaustive()
    }
}
