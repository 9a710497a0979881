//! From logits to the next token.
//!
//! The order is fixed and documented at [`Sampling`]: logit bias → penalties → log-probabilities are taken here → temperature 0 takes
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

/// A token and what was asked to be known of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    /// Which.
    pub(crate) token: TokenId,
    /// With `logprobs`: its own, and the best alternatives.
    pub(crate) logprob: Option<(f32, Vec<(TokenId, f32)>)>,
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

    /// Chooses from a row (one logit per token of the vocabulary) and remembers the choice for the penalties.
    pub(crate) fn choose(&mut self, logits: &[f32], scratch: &mut Scratch) -> Result<Choice, BadLogits> {
        let mut adjusted = std::mem::take(&mut scratch.row);
        let row = if self.adjust.is_off() {
            logits
        } else {
            adjusted.clear();
            adjusted.extend_from_slice(logits);
            self.adjust.apply(&mut adjusted);
            adjusted.as_slice()
        };
        let choice = self.choose_adjusted(row, scratch);
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
        let logprob = self.logprobs.map(|count| {
            let normaliser = best.logit + (row::sum_exp(row, best.logit).ln() as f32);
            select::top(row, count as usize, &mut scratch.candidates);
            let logprob = |logit: f32| (logit - normaliser).clamp(LOGPROB_FLOOR, 0.0);
            let top = scratch.candidates.iter().map(|c| (c.token, logprob(c.logit))).collect();
            (row.get(token as usize).map_or(LOGPROB_FLOOR, |logit| logprob(*logit)), top)
        });
        Ok(Choice { token, logprob })
    }
}

#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;
