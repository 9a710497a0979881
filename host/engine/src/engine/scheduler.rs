//! The engine's thread: admits requests into slots, computes batch after batch, and never stops for a reason that only one request has.
//!
//! A request in a slot has a sequence of the plugin's session. What its state is of is known token by token, and another request goes on from it
//! only as far as its own tokens agree (see [`Kept`]): nothing of one conversation is ever seen by another. When a step fails or is aborted, the state is brought back to where it agrees with the tokens (see
//! [`Running`]), and the rest goes on. Only a broken plugin or a fault of our own ends all: then every request is told, and the engine
//! refuses from there on instead of guessing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::facts::Tokens;
use super::kept::Kept;
use super::pace::{Pace, STEP};
use super::plan::{Pending, Share, plan};
use super::prepare::Job;
use super::queue::Queue;
use super::running::{Running, Tools};
use super::shared::Shared;
use crate::backend::{Fault, Forward, ForwardLimits, Rows};
use crate::guide::Desk;
use crate::request::{EngineError, Event, TokenId};
use crate::sampling::Scratch;
use crate::text::Pieces;

/// Waits for a busy plugin in a row before a request is given up, and the longest of them.
const BUSY_LIMIT: u32 = 50;
const BUSY_WAIT: Duration = Duration::from_millis(100);

/// Rows of a step for a prompt whose every row has logits: those of a whole batch would fill gigabytes.
const SCORED_ROWS: usize = 256;

/// How long a first request waits for company: one over this part of its prompt's time, and never longer than that.
const GATHER_SHARE: u32 = 50;
const GATHER_MOST: Duration = Duration::from_millis(5);

/// What the engine's thread is told.
pub(crate) enum Command {
    /// Compute this.
    Submit(Box<Job>),
    /// Look at the flags.
    Wake,
}

/// The rows of a batch; kept between steps for its memory.
#[derive(Debug, Default)]
struct Batch {
    tokens: Vec<TokenId>,
    positions: Vec<u32>,
    sequences: Vec<u32>,
    wants_logits: Vec<bool>,
}

/// The state of the engine's thread.
pub(crate) struct Scheduler {
    pub(super) session: Box<dyn Forward>,
    pub(super) limits: ForwardLimits,
    /// Logits of a row that belong to tokens; the rest is padding.
    vocabulary: usize,
    shared: Arc<Shared>,
    tokens: Arc<Tokens>,
    inbox: Receiver<Command>,
    waiting: Queue,
    pub(super) slots: Vec<Option<Running>>,
    pub(super) kept: Kept,
    /// Whether anything is kept.
    pub(super) keeps: bool,
    admitted: u64,
    pace: Pace,
    busy: u32,
    batch: Batch,
    shares: Vec<Share>,
    scratch: Scratch,
    pieces: Pieces,
    desk: Desk,
}

impl Scheduler {
    /// With empty slots.
    pub(crate) fn new(
        session: Box<dyn Forward>,
        shared: Arc<Shared>,
        tokens: Arc<Tokens>,
        desk: Desk,
        inbox: Receiver<Command>,
        keeps: bool,
    ) -> Self {
        let limits = session.limits();
        Self {
            session,
            limits,
            vocabulary: limits.vocabulary.min(tokens.facts().size) as usize,
            shared,
            pieces: Pieces::new(tokens.share()),
            tokens,
            inbox,
            waiting: Queue::default(),
            slots: (0..limits.slots.max(1)).map(|_| None).collect(),
            kept: Kept::new(limits.sequences.max(1), limits.cuttable),
            keeps,
            admitted: 0,
            pace: Pace::default(),
            busy: 0,
            batch: Batch::default(),
            shares: Vec::new(),
            scratch: Scratch::default(),
            desk,
        }
    }

    /// Serves until the engine is dropped.
    pub(crate) fn run(mut self) {
        loop {
            let goes_on = match catch_unwind(AssertUnwindSafe(|| self.turn())) {
                Ok(goes_on) => goes_on,
                Err(panic) => {
                    let words = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                    let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
                    self.fail(EngineError::Internal(words.unwrap_or_else(|| "a panic without words".into())));
                    true
                }
            };
            self.shared.flush();
            if !goes_on {
                return;
            }
        }
    }

    /// One round; false at the end.
    fn turn(&mut self) -> bool {
        if self.is_idle() {
            match self.inbox.recv() {
                Ok(command) => self.hear(command),
                Err(_) => return false,
            }
            self.gather();
        }
        while let Ok(command) = self.inbox.try_recv() {
            self.hear(command);
        }
        if self.shared.stop.load(Ordering::SeqCst) {
            self.end_all(&EngineError::Cancelled);
            return false;
        }
        if let Some(failure) = self.shared.failure() {
            self.end_all(&failure);
            return true;
        }
        let reaped = self.reap().and_then(|()| self.begin());
        // Who was admitted hears so before the step, not after it.
        self.shared.flush();
        if let Err(error) = reaped.and_then(|()| self.step()) {
            self.fail(error);
        }
        true
    }

    /// Waits a moment for requests that come together with the first: computed in one batch all of them are done sooner than one after the
    /// other, and their answers stay in step. The moment is a small part of what the first will take anyway, so nobody notices it.
    fn gather(&mut self) {
        let rows = self.waiting.rows();
        // Woken for something else.
        if rows == 0 {
            return;
        }
        let Some(time) = self.pace.predict(rows, rows) else { return };
        let until = Instant::now() + (time / GATHER_SHARE).min(GATHER_MOST);
        while self.waiting.len() < self.slots.len()
            && let Ok(command) = self.inbox.recv_deadline(until)
        {
            self.hear(command);
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.slots.iter().all(Option::is_none)
    }

    fn hear(&mut self, command: Command) {
        match command {
            Command::Submit(job) => self.waiting.enter(*job),
            Command::Wake => {}
        }
    }

    /// Takes out what was cancelled, then fills free slots in the order of the queue.
    fn reap(&mut self) -> Result<(), EngineError> {
        self.waiting.reap();
        for slot in 0..self.slots.len() {
            if self.slots[slot].as_ref().is_some_and(|running| running.reply.is_cancelled()) {
                self.end(slot, Event::Failed(EngineError::Cancelled))?;
            }
            if self.slots[slot].is_none()
                && let Some(job) = self.waiting.next(Instant::now())
            {
                self.admitted += 1;
                self.shared.active.fetch_add(1, Ordering::Relaxed);
                self.slots[slot] = Some(Running::start(job, self.admitted, &self.desk));
            }
        }
        Ok(())
    }

    /// Computes one batch and moves every request that was in it.
    ///
    /// # Errors
    /// What ends the engine; what ends one request is dealt with here.
    fn step(&mut self) -> Result<(), EngineError> {
        let pending: Vec<Pending> = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(slot, running)| running.as_ref().map(|running| (slot, running)))
            .filter(|(_, running)| running.sequence.is_some())
            .map(|(slot, running)| {
                let most = if running.scores_prompt() { SCORED_ROWS } else { usize::MAX };
                Pending { slot, order: running.order, rows: running.pending().min(most) }
            })
            .collect();
        if pending.is_empty() {
            return Ok(());
        }
        let mut shares = std::mem::take(&mut self.shares);
        let most = self.limits.batch.max(self.limits.slots) as usize;
        // A step must have room for one row of every sequence.
        let alone = self.pace.rows_alone().max(self.limits.slots as usize);
        plan(&pending, most.min(alone), self.pace.rows_per_step(), &mut shares);
        let result = self.make_room(&shares).and_then(|()| self.compute(&shares));
        self.shares = shares;
        result
    }

    fn compute(&mut self, shares: &[Share]) -> Result<(), EngineError> {
        let prompt_rows: usize = shares.iter().map(|share| share.rows).filter(|rows| *rows > 1).sum();
        self.fill(shares);
        let rows = self.batch.tokens.len();

        // What others have computed in this batch is lost when it is aborted, so that is only done to a batch that takes longer than a
        // cancelled request may live on; and only if the state of the others can be cut back.
        let long = self.pace.predict(rows, prompt_rows).is_none_or(|time| time > STEP);
        let alone = shares.len() == 1;
        self.shared.abort.clear();
        self.shared.abortable.store(alone || (long && self.limits.cuttable), Ordering::SeqCst);
        let now = Instant::now();
        for share in shares {
            if let Some(running) = &mut self.slots[share.slot] {
                running.enters_batch(now);
                running.reply.set_in_batch(true);
            }
        }
        let cancelled = self.batched(shares).any(|running| running.reply.is_cancelled()) || self.shared.stop.load(Ordering::SeqCst);
        if cancelled {
            self.leave_batch(shares);
            return Ok(());
        }

        let step_shared = Arc::clone(&self.shared);
        let _step = step_shared.watch.begin();
        let begin = Instant::now();
        let batch = Rows {
            tokens: &self.batch.tokens,
            positions: &self.batch.positions,
            sequences: &self.batch.sequences,
            wants_logits: &self.batch.wants_logits,
            cancel: &self.shared.abort,
        };
        let width = self.limits.vocabulary as usize;
        let wanted = self.batch.wants_logits.iter().filter(|wanted| **wanted).count();
        let mut over: Vec<(usize, Event)> = Vec::new();
        let outcome = match self.session.forward(&batch) {
            Ok(logits) if logits.len() != wanted * width => Err(Fault::Broken {
                status: "internal".into(),
                message: format!("the plugin gave {} logits for {wanted} rows of {width}", logits.len()),
            }),
            Ok(mut logits) => {
                self.pace.record(rows, prompt_rows, begin.elapsed());
                self.busy = 0;
                let mut tools = Tools { scratch: &mut self.scratch, pieces: &mut self.pieces, special: &self.tokens, desk: &self.desk };
                for share in shares {
                    let Some(running) = self.slots[share.slot].as_mut() else { continue };
                    running.reply.set_in_batch(false);
                    // Whatever becomes of this request, the next one's rows begin where its own end.
                    let (own, rest) = logits.split_at(running.wanted(share.rows) * width);
                    logits = rest;
                    let rows = own.chunks_exact(width.max(1)).map(|row| &row[..self.vocabulary]);
                    over.extend(running.advance(share.rows, rows, &mut tools).map(|event| (share.slot, event)));
                }
                Ok(())
            }
            Err(fault) => Err(fault),
        };
        match outcome {
            // All are told before a failure to empty one slot ends the engine.
            Ok(()) => over.into_iter().map(|(slot, event)| self.end(slot, event)).fold(Ok(()), Result::and),
            Err(fault) => {
                self.leave_batch(shares);
                self.recover(shares, fault)
            }
        }
    }

    /// Writes the rows of `shares` into the batch.
    fn fill(&mut self, shares: &[Share]) {
        let batch = &mut self.batch;
        batch.tokens.clear();
        batch.positions.clear();
        batch.sequences.clear();
        batch.wants_logits.clear();
        for share in shares {
            let Some(running) = &self.slots[share.slot] else { continue };
            let end = running.computed + share.rows;
            batch.tokens.extend_from_slice(&running.tokens[running.computed..end]);
            // Positions fit: a request is never longer than the context, which is a u32.
            batch.positions.extend((running.computed..end).map(|position| position as u32));
            batch.sequences.extend(std::iter::repeat_n(running.sequence.unwrap_or_default(), share.rows));
            batch.wants_logits.extend((running.computed..end).map(|position| running.wants_logits(position)));
        }
    }

    fn batched<'a>(&'a self, shares: &'a [Share]) -> impl Iterator<Item = &'a Running> {
        shares.iter().filter_map(|share| self.slots[share.slot].as_ref())
    }

    fn leave_batch(&self, shares: &[Share]) {
        self.batched(shares).for_each(|running| running.reply.set_in_batch(false));
    }

    /// After a failed or aborted batch: the state goes back to where it was, and whoever is to blame ends.
    fn recover(&mut self, shares: &[Share], fault: Fault) -> Result<(), EngineError> {
        if matches!(fault, Fault::Broken { .. }) {
            return Err(fault.into());
        }
        for share in shares {
            let Some(running) = &mut self.slots[share.slot] else { continue };
            // State that cannot be cut is made again from the first token.
            if !self.limits.cuttable {
                running.computed = 0;
            }
            self.session.remove(running.sequence.unwrap_or_default(), running.computed as u32)?;
        }
        match fault {
            // The next round takes out who was cancelled and computes the rest again.
            Fault::Cancelled => Ok(()),
            Fault::Busy { retry } if self.busy < BUSY_LIMIT => {
                self.busy += 1;
                std::thread::sleep(retry.clamp(Duration::from_millis(1), BUSY_WAIT));
                Ok(())
            }
            // What is kept goes before anybody who is there.
            Fault::OutOfMemory { .. } | Fault::ContextOverflow { .. } if !self.kept.is_bare() => self.forget_all(),
            fault => {
                self.busy = 0;
                tracing::warn!(error = %EngineError::from(fault.clone()), "a batch failed; its newest request ends");
                let newest =
                    shares.iter().map(|share| share.slot).max_by_key(|slot| self.slots[*slot].as_ref().map(|running| running.order));
                newest.map_or(Ok(()), |slot| self.end(slot, Event::Failed(fault.into())))
            }
        }
    }

    /// Empties a slot and says the last word to its request.
    fn end(&mut self, slot: usize, event: Event) -> Result<(), EngineError> {
        let Some(mut running) = self.slots[slot].take() else { return Ok(()) };
        self.shared.active.fetch_sub(1, Ordering::Relaxed);
        let whole = matches!(event, Event::Finished(_) | Event::Failed(EngineError::Cancelled));
        let emptied = self.put_back(&mut running, whole);
        running.reply.end(event);
        emptied
    }

    /// The engine is broken: everybody is told.
    fn fail(&mut self, error: EngineError) {
        self.shared.fail(&error);
        self.end_all(&error);
    }

    /// Ends every request without touching the session.
    fn end_all(&mut self, error: &EngineError) {
        for running in self.slots.iter_mut().filter_map(Option::take) {
            self.shared.active.fetch_sub(1, Ordering::Relaxed);
            running.reply.end(Event::Failed(error.clone()));
        }
        for job in self.waiting.drain() {
            job.reply.end(Event::Failed(error.clone()));
        }
    }
}
