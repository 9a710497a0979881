//! Requests that wait for a slot, and whose turn it is.
//!
//! The higher priority first, and of equals who came first. But nobody waits for ever: every [`PATIENCE`] of waiting is worth a priority, so a
//! request with a low one is overtaken by those that come within a minute of it, and by no later one.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::prepare::Job;
use crate::request::{EngineError, Event, Priority};

/// How long one waits to rise by one priority.
const PATIENCE: Duration = Duration::from_secs(30);

/// In the order of arrival.
#[derive(Default)]
pub(crate) struct Queue(Vec<Job>);

impl Queue {
    /// One comes.
    pub(crate) fn enter(&mut self, job: Job) {
        self.0.push(job);
    }

    /// Takes out whose turn it is.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Job> {
        let turn = |job: &Job| turn(job.priority, now.saturating_duration_since(job.arrived));
        // Of equals `max_by_key` has the last one.
        let (place, _) = self.0.iter().enumerate().max_by_key(|(place, job)| (turn(job), Reverse(*place)))?;
        Some(self.0.remove(place))
    }

    /// Answers those that were cancelled.
    pub(crate) fn reap(&mut self) {
        for job in self.0.extract_if(.., |job| job.reply.is_cancelled()) {
            job.reply.end(Event::Failed(EngineError::Cancelled));
        }
    }

    /// Takes out all.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Job> + '_ {
        self.0.drain(..)
    }

    /// Rows of all prompts.
    pub(crate) fn rows(&self) -> usize {
        self.0.iter().map(|job| job.prompt.len()).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The larger, the sooner.
fn turn(priority: Priority, waited: Duration) -> u128 {
    priority as u128 * PATIENCE.as_nanos() + waited.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_goes_before_arrival_and_patience_before_priority() {
        let seconds = Duration::from_secs;
        assert!(turn(Priority::High, seconds(0)) > turn(Priority::Normal, seconds(29)));
        assert!(turn(Priority::Normal, seconds(1)) > turn(Priority::Normal, seconds(0)));
        assert!(turn(Priority::Low, seconds(61)) > turn(Priority::High, seconds(0)));
        assert!(turn(Priority::Low, seconds(59)) < turn(Priority::High, seconds(0)));
    }
}
