//! Replacing a loaded model: the new worker is up before the old one goes, and if it does not come up the old one stays.
//!
//! Requests never see a gap. Running answers are finished by the worker they began on, new ones go to the new one from the moment of the swap.

use std::sync::Arc;

use super::Inner;
use super::entry::Entry;
use super::events::UnloadReason;
use super::instance::Seat;
use super::load::Load;
use crate::error::WorkerError;
use crate::spec::LaunchSpec;

impl Inner {
    /// Loads a replacement beside the running worker and swaps them. If the caller leaves, the replacement is given up.
    pub(super) async fn replace(self: &Arc<Self>, entry: &Arc<Entry>, spec: &LaunchSpec, always: bool) -> Result<(), WorkerError> {
        let load = Load::new(spec.clone(), self.cancel.child_token());
        let _caller_left = load.cancel.clone().drop_guard();
        let task = self.handle.spawn({
            let (inner, entry, load) = (self.clone(), entry.clone(), load.clone());
            async move {
                let _turn = entry.replacing.clone().lock_owned().await;
                // Another request may have had the same replacement made while this one waited for its turn.
                let old = entry.ready();
                if old.is_none() || (!always && old.is_some_and(|old| old.spec.same_launch(&load.spec))) {
                    return Ok(());
                }
                let (instance, took) = match inner.load(&entry, &load, true).await {
                    Ok(loaded) => loaded,
                    Err(error) => {
                        inner.load_failed(&load, &error);
                        return Err(error);
                    }
                };
                // From here on there is no way back: the caller may leave, the swap is made.
                let seat = Seat::take(&instance);
                if let Some(old) = entry.replaced(&instance) {
                    inner.retire(old, UnloadReason::Replaced, inner.config.unload_patience);
                }
                inner.tell_loaded(&instance, took, false);
                // Given up under no lock: starts the clock of a model that nobody has asked for yet.
                drop(seat);
                Ok(())
            }
        });
        task.await.unwrap_or_else(|error| Err(WorkerError::Spawn { model: spec.model.clone(), reason: error.to_string() }))
    }
}
