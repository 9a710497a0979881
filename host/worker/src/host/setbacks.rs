//! Choices that failed while they loaded, remembered for a while, so that not every request has to fail first before its fallback answers.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use onebit_catalog::Failed;

/// After this the first choice gets another chance.
const REMEMBERED: Duration = Duration::from_secs(300);
/// The same for a want of memory, which may be over at any moment.
const REMEMBERED_MEMORY: Duration = Duration::from_secs(20);

/// Failures by model.
#[derive(Debug, Default)]
pub(super) struct Setbacks(Mutex<HashMap<String, Vec<Setback>>>);

/// A failure and when it is forgotten.
#[derive(Debug)]
struct Setback {
    until: Instant,
    failed: Failed,
}

impl Setbacks {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<Setback>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False if the same choice was noted before: then choosing again would change nothing.
    pub(super) fn note(&self, model: &str, failed: Failed, for_memory: bool) -> bool {
        let mut all = self.lock();
        let known = all.entry(model.to_owned()).or_default();
        known.retain(|setback| setback.until > Instant::now());
        let same = |other: &Failed| (&other.plugin, &other.version, &other.device) == (&failed.plugin, &failed.version, &failed.device);
        if known.iter().any(|other| same(&other.failed)) {
            return false;
        }
        let until = Instant::now() + if for_memory { REMEMBERED_MEMORY } else { REMEMBERED };
        known.push(Setback { until, failed });
        true
    }

    pub(super) fn of(&self, model: &str) -> Vec<Failed> {
        let recent = |setback: &Setback| (setback.until > Instant::now()).then(|| setback.failed.clone());
        self.lock().get(model).map(|known| known.iter().filter_map(recent).collect()).unwrap_or_default()
    }

    /// Forgets the latest failure only.
    pub(super) fn take_back(&self, model: &str) {
        if let Some(known) = self.lock().get_mut(model) {
            known.pop();
        }
    }

    pub(super) fn forget(&self, model: &str) {
        self.lock().remove(model);
    }

    pub(super) fn forget_all(&self) {
        self.lock().clear();
    }
}
