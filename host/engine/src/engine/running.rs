//! A request that holds a slot: its tokens, how many of them are in the plugin's state, and what its answer is so far.
//!
//! `tokens` is the truth; the plugin's state is a copy of its first `computed` tokens. So whatever happens to the state, the way back is
//! to compute again from where the two agree.

use std::time::{Duration, Instant};

use super::facts::Tokens;
use super::prepare::Job;
use super::reply::Reply;
use crate::request::{EngineError, Event, FinishReason, Finished, Timings, TokenId, TokenLogprob, TokenOut, Usage};
use crate::sampling::{Choice, Sampler, Scratch};
use crate::text::{Answer, Pieces, Shown};

/// A request in a slot.
pub(crate) struct Running {
    /// When it was admitted; lower is older.
    pub(crate) order: u64,
    /// Prompt and answer.
    pub(crate) tokens: Vec<TokenId>,
    /// Of these, how many the plugin's state holds.
    pub(crate) computed: usize,
    /// Who asks.
    pub(crate) reply: Reply,
    prompt_tokens: u32,
    limit: u32,
    made: u32,
    stop: Vec<String>,
    ignore_eos: bool,
    sampler: Sampler,
    answer: Answer,
    arrived: Instant,
    first_batch: Option<Instant>,
    first_token: Option<Instant>,
}

impl Running {
    /// Gives a job its slot and says so.
    pub(crate) fn start(job: Job, order: u64) -> Self {
        let Job { prompt, limit, sampling, logprobs, stop, ignore_eos, mut reply, arrived } = job;
        let prompt_tokens = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
        reply.event(Event::Started { prompt_tokens });
        Self {
            order,
            sampler: Sampler::new(sampling, logprobs, &prompt),
            answer: Answer::new(&stop),
            tokens: prompt,
            computed: 0,
            reply,
            prompt_tokens,
            limit,
            made: 0,
            stop,
            ignore_eos,
            arrived,
            first_batch: None,
            first_token: None,
        }
    }

    /// Rows that must be computed before the next token; at least 1.
    pub(crate) fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Only the prompt was asked for: no logits are.
    pub(crate) fn wants_tokens(&self) -> bool {
        self.limit > 0
    }

    /// Its first rows are about to be computed.
    pub(crate) fn enters_batch(&mut self, now: Instant) {
        self.first_batch.get_or_insert(now);
    }

    /// The state holds `rows` more tokens. Says how far the prompt is, while it is not done.
    pub(crate) fn computed(&mut self, rows: usize) {
        self.computed += rows;
        if self.computed < self.tokens.len() && self.made == 0 {
            self.reply.event(Event::Prefill { done: u32::try_from(self.computed).unwrap_or(u32::MAX) });
        }
    }

    /// Chooses the next token from its logits and shows what can be shown. With `Some` the request is over.
    pub(crate) fn advance(&mut self, logits: &[f32], scratch: &mut Scratch, pieces: &mut Pieces, special: &Tokens) -> Option<Event> {
        let Choice { token, logprob } = match self.sampler.choose(logits, scratch) {
            Ok(choice) => choice,
            Err(bad) => {
                return Some(Event::Failed(EngineError::Plugin { status: "internal".into(), message: bad.to_string() }));
            }
        };
        self.first_token.get_or_insert_with(Instant::now);
        self.made += 1;
        if special.ends(token) && !self.ignore_eos {
            let rest = self.answer.finish();
            self.show(rest);
            return Some(self.finished(FinishReason::EndOfGeneration));
        }
        match self.take(token, logprob, pieces) {
            Ok((shown, Some(stop))) => {
                self.show(shown);
                let stop = self.stop.get(stop).cloned().unwrap_or_default();
                Some(self.finished(FinishReason::StopString(stop)))
            }
            Ok((mut shown, None)) => {
                let full = self.made >= self.limit;
                if full {
                    let rest = self.answer.finish();
                    shown.text.push_str(&rest.text);
                    shown.tokens.extend(rest.tokens);
                }
                self.show(shown);
                self.tokens.push(token);
                full.then(|| self.finished(FinishReason::Length))
            }
            Err(error) => Some(Event::Failed(error)),
        }
    }

    /// The good end.
    pub(crate) fn finished(&self, reason: FinishReason) -> Event {
        let now = Instant::now();
        let first_batch = self.first_batch.unwrap_or(now);
        let first_token = self.first_token.unwrap_or(now);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Event::Finished(Finished {
            reason,
            usage: Usage { prompt_tokens: self.prompt_tokens, completion_tokens: self.made },
            timings: Timings {
                queue_us: micros(first_batch - self.arrived),
                prefill_us: micros(first_token - first_batch),
                decode_us: micros(now - first_token),
            },
        })
    }

    fn take(
        &mut self,
        token: TokenId,
        logprob: Option<(f32, Vec<(TokenId, f32)>)>,
        pieces: &mut Pieces,
    ) -> Result<(Shown, Option<usize>), EngineError> {
        let logprob = match logprob {
            None => None,
            Some((logprob, best)) => {
                let mut top = Vec::with_capacity(best.len());
                for (token, logprob) in best {
                    top.push((token, pieces.of(token)?.to_vec(), logprob));
                }
                Some(TokenLogprob { bytes: pieces.of(token)?.to_vec(), logprob, top })
            }
        };
        Ok(self.answer.push(TokenOut { id: token, logprob }, pieces.of(token)?))
    }

    fn show(&mut self, shown: Shown) {
        if !shown.is_empty() {
            self.reply.event(Event::Delta { text: shown.text, tokens: shown.tokens });
        }
    }
}
