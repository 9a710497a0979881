//! Backoff and circuit breaker of one model: when a model that crashed may be started again.
//!
//! After a crash the next start waits, twice as long each time, until an answer has finished well. Too many crashes within a window open the
//! circuit: nothing is started until it closes, and everybody is told until when and why. When it closes, one more crash opens it again.
//! Pure: time comes in as an argument, so the laws are tested without waiting.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::config::RestartPolicy;

/// What the breaker says to a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admit {
    /// Go.
    Now,
    /// Go after this.
    After(Duration),
    /// Do not go before this.
    Open { until: Instant, crashes: usize },
}

/// The record of one model.
#[derive(Debug)]
pub(crate) struct Breaker {
    policy: RestartPolicy,
    /// Crashes within the window, oldest first.
    recent: VecDeque<Instant>,
    /// Crashes since the last good answer.
    in_a_row: u32,
    open_until: Option<Instant>,
}

impl Breaker {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self { policy, recent: VecDeque::new(), in_a_row: 0, open_until: None }
    }

    /// A worker of this model ended unexpectedly.
    pub(crate) fn crashed(&mut self, now: Instant) {
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.recent.push_back(now);
        self.forget(now);
        // Half open: the circuit had closed by time only, no answer has shown yet that the model works.
        let half_open = self.open_until.is_some();
        if half_open || self.recent.len() >= self.policy.crashes {
            self.open_until = Some(now + self.policy.open_for);
        }
    }

    /// An answer ended well.
    pub(crate) fn answered(&mut self) {
        self.in_a_row = 0;
        self.open_until = None;
    }

    /// A person asked for this model anew (unload, reload): the past does not count.
    pub(crate) fn reset(&mut self) {
        self.answered();
        self.recent.clear();
    }

    /// Whether a start may happen.
    pub(crate) fn admit(&mut self, now: Instant) -> Admit {
        self.forget(now);
        if let Some(until) = self.open_until.filter(|until| *until > now) {
            return Admit::Open { until, crashes: self.recent.len().max(1) };
        }
        let Some(last) = self.recent.back().filter(|_| self.in_a_row > 0) else { return Admit::Now };
        let doublings = (self.in_a_row - 1).min(16);
        let delay = self.policy.first_delay.saturating_mul(1 << doublings).min(self.policy.longest_delay);
        match (*last + delay).checked_duration_since(now) {
            Some(wait) if !wait.is_zero() => Admit::After(wait),
            _ => Admit::Now,
        }
    }

    fn forget(&mut self, now: Instant) {
        while self.recent.front().is_some_and(|at| now.duration_since(*at) > self.policy.window) {
            self.recent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_wait_doubles_with_each_crash_and_a_good_answer_ends_it() {
        let mut breaker = Breaker::new(RestartPolicy::default());
        let start = Instant::now();
        assert_eq!(breaker.admit(start), Admit::Now);
        breaker.crashed(start);
        assert_eq!(breaker.admit(start), Admit::After(Duration::from_millis(100)));
        breaker.crashed(start + seconds(1));
        assert_eq!(breaker.admit(start + seconds(1)), Admit::After(Duration::from_millis(200)));
        assert_eq!(breaker.admit(start + seconds(2)), Admit::Now);
        breaker.answered();
        assert_eq!(breaker.admit(start + seconds(1)), Admit::Now);
    }

    #[test]
    fn the_wait_never_exceeds_the_longest_delay() {
        let policy = RestartPolicy { crashes: 1000, ..RestartPolicy::default() };
        let mut breaker = Breaker::new(policy);
        let start = Instant::now();
        for _ in 0..100 {
            breaker.crashed(start);
        }
        assert_eq!(breaker.admit(start), Admit::After(policy.longest_delay));
    }

    #[test]
    fn five_crashes_within_a_minute_open_the_circuit_for_a_minute() {
        let mut breaker = Breaker::new(RestartPolicy::default());
        let start = Instant::now();
        for n in 0..5 {
            assert!(!matches!(breaker.admit(start + seconds(n * 10)), Admit::Open { .. }));
            breaker.crashed(start + seconds(n * 10));
        }
        let until = start + seconds(40) + seconds(60);
        assert_eq!(breaker.admit(start + seconds(41)), Admit::Open { until, crashes: 5 });
        assert_ne!(breaker.admit(until), Admit::Open { until, crashes: 5 });
    }

    #[test]
    fn crashes_spread_over_hours_never_open_it() {
        let mut breaker = Breaker::new(RestartPolicy::default());
        let start = Instant::now();
        for n in 0..50 {
            breaker.crashed(start + seconds(n * 61));
            assert!(!matches!(breaker.admit(start + seconds(n * 61)), Admit::Open { .. }));
        }
    }

    #[test]
    fn after_it_closed_one_more_crash_opens_it_again() {
        let mut breaker = Breaker::new(RestartPolicy::default());
        let start = Instant::now();
        for _ in 0..5 {
            breaker.crashed(start);
        }
        let later = start + seconds(200);
        assert_eq!(breaker.admit(later), Admit::Now);
        breaker.crashed(later);
        assert!(matches!(breaker.admit(later), Admit::Open { .. }));
    }
}
