//! The layout of every struct on the border, as data: tests compare it with the header, and hold it to the rules of growth.
//!
//! A growable struct must have no padding, at its end above all: a field that a later minor puts into padding would be invisible to
//! `struct_size`. That is why some structs carry a `reserved` field.

/// A struct that begins with `struct_size: usize` and may grow at its end.
///
/// # Safety
///
/// `repr(C)`, `struct_size` first, no padding, and every field valid when all its bytes are zero (integers, floats, pointers, optional
/// functions, frozen structs of these), so that a shorter copy can be completed with zeros.
pub unsafe trait Growable: Copy {}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name, the same in Rust and C.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// One struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Name, the same in Rust and C.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Bytes.
    pub align: usize,
    /// Begins with `struct_size`.
    pub growable: bool,
    /// In order.
    pub fields: &'static [Field],
}

const fn size_behind<S, T>(_: fn(&S) -> &T) -> usize {
    core::mem::size_of::<T>()
}

macro_rules! layouts {
    ($($kind:ident $name:ident { $($field:ident),* })*) => {
        /// All structs whose fields both sides see.
        pub const LAYOUTS: &[Layout] = &[
            $(Layout {
                name: stringify!($name),
                size: core::mem::size_of::<crate::$name>(),
                align: core::mem::align_of::<crate::$name>(),
                growable: layouts!(@is_growable $kind),
                fields: &[
                    $(Field {
                        name: stringify!($field),
                        offset: core::mem::offset_of!(crate::$name, $field),
                        size: size_behind::<crate::$name, _>(|all| &all.$field),
                    }),*
                ],
            }),*
        ];
        $(layouts!(@impl $kind $name);)*
    };
    (@is_growable growable) => { true };
    (@is_growable frozen) => { false };
    (@impl growable $name:ident) => {
        // SAFETY: integers, floats, pointers, texts and optional functions; order and padding are held by the test of `LAYOUTS`.
        unsafe impl Growable for crate::$name {}
    };
    (@impl frozen $name:ident) => {};
}

layouts! {
    frozen OnebitStr { ptr, len }
    frozen OnebitKeyValue { key, value }
    growable OnebitDevice { struct_size, kind, flags, id, name, driver, firmware, uuid, vendor_id, device_id, memory_total, memory_free }
    growable OnebitProbeReport { struct_size, usable, score, reason_code, exclusive, memory_kinds, reserved, reason }
    growable OnebitEmbedLimits { struct_size, dimension, max_tokens, pooling }
    growable OnebitEmbedArgs { struct_size, tokens, offsets, n, normalise, cancel, vectors, capacity }
    growable OnebitEmbed { struct_size, limits, embed }
    growable OnebitForwardLimits { struct_size, vocabulary, embedding, context_trained, max_batch, max_sequences, flags, state_per_token, state_per_sequence }
    growable OnebitSessionArgs { struct_size, context, sequences, batch, threads_decode, threads_prefill, reserved, options, n_options }
    growable OnebitSessionOut { struct_size, session, context, reserved, state_bytes, scratch_bytes }
    growable OnebitBatch { struct_size, n, reserved, tokens, embeddings, positions, sequences, wants_logits, cancel }
    growable OnebitLogits { struct_size, data, rows, vocabulary }
    growable OnebitSeqArgs { struct_size, sequence, destination, p0, p1, delta, reserved }
    growable OnebitForward { struct_size, limits, session_open, session_close, forward, seq_copy, seq_remove, seq_shift, state_size, state_save, state_load }
    growable OnebitHost { struct_size, abi_major, abi_minor, ctx, log, metric_add, metric_set, now_ns, report_error }
    growable OnebitInfo { struct_size, id, version, computes_with, facts, n_facts }
    growable OnebitProbeArgs { struct_size, devices, n_devices }
    growable OnebitProbeOut { struct_size, reports, n_reports }
    growable OnebitFitArgs { struct_size, path, device, context, sequences, options, n_options }
    growable OnebitFitOut { struct_size, usable, reason_code, reason, architecture, quantisation, weights_host, weights_device, state, state_per_token, scratch_host, scratch_device, context_trained, parameters }
    growable OnebitOpenArgs { struct_size, path, device, threads, reserved, options, n_options, cancel, progress, progress_ctx }
    growable OnebitOpenOut { struct_size, model, computes_on, architecture, quantisation }
    growable OnebitPlugin { struct_size, abi_major, abi_minor, info, probe, fit, open, close, extension }
    growable OnebitRerankLimits { struct_size, max_tokens, joints }
    growable OnebitRerankArgs { struct_size, query, tokens, offsets, n_query, n, cancel, scores, capacity }
    growable OnebitRerank { struct_size, limits, rerank }
    growable OnebitError { struct_size, code, reserved, have, need, want, free, retry_ms, message }
    growable OnebitVocabulary { struct_size, size, bos, eos, eot, adds_bos, adds_eos, chat_template, kind }
    growable OnebitTokenInfo { struct_size, flags, score, text }
    growable OnebitEncodeArgs { struct_size, text, flags, capacity, tokens }
    growable OnebitDecodeArgs { struct_size, tokens, n, control, capacity, bytes }
    growable OnebitTokenize { struct_size, vocabulary, token_info, encode, decode }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn no_struct_has_padding_and_every_field_is_in_the_table() {
        for layout in LAYOUTS {
            let mut end = 0;
            for field in layout.fields {
                assert_eq!(field.offset, end, "{}.{}: padding before it, or a field missing in the table", layout.name, field.name);
                end += field.size;
            }
            assert_eq!(end, layout.size, "{}: padding at its end, or a field missing in the table", layout.name);
        }
    }

    #[test]
    fn what_may_grow_begins_with_its_size() {
        for layout in LAYOUTS.iter().filter(|layout| layout.growable) {
            assert_eq!((layout.fields[0].name, layout.fields[0].offset), ("struct_size", 0), "{}", layout.name);
        }
    }
}
