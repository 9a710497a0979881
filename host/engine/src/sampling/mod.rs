//! From logits to the next token.
//!
//! The order is fixed and documented at [`Sampling`]: logit bias → penalties → mask → log-probabilities are taken here → temperature 0 takes
//! the best, else top-k → typical → top-p → min-p → temperature → draw. One idea a file: [`check`] refuses settings that mean nothing,
//! [`adjust`] changes logits, [`row`] reads a whole row fast, [`filters`] narrow the choice, [`draw`] chooses.
//!
//! A vocabulary has up to a quarter of a million entries and this runs once per token and stream, so a whole row is read in passes that
//! the compiler can vectorise, is copied only when logits change, and is never sorted. Buffers live in a [`Scratch`] per engine.

mod adjust;
mod check;
mod draw;
mod exp;
mod filters;
mod row;
mod select;

pub(crate) use check::check;

use adjust::Adjust;
use draw::Dice;
use filters::Candidate;

use crate::guide::Mask;
use crate::request::{Sampling, TokenId};

/// Log-probabilities below this are written as this: JSON has no infinity.
pub(crate) const LOGPROB_FLOOR: f32 = -9999.0;

/// Buffers that all requests of an engine share; they grow to the size of a row once.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    row: Vec<f32>,
    candidates: Vec<Candidate>,
    sums: Vec<f64>,
}

/// A row of logits that no token can be chosen from: the plugin's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadLogits {
    /// NaN or plus infinity.
    #[error("the logits of the plugin hold NaN or infinity; the model file or the device is damaged")]
    NotFinite,
    /// Nothing above minus infinity.
    #[error("the logits of the plugin forbid every token")]
    AllForbidden,
}

/// The log-probability of a token, and the best alternatives.
pub(crate) type Score = (f32, Vec<(TokenId, f32)>);

/// A token and what was asked to be known of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    /// Which.
    pub(crate) token: TokenId,
    /// With `logprobs`: its own, and the best alternatives.
    pub(crate) logprob: Option<Score>,
}

/// Chooses the tokens of one request.
#[derive(Debug)]
pub(crate) struct Sampler {
    settings: Sampling,
    logprobs: Option<u32>,
    adjust: Adjust,
    dice: Dice,
}

impl Sampler {
    /// For settings that [`check`] let pass, and a prompt.
    pub(crate) fn new(settings: Sampling, logprobs: Option<u32>, prompt: &[TokenId]) -> Self {
        Self { adjust: Adjust::new(&settings, prompt), dice: Dice::new(settings.seed), settings, logprobs }
    }

    /// Chooses from a row (one logit per token of the vocabulary), only of the tokens of `mask` if there is one, and remembers the choice
    /// for the penalties.
    pub(crate) fn choose(&mut self, logits: &[f32], mask: Option<&Mask>, scratch: &mut Scratch) -> Result<Choice, BadLogits> {
        self.adjusted(logits, mask, scratch, |sampler, row, scratch| sampler.choose_adjusted(row, scratch))
    }

    /// Takes `token` without a choice, as if it had been chosen.
    pub(crate) fn force(&mut self, logits: &[f32], token: TokenId, scratch: &mut Scratch) -> Result<Choice, BadLogits> {
        self.adjusted(logits, None, scratch, |sampler, row, scratch| {
            let logprob = sampler.logprobs.map(|count| score(row, token, count, scratch)).transpose()?;
            Ok(Choice { token, logprob })
        })
    }

    fn adjusted(
        &mut self,
        logits: &[f32],
        mask: Option<&Mask>,
        scratch: &mut Scratch,
        choose: impl FnOnce(&mut Self, &[f32], &mut Scratch) -> Result<Choice, BadLogits>,
    ) -> Result<Choice, BadLogits> {
        let mut adjusted = std::mem::take(&mut scratch.row);
        let row = if self.adjust.is_off() && mask.is_none() {
            logits
        } else {
            adjusted.clear();
            adjusted.extend_from_slice(logits);
            self.adjust.apply(&mut adjusted);
            if let Some(mask) = mask {
                forbid(&mut adjusted, mask);
            }
            adjusted.as_slice()
        };
        let choice = choose(self, row, scratch);
        scratch.row = adjusted;
        if let Ok(choice) = &choice {
            self.adjust.accept(choice.token);
        }
        choice
    }

    fn choose_adjusted(&mut self, row: &[f32], scratch: &mut Scratch) -> Result<Choice, BadLogits> {
        let best = row::best(row)?;
        let token = if self.settings.temperature == 0.0 {
            best.token
        } else {
            match filters::narrow(&self.settings, row, best.logit, &mut scratch.candidates) {
                filters::Kept::All => self.dice.draw_row(row, best.logit, self.settings.temperature, &mut scratch.sums),
                filters::Kept::Some => self.dice.draw(&scratch.candidates, self.settings.temperature),
            }
        };
        let logprob = self.logprobs.map(|count| score(row, token, count, scratch)).transpose()?;
        Ok(Choice { token, logprob })
    }
}

/// The log-probability of `token` in a row, and of the `count` best tokens. Forbidden tokens are never among those.
pub(crate) fn score(row: &[f32], token: TokenId, count: u32, scratch: &mut Scratch) -> Result<Score, BadLogits> {
    let best = row::best(row)?;
    let normaliser = best.logit + (row::sum_exp(row, best.logit).ln() as f32);
    select::top(row, count as usize, &mut scratch.candidates);
    let logprob = |logit: f32| (logit - normaliser).clamp(LOGPROB_FLOOR, 0.0);
    let top = scratch.candidates.iter().map(|c| (c.token, logprob(c.logit))).collect();
    Ok((row.get(token as usize).map_or(LOGPROB_FLOOR, |logit| logprob(*logit)), top))
}

/// Forbids what is not in `mask`. Most words of a mask are all ones or all zeros.
fn forbid(row: &mut [f32], mask: &Mask) {
    let words = mask.as_slice();
    for (index, logits) in row.chunks_mut(u32::BITS as usize).enumerate() {
        match words.get(index).copied().unwrap_or(0) {
            u32::MAX => {}
            0 => logits.fill(f32::NEG_INFINITY),
            word => {
                for (bit, logit) in logits.iter_mut().enumerate() {
                    if word & (1 << bit) == 0 {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;
