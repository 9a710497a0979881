//! A session: sequences in one llama.cpp context.
//!
//! The book of positions ([`Rows`]) is asked first and written last: what it refuses never reaches llama.cpp, and after a batch that failed
//! or was cancelled the rows that llama.cpp had already entered are taken out again, so that both say the same. Models whose state cannot
//! be cut cannot take rows out: the sequence is then marked, and only removing it as a whole makes it usable again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Allocation, Batch, Error, Input, Session, SessionArgs};

use crate::border;
use crate::failure;
use crate::rows::Rows;
use crate::settings::Settings;
use crate::snapshot;
use crate::weights::{Context, Place, Shape, Weights};

/// Sequences and their state.
pub struct GgmlSession {
    context: Context,
    rows: Rows,
    allocation: Allocation,
    can_cut: bool,
    /// Rows handed to llama.cpp at once. A CPU and a software device are asked in the middle whether to stop.
    piece: Piece,
    vocabulary: usize,
    /// Sequences that a cancelled batch left half computed.
    broken: Vec<bool>,
    buffers: Buffers,
    /// What state a snapshot of this session can be loaded into.
    fingerprint: u64,
}

/// How many rows go to llama.cpp at once.
///
/// A GPU cannot be asked in the middle whether to stop. But between two calls it stands still while the next graph is built, so a call is
/// as large as a stop may wait: on a fast GPU a long prompt in pieces of one ubatch took a third longer.
enum Piece {
    /// All of them.
    Whole,
    /// As many ubatches as take about [`PIECE`], by the rate of the last large piece in rows a second.
    Timed { ubatch: usize, rate: Option<f64> },
}

/// A stop on a GPU waits this long at most, where one ubatch does not take longer.
const PIECE: Duration = Duration::from_millis(40);

impl Piece {
    /// Of `left` rows, those to compute next. A rest smaller than a ubatch is not left over.
    fn rows(&self, left: usize) -> usize {
        let Self::Timed { ubatch, rate } = *self else { return left };
        let ubatches = rate.map_or(1, |rate| (rate * PIECE.as_secs_f64()) as usize / ubatch).max(1);
        if left < ubatch * (ubatches + 1) { left } else { ubatch * ubatches }
    }

    fn computed(&mut self, rows: usize, took: Duration) {
        if let Self::Timed { ubatch, rate } = self
            && rows >= *ubatch
        {
            *rate = Some(rows as f64 / took.as_secs_f64().max(1e-6));
        }
    }
}

/// Arrays that llama_batch points to, and logits that llama.cpp would overwrite. Kept between calls.
#[derive(Default)]
struct Buffers {
    counts: Vec<i32>,
    sequences: Vec<i32>,
    pointers: Vec<*mut i32>,
    wanted: Vec<i8>,
    logits: Vec<f32>,
}

// SAFETY: `pointers` is filled and used within one call and points into `sequences`, which moves along.
unsafe impl Send for Buffers {}

impl GgmlSession {
    /// Makes a session of `weights`.
    pub fn open(weights: &Arc<Weights>, args: &SessionArgs<'_>) -> Result<Self, Error> {
        let settings = if args.options.iter().next().is_some() { Settings::read(args.options)? } else { weights.settings };
        // SAFETY: asks for a constant.
        let most = u32::try_from(unsafe { sys::llama_max_parallel_sequences() }).unwrap_or(u32::MAX);
        for (name, value, most) in
            [("context", args.context, i32::MAX as u32), ("sequences", args.sequences, most), ("batch", args.batch, args.context)]
        {
            if value == 0 || value > most {
                return Err(Error::invalid_argument(format!("{name} = {value} is not between 1 and {most}")));
            }
        }
        let shape = Shape {
            context: args.context,
            sequences: args.sequences,
            batch: args.batch,
            ubatch: args.batch.min(settings.ubatch),
            threads: (args.threads_decode.unwrap_or(weights.threads), args.threads_prefill.unwrap_or(weights.threads)),
            pooling: None,
        };
        let context = Context::new(weights, &settings, &shape)?;
        // SAFETY: the context is alive.
        let (host, device) = unsafe { border::memory(context.as_ptr()) };
        let piece = match weights.place {
            Place::Vulkan { software: false, .. } => Piece::Timed { ubatch: shape.ubatch as usize, rate: None },
            Place::Cpu | Place::Vulkan { .. } => Piece::Whole,
        };
        Ok(Self {
            allocation: Allocation {
                context: args.context,
                state_bytes: host.state + device.state,
                scratch_bytes: host.scratch + device.scratch,
            },
            rows: Rows::new(args.context, args.sequences),
            can_cut: weights.can_cut(&settings),
            piece,
            vocabulary: weights.n_vocab() as usize,
            broken: vec![false; args.sequences as usize],
            buffers: Buffers::default(),
            fingerprint: snapshot::fingerprint(&weights.facts, &settings),
            context,
        })
    }

    fn whole_or_cut(&self, sequence: u32, p0: u32, p1: u32, what: &str) -> Result<(), Error> {
        if self.can_cut || self.rows.is_whole(sequence, p0, p1)? {
            return Ok(());
        }
        Err(Error::unsupported(format!("this model's state can only be {what} as a whole sequence")))
    }

    fn usable(&self, sequence: u32) -> Result<(), Error> {
        match self.broken.get(sequence as usize) {
            Some(true) => Err(Error::invalid_argument(format!("sequence {sequence} is half computed after a cancel; remove it first"))),
            _ => Ok(()),
        }
    }

    /// Takes the rows of a batch that did not come through out of llama.cpp's state.
    fn take_back(&mut self, batch: &Batch<'_>) {
        let mut first: Vec<Option<u32>> = vec![None; self.broken.len()];
        for (&sequence, &position) in batch.sequences.iter().zip(batch.positions) {
            if let Some(first) = first.get_mut(sequence as usize) {
                first.get_or_insert(position);
            }
        }
        for (sequence, position) in (0_u32..).zip(first) {
            let Some(position) = position else { continue };
            // SAFETY: the context is alive; sequence and position were checked.
            let removed =
                self.can_cut && unsafe { sys::llama_memory_seq_rm(self.context.memory(), signed(sequence), signed(position), -1) };
            if !removed && let Some(broken) = self.broken.get_mut(sequence as usize) {
                *broken = true;
            }
        }
    }

    /// Computes rows `from ..< to` of a batch.
    fn compute(&mut self, batch: &Batch<'_>, from: usize, to: usize) -> Result<(), Error> {
        let n = to - from;
        let buffers = &mut self.buffers;
        buffers.counts.resize(n, 1);
        buffers.sequences.clear();
        buffers.sequences.extend(batch.sequences[from..to].iter().map(|&sequence| signed(sequence)));
        buffers.pointers.clear();
        buffers.pointers.extend(buffers.sequences.iter_mut().map(|sequence| &raw mut *sequence));
        buffers.wanted.clear();
        buffers.wanted.extend(batch.wants_logits[from..to].iter().map(|&wanted| i8::from(wanted != 0)));
        let width = self.context.weights().embedding_width();
        let (token, embd) = match batch.input {
            Input::Tokens(tokens) => (tokens[from..to].as_ptr().cast::<i32>().cast_mut(), core::ptr::null_mut()),
            Input::Embeddings(values) => (core::ptr::null_mut(), values[from * width..to * width].as_ptr().cast_mut()),
        };
        let raw = sys::llama_batch {
            n_tokens: i32::try_from(n).unwrap_or(i32::MAX),
            // Read only, whatever the type says; u32 and i32 have one layout and the values were checked to fit.
            token,
            embd,
            pos: batch.positions[from..to].as_ptr().cast::<i32>().cast_mut(),
            n_seq_id: buffers.counts.as_mut_ptr(),
            seq_id: buffers.pointers.as_mut_ptr(),
            logits: buffers.wanted.as_mut_ptr(),
        };
        // SAFETY: all arrays have `n` entries and live for the call.
        let answer = unsafe { self.context.decode(&raw, batch.cancel) };
        // A software device stops in the middle and answers 0 all the same.
        if batch.cancel.is_set() {
            return Err(Error::cancelled());
        }
        match answer {
            Ok(0) => Ok(()),
            Ok(1) => {
                let context = u64::from(self.rows.context());
                Err(Error::context_overflow(context, (self.rows.used() + batch.rows() as u64).max(context + 1)))
            }
            Ok(2) => Err(Error::cancelled()),
            Ok(answer) => Err(failure::compute(&[], &format!("llama_decode answers {answer}"), &self.context.weights().place)),
            Err(thrown) => Err(failure::compute(&[], &thrown, &self.context.weights().place)),
        }
    }

    /// llama.cpp's logits of the last call: `wanted × vocabulary` values, in batch order.
    fn logits(&self, wanted: usize) -> Result<&[f32], Error> {
        if wanted == 0 {
            return Ok(&[]);
        }
        // SAFETY: the context is alive and has computed.
        let data = unsafe { sys::llama_get_logits(self.context.as_ptr()) };
        if data.is_null() {
            return Err(Error::internal("llama.cpp computed and gives no logits"));
        }
        // SAFETY: one row per wanted row, contiguous and in batch order, valid until the next decode, which needs `&mut self`.
        Ok(unsafe { core::slice::from_raw_parts(data, wanted * self.vocabulary) })
    }
}

impl Session for GgmlSession {
    fn allocated(&self) -> Allocation {
        self.allocation
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error> {
        batch.cancel.check()?;
        let rows = batch.rows();
        if rows == 0 {
            return Ok(&[]);
        }
        if rows > self.context.batch() {
            return Err(Error::invalid_argument(format!("a batch of {rows} rows; this session was opened for {}", self.context.batch())));
        }
        for &sequence in batch.sequences {
            self.usable(sequence)?;
        }
        self.rows.check(batch.positions, batch.sequences)?;

        // Logits of all but the last piece must be kept; usually only the last piece has any.
        self.buffers.logits.clear();
        let mut last_wanted = 0;
        let mut from = 0;
        while from < rows {
            let to = from + self.piece.rows(rows - from);
            let begin = Instant::now();
            let done = batch.cancel.check().and_then(|()| self.compute(batch, from, to));
            if let Err(error) = done {
                self.take_back(batch);
                return Err(error);
            }
            self.piece.computed(to - from, begin.elapsed());
            last_wanted = batch.wants_logits[from..to].iter().filter(|wanted| **wanted != 0).count();
            if last_wanted > 0 && (to < rows || !self.buffers.logits.is_empty()) {
                let mut kept = std::mem::take(&mut self.buffers.logits);
                kept.extend_from_slice(self.logits(last_wanted)?);
                self.buffers.logits = kept;
            }
            from = to;
        }
        self.rows.enter(batch.positions, batch.sequences);
        if self.buffers.logits.is_empty() { self.logits(last_wanted) } else { Ok(&self.buffers.logits) }
    }

    fn seq_copy(&mut self, source: u32, destination: u32, p0: u32, p1: u32) -> Result<(), Error> {
        self.usable(source)?;
        self.whole_or_cut(source, p0, p1, "copied")?;
        self.rows.copy(source, destination, p0, p1)?;
        // SAFETY: the context is alive; both sequences exist.
        unsafe { sys::llama_memory_seq_cp(self.context.memory(), signed(source), signed(destination), signed(p0), end(p1)) };
        Ok(())
    }

    fn seq_remove(&mut self, sequence: u32, p0: u32, p1: u32) -> Result<(), Error> {
        self.whole_or_cut(sequence, p0, p1, "removed")?;
        let broken = self.broken.get(sequence as usize) == Some(&true);
        let (from, to) = if self.rows.is_whole(sequence, p0, p1)? || broken { (-1, -1) } else { (signed(p0), end(p1)) };
        // SAFETY: the context is alive; the sequence exists.
        if !unsafe { sys::llama_memory_seq_rm(self.context.memory(), signed(sequence), from, to) } {
            return Err(Error::unsupported("this model's state can only be removed as a whole sequence"));
        }
        if let Some(broken) = self.broken.get_mut(sequence as usize) {
            *broken = false;
        }
        self.rows.remove(sequence, p0, p1)
    }

    fn state_size(&mut self, sequence: u32) -> Result<u64, Error> {
        self.usable(sequence)?;
        let positions = self.rows.positions(sequence)?.len();
        // SAFETY: the context is alive; the sequence exists.
        let payload = unsafe { sys::llama_state_seq_get_size(self.context.as_ptr(), signed(sequence)) };
        Ok(snapshot::size(positions, payload))
    }

    fn state_save(&mut self, sequence: u32, buffer: &mut [u8]) -> Result<u64, Error> {
        let need = self.state_size(sequence)?;
        let have = buffer.len() as u64;
        if have < need {
            return Err(Error::buffer_too_small(have, need));
        }
        let positions: Vec<u32> = self.rows.positions(sequence)?.collect();
        let (header, payload) = buffer.split_at_mut(snapshot::header_size(positions.len()));
        // SAFETY: `&mut self` makes this the only thread.
        let written = unsafe { border::state_save(self.context.as_ptr(), signed(sequence), payload) }
            .map_err(|thrown| failure::compute(&[], &thrown, &self.context.weights().place))?;
        snapshot::write_header(header, self.fingerprint, &positions, &payload[..written]);
        Ok((header.len() + written) as u64)
    }

    fn state_load(&mut self, sequence: u32, buffer: &[u8]) -> Result<(), Error> {
        let (positions, payload) = snapshot::read(buffer, self.fingerprint)?;
        let need = self.rows.used_with(sequence, positions.len() as u64)?;
        let context = u64::from(self.rows.context());
        if need > context {
            return Err(Error::context_overflow(context, need));
        }
        self.seq_remove(sequence, 0, u32::MAX)?;
        if positions.is_empty() {
            return Ok(());
        }
        // SAFETY: `&mut self` makes this the only thread; the payload was written by `state_save` of an equal context.
        if let Err(thrown) = unsafe { border::state_load(self.context.as_ptr(), signed(sequence), payload) } {
            // Nothing of a half-loaded state may stay.
            // SAFETY: the context is alive; the sequence exists.
            unsafe { sys::llama_memory_seq_rm(self.context.memory(), signed(sequence), -1, -1) };
            return Err(failure::compute(&[], &format!("the state could not be loaded; {thrown}"), &self.context.weights().place));
        }
        self.rows.restore(sequence, &positions);
        Ok(())
    }
}

/// Sequence numbers and positions were checked to fit.
fn signed(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// `u32::MAX` means "to the end", which llama.cpp writes as -1.
fn end(p1: u32) -> i32 {
    i32::try_from(p1).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_for_a_gpu_is_as_long_as_a_stop_may_wait() {
        let mut piece = Piece::Timed { ubatch: 512, rate: None };
        assert_eq!(piece.rows(4096), 512, "nothing is known yet");
        piece.computed(512, Duration::from_millis(13));
        assert_eq!(piece.rows(4096), 3 * 512);
        assert_eq!((piece.rows(1600), piece.rows(2047), piece.rows(2048)), (1600, 2047, 1536), "a rest would be a call of its own");
        piece.computed(8, Duration::from_millis(4));
        assert_eq!(piece.rows(4096), 3 * 512, "a few rows say nothing about many");
        piece.computed(1536, Duration::from_millis(900));
        assert_eq!(piece.rows(4096), 512, "never less than one ubatch");
        assert_eq!(Piece::Whole.rows(4096), 4096);
    }
}
