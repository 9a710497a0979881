//! What changes logits before anything is chosen: bias, then penalties.
//!
//! Both touch few tokens, so counts are kept per token seen and a row is copied only when there is something to change.

use std::collections::{HashMap, VecDeque};

use crate::request::{Sampling, TokenId};

/// Bias and penalties of one request, and what they must remember.
#[derive(Debug)]
pub(crate) struct Adjust {
    bias: Vec<(TokenId, f32)>,
    repetition: f32,
    presence: f32,
    frequency: f32,
    /// Tokens the repetition penalty looks at, with how often each stands in the window.
    recent: HashMap<TokenId, u32>,
    /// The window itself; stays empty when it has no end.
    window: VecDeque<TokenId>,
    window_len: usize,
    /// Tokens of the answer, counted.
    answer: HashMap<TokenId, u32>,
}

impl Adjust {
    /// With the prompt already seen.
    pub(crate) fn new(settings: &Sampling, prompt: &[TokenId]) -> Self {
        let mut adjust = Self {
            bias: settings.logit_bias.clone(),
            repetition: settings.repetition_penalty,
            presence: settings.presence_penalty,
            frequency: settings.frequency_penalty,
            recent: HashMap::new(),
            window: VecDeque::new(),
            window_len: settings.penalty_window as usize,
            answer: HashMap::new(),
        };
        if adjust.repetition != 1.0 {
            let start = if adjust.window_len == 0 { 0 } else { prompt.len().saturating_sub(adjust.window_len) };
            for token in &prompt[start..] {
                adjust.remember(*token);
            }
        }
        adjust
    }

    /// Nothing to do: rows need no copy.
    pub(crate) fn is_off(&self) -> bool {
        self.bias.is_empty() && self.recent.is_empty() && self.answer.is_empty()
    }

    /// Changes a row.
    pub(crate) fn apply(&self, row: &mut [f32]) {
        for (token, bias) in &self.bias {
            if let Some(logit) = row.get_mut(*token as usize) {
                *logit += bias;
            }
        }
        for token in self.recent.keys() {
            if let Some(logit) = row.get_mut(*token as usize) {
                *logit = if *logit > 0.0 { *logit / self.repetition } else { *logit * self.repetition };
            }
        }
        for (token, count) in &self.answer {
            if let Some(logit) = row.get_mut(*token as usize) {
                *logit -= self.presence + self.frequency * (*count as f32);
            }
        }
    }

    /// A token was chosen.
    pub(crate) fn accept(&mut self, token: TokenId) {
        if self.repetition != 1.0 {
            self.remember(token);
        }
        if self.presence != 0.0 || self.frequency != 0.0 {
            *self.answer.entry(token).or_insert(0) += 1;
        }
    }

    fn remember(&mut self, token: TokenId) {
        *self.recent.entry(token).or_insert(0) += 1;
        if self.window_len == 0 {
            return;
        }
        self.window.push_back(token);
        if self.window.len() > self.window_len
            && let Some(old) = self.window.pop_front()
            && let Some(count) = self.recent.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                self.recent.remove(&old);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition_divides_positive_and_multiplies_negative_logits_of_the_window_only() {
        let settings = Sampling { repetition_penalty: 2.0, penalty_window: 2, ..Sampling::default() };
        let mut adjust = Adjust::new(&settings, &[0, 1, 2]);
        let mut row = [4.0, 4.0, -4.0, 4.0];
        adjust.apply(&mut row);
        assert_eq!(row, [4.0, 2.0, -8.0, 4.0]);
        adjust.accept(3);
        let mut row = [4.0, 4.0, -4.0, 4.0];
        adjust.apply(&mut row);
        assert_eq!(row, [4.0, 4.0, -8.0, 2.0]);
    }

    #[test]
    fn a_window_of_zero_is_the_whole_sequence() {
        let settings = Sampling { repetition_penalty: 2.0, penalty_window: 0, ..Sampling::default() };
        let mut adjust = Adjust::new(&settings, &[0]);
        for _ in 0..500 {
            adjust.accept(1);
        }
        let mut row = [1.0, 1.0, 1.0];
        adjust.apply(&mut row);
        assert_eq!(row, [0.5, 0.5, 1.0]);
    }

    #[test]
    fn presence_is_taken_once_and_frequency_per_occurrence_in_the_answer() {
        let settings = Sampling { presence_penalty: 1.0, frequency_penalty: 0.5, ..Sampling::default() };
        let mut adjust = Adjust::new(&settings, &[2]);
        assert!(adjust.is_off());
        adjust.accept(0);
        adjust.accept(0);
        adjust.accept(1);
        let mut row = [0.0, 0.0, 0.0];
        adjust.apply(&mut row);
        assert_eq!(row, [-2.0, -1.5, 0.0]);
    }

    #[test]
    fn bias_comes_before_penalties() {
        let settings = Sampling { repetition_penalty: 2.0, logit_bias: vec![(0, 10.0)], ..Sampling::default() };
        let adjust = Adjust::new(&settings, &[0]);
        let mut row = [-4.0];
        adjust.apply(&mut row);
        assert_eq!(row, [3.0]);
    }
}
