//! How many positions a request may use, and how many requests run side by side.
//!
//! The rule, in order: what the manifest says; what the host is told; else what the model was trained for, at most [`CONTEXT`]. A number
//! that somebody wrote is kept or refused, never changed. The host's own number is made smaller, down to [`CONTEXT_LEAST`], if the state for
//! it does not fit into free memory; that is said in the choice and with every answer.

use std::fmt;

use onebit_loader::Fit;

use crate::entry::ModelEntry;
use crate::wishes::Wishes;

/// Most positions per request that are planned without being asked.
pub const CONTEXT: u32 = 8192;
/// Positions per request below which the host's own number is not made smaller.
pub const CONTEXT_LEAST: u32 = 2048;
/// Requests side by side, without being asked.
pub const SLOTS: u32 = 4;
/// Smaller contexts are multiples of this.
const STEP: u64 = 256;

/// What is planned for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Size {
    /// Positions per request.
    pub wanted: u32,
    /// Requests side by side.
    pub slots: u32,
    /// May be made smaller.
    flexible: bool,
    why: String,
}

impl Size {
    pub(crate) fn of(model: &ModelEntry, wishes: &Wishes) -> Self {
        let defaults = model.manifest.as_ref().map(|manifest| &manifest.defaults);
        let (slots, slots_why) = match (defaults.and_then(|defaults| defaults.slots), wishes.slots) {
            (Some(slots), _) => (slots, "the manifest"),
            (None, 0) => (SLOTS, "the host's default"),
            (None, slots) => (slots, "the host's settings"),
        };
        let trained = model.file().and_then(|file| file.facts.as_ref().ok()).map_or(0, |facts| facts.context_trained);
        let (wanted, flexible, why) = match (defaults.and_then(|defaults| defaults.context), wishes.context) {
            (Some(context), _) => (context, false, "the manifest".to_owned()),
            (None, Some(context)) => (context, false, "the host's settings".to_owned()),
            (None, None) if trained == 0 => (CONTEXT, true, "the host's default; the file does not say what it was trained for".to_owned()),
            (None, None) => {
                let trained_u32 = u32::try_from(trained).unwrap_or(u32::MAX);
                (trained_u32.min(CONTEXT), true, format!("trained for {trained}, at most {CONTEXT} without being asked"))
            }
        };
        Self { wanted, slots, flexible, why: format!("per request ({why}) × {slots} requests side by side ({slots_why})") }
    }

    /// A context whose state is at least `missing` bytes smaller; `None` if the number may not change or would become too small.
    pub(crate) fn shrink(&self, fit: &Fit, missing: u64) -> Option<u32> {
        let per_position = fit.state_per_token.saturating_mul(u64::from(self.slots));
        if !self.flexible || per_position == 0 {
            return None;
        }
        let left = u64::from(self.wanted).checked_sub(missing.div_ceil(per_position))?;
        let context = u32::try_from(left / STEP * STEP).ok()?;
        (context >= CONTEXT_LEAST).then_some(context)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} positions {}", self.wanted, self.why)
    }
}
