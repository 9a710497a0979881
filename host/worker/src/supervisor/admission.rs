//! Admission: decides whether a request may wait for a model.
//!
//! A model computes `slots` requests and lets `max_queue` more wait; the next one is refused with the time after which a place is likely to be
//! free. A place is a [`Ticket`]; it is given back when the ticket is dropped, so a request can neither keep it nor lose it. The engine in the
//! worker does the waiting itself; this only bounds it, loads included.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::error::WorkerError;

/// The places of one model.
#[derive(Debug)]
pub(crate) struct Admission {
    model: String,
    taken: AtomicUsize,
    slots: AtomicUsize,
    /// Moving average of how long an answer takes, in milliseconds.
    answer_ms: AtomicU64,
}

/// One place, taken.
#[derive(Debug)]
pub(crate) struct Ticket {
    admission: Arc<Admission>,
    since: Instant,
    /// Places that were taken when this one was.
    ahead: usize,
}

impl Admission {
    pub(crate) fn new(model: &str) -> Arc<Self> {
        Arc::new(Self { model: model.to_owned(), taken: AtomicUsize::new(0), slots: AtomicUsize::new(1), answer_ms: AtomicU64::new(1000) })
    }

    pub(crate) fn set_slots(&self, slots: u32) {
        self.slots.store(slots.max(1) as usize, Ordering::Relaxed);
    }

    /// Requests that are being computed or wait.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a place.
    pub(crate) fn take(self: &Arc<Self>, max_queue: usize) -> Result<Ticket, WorkerError> {
        let slots = self.slots.load(Ordering::Relaxed);
        let limit = slots.saturating_add(max_queue);
        let taken = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| (taken < limit).then_some(taken + 1));
        match taken {
            Ok(ahead) => Ok(Ticket { admission: self.clone(), since: Instant::now(), ahead }),
            Err(depth) => Err(WorkerError::QueueFull { model: self.model.clone(), depth, retry_after: self.next_place(slots) }),
        }
    }

    /// With `slots` answers side by side, one ends every `answer / slots` on average.
    fn next_place(&self, slots: usize) -> Duration {
        let ms = self.answer_ms.load(Ordering::Relaxed) / slots as u64;
        Duration::from_millis(ms).clamp(Duration::from_secs(1), Duration::from_secs(60))
    }
}

impl Ticket {
    /// Requests of the model that had a place when this one got its own.
    pub(crate) fn ahead(&self) -> usize {
        self.ahead
    }

    /// The request of this ticket was answered: learn from how long it took.
    pub(crate) fn answered(&self) {
        let took = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let old = self.admission.answer_ms.load(Ordering::Relaxed);
        // Two writers at once lose one sample, which an average can bear.
        self.admission.answer_ms.store(old.saturating_mul(7).saturating_add(took) / 8, Ordering::Relaxed);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.admission.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_queue_are_filled_and_the_next_one_hears_how_deep_it_is() {
        let admission = Admission::new("tiny");
        admission.set_slots(2);
        let tickets: Vec<_> = (0..5).map(|_| admission.take(3).expect("a place")).collect();
        assert_eq!(tickets.iter().map(Ticket::ahead).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        match admission.take(3) {
            Err(WorkerError::QueueFull { depth: 5, retry_after, .. }) => assert!(retry_after >= Duration::from_secs(1)),
            other => panic!("{other:?}"),
        }
        drop(tickets);
        assert_eq!(admission.taken(), 0);
        assert!(admission.take(3).is_ok());
    }
}
