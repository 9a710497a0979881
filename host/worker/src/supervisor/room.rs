//! Making room: before a worker starts, idle models leave, least recently used first, until the newcomer's estimate fits.
//!
//! One newcomer at a time: two that look at the same free memory would both believe in it. Busy models are never ended for a newcomer; it
//! waits for them as long as the host's patience lasts. An eviction is over when the process is reaped *and* the memory is back, because
//! the next load would otherwise meet memory that is still being returned.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Inner;
use super::events::UnloadReason;
use super::memory::{self, Claim, Shortage};
use crate::error::WorkerError;
use crate::spec::LaunchSpec;

/// How long memory may take to come back after a process has ended.
const RETURN_PATIENCE: Duration = Duration::from_secs(3);

/// How often to look while waiting.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

impl Inner {
    /// Claims memory for a worker, after evicting as much as that takes. `replaces`: a model that is to be replaced by the newcomer and keeps
    /// running until then; it is not evicted and does not count against the number of models.
    pub(crate) async fn make_room(self: &Arc<Self>, spec: &LaunchSpec, replaces: bool) -> Result<Claim, WorkerError> {
        let _one_at_a_time = self.room.lock().await;
        let deadline = Instant::now() + self.config.memory_patience;
        loop {
            let too_many = self.config.max_loaded.is_some_and(|most| self.ledger.workers() >= most.max(1) + usize::from(replaces));
            let shortage = self.ledger.shortage(spec, memory::available(), self.config.memory_budget);
            let Some(lack) = Lack::of(too_many, shortage) else { return Ok(self.ledger.claim(spec)) };
            if let Lack::Memory(Shortage { want, at_most, .. }) = &lack
                && want > at_most
            {
                return Err(self.no_memory(spec, lack));
            }
            if let Some((entry, idle)) = self.least_recently_used(&spec.model) {
                let held = idle.stats();
                tracing::info!(model = entry.model, newcomer = spec.model, rss_bytes = held.rss_bytes, "evicted to make room");
                let before = memory::available();
                self.retire(idle.clone(), UnloadReason::Evicted, Duration::ZERO);
                idle.ended().await;
                returned(before, held.rss_bytes.saturating_sub(held.rss_file_bytes)).await;
                continue;
            }
            if Instant::now() >= deadline {
                return Err(self.no_memory(spec, lack));
            }
            // A busy model may become idle, a leaving one may be gone; the look every 250 ms is for memory that others free.
            timeout(Duration::from_millis(250), self.freed.notified()).await.ok();
        }
    }

    fn no_memory(&self, spec: &LaunchSpec, lack: Lack) -> WorkerError {
        let (kind, want, free) = match lack {
            Lack::Memory(shortage) => (shortage.kind, shortage.want, shortage.free),
            Lack::Place => ("memory (the number of models loaded at a time is limited)".into(), spec.estimate.total(), 0),
        };
        WorkerError::NoMemory { model: spec.model.clone(), kind, want, free, holders: self.ledger.holders() }
    }
}

/// Waits until most of what an ended process held is available again. Without that the next look would find too little and somebody else
/// would have to go for memory that is on its way back.
async fn returned(before: Option<u64>, held: u64) {
    let Some(before) = before else { return };
    // Others take memory at the same time: all of it is rarely seen to come back.
    let expected = before.saturating_add(held / 4 * 3);
    let deadline = Instant::now() + RETURN_PATIENCE;
    while memory::available().is_some_and(|now| now < expected) && Instant::now() < deadline {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// What a newcomer lacks.
enum Lack {
    Place,
    Memory(Shortage),
}

impl Lack {
    fn of(too_many: bool, shortage: Option<Shortage>) -> Option<Self> {
        if too_many { Some(Self::Place) } else { shortage.map(Self::Memory) }
    }
}
