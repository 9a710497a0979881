//! The table of `onebit.forward/1`.

use core::ffi::c_void;

use onebit_plugin_api as abi;

use super::guard::guard;
use super::model::model;
use super::wire;
use crate::{Batch, Cancel, Error, Forward, ForwardLimits, Input, Options, Session, SessionArgs};

pub(super) static TABLE: abi::OnebitForward = abi::OnebitForward {
    struct_size: size_of::<abi::OnebitForward>(),
    limits: Some(limits),
    session_open: Some(session_open),
    session_close: Some(session_close),
    forward: Some(forward),
    seq_copy: Some(seq_copy),
    seq_remove: Some(seq_remove),
    seq_shift: Some(seq_shift),
    state_size: Some(state_size),
    state_save: Some(state_save),
    state_load: Some(state_load),
};

/// What `OnebitSession *` points to.
struct SessionBox {
    session: Box<dyn Session>,
    limits: ForwardLimits,
    batch: u32,
    sequences: u32,
    /// A call panicked: its state may be half changed, so nothing but closing is allowed.
    broken: bool,
}

/// # Safety
///
/// `raw` is null, or a live model.
unsafe fn forward_of<'a>(raw: *mut abi::OnebitModel) -> Result<&'a dyn Forward, Error> {
    // SAFETY: as promised.
    unsafe { model(raw) }?.model.forward().ok_or_else(|| Error::unsupported("this model has no onebit.forward/1"))
}

unsafe extern "C" fn limits(raw: *mut abi::OnebitModel, out: *mut abi::OnebitForwardLimits) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for `raw`.
        let limits = unsafe { forward_of(raw) }?.limits();
        let flags = [
            (limits.cut, abi::ONEBIT_STATE_CUT),
            (limits.snapshot, abi::ONEBIT_STATE_SNAPSHOT),
            (limits.shift, abi::ONEBIT_STATE_SHIFT),
            (limits.embeddings, abi::ONEBIT_FORWARD_EMBEDDINGS),
        ];
        let value = abi::OnebitForwardLimits {
            struct_size: 0,
            vocabulary: limits.vocabulary,
            embedding: limits.embedding,
            context_trained: limits.context_trained,
            max_batch: limits.max_batch,
            max_sequences: limits.max_sequences,
            flags: flags.iter().filter(|(there, _)| *there).map(|(_, bit)| bit).sum(),
            state_per_token: limits.state_per_token,
            state_per_sequence: limits.state_per_sequence,
        };
        // SAFETY: the host's promise for `out`.
        unsafe { wire::write(out, &value) }
    })
}

unsafe extern "C" fn session_open(
    raw: *mut abi::OnebitModel,
    args: *const abi::OnebitSessionArgs,
    out: *mut abi::OnebitSessionOut,
) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: the host's promise for all arguments.
        let (model, args, pairs) = unsafe {
            wire::check_out(out)?;
            let args = wire::read(args)?;
            (forward_of(raw)?, args, wire::pairs(args.options, args.n_options)?)
        };
        let limits = model.limits();
        let bounds = [
            ("context", args.context, u32::MAX),
            ("sequences", args.sequences, limits.max_sequences),
            ("batch", args.batch, limits.max_batch),
        ];
        for (what, asked, most) in bounds {
            if asked == 0 || asked > most {
                return Err(Error::invalid_argument(format!("{what} is {asked}, allowed are 1 to {most}")));
            }
        }
        let request = SessionArgs {
            context: args.context,
            sequences: args.sequences,
            batch: args.batch,
            threads_decode: (args.threads_decode > 0).then_some(args.threads_decode),
            threads_prefill: (args.threads_prefill > 0).then_some(args.threads_prefill),
            options: Options { pairs: &pairs },
        };
        let session = model.open_session(&request)?;
        let allocated = session.allocated();
        if allocated.context < args.context {
            return Err(Error::internal(format!("the session holds {} positions, {} were asked for", allocated.context, args.context)));
        }
        let boxed = Box::new(SessionBox { session, limits, batch: args.batch, sequences: args.sequences, broken: false });
        let pointer = Box::into_raw(boxed);
        let value = abi::OnebitSessionOut {
            struct_size: 0,
            session: pointer.cast(),
            context: allocated.context,
            reserved: 0,
            state_bytes: allocated.state_bytes,
            scratch_bytes: allocated.scratch_bytes,
        };
        // SAFETY: the host's promise for `out`, which was checked above.
        unsafe { wire::write(out, &value) }
    })
}

unsafe extern "C" fn session_close(raw: *mut abi::OnebitSession) {
    if raw.is_null() {
        return;
    }
    guard(|| {
        // SAFETY: not null, so it came from `session_open`; the host gives it up.
        drop(unsafe { Box::from_raw(raw.cast::<SessionBox>()) });
        Ok(())
    });
}

/// Runs `work` on a session, and marks the session as broken if that panics.
///
/// # Safety
///
/// `raw` is null, or a live session that only this thread uses now.
unsafe fn with(raw: *mut abi::OnebitSession, work: impl FnOnce(&mut SessionBox) -> Result<(), Error>) -> abi::OnebitStatus {
    guard(|| {
        // SAFETY: as promised.
        let session = unsafe { raw.cast::<SessionBox>().as_mut() }.ok_or_else(|| Error::invalid_argument("session is null"))?;
        if session.broken {
            return Err(Error::panic("this session panicked before and can only be closed"));
        }
        session.broken = true;
        let result = work(session);
        session.broken = false;
        result
    })
}

impl SessionBox {
    fn check_sequence(&self, sequence: u32) -> Result<(), Error> {
        if sequence < self.sequences {
            Ok(())
        } else {
            Err(Error::invalid_argument(format!("sequence {sequence} of {} sequences", self.sequences)))
        }
    }
}

unsafe extern "C" fn forward(
    raw: *mut abi::OnebitSession,
    batch: *const abi::OnebitBatch,
    out: *mut abi::OnebitLogits,
) -> abi::OnebitStatus {
    // SAFETY: the host's promise for all arguments, here and below.
    unsafe {
        with(raw, |boxed| {
            wire::check_out(out)?;
            let raw_batch = wire::read(batch)?;
            let n = raw_batch.n as usize;
            if raw_batch.n == 0 || raw_batch.n > boxed.batch {
                return Err(Error::invalid_argument(format!("a batch of {n} rows, allowed are 1 to {}", boxed.batch)));
            }
            let input = match (raw_batch.tokens.is_null(), raw_batch.embeddings.is_null()) {
                (false, true) => Input::Tokens(wire::slice(raw_batch.tokens, n, "tokens")?),
                (true, false) if boxed.limits.embeddings => {
                    Input::Embeddings(wire::slice(raw_batch.embeddings, n * boxed.limits.embedding as usize, "embeddings")?)
                }
                (true, false) => return Err(Error::unsupported("this model takes no embedding rows")),
                _ => return Err(Error::invalid_argument("a batch has either tokens or embeddings")),
            };
            let batch = Batch {
                input,
                positions: wire::slice(raw_batch.positions, n, "positions")?,
                sequences: wire::slice(raw_batch.sequences, n, "sequences")?,
                wants_logits: wire::slice(raw_batch.wants_logits, n, "wants_logits")?,
                cancel: Cancel::from_raw(raw_batch.cancel),
            };
            for sequence in batch.sequences {
                boxed.check_sequence(*sequence)?;
            }
            if let Input::Tokens(tokens) = input
                && let Some(token) = tokens.iter().find(|token| **token >= boxed.limits.vocabulary)
            {
                return Err(Error::invalid_argument(format!("token {token} of a vocabulary of {}", boxed.limits.vocabulary)));
            }
            let rows = batch.wanted();
            let vocabulary = boxed.limits.vocabulary;
            let logits = boxed.session.forward(&batch)?;
            if logits.len() != rows * vocabulary as usize {
                return Err(Error::internal(format!("{} logits for {rows} rows of {vocabulary}", logits.len())));
            }
            wire::write(out, &abi::OnebitLogits { struct_size: 0, data: logits.as_ptr(), rows: rows as u32, vocabulary })
        })
    }
}

/// # Safety
///
/// The host's promise for both arguments.
unsafe fn seq(
    raw: *mut abi::OnebitSession,
    args: *const abi::OnebitSeqArgs,
    work: impl FnOnce(&mut SessionBox, &abi::OnebitSeqArgs) -> Result<(), Error>,
) -> abi::OnebitStatus {
    // SAFETY: as promised.
    unsafe {
        with(raw, |boxed| {
            let args = wire::read(args)?;
            boxed.check_sequence(args.sequence)?;
            if args.p0 > args.p1 {
                return Err(Error::invalid_argument(format!("positions {} ..< {}", args.p0, args.p1)));
            }
            work(boxed, &args)
        })
    }
}

unsafe extern "C" fn seq_copy(raw: *mut abi::OnebitSession, args: *const abi::OnebitSeqArgs) -> abi::OnebitStatus {
    // SAFETY: the host's promise.
    unsafe {
        seq(raw, args, |boxed, args| {
            boxed.check_sequence(args.destination)?;
            if args.destination == args.sequence {
                return Err(Error::invalid_argument("a sequence cannot be copied onto itself"));
            }
            boxed.session.seq_copy(args.sequence, args.destination, args.p0, args.p1)
        })
    }
}

unsafe extern "C" fn seq_remove(raw: *mut abi::OnebitSession, args: *const abi::OnebitSeqArgs) -> abi::OnebitStatus {
    // SAFETY: the host's promise.
    unsafe { seq(raw, args, |boxed, args| boxed.session.seq_remove(args.sequence, args.p0, args.p1)) }
}

unsafe extern "C" fn seq_shift(raw: *mut abi::OnebitSession, args: *const abi::OnebitSeqArgs) -> abi::OnebitStatus {
    // SAFETY: the host's promise.
    unsafe { seq(raw, args, |boxed, args| boxed.session.seq_shift(args.sequence, args.p0, args.p1, args.delta)) }
}

/// # Safety
///
/// `pointer` is null, or valid for reads and writes of one value.
unsafe fn out<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Error> {
    // SAFETY: as promised.
    unsafe { wire::slice_mut(pointer, 1, what) }?.first_mut().ok_or_else(|| Error::invalid_argument(format!("{what} is null")))
}

unsafe extern "C" fn state_size(raw: *mut abi::OnebitSession, sequence: u32, out_bytes: *mut u64) -> abi::OnebitStatus {
    // SAFETY: the host's promise.
    unsafe {
        with(raw, |boxed| {
            let out = out(out_bytes, "out_bytes")?;
            boxed.check_sequence(sequence)?;
            *out = boxed.session.state_size(sequence)?;
            Ok(())
        })
    }
}

unsafe extern "C" fn state_save(raw: *mut abi::OnebitSession, sequence: u32, buffer: *mut c_void, bytes: *mut u64) -> abi::OnebitStatus {
    // SAFETY: the host's promise.
    unsafe {
        with(raw, |boxed| {
            let bytes = out(bytes, "bytes")?;
            boxed.check_sequence(sequence)?;
            let have = usize::try_from(*bytes).map_err(|_| Error::invalid_argument("bytes is no size"))?;
            let buffer = wire::slice_mut::<u8>(buffer.cast(), have, "buffer")?;
            match boxed.session.state_save(sequence, buffer) {
                Ok(written) if written <= *bytes => {
                    *bytes = written;
                    Ok(())
                }
                Ok(written) => Err(Error::internal(format!("{written} bytes written into {have}"))),
                Err(error) => {
                    if error.code == abi::ONEBIT_BUFFER_TOO_SMALL {
                        *bytes = error.need;
                    }
                    Err(error)
                }
            }
        })
    }
}

unsafe extern "C" fn state_load(raw: *mut abi::OnebitSession, sequence: u32, buffer: *const c_void, bytes: u64) -> abi::OnebitStatus {
    // SAFETY: the host's promise.
    unsafe {
        with(raw, |boxed| {
            boxed.check_sequence(sequence)?;
            let bytes = usize::try_from(bytes).map_err(|_| Error::invalid_argument("bytes is no size"))?;
            boxed.session.state_load(sequence, wire::slice::<u8>(buffer.cast(), bytes, "buffer")?)
        })
    }
}
