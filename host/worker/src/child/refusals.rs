//! What the sandbox refused to the plugin, in the log: each call once, with its name.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

static TOLD: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Logs the calls that were refused since the last time and had not been told of before.
pub(super) fn tell() {
    for (call, count) in onebit_loader::refused_calls() {
        if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(call) {
            tracing::warn!(count, "the sandbox refused the plugin {}", onebit_sandbox::call_name(call));
        }
    }
}
