//! A request that holds a slot: its tokens, how many of them are in the plugin's state, and what its answer is so far.
//!
//! `tokens` is the truth; the plugin's state is a copy of its first `computed` tokens. So whatever happens to the state, the way back is
//! to compute again from where the two agree.

use std::time::{Duration, Instant};

use super::facts::Tokens;
use super::kept::Scope;
use super::prepare::Job;
use super::reply::Reply;
use crate::guide::{Allowed, Desk, Guided};
use crate::request::{EngineError, Event, FinishReason, Finished, Timings, TokenId, TokenLogprob, TokenOut, Usage};
use crate::sampling::{self, BadLogits, Choice, Sampler, Score, Scratch};
use crate::text::{Answer, Pieces, Shown};

/// What the engine's thread has for all its requests.
pub(crate) struct Tools<'a> {
    /// Buffers of the sampler.
    pub(crate) scratch: &'a mut Scratch,
    /// Bytes of tokens.
    pub(crate) pieces: &'a mut Pieces,
    /// Which tokens end an answer.
    pub(crate) special: &'a Tokens,
    /// Where guides are asked.
    pub(crate) desk: &'a Desk,
}

/// A request in a slot.
pub(crate) struct Running {
    /// When it was admitted; lower is older.
    pub(crate) order: u64,
    /// Prompt and answer.
    pub(crate) tokens: Vec<TokenId>,
    /// Where their state is; `None` = it has not begun.
    pub(crate) sequence: Option<u32>,
    /// Of the tokens, how many the plugin's state holds.
    pub(crate) computed: usize,
    /// With whom it shares state.
    pub(crate) scope: Scope,
    /// Who asks.
    pub(crate) reply: Reply,
    prompt_tokens: u32,
    cached_tokens: u32,
    limit: u32,
    made: u32,
    stop: Vec<String>,
    ignore_eos: bool,
    control_text: bool,
    /// Says what may come next; `None` = everything.
    guide: Option<Guided>,
    /// The prompt with the log-probabilities so far, until it is told.
    scored: Option<Scored>,
    sampler: Sampler,
    answer: Answer,
    arrived: Instant,
    first_batch: Option<Instant>,
    first_token: Option<Instant>,
}

/// Tokens of a prompt whose log-probabilities are known; the first has none.
struct Scored {
    alternatives: u32,
    tokens: Vec<TokenOut>,
}

impl Running {
    /// Gives a job its slot. What its first token may be is found out while the prompt is computed.
    pub(crate) fn start(job: Job, order: u64, desk: &Desk) -> Self {
        let Job {
            prompt, limit, sampling, logprobs, stop, ignore_eos, guide, control_text, prompt_logprobs, scope, reply, arrived, ..
        } = job;
        Self {
            order,
            control_text,
            guide: guide.map(|guide| desk.ask(guide, None)),
            scored: prompt_logprobs.map(|alternatives| Scored {
                alternatives,
                tokens: prompt.first().map(|token| TokenOut { id: *token, logprob: None }).into_iter().collect(),
            }),
            sampler: Sampler::new(sampling, logprobs, &prompt),
            answer: Answer::new(&stop),
            prompt_tokens: u32::try_from(prompt.len()).unwrap_or(u32::MAX),
            cached_tokens: 0,
            tokens: prompt,
            sequence: None,
            computed: 0,
            scope,
            reply,
            limit,
            made: 0,
            stop,
            ignore_eos,
            arrived,
            first_batch: None,
            first_token: None,
        }
    }

    /// It has a sequence, whose state holds the first `shared` tokens already.
    pub(crate) fn begin(&mut self, sequence: u32, shared: usize) {
        self.sequence = Some(sequence);
        self.computed = shared;
        self.cached_tokens = u32::try_from(shared).unwrap_or(u32::MAX);
        self.reply.event(Event::Started { prompt_tokens: self.prompt_tokens, cached_tokens: self.cached_tokens });
    }

    /// The tokens that it may find computed: none where each must have its logits.
    pub(crate) fn may_be_cached(&self) -> &[TokenId] {
        if self.scores_prompt() { &[] } else { &self.tokens }
    }

    /// Rows that must be computed before the next token; at least 1.
    pub(crate) fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// The log-probabilities of its prompt are asked for, and not told yet.
    pub(crate) fn scores_prompt(&self) -> bool {
        self.scored.is_some()
    }

    /// The logits after the token at `position` are needed: for the next token, or for the log-probability of the next one of the prompt.
    pub(crate) fn wants_logits(&self, position: usize) -> bool {
        let chooses = position + 1 == self.tokens.len() && self.limit > 0;
        chooses || self.scores(position)
    }

    /// How many of its next `rows` want logits.
    pub(crate) fn wanted(&self, rows: usize) -> usize {
        (self.computed..self.computed + rows).filter(|position| self.wants_logits(*position)).count()
    }

    fn scores(&self, position: usize) -> bool {
        let next = position + 1;
        self.scored.as_ref().is_some_and(|scored| next >= scored.tokens.len() && next < self.prompt_tokens as usize)
    }

    /// Its first rows are about to be computed.
    pub(crate) fn enters_batch(&mut self, now: Instant) {
        self.first_batch.get_or_insert(now);
    }

    /// The state holds `rows` more tokens. Says how far the prompt is, while it is not done.
    fn computed(&mut self, rows: usize) {
        self.computed += rows;
        if self.computed < self.tokens.len() && self.made == 0 {
            self.reply.event(Event::Prefill { done: u32::try_from(self.computed).unwrap_or(u32::MAX) });
        }
    }

    /// The state holds `rows` more tokens, of which those that [`wants_logits`](Self::wants_logits) have `logits`: the prompt is scored,
    /// and if nothing is left to compute, the next token is chosen. With `Some` the request is over.
    pub(crate) fn advance<'a>(&mut self, rows: usize, mut logits: impl Iterator<Item = &'a [f32]>, tools: &mut Tools<'_>) -> Option<Event> {
        let from = self.computed;
        self.computed(rows);
        let mut last = None;
        for position in from..self.computed {
            if !self.wants_logits(position) {
                continue;
            }
            let row = logits.next()?;
            if self.scores(position)
                && let Err(error) = self.score(position, row, tools)
            {
                return Some(Event::Failed(error));
            }
            last = Some(row);
        }
        if self.pending() > 0 {
            return None;
        }
        if let Some(scored) = self.scored.take() {
            self.reply.event(Event::Prompt { tokens: scored.tokens });
        }
        match last.filter(|_| self.limit > 0) {
            Some(row) => self.choose(row, tools).unwrap_or_else(|error| Some(Event::Failed(error))),
            None => Some(self.finished(FinishReason::Length)),
        }
    }

    /// The log-probability of the token of the prompt that comes after `position`.
    fn score(&mut self, position: usize, row: &[f32], tools: &mut Tools<'_>) -> Result<(), EngineError> {
        let token = self.tokens[position + 1];
        let alternatives = self.scored.as_ref().map_or(0, |scored| scored.alternatives);
        let score = sampling::score(row, token, alternatives, tools.scratch).map_err(bad_logits)?;
        // A prompt's control tokens are as much a part of it as its text.
        let logprob = Some(named(token, score, true, tools.pieces)?);
        if let Some(scored) = &mut self.scored {
            scored.tokens.push(TokenOut { id: token, logprob });
        }
        Ok(())
    }

    /// Chooses the next token from its logits and shows what can be shown. With `Some` the request is over.
    fn choose(&mut self, logits: &[f32], tools: &mut Tools<'_>) -> Result<Option<Event>, EngineError> {
        let (guide, allowed) = match self.guide.take() {
            None => (None, Allowed::Any),
            Some(asked) => asked.wait().map(|(guide, allowed)| (Some(guide), allowed))?,
        };
        let Choice { token, logprob } = match &allowed {
            Allowed::Complete => return Ok(Some(self.ended())),
            Allowed::Forced(token) => self.sampler.force(logits, *token, tools.scratch).map_err(bad_logits)?,
            Allowed::Any => self.sampler.choose(logits, None, tools.scratch).map_err(bad_logits)?,
            Allowed::Only(mask) => self.sampler.choose(logits, Some(mask), tools.scratch).map_err(|bad| match bad {
                BadLogits::AllForbidden => EngineError::Constraint("the model rules out every token that it allows".to_owned()),
                BadLogits::NotFinite => bad_logits(bad),
            })?,
        };
        self.first_token.get_or_insert_with(Instant::now);
        self.made += 1;
        if tools.special.ends(token) && !self.ignore_eos {
            return Ok(Some(self.ended()));
        }
        let (shown, stop) = self.take(token, logprob, tools.pieces)?;
        self.show(shown);
        if let Some(stop) = stop {
            let stop = self.stop.get(stop).cloned().unwrap_or_default();
            return Ok(Some(self.finished(FinishReason::StopString(stop))));
        }
        self.tokens.push(token);
        self.guide = guide.filter(|guide| !guide.is_free()).map(|guide| tools.desk.ask(guide, Some(token)));
        Ok((self.made >= self.limit).then(|| self.full()))
    }

    /// The model or its constraint ended the answer.
    fn ended(&mut self) -> Event {
        let rest = self.answer.finish();
        self.show(rest);
        self.finished(FinishReason::EndOfGeneration)
    }

    /// No more tokens may be made. An answer that is complete with its last one was not cut.
    fn full(&mut self) -> Event {
        if let Some(Ok((_, Allowed::Complete))) = self.guide.take().map(Guided::wait) {
            return self.ended();
        }
        let rest = self.answer.finish();
        self.show(rest);
        self.finished(FinishReason::Length)
    }

    /// The good end.
    pub(crate) fn finished(&self, reason: FinishReason) -> Event {
        let now = Instant::now();
        let first_batch = self.first_batch.unwrap_or(now);
        let first_token = self.first_token.unwrap_or(now);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Event::Finished(Finished {
            reason,
            usage: Usage { prompt_tokens: self.prompt_tokens, cached_tokens: self.cached_tokens, completion_tokens: self.made },
            timings: Timings {
                queue_us: micros(first_batch - self.arrived),
                prefill_us: micros(first_token - first_batch),
                decode_us: micros(now - first_token),
            },
        })
    }

    fn take(&mut self, token: TokenId, score: Option<Score>, pieces: &mut Pieces) -> Result<(Shown, Option<usize>), EngineError> {
        let logprob = score.map(|score| named(token, score, self.control_text, pieces)).transpose()?;
        Ok(self.answer.push(TokenOut { id: token, logprob }, pieces.of(token, self.control_text)?))
    }

    fn show(&mut self, shown: Shown) {
        if !shown.is_empty() {
            self.reply.event(Event::Delta { text: shown.text, tokens: shown.tokens });
        }
    }
}

fn named(token: TokenId, (logprob, best): Score, control: bool, pieces: &mut Pieces) -> Result<TokenLogprob, EngineError> {
    let mut top = Vec::with_capacity(best.len());
    for (token, logprob) in best {
        top.push((token, pieces.of(token, control)?.to_vec(), logprob));
    }
    Ok(TokenLogprob { bytes: pieces.of(token, control)?.to_vec(), logprob, top })
}

fn bad_logits(bad: BadLogits) -> EngineError {
    EngineError::Plugin { status: "internal".into(), message: bad.to_string() }
}
