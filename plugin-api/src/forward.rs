//! `onebit.forward/1`: token level. Given a batch of tokens, the logits; and exact bookkeeping of each sequence's state.

use core::ffi::c_void;

use crate::basic::OnebitKeyValue;
use crate::plugin::OnebitModel;
use crate::status::OnebitStatus;

/// Capability id.
pub const ONEBIT_FORWARD_1: &str = "onebit.forward/1";

/// State can be cut at any position: `seq_remove` and partial `seq_copy` work everywhere (attention caches).
pub const ONEBIT_STATE_CUT: u32 = 1;
/// A sequence's state can be saved and loaded.
pub const ONEBIT_STATE_SNAPSHOT: u32 = 2;
/// `seq_shift` is exact.
pub const ONEBIT_STATE_SHIFT: u32 = 4;
/// `forward` takes embedding rows.
pub const ONEBIT_FORWARD_EMBEDDINGS: u32 = 8;

/// Sequences and their state, made from a model. Used by one thread at a time; sessions of one model may compute side by side.
#[repr(C)]
pub struct OnebitSession {
    _opaque: [u8; 0],
}

/// What a model can do at token level.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitForwardLimits {
    /// `sizeof(OnebitForwardLimits)` of the host.
    pub struct_size: usize,
    /// Columns of the logits.
    pub vocabulary: u32,
    /// Columns of an embedding row.
    pub embedding: u32,
    /// Positions the model was trained for.
    pub context_trained: u32,
    /// Tokens one `forward` may take at most.
    pub max_batch: u32,
    /// Sequences one session may hold at most.
    pub max_sequences: u32,
    /// Bits `ONEBIT_STATE_*`, `ONEBIT_FORWARD_*`.
    pub flags: u32,
    /// Bytes of state one position costs; 0 when the state does not grow.
    pub state_per_token: u64,
    /// Bytes of state one sequence costs whatever its length.
    pub state_per_sequence: u64,
}

/// Input of `session_open`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitSessionArgs {
    /// `sizeof(OnebitSessionArgs)` of the host.
    pub struct_size: usize,
    /// Positions in all sequences together. Not more than asked for, not less.
    pub context: u32,
    /// Sequences, numbered from 0.
    pub sequences: u32,
    /// Largest batch that will be asked for.
    pub batch: u32,
    /// CPU threads for one-token batches; 0 = as given to `open`.
    pub threads_decode: u32,
    /// CPU threads for larger batches; 0 = as given to `open`.
    pub threads_prefill: u32,
    /// Zero.
    pub reserved: u32,
    /// Settings of this plugin, from the manifest.
    pub options: *const OnebitKeyValue,
    /// Entries of `options`.
    pub n_options: usize,
}

/// Output of `session_open`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitSessionOut {
    /// `sizeof(OnebitSessionOut)` of the host.
    pub struct_size: usize,
    /// The session. Untouched on failure.
    pub session: *mut OnebitSession,
    /// Positions in all sequences together, as allocated.
    pub context: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes of state allocated.
    pub state_bytes: u64,
    /// Bytes of compute buffers allocated.
    pub scratch_bytes: u64,
}

/// One batch. Row i is token (or embedding) i at `positions[i]` of sequence `sequences[i]`. The positions of one sequence must follow
/// its state without a gap and stand in rising order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitBatch {
    /// `sizeof(OnebitBatch)` of the host.
    pub struct_size: usize,
    /// Rows.
    pub n: u32,
    /// Zero.
    pub reserved: u32,
    /// `n` token ids, or null when `embeddings` is given.
    pub tokens: *const u32,
    /// `n` rows of `embedding` values, or null when `tokens` is given.
    pub embeddings: *const f32,
    /// `n` positions.
    pub positions: *const u32,
    /// `n` sequence numbers.
    pub sequences: *const u32,
    /// `n` flags: 1 = the logits of this row are wanted.
    pub wants_logits: *const u8,
    /// Becomes non-zero when the work is to stop; looked at at least every 50 ms. May be null.
    ///
    /// After `ONEBIT_CANCELLED` the rows of this batch may or may not have entered the state: the host removes them.
    pub cancel: *const u32,
}

/// Logits of the rows that wanted them, in batch order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitLogits {
    /// `sizeof(OnebitLogits)` of the host.
    pub struct_size: usize,
    /// `rows × vocabulary` values, row-major. Owned by the session, valid until the next call on it.
    pub data: *const f32,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub vocabulary: u32,
}

/// Input of `seq_copy`, `seq_remove`, `seq_shift`: positions `p0 ..< p1` of a sequence. `p1 = u32::MAX` means "to the end".
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitSeqArgs {
    /// `sizeof(OnebitSeqArgs)` of the host.
    pub struct_size: usize,
    /// The sequence.
    pub sequence: u32,
    /// Where to, for `seq_copy`; must be empty.
    pub destination: u32,
    /// First position.
    pub p0: u32,
    /// One past the last position.
    pub p1: u32,
    /// For `seq_shift`: added to the positions.
    pub delta: i32,
    /// Zero.
    pub reserved: u32,
}

/// The table of `onebit.forward/1`. All but `seq_shift`, `state_*` must be there. Operations on sequences are exact or UNSUPPORTED.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitForward {
    /// `sizeof(OnebitForward)` of the plugin.
    pub struct_size: usize,
    /// Fills `out`. From any thread.
    pub limits: Option<unsafe extern "C" fn(model: *mut OnebitModel, out: *mut OnebitForwardLimits) -> OnebitStatus>,
    /// Makes a session with empty sequences. The model must outlive it. From any thread, one call at a time per model.
    pub session_open:
        Option<unsafe extern "C" fn(model: *mut OnebitModel, args: *const OnebitSessionArgs, out: *mut OnebitSessionOut) -> OnebitStatus>,
    /// Frees a session. Null is allowed.
    pub session_close: Option<unsafe extern "C" fn(session: *mut OnebitSession)>,
    /// Computes a batch and appends it to the state. On a status other than `ONEBIT_OK` and `ONEBIT_CANCELLED` the state is as before. An
    /// empty sequence may begin at any position.
    pub forward:
        Option<unsafe extern "C" fn(session: *mut OnebitSession, batch: *const OnebitBatch, out: *mut OnebitLogits) -> OnebitStatus>,
    /// Copies (or shares) state. The destination must be empty. Recurrent models only copy whole sequences.
    pub seq_copy: Option<unsafe extern "C" fn(session: *mut OnebitSession, args: *const OnebitSeqArgs) -> OnebitStatus>,
    /// Removes positions. The whole sequence always works; a part only with `ONEBIT_STATE_CUT`.
    pub seq_remove: Option<unsafe extern "C" fn(session: *mut OnebitSession, args: *const OnebitSeqArgs) -> OnebitStatus>,
    /// Moves positions. May be null.
    pub seq_shift: Option<unsafe extern "C" fn(session: *mut OnebitSession, args: *const OnebitSeqArgs) -> OnebitStatus>,
    /// Bytes `state_save` would write now. May be null.
    pub state_size: Option<unsafe extern "C" fn(session: *mut OnebitSession, sequence: u32, out_bytes: *mut u64) -> OnebitStatus>,
    /// Writes the state of one sequence into `buffer` of `*bytes` initialised bytes and sets `*bytes` to what was written, or with
    /// `ONEBIT_BUFFER_TOO_SMALL` to what is needed. May be null.
    pub state_save:
        Option<unsafe extern "C" fn(session: *mut OnebitSession, sequence: u32, buffer: *mut c_void, bytes: *mut u64) -> OnebitStatus>,
    /// Replaces the state of one sequence. The bytes are untrusted; wrong ones are `ONEBIT_INVALID_ARGUMENT` and change nothing. `load(save(prefix)) + tail` equals `prefix + tail`, bit for bit. May be null.
    pub state_load:
        Option<unsafe extern "C" fn(session: *mut OnebitSession, sequence: u32, buffer: *const c_void, bytes: u64) -> OnebitStatus>,
}
