//! A model as an opaque pointer, and the way from it to the tables of its capabilities.

use std::sync::OnceLock;

use onebit_plugin_api as abi;

use super::{embed, forward, guard, tokenize, wire};
use crate::{EmbedLimits, Error, Model};

/// What `OnebitModel *` points to.
pub(super) struct ModelBox {
    pub(super) model: Box<dyn Model>,
    /// Kept, because the host may look at its text until `close`.
    pub(super) embed_limits: OnceLock<EmbedLimits>,
}

/// # Safety
///
/// `out` as for [`wire::write`].
pub(super) unsafe fn hand_out(model: Box<dyn Model>, out: *mut abi::OnebitOpenOut) -> Result<(), Error> {
    let boxed = Box::new(ModelBox { model, embed_limits: OnceLock::new() });
    let description = boxed.model.description();
    // The texts belong to the model, which lives in its box until `close` and is never borrowed mutably.
    let value = abi::OnebitOpenOut {
        struct_size: 0,
        model: core::ptr::from_ref(&*boxed).cast_mut().cast(),
        computes_on: abi::OnebitStr::new(&description.computes_on),
        architecture: abi::OnebitStr::new(&description.architecture),
        quantisation: abi::OnebitStr::new(&description.quantisation),
    };
    // SAFETY: as promised.
    unsafe { wire::write(out, &value) }?;
    let _ = Box::into_raw(boxed);
    Ok(())
}

/// # Safety
///
/// `model` is null, or came from [`hand_out`] and was not closed.
pub(super) unsafe fn model<'a>(model: *mut abi::OnebitModel) -> Result<&'a ModelBox, Error> {
    // SAFETY: as promised.
    unsafe { model.cast::<ModelBox>().as_ref() }.ok_or_else(|| Error::invalid_argument("model is null"))
}

pub(super) unsafe extern "C" fn close(model: *mut abi::OnebitModel) {
    if model.is_null() {
        return;
    }
    guard::guard(|| {
        // SAFETY: not null, so it came from `hand_out`; the host gives it up.
        drop(unsafe { Box::from_raw(model.cast::<ModelBox>()) });
        Ok(())
    });
}

pub(super) unsafe extern "C" fn extension(raw: *mut abi::OnebitModel, id: abi::OnebitStr) -> *const core::ffi::c_void {
    let mut table = core::ptr::null();
    guard::guard(|| {
        // SAFETY: the host's promise for both.
        let (model, id) = unsafe { (&model(raw)?.model, wire::text(id, "capability id")?) };
        table = match id {
            abi::ONEBIT_FORWARD_1 if model.forward().is_some() => (&raw const forward::TABLE).cast(),
            abi::ONEBIT_TOKENIZE_1 if model.tokenizer().is_some() => (&raw const tokenize::TABLE).cast(),
            abi::ONEBIT_EMBED_1 if model.embedder().is_some() => (&raw const embed::TABLE).cast(),
            _ => core::ptr::null(),
        };
        Ok(())
    });
    table
}
