//! What the sequences of a session must hold: for each the story of how it came to be, told without copies and snapshots.
//!
//! A sequence that was only appended to and cut at its end is a list of tokens, and has to compute what these tokens compute in a session of
//! their own. What was taken out of the middle leaves its traces in what comes behind it, in every model with attention over several layers,
//! so such a sequence is told again with the same step in it.

use onebit_loader::{ForwardModel, Session};

use crate::case::{Failing, Stop};
use crate::rows::{Cell, Row, Shape, feed, submit};

/// A step in the story of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Tokens at positions without a gap, from the first on.
    Append(u32, Vec<u32>),
    /// Positions were removed.
    Remove(u32, u32),
    /// All positions were moved.
    Shift(i32),
}

/// One sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Story {
    steps: Vec<Step>,
    /// The positions it holds.
    positions: Vec<u32>,
}

impl Story {
    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Positions it holds, in number.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Where it goes on.
    pub(super) fn next(&self) -> Option<u32> {
        self.positions.last().map(|last| last + 1)
    }

    /// Position number `index` that it holds, or where it goes on.
    pub(super) fn at(&self, index: usize) -> u32 {
        self.positions.get(index).copied().or_else(|| self.next()).unwrap_or(0)
    }

    pub(super) fn append(&mut self, position: u32, token: u32) {
        self.positions.push(position);
        match self.steps.last_mut() {
            Some(Step::Append(_, tokens)) => tokens.push(token),
            _ => self.steps.push(Step::Append(position, vec![token])),
        }
    }

    /// Removes positions `p0 ..< p1`.
    pub(super) fn remove(&mut self, p0: u32, p1: u32) {
        self.positions.retain(|position| !(p0..p1).contains(position));
        if self.positions.is_empty() {
            *self = Self::default();
        } else if let ([Step::Append(start, tokens)], true) = (self.steps.as_mut_slice(), p1 == u32::MAX) {
            tokens.truncate(p0.saturating_sub(*start) as usize);
        } else {
            self.steps.push(Step::Remove(p0, p1));
        }
    }

    /// Moves all positions; `None` if one would be below 0.
    pub(super) fn shifted(&self, delta: i32) -> Option<Self> {
        let positions = self.positions.iter().map(|position| position.checked_add_signed(delta)).collect::<Option<Vec<u32>>>()?;
        let mut steps = self.steps.clone();
        match steps.as_mut_slice() {
            [Step::Append(start, _)] => *start = start.checked_add_signed(delta)?,
            _ => steps.push(Step::Shift(delta)),
        }
        Some(Self { steps, positions })
    }

    /// Tells it in a new session, and computes `token` at its end: the logits of that one.
    pub(super) fn told(&self, forward: &ForwardModel, shape: Shape, (token, start): (u32, u32)) -> Result<Row, Stop> {
        let mut session: Session = shape.open(forward)?;
        for step in &self.steps {
            match step {
                Step::Append(start, tokens) => {
                    feed(&mut session, 0, *start, tokens, shape.batch as usize)?;
                }
                Step::Remove(p0, p1) => session.seq_remove(0, *p0, *p1).failed("removing once more")?,
                Step::Shift(delta) => session.seq_shift(0, 0, u32::MAX, *delta).failed("shifting once more")?,
            }
        }
        let cell: Cell = (token, self.next().unwrap_or(start), 0);
        let rows = submit(&mut session, &[cell], |_| true).failed("computing once more")?;
        rows.into_iter().next().ok_or_else(|| Stop::Failed("one row was wanted and none came".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story(start: u32, tokens: &[u32]) -> Story {
        let mut story = Story::default();
        for (token, position) in tokens.iter().zip(start..) {
            story.append(position, *token);
        }
        story
    }

    #[test]
    fn what_was_cut_at_the_end_was_never_there() {
        let mut cut = story(3, &[1, 2, 3, 4]);
        cut.remove(5, u32::MAX);
        assert_eq!(cut, story(3, &[1, 2]));
        cut.remove(0, u32::MAX);
        assert_eq!(cut, Story::default());
    }

    #[test]
    fn what_was_cut_in_the_middle_stays_in_the_story() {
        let mut cut = story(0, &[1, 2, 3, 4]);
        cut.remove(1, 2);
        assert_eq!((cut.positions.as_slice(), cut.next(), cut.steps.len()), ([0, 2, 3].as_slice(), Some(4), 2));
    }

    #[test]
    fn a_shift_moves_everything_or_nothing() {
        assert_eq!(story(4, &[1, 2]).shifted(-3), Some(story(1, &[1, 2])));
        assert_eq!(story(4, &[1, 2]).shifted(-5), None);
    }
}
