//! Running the generations of one request and keeping their books, the same for all dialects and for streamed and whole answers.
//!
//! A request with `n` answers or several prompts is that many generations. At most as many as the model has slots run at a time, so that one
//! request cannot fill the queue against itself. Dropping [`Run`] (a client that left, an error in one answer) cancels all of them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, TryStreamExt};
use onebit_engine::{Constraint, Event, FinishReason, GenerateRequest, Priority, Prompt, Reasoning, TokenOut};

use super::tally::Tally;
use super::wishes::Wishes;
use crate::errors::{ApiError, Kind};
use crate::formats::{Marks, Parser, Piece, Tool, ToolFormat};
use crate::metrics::Metrics;
use crate::models::{Defaults, Leased};

/// How answers are read: what their model's family writes around reasoning and calls.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Marks around reasoning.
    pub reasoning: Option<Marks>,
    /// How calls are written; `None` = there are none.
    pub tools: Option<&'static ToolFormat>,
    /// Functions the model was told of.
    pub known: Arc<[Tool]>,
}

/// What answers are held to.
#[derive(Debug)]
pub struct HeldTo {
    /// For the engine.
    pub constraint: Constraint,
    /// What the dialect calls the field that it was made from.
    pub field: &'static str,
}

/// All that is asked of a model in one request.
#[derive(Debug)]
pub struct Job {
    /// One or more; each gets `wishes.n` answers.
    pub prompts: Vec<Prompt>,
    /// How the answers are to be made.
    pub wishes: Wishes,
    /// What the dialect makes of the request's and the manifest's limit; `None` = until the context is full.
    pub max_tokens: Option<u32>,
    /// Log-probabilities of each token and of so many alternatives.
    pub logprobs: Option<u32>,
    /// The same for the tokens of the prompt.
    pub prompt_logprobs: Option<u32>,
    /// What the answers must look like.
    pub constraint: Option<HeldTo>,
    /// Tokens the reasoning may have.
    pub reasoning_budget: Option<u32>,
    /// Texts that end an answer besides those of the request, and are nobody's business.
    pub own_stops: Vec<String>,
    /// How they are read.
    pub reading: Reading,
}

impl Job {
    /// Plain text from these prompts.
    pub fn plain(prompts: Vec<Prompt>, wishes: Wishes, max_tokens: Option<u32>) -> Self {
        Self {
            prompts,
            wishes,
            max_tokens,
            logprobs: None,
            prompt_logprobs: None,
            constraint: None,
            reasoning_budget: None,
            own_stops: Vec::new(),
            reading: Reading::default(),
        }
    }

    fn total(&self) -> u32 {
        u32::try_from(self.prompts.len()).unwrap_or(u32::MAX).saturating_mul(self.wishes.n)
    }

    /// The generation of answer number `index`. Made when its turn comes: many answers to a long prompt are not many copies.
    fn request(&self, index: u32, defaults: &Defaults) -> Option<GenerateRequest> {
        let prompt = self.prompts.get((index / self.wishes.n.max(1)) as usize)?.clone();
        let marks = self.reading.reasoning.as_ref();
        // Where nobody looks at the border between reasoning and answer, the engine need not either.
        let bordered = marks.filter(|_| self.constraint.is_some() || self.reasoning_budget.is_some());
        Some(GenerateRequest {
            prompt,
            // A template may or may not write the start token; the engine adds it only where it is missing.
            add_special: true,
            max_tokens: self.max_tokens,
            sampling: self.wishes.sampling(defaults, index % self.wishes.n.max(1)),
            stop: self.wishes.stops(defaults).into_iter().chain(self.own_stops.iter().cloned()).collect(),
            logprobs: self.logprobs,
            ignore_eos: self.wishes.ignore_eos,
            constraint: self.constraint.as_ref().map(|held| held.constraint.clone()),
            reasoning: bordered.map(|marks| Reasoning {
                start: marks.start.clone(),
                end: marks.end.clone(),
                budget: self.reasoning_budget,
            }),
            control_text: marks.is_some() || self.reading.tools.is_some(),
            prompt_logprobs: self.prompt_logprobs,
            // The lease knows whose it is.
            priority: Priority::default(),
            scope: None,
        })
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The model ended it.
    Stop,
    /// A stop string; which one.
    StopString(String),
    /// A limit.
    Length,
    /// The model called functions and waits for their results.
    Calls,
}

/// What happens in a run, always to one of its answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// It has its place in the model.
    Started,
    /// The tokens of its prompt, with log-probabilities.
    Prompt(Vec<TokenOut>),
    /// More of it. The tokens are those that are complete with it; both may be empty.
    Said {
        /// Text, reasoning and calls, in order.
        pieces: Vec<Piece>,
        /// Their tokens.
        tokens: Vec<TokenOut>,
    },
    /// Its end, good.
    Finished(End),
}

/// Events with the index of the answer they belong to.
type Numbered = BoxStream<'static, Result<(u32, Event), ApiError>>;

/// One answer's reader.
#[derive(Debug)]
struct Answer {
    parser: Parser,
    started: bool,
    called: bool,
}

/// The generations of one request, as one stream of what happens with the index of the answer it happens to.
pub struct Run {
    events: Numbered,
    ready: VecDeque<(u32, Happening)>,
    answers: Vec<Answer>,
    answers_per_prompt: u32,
    own_stops: Vec<String>,
    /// The field that the constraint was made from, if there is one.
    constrained_by: Option<&'static str>,
    first_prompt: Option<(u64, u64)>,
    tally: Tally,
    lease: Arc<dyn Leased>,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("answers", &self.answers.len()).field("tally", &self.tally).finish_non_exhaustive()
    }
}

impl Run {
    /// Starts, and waits until the first generation has its place in the worker (or fails): until then a refusal can still be a status.
    pub async fn start(lease: Arc<dyn Leased>, job: Job, metrics: Arc<Metrics>) -> Result<Self, ApiError> {
        let (total, answers_per_prompt) = (job.total(), job.wishes.n.max(1));
        let reading = job.reading.clone();
        let (own_stops, constrained_by) = (job.own_stops.clone(), job.constraint.as_ref().map(|held| held.field));
        let side_by_side = usize::try_from(lease.facts().slots.max(1)).unwrap_or(1);
        let events = futures_util::stream::iter(0..total).map({
            let lease = Arc::clone(&lease);
            let job = Arc::new(job);
            move |index| one(Arc::clone(&lease), index, Arc::clone(&job))
        });
        let events = events.flatten_unordered(side_by_side).boxed();
        let answer = |_| Answer {
            parser: Parser::new(reading.reasoning.clone(), reading.tools, Arc::clone(&reading.known)),
            started: false,
            called: false,
        };
        let answers = (0..total).map(answer).collect();
        let mut run = Self {
            events,
            ready: VecDeque::new(),
            answers,
            answers_per_prompt,
            own_stops,
            constrained_by,
            first_prompt: None,
            tally: Tally::default(),
            lease,
            metrics,
        };
        if let Some(first) = run.advance().await {
            run.ready.push_front(first?);
        }
        Ok(run)
    }

    /// What happens next; `None` after all answers are finished.
    pub async fn next(&mut self) -> Option<Result<(u32, Happening), ApiError>> {
        self.advance().await
    }

    async fn advance(&mut self) -> Option<Result<(u32, Happening), ApiError>> {
        loop {
            if let Some(happening) = self.ready.pop_front() {
                return Some(Ok(happening));
            }
            match self.events.next().await? {
                Ok((_, Event::Failed(error))) => return Some(Err(self.named(error.into()))),
                Ok((index, event)) => self.take(index, event),
                Err(error) => return Some(Err(self.named(error))),
            }
        }
    }

    /// With the field at fault as the client knows it: the engine knows constraints only.
    fn named(&self, mut error: ApiError) -> ApiError {
        if error.param.as_deref() == Some("constraint") {
            error.param = self.constrained_by.map(str::to_owned);
        }
        error
    }

    /// Turns an event into what it means to a dialect.
    fn take(&mut self, index: u32, event: Event) {
        let Some(answer) = self.answers.get_mut(index as usize) else { return };
        if !std::mem::replace(&mut answer.started, true) {
            self.ready.push_back((index, Happening::Started));
        }
        match event {
            Event::Prompt { tokens } => self.ready.push_back((index, Happening::Prompt(tokens))),
            Event::Delta { text, tokens } => {
                let pieces = answer.parser.push(&text);
                if matches!(pieces.first(), Some(Piece::Reasoning(_))) {
                    self.tally.reasoning_tokens += tokens.len() as u64;
                }
                answer.called |= pieces.contains(&Piece::CallEnd);
                self.ready.push_back((index, Happening::Said { pieces, tokens }));
            }
            Event::Finished(finished) => {
                self.tally.add(&finished, index.is_multiple_of(self.answers_per_prompt));
                self.metrics.generation(self.lease.model(), &finished);
                let pieces = answer.parser.finish();
                answer.called |= pieces.contains(&Piece::CallEnd);
                if !pieces.is_empty() {
                    self.ready.push_back((index, Happening::Said { pieces, tokens: Vec::new() }));
                }
                let end = match finished.reason {
                    FinishReason::Length => End::Length,
                    _ if answer.called => End::Calls,
                    FinishReason::EndOfGeneration => End::Stop,
                    // One of the family's marks, not the client's.
                    FinishReason::StopString(text) if self.own_stops.contains(&text) => End::Stop,
                    FinishReason::StopString(text) => End::StopString(text),
                };
                self.ready.push_back((index, Happening::Finished(end)));
            }
            Event::Started { prompt_tokens, cached_tokens } => {
                self.first_prompt.get_or_insert((prompt_tokens.into(), cached_tokens.into()));
            }
            Event::Prefill { .. } | Event::Failed(_) => {}
        }
    }

    /// Tokens of the first prompt, and how many of them had been computed before: known from the start on.
    pub fn first_prompt(&self) -> (u64, u64) {
        self.first_prompt.unwrap_or_default()
    }

    /// Numbers so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether every answer has come to its end and was handed out.
    pub fn complete(&self) -> bool {
        self.tally.finished as usize == self.answers.len() && self.ready.is_empty()
    }

    /// Number of answers.
    pub fn total(&self) -> u32 {
        self.answers.len() as u32
    }
}

fn one(lease: Arc<dyn Leased>, index: u32, job: Arc<Job>) -> Numbered {
    let start = async move {
        let Some(request) = job.request(index, lease.defaults()) else {
            return Err(ApiError::new(Kind::Internal, "an answer has no prompt; please report this with the request id"));
        };
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
