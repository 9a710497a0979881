//! A model as an opaque pointer, and the way from it to the tables of its capabilities.

use std::sync::OnceLock;

use onebit_plugin_api as abi;

use super::{embed, forward, guard, rerank, tokenize, wire};
use crate::{EmbedLimits, Error, Model};

/// What `OnebitModel *` points to.
pub(super) struct ModelBox {
    pub(super) model: Box<dyn Model>,
    /// Kept, because the host may look at its text until `close`.
    pub(super) embed_limits: OnceLock<EmbedLimits>,
}

impl ModelBox {
    /// Whether the vocabulary has them all; a model without one knows by itself what it takes.
    pub(super) fn check_tokens(&self, tokens: &[u32]) -> Result<(), Error> {
        let Some(tokenizer) = self.model.tokenizer() else { return Ok(()) };
        let size = tokenizer.vocabulary().size;
        match tokens.iter().find(|token| **token >= size) {
            Some(token) => Err(Error::invalid_argument(format!("token {token} of a vocabulary of {size}"))),
            None => Ok(()),
        }
    }
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
            abi::ONEBIT_RERANK_1 if model.reranker().is_some() => (&raw const rerank::TABLE).cast(),
            _ => core::ptr::null(),
        };
        Ok(())
    });
    table
}
