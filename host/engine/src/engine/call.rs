//! Calls that give something back at once (vectors, scores). They run on the caller's thread beside generation; the plugin lets one call in
//! at a time. Long lists are computed a few texts per call, so that they can be cancelled and a watchdog sees them move.

use onebit_loader::CancelFlag;

use super::shared::Shared;
use crate::backend::Fault;
use crate::request::EngineError;

/// Texts per call into the plugin.
pub(super) const TEXTS_PER_CALL: usize = 16;

/// One call into the plugin; after a fault that breaks it, nothing more is computed here.
pub(super) fn step<T>(shared: &Shared, cancel: &CancelFlag, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, EngineError> {
    if let Some(failure) = shared.failure() {
        return Err(failure);
    }
    if cancel.is_set() {
        return Err(EngineError::Cancelled);
    }
    let computed = {
        let _step = shared.watch.begin();
        work()
    };
    computed.map_err(|fault| {
        let broken = matches!(fault, Fault::Broken { .. });
        let error = EngineError::from(fault);
        if broken {
            shared.fail(&error);
        }
        error
    })
}
