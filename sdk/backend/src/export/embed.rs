//! The table of `onebit.embed/1`.

use onebit_plugin_api as abi;

use super::guard::guard;
use super::model::{ModelBox, model};
use super::wire;
use crate::{Cancel, EmbedLimits, Embedder, Error};

pub(super) static TABLE: abi::OnebitEmbed =
    abi::OnebitEmbed { struct_size: size_of::<abi::OnebitEmbed>(), limits: Some(limits), embed: Some(embed) };

fn embedder_of(boxed: &ModelBox) -> Result<(&dyn Embedder, &EmbedLimits), Error> {
    let embedder = boxed.model.embedder().ok_or_else(|| Error::unsupported("this model has no onebit.embed/1"))?;
    Ok((embedder, boxed.embed_limits.get_or_init(|| embedder.limits())))
}

unsafe extern "C" fn limits(raw: *mut abi::OnebitModel, out: *mut abi::OnebitEmbedLimits) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for `raw`.
        let (_, limits) = embedder_of(unsafe { model(raw) }?)?;
        let value = abi::OnebitEmbedLimits {
            struct_size: 0,
            dimension: limits.dimension,
            max_tokens: limits.max_tokens,
            pooling: abi::OnebitStr::new(&limits.pooling),
        };
        // SAFETY: the host's promise for `out`.
        unsafe { wire::write(out, &value) }
    })
}

unsafe extern "C" fn embed(raw: *mut abi::OnebitModel, args: *const abi::OnebitEmbedArgs) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for all arguments.
        let (boxed, args) = unsafe { (model(raw)?, wire::read(args)?) };
        let (embedder, limits) = embedder_of(boxed)?;
        let n = args.n as usize;
        // SAFETY: as above.
        let texts = unsafe { wire::texts(args.tokens, args.offsets, n) }?;
        if let Some(longest) = texts.iter().map(|text| text.len()).max()
            && longest > limits.max_tokens as usize
        {
            return Err(Error::context_overflow(limits.max_tokens.into(), longest as u64));
        }
        texts.iter().try_for_each(|text| boxed.check_tokens(text))?;
        let values = n * limits.dimension as usize;
        if args.capacity < values {
            return Err(Error::buffer_too_small(args.capacity as u64, values as u64));
        }
        // SAFETY: as above.
        let (out, cancel) = unsafe { (wire::slice_mut(args.vectors, values, "vectors")?, Cancel::from_raw(args.cancel)) };
        embedder.embed(&texts, args.normalise != 0, cancel, out)
    })
}
