//! `onebit.forward/1`: a batch of tokens in, logits out, and exact bookkeeping of each sequence's state.

use crate::{Cancel, Error, Options};

/// What a model can do at token level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForwardLimits {
    /// Columns of the logits.
    pub vocabulary: u32,
    /// Columns of an embedding row; 0 if none are taken.
    pub embedding: u32,
    /// Positions the model was trained for.
    pub context_trained: u32,
    /// Tokens one batch may have at most.
    pub max_batch: u32,
    /// Sequences one session may hold at most.
    pub max_sequences: u32,
    /// State can be cut at any position: partial `seq_remove` and `seq_copy`.
    pub cut: bool,
    /// A sequence's state can be saved and loaded.
    pub snapshot: bool,
    /// `seq_shift` is exact.
    pub shift: bool,
    /// Batches of embedding rows are taken.
    pub embeddings: bool,
    /// Bytes of state one position costs; 0 when the state does not grow.
    pub state_per_token: u64,
    /// Bytes of state one sequence costs whatever its length.
    pub state_per_sequence: u64,
}

/// Input of [`Forward::open_session`].
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct SessionArgs<'a> {
    /// Positions in all sequences together.
    pub context: u32,
    /// Sequences, numbered from 0.
    pub sequences: u32,
    /// Largest batch that will be asked for.
    pub batch: u32,
    /// CPU threads for one-token batches; `None` = as given to `open`.
    pub threads_decode: Option<u32>,
    /// CPU threads for larger batches; `None` = as given to `open`.
    pub threads_prefill: Option<u32>,
    /// Settings.
    pub options: Options<'a>,
}

impl<'a> SessionArgs<'a> {
    /// For tests of a plugin without a host.
    pub fn new(context: u32, sequences: u32, batch: u32) -> Self {
        Self { context, sequences, batch, threads_decode: None, threads_prefill: None, options: Options::default() }
    }
}

/// What a session allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allocation {
    /// Positions in all sequences together. What was asked for, no less.
    pub context: u32,
    /// Bytes of state.
    pub state_bytes: u64,
    /// Bytes of compute buffers.
    pub scratch_bytes: u64,
}

/// The rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Input<'a> {
    /// Token ids.
    Tokens(&'a [u32]),
    /// Rows of [`ForwardLimits::embedding`] values.
    Embeddings(&'a [f32]),
}

/// One batch. Row i is input i at `positions[i]` of sequence `sequences[i]`. The SDK has checked that all slices have one length, that
/// sequence numbers are in range and that tokens are in the vocabulary; positions are the plugin's to check against its state.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Batch<'a> {
    /// Tokens or embedding rows.
    pub input: Input<'a>,
    /// Positions.
    pub positions: &'a [u32],
    /// Sequence numbers.
    pub sequences: &'a [u32],
    /// Not 0 = the logits of this row are wanted.
    pub wants_logits: &'a [u8],
    /// After [`Error::cancelled`] the rows may or may not have entered the state.
    pub cancel: Cancel<'a>,
}

impl<'a> Batch<'a> {
    /// For tests of a plugin without a host. All slices have one length.
    pub fn new(input: Input<'a>, positions: &'a [u32], sequences: &'a [u32], wants_logits: &'a [u8], cancel: Cancel<'a>) -> Self {
        Self { input, positions, sequences, wants_logits, cancel }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.positions.len()
    }

    /// Rows whose logits are wanted.
    pub fn wanted(&self) -> usize {
        self.wants_logits.iter().filter(|wanted| **wanted != 0).count()
    }
}

/// A model at token level.
pub trait Forward: Sync {
    /// What it can do. Constant during the model's life.
    fn limits(&self) -> ForwardLimits;

    /// Makes a session with empty sequences.
    fn open_session(&self, args: &SessionArgs<'_>) -> Result<Box<dyn Session>, Error>;
}

/// Sequences and their state. Used by one thread at a time. Operations on sequences are exact or [`Error::unsupported`].
///
/// `p1 = u32::MAX` means "to the end".
pub trait Session: Send {
    /// What was allocated.
    fn allocated(&self) -> Allocation;

    /// Computes a batch, appends it to the state and returns `wanted rows × vocabulary` logits in batch order. On an error other than
    /// [`Error::cancelled`] the state is as before.
    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error>;

    /// Copies (or shares) positions `p0 ..< p1` of `source` into the empty sequence `destination`.
    fn seq_copy(&mut self, source: u32, destination: u32, p0: u32, p1: u32) -> Result<(), Error>;

    /// Removes positions `p0 ..< p1`. A whole sequence always works.
    fn seq_remove(&mut self, sequence: u32, p0: u32, p1: u32) -> Result<(), Error>;

    /// Adds `delta` to positions `p0 ..< p1`.
    fn seq_shift(&mut self, sequence: u32, p0: u32, p1: u32, delta: i32) -> Result<(), Error> {
        let _ = (sequence, p0, p1, delta);
        Err(Error::unsupported("this model's positions cannot be shifted exactly"))
    }

    /// Bytes that [`Session::state_save`] would write now.
    fn state_size(&mut self, sequence: u32) -> Result<u64, Error> {
        let _ = sequence;
        Err(Error::unsupported("this model's state cannot be saved"))
    }

    /// Writes the state of one sequence into `buffer`; returns the bytes written. Too small a buffer is [`Error::buffer_too_small`].
    fn state_save(&mut self, sequence: u32, buffer: &mut [u8]) -> Result<u64, Error> {
        let _ = (sequence, buffer);
        Err(Error::unsupported("this model's state cannot be saved"))
    }

    /// Replaces the state of one sequence. The bytes are untrusted: a wrong one is [`Error::invalid_argument`] and changes nothing.
    fn state_load(&mut self, sequence: u32, buffer: &[u8]) -> Result<(), Error> {
        let _ = (sequence, buffer);
        Err(Error::unsupported("this model's state cannot be loaded"))
    }
}
