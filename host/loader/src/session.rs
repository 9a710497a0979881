//! Sequences and their state.
//!
//! The arguments are checked here too, not only by the SDK: a plugin in another language may index an array with what it is given.

use std::ptr::NonNull;
use std::sync::Arc;

use onebit_plugin_api as abi;

use crate::model::{ForwardParts, ModelInner};
use crate::plugin::{absent, call};
use crate::{Allocation, Batch, ForwardLimits, Input, PluginError, SessionArgs, Status, raw};

/// Logits of the rows that wanted them, in batch order. Valid until the next call on the session. Their number is right; a value may be
/// NaN or +∞, which whoever chooses from a row sees in the pass that it makes over it anyway, and which is then that row's fault alone.
#[derive(Debug, Clone, Copy)]
pub struct Logits<'a> {
    data: &'a [f32],
    vocabulary: usize,
}

impl<'a> Logits<'a> {
    /// Rows.
    pub fn rows(&self) -> usize {
        self.data.len() / self.vocabulary
    }

    /// Columns.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// One row; panics beyond [`Logits::rows`], as a slice does.
    pub fn row(&self, index: usize) -> &'a [f32] {
        &self.data[index * self.vocabulary..(index + 1) * self.vocabulary]
    }

    /// All values, row-major.
    pub fn data(&self) -> &'a [f32] {
        self.data
    }
}

/// Sequences and their state. Used by one thread at a time; keeps its model alive and is closed before it.
pub struct Session {
    pub(crate) raw: NonNull<abi::OnebitSession>,
    pub(crate) table: abi::OnebitForward,
    limits: ForwardLimits,
    allocation: Allocation,
    batch: u32,
    sequences: u32,
    /// Last, so that it goes last.
    _model: Arc<ModelInner>,
}

// SAFETY: the ABI lets a session move between threads; `&mut` keeps it to one at a time.
unsafe impl Send for Session {}

impl Session {
    pub(crate) fn open(model: Arc<ModelInner>, parts: &ForwardParts, args: &SessionArgs<'_>) -> Result<Self, PluginError> {
        let limits = parts.limits;
        let bounds = [
            ("context", args.context, u32::MAX),
            ("sequences", args.sequences, limits.max_sequences),
            ("batch", args.batch, limits.max_batch),
        ];
        for (what, asked, most) in bounds {
            if asked == 0 || asked > most {
                return Err(invalid(format!("a session with {what} {asked}; allowed are 1 to {most}")));
            }
        }
        Self::make(model, parts, args)
    }

    /// As [`Session::open`], with whatever sizes: a plugin has to refuse what is wrong by itself.
    pub(crate) fn make(model: Arc<ModelInner>, parts: &ForwardParts, args: &SessionArgs<'_>) -> Result<Self, PluginError> {
        let open = parts.table.session_open.ok_or_else(|| absent("session_open"))?;
        let options = raw::pairs(args.options);
        let raw_args = abi::OnebitSessionArgs {
            context: args.context,
            sequences: args.sequences,
            batch: args.batch,
            threads_decode: args.threads_decode.unwrap_or(0),
            threads_prefill: args.threads_prefill.unwrap_or(0),
            options: options.as_ptr(),
            n_options: options.len(),
            ..raw::out()
        };
        let mut out: abi::OnebitSessionOut = raw::out();
        // SAFETY: a function of the table, a live model, structs that live for the call.
        call(|| unsafe { open(model.raw.as_ptr(), &raw const raw_args, &raw mut out) })?;
        let raw = NonNull::new(out.session).ok_or_else(|| PluginError::broken("session_open succeeded without a session"))?;
        let session = Self {
            raw,
            table: parts.table,
            limits: parts.limits,
            allocation: Allocation { context: out.context, state_bytes: out.state_bytes, scratch_bytes: out.scratch_bytes },
            batch: args.batch,
            sequences: args.sequences,
            _model: model,
        };
        if out.context < args.context {
            return Err(PluginError::broken(format!("the session holds {} positions, {} were asked for", out.context, args.context)));
        }
        Ok(session)
    }

    /// What was allocated.
    pub fn allocated(&self) -> Allocation {
        self.allocation
    }

    /// What the model can do.
    pub fn limits(&self) -> &ForwardLimits {
        &self.limits
    }

    /// Computes a batch and appends it to the state. After [`Status::CANCELLED`] its rows may or may not be in the state: remove them.
    pub fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits<'_>, PluginError> {
        self.check(batch)?;
        self.submit(batch)
    }

    /// As [`Session::forward`], with whatever tokens, sequences and number of rows: a plugin has to refuse what is wrong by itself. Only
    /// what keeps the host's own memory safe is looked at, the lengths of the slices.
    pub(crate) fn submit(&mut self, batch: &Batch<'_>) -> Result<Logits<'_>, PluginError> {
        let forward = self.table.forward.ok_or_else(|| absent("forward"))?;
        let wanted = self.check_lengths(batch)?;
        let (tokens, embeddings) = match batch.input {
            Input::Tokens(tokens) => (tokens.as_ptr(), core::ptr::null()),
            Input::Embeddings(values) => (core::ptr::null(), values.as_ptr()),
        };
        let args = abi::OnebitBatch {
            n: batch.positions.len() as u32,
            tokens,
            embeddings,
            positions: batch.positions.as_ptr(),
            sequences: batch.sequences.as_ptr(),
            // A `bool` is one byte, 0 or 1.
            wants_logits: batch.wants_logits.as_ptr().cast(),
            cancel: batch.cancel.map_or(core::ptr::null(), |cancel| cancel.as_ptr()),
            ..raw::out()
        };
        let mut out: abi::OnebitLogits = raw::out();
        // SAFETY: a function of the table, a live session of this thread, structs and slices that live for the call.
        call(|| unsafe { forward(self.raw.as_ptr(), &raw const args, &raw mut out) })?;
        let vocabulary = self.limits.vocabulary as usize;
        if out.rows as usize != wanted || out.vocabulary != self.limits.vocabulary {
            let said = (out.rows, out.vocabulary);
            return Err(PluginError::broken(format!("logits of {} × {} where {wanted} × {vocabulary} were asked for", said.0, said.1)));
        }
        // SAFETY: owned by the session and valid until the next call on it, which the borrow of `self` keeps away.
        let data = unsafe { raw::slice(out.data, wanted * vocabulary, "logits") }?;
        Ok(Logits { data, vocabulary })
    }

    /// The number of rows that want logits, if all slices have one length.
    fn check_lengths(&self, batch: &Batch<'_>) -> Result<usize, PluginError> {
        let n = batch.positions.len();
        let width = self.limits.embedding.max(1) as usize;
        let rows = match batch.input {
            Input::Tokens(tokens) => tokens.len(),
            Input::Embeddings(values) if values.len() % width != 0 => {
                return Err(invalid(format!("{} values are no rows of {width}", values.len())));
            }
            Input::Embeddings(values) => values.len() / width,
        };
        if rows != n || batch.sequences.len() != n || batch.wants_logits.len() != n || u32::try_from(n).is_err() {
            return Err(invalid("the slices of a batch differ in length"));
        }
        Ok(batch.wants_logits.iter().filter(|wanted| **wanted).count())
    }

    /// Whether everything about the batch is in range.
    fn check(&self, batch: &Batch<'_>) -> Result<(), PluginError> {
        let n = batch.positions.len();
        if n == 0 || n > self.batch as usize {
            return Err(invalid(format!("a batch of {n} rows; allowed are 1 to {}", self.batch)));
        }
        match batch.input {
            Input::Tokens(tokens) => {
                if let Some(token) = tokens.iter().find(|token| **token >= self.limits.vocabulary) {
                    return Err(invalid(format!("token {token} of a vocabulary of {}", self.limits.vocabulary)));
                }
            }
            Input::Embeddings(_) if !self.limits.embeddings => {
                return Err(PluginError::new(Status::UNSUPPORTED, "this model takes no embedding rows"));
            }
            Input::Embeddings(_) => {}
        }
        if let Some(sequence) = batch.sequences.iter().find(|sequence| **sequence >= self.sequences) {
            return Err(invalid(format!("sequence {sequence} of {}", self.sequences)));
        }
        Ok(())
    }

    /// Copies positions `p0 ..< p1` of `source` into the empty `destination`; `p1 = u32::MAX` = to the end.
    pub fn seq_copy(&mut self, source: u32, destination: u32, p0: u32, p1: u32) -> Result<(), PluginError> {
        self.seq(self.table.seq_copy, "seq_copy", abi::OnebitSeqArgs { sequence: source, destination, p0, p1, ..raw::out() })
    }

    /// Removes positions `p0 ..< p1`. A whole sequence always works.
    pub fn seq_remove(&mut self, sequence: u32, p0: u32, p1: u32) -> Result<(), PluginError> {
        self.seq(self.table.seq_remove, "seq_remove", abi::OnebitSeqArgs { sequence, p0, p1, ..raw::out() })
    }

    /// Adds `delta` to positions `p0 ..< p1`.
    pub fn seq_shift(&mut self, sequence: u32, p0: u32, p1: u32, delta: i32) -> Result<(), PluginError> {
        self.seq(self.table.seq_shift, "seq_shift", abi::OnebitSeqArgs { sequence, p0, p1, delta, ..raw::out() })
    }

    fn seq(&mut self, function: Option<SeqFunction>, name: &str, args: abi::OnebitSeqArgs) -> Result<(), PluginError> {
        let function = function.ok_or_else(|| not_offered(name))?;
        self.check_sequence(args.sequence)?;
        self.check_sequence(args.destination)?;
        if args.p0 > args.p1 {
            return Err(invalid(format!("{name} of positions {} to {}", args.p0, args.p1)));
        }
        // SAFETY: a function of the table, a live session of this thread.
        call(|| unsafe { function(self.raw.as_ptr(), &raw const args) })
    }

    fn check_sequence(&self, sequence: u32) -> Result<(), PluginError> {
        if sequence < self.sequences { Ok(()) } else { Err(invalid(format!("sequence {sequence} of {}", self.sequences))) }
    }

    /// Bytes that [`Session::state_save`] would give now.
    pub fn state_size(&mut self, sequence: u32) -> Result<u64, PluginError> {
        let function = self.table.state_size.ok_or_else(|| not_offered("state_size"))?;
        self.check_sequence(sequence)?;
        let mut bytes = 0;
        // SAFETY: as in `seq`.
        call(|| unsafe { function(self.raw.as_ptr(), sequence, &raw mut bytes) })?;
        Ok(bytes)
    }

    /// The state of one sequence.
    pub fn state_save(&mut self, sequence: u32) -> Result<Vec<u8>, PluginError> {
        let function = self.table.state_save.ok_or_else(|| not_offered("state_save"))?;
        let size = self.state_size(sequence)?;
        // A lie about the size must not take the machine's memory: one sequence's state is part of what the session allocated.
        let most = self.allocation.state_bytes.saturating_mul(4).saturating_add(64 << 20);
        if size > most {
            return Err(PluginError::broken(format!(
                "one sequence's state has {size} bytes, the session allocated {}",
                self.allocation.state_bytes
            )));
        }
        let mut buffer = Vec::new();
        let no_memory =
            |_| PluginError { want: size, ..PluginError::new(Status::OUT_OF_HOST_MEMORY, format!("no memory for {size} bytes of state")) };
        buffer.try_reserve_exact(size as usize).map_err(no_memory)?;
        buffer.resize(size as usize, 0);
        let mut written = size;
        // SAFETY: as in `seq`; the buffer has `written` bytes.
        call(|| unsafe { function(self.raw.as_ptr(), sequence, buffer.as_mut_ptr().cast(), &raw mut written) })?;
        if written > size {
            return Err(PluginError::broken(format!("state_save wrote {written} bytes into {size}")));
        }
        buffer.truncate(written as usize);
        Ok(buffer)
    }

    /// Replaces the state of one sequence by what [`Session::state_save`] gave.
    pub fn state_load(&mut self, sequence: u32, state: &[u8]) -> Result<(), PluginError> {
        let function = self.table.state_load.ok_or_else(|| not_offered("state_load"))?;
        self.check_sequence(sequence)?;
        // SAFETY: as in `seq`; the slice lives for the call.
        call(|| unsafe { function(self.raw.as_ptr(), sequence, state.as_ptr().cast(), state.len() as u64) })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(close) = self.table.session_close {
            // SAFETY: a live session; nothing else was made from it.
            unsafe { close(self.raw.as_ptr()) }
        }
    }
}

type SeqFunction = unsafe extern "C" fn(*mut abi::OnebitSession, *const abi::OnebitSeqArgs) -> abi::OnebitStatus;

fn invalid(message: impl Into<String>) -> PluginError {
    PluginError::new(Status::INVALID_ARGUMENT, message)
}

fn not_offered(name: &str) -> PluginError {
    PluginError::new(Status::UNSUPPORTED, format!("this plugin does not offer {name}"))
}
