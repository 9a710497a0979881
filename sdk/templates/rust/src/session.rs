//! Sequences, and batches that append to them.
//!
//! The state of a sequence is the list of its tokens and their positions, so that copying, cutting, moving and saving it is exact, as the
//! contract demands of every plugin: exact, or unsupported.

use std::sync::Arc;
use std::time::Duration;

use onebit_sdk::{Allocation, Batch, Error, Input, Session};

use crate::table::{END, Table, VOCABULARY};

const SNAPSHOT_MAGIC: &[u8; 8] = b"ngramst1";

/// Position and token, in rising order of position.
type Sequence = Vec<(u32, u32)>;

/// Used by one thread at a time; the SDK sees to it.
pub(crate) struct NgramSession {
    table: Arc<Table>,
    allocation: Allocation,
    sequences: Vec<Sequence>,
    row_us: u64,
    logits: Vec<f32>,
}

impl NgramSession {
    pub(crate) fn new(table: Arc<Table>, allocation: Allocation, sequences: u32, row_us: u64) -> Self {
        Self { table, allocation, sequences: vec![Sequence::new(); sequences as usize], row_us, logits: Vec::new() }
    }

    fn sequence(&mut self, sequence: u32) -> Result<&mut Sequence, Error> {
        self.sequences.get_mut(sequence as usize).ok_or_else(|| Error::invalid_argument(format!("there is no sequence {sequence}")))
    }

    /// The context is shared: the positions of all sequences together must fit.
    fn check_room(&self, more: usize) -> Result<(), Error> {
        let need = self.sequences.iter().map(Vec::len).sum::<usize>() + more;
        let have = self.allocation.context;
        if need > have as usize { Err(Error::context_overflow(have.into(), need as u64)) } else { Ok(()) }
    }
}

/// The entries at positions `p0 ..< p1`.
fn range(sequence: &Sequence, p0: u32, p1: u32) -> core::ops::Range<usize> {
    let end = if p1 == u32::MAX { sequence.len() } else { sequence.partition_point(|(position, _)| *position < p1) };
    sequence.partition_point(|(position, _)| *position < p0).min(end)..end
}

impl Session for NgramSession {
    fn allocated(&self) -> Allocation {
        self.allocation
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error> {
        let Input::Tokens(tokens) = batch.input else {
            return Err(Error::unsupported("this model takes tokens only"));
        };
        self.check_room(tokens.len())?;
        // First look, then change: a refused batch leaves the state as it was.
        let mut next: Vec<u32> = self.sequences.iter().map(|sequence| sequence.last().map_or(0, |(position, _)| position + 1)).collect();
        let mut started: Vec<bool> = self.sequences.iter().map(|sequence| !sequence.is_empty()).collect();
        for (position, sequence) in batch.positions.iter().zip(batch.sequences) {
            let index = *sequence as usize;
            // An empty sequence may begin anywhere: what stood before may have been cut away.
            if started[index] && *position != next[index] {
                return Err(Error::invalid_argument(format!("sequence {sequence} goes on at position {}, not {position}", next[index])));
            }
            started[index] = true;
            next[index] = position + 1;
        }
        self.logits.clear();
        for (row, token) in tokens.iter().enumerate() {
            // After a cancelled batch the host removes its rows, those that entered the state and those that did not.
            batch.cancel.check()?;
            if self.row_us > 0 {
                std::thread::sleep(Duration::from_micros(self.row_us));
            }
            let sequence = &mut self.sequences[batch.sequences[row] as usize];
            let position = batch.positions[row];
            let before = match sequence.last() {
                Some((last, token)) if last + 1 == position => *token,
                _ => END,
            };
            sequence.push((position, *token));
            if batch.wants_logits[row] != 0 {
                let before = if *token == END { END } else { before };
                self.table.logits(before, *token, &mut self.logits);
            }
        }
        debug_assert_eq!(self.logits.len(), batch.wanted() * VOCABULARY as usize);
        Ok(&self.logits)
    }

    fn seq_copy(&mut self, source: u32, destination: u32, p0: u32, p1: u32) -> Result<(), Error> {
        let from = self.sequence(source)?;
        let part = from[range(from, p0, p1)].to_vec();
        if !self.sequence(destination)?.is_empty() {
            return Err(Error::invalid_argument(format!("sequence {destination} is not empty")));
        }
        self.check_room(part.len())?;
        *self.sequence(destination)? = part;
        Ok(())
    }

    fn seq_remove(&mut self, sequence: u32, p0: u32, p1: u32) -> Result<(), Error> {
        let sequence = self.sequence(sequence)?;
        sequence.drain(range(sequence, p0, p1));
        Ok(())
    }

    /// Moves positions, for a host that cuts the oldest part out of a long conversation. Logits here do not depend on positions, so it is
    /// exact.
    fn seq_shift(&mut self, sequence: u32, p0: u32, p1: u32, delta: i32) -> Result<(), Error> {
        let sequence = self.sequence(sequence)?;
        let range = range(sequence, p0, p1);
        let mut shifted = sequence.clone();
        for (position, _) in &mut shifted[range] {
            *position = position.checked_add_signed(delta).ok_or_else(|| Error::invalid_argument("a position would be below 0"))?;
        }
        if shifted.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(Error::invalid_argument("positions would fall on each other"));
        }
        *sequence = shifted;
        Ok(())
    }

    fn state_size(&mut self, sequence: u32) -> Result<u64, Error> {
        Ok((SNAPSHOT_MAGIC.len() + self.sequence(sequence)?.len() * 8) as u64)
    }

    fn state_save(&mut self, sequence: u32, buffer: &mut [u8]) -> Result<u64, Error> {
        let need = self.state_size(sequence)?;
        let have = buffer.len() as u64;
        let place = buffer.get_mut(..need as usize).ok_or_else(|| Error::buffer_too_small(have, need))?;
        let mut bytes = SNAPSHOT_MAGIC.to_vec();
        for (position, token) in self.sequence(sequence)?.iter() {
            bytes.extend(position.to_le_bytes());
            bytes.extend(token.to_le_bytes());
        }
        place.copy_from_slice(&bytes);
        Ok(need)
    }

    /// The bytes may come from a file that somebody else wrote: all are checked before the first is used.
    fn state_load(&mut self, sequence: u32, buffer: &[u8]) -> Result<(), Error> {
        let wrong = || Error::invalid_argument("these bytes are no saved state of this plugin");
        let pairs = buffer.strip_prefix(SNAPSHOT_MAGIC.as_slice()).ok_or_else(wrong)?;
        if pairs.len() % 8 != 0 {
            return Err(wrong());
        }
        let number = |four: &[u8]| four.iter().rev().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
        let loaded: Sequence = pairs.chunks_exact(8).map(|pair| (number(&pair[..4]), number(&pair[4..]))).collect();
        let rising = loaded.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !rising || loaded.iter().any(|(position, token)| *token >= VOCABULARY || *position == u32::MAX) {
            return Err(wrong());
        }
        let old = core::mem::take(self.sequence(sequence)?);
        if let Err(error) = self.check_room(loaded.len()) {
            *self.sequence(sequence)? = old;
            return Err(error);
        }
        *self.sequence(sequence)? = loaded;
        Ok(())
    }
}
