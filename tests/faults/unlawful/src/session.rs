//! Sequences: lists of positions and tokens. Logits come from a hash of the whole list, so nothing in it can be lost unnoticed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onebit_sdk::{Allocation, Batch, Error, Input, Session};

use crate::fault;
use crate::model::VOCABULARY;

const MAGIC: &[u8; 8] = b"lawstat1";

/// Position and token, in rising order of position.
type Sequence = Vec<(u32, u32)>;

/// Spreads the bits of a number.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 31)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (value ^ (value >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// For faults that need something that is never the same twice.
fn counter() -> u64 {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    COUNTER.fetch_add(1, Ordering::Relaxed)
}

pub(crate) struct LawSession {
    allocation: Allocation,
    sequences: Vec<Sequence>,
    row_us: u64,
    logits: Vec<f32>,
}

impl LawSession {
    pub(crate) fn new(allocation: Allocation, sequences: u32, row_us: u64) -> Self {
        Self { allocation, sequences: vec![Sequence::new(); sequences as usize], row_us, logits: Vec::new() }
    }

    fn used(&self) -> usize {
        self.sequences.iter().map(Vec::len).sum()
    }

    fn check(&self, batch: &Batch<'_>) -> Result<(), Error> {
        let (have, need) = (self.allocation.context as usize, self.used() + batch.positions.len());
        if need > have && !fault::is("cuts-silently") {
            let (have, need) = if fault::is("wrong-numbers") { (need, have) } else { (have, need) };
            return Err(Error::context_overflow(have as u64, need as u64));
        }
        let mut next: Vec<Option<u32>> = self.sequences.iter().map(|sequence| sequence.last().map(|(position, _)| position + 1)).collect();
        for (position, sequence) in batch.positions.iter().zip(batch.sequences) {
            let next = &mut next[*sequence as usize];
            if next.is_some_and(|next| next != *position) && !fault::is("accepts-gaps") {
                return Err(Error::invalid_argument(format!("sequence {sequence} does not go on at position {position}")));
            }
            if next.is_none() && *position != 0 && fault::is("begins-at-zero") {
                return Err(Error::invalid_argument("a sequence begins at position 0"));
            }
            *next = Some(position + 1);
        }
        Ok(())
    }

    fn compute(&mut self, sequence: usize, row: usize, rows: usize) {
        let mut state = 0;
        let list = &self.sequences[sequence];
        let heard = if fault::is("ignores-tokens") { &list[list.len() - 1..] } else { list };
        for (position, token) in heard {
            state = mix(state ^ (u64::from(*position) << 32 | u64::from(*token)));
        }
        if fault::is("mixes-sequences") {
            state ^=
                self.sequences.iter().enumerate().filter(|(other, _)| *other != sequence).map(|(_, list)| list.len() as u64).sum::<u64>();
        }
        if fault::is("depends-on-batch") && rows > 4 {
            state ^= 1;
        }
        if fault::is("depends-on-row") {
            state ^= row as u64;
        }
        if fault::is("random") {
            state ^= counter();
        }
        let value = |index: u64| (mix(state ^ index) >> 40) as f32 / (1 << 21) as f32;
        self.logits.extend((0..u64::from(VOCABULARY)).map(value));
        if fault::is("not-a-number")
            && let Some(last) = self.logits.last_mut()
        {
            *last = f32::NAN;
        }
    }

    fn range(&self, sequence: u32, p0: u32, p1: u32) -> core::ops::Range<usize> {
        let list = &self.sequences[sequence as usize];
        let end = if p1 == u32::MAX { list.len() } else { list.partition_point(|(position, _)| *position < p1) };
        list.partition_point(|(position, _)| *position < p0).min(end)..end
    }
}

impl Session for LawSession {
    fn allocated(&self) -> Allocation {
        self.allocation
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error> {
        let Input::Tokens(tokens) = batch.input else {
            return Err(Error::unsupported("tokens only"));
        };
        if let Err(error) = self.check(batch) {
            if fault::is("keeps-refused-rows") {
                self.sequences[0].push((batch.positions[0], tokens[0]));
            }
            return Err(error);
        }
        if fault::is("leaks-batch") {
            core::mem::forget(vec![1_u8; 20 << 10]);
        }
        self.logits.clear();
        let room = (self.allocation.context as usize).saturating_sub(self.used());
        for (row, token) in tokens.iter().enumerate() {
            if batch.cancel.is_set() && !fault::is("deaf-forward") {
                if fault::is("half-cancelled") {
                    for sequence in &mut self.sequences {
                        sequence.pop();
                    }
                }
                return Err(Error::cancelled());
            }
            if self.row_us > 0 {
                std::thread::sleep(Duration::from_micros(self.row_us));
            }
            let sequence = batch.sequences[row] as usize;
            if row < room {
                self.sequences[sequence].push((batch.positions[row], *token));
            }
            let wanted = if fault::is("wrong-rows") { row < batch.wanted() } else { batch.wants_logits[row] != 0 };
            if wanted {
                self.compute(sequence, row, tokens.len());
            }
        }
        Ok(&self.logits)
    }

    fn seq_copy(&mut self, source: u32, destination: u32, p0: u32, p1: u32) -> Result<(), Error> {
        if !self.sequences[destination as usize].is_empty() && !fault::is("copy-overwrites") {
            return Err(Error::invalid_argument(format!("sequence {destination} is not empty")));
        }
        let range = if fault::is("part-copies-all") { self.range(source, 0, u32::MAX) } else { self.range(source, p0, p1) };
        let mut part = self.sequences[source as usize][range].to_vec();
        if fault::is("copy-loses-first") && !part.is_empty() {
            part.remove(0);
        }
        if fault::is("copy-takes-source") {
            self.sequences[source as usize].pop();
        }
        let (have, need) = (self.allocation.context as usize, self.used() + part.len());
        if need > have {
            return Err(Error::context_overflow(have as u64, need as u64));
        }
        self.sequences[destination as usize] = part;
        Ok(())
    }

    fn seq_remove(&mut self, sequence: u32, p0: u32, p1: u32) -> Result<(), Error> {
        let mut range = self.range(sequence, p0, p1);
        let whole = range.len() == self.sequences[sequence as usize].len();
        if fault::is("remove-keeps-first") && whole && !range.is_empty() {
            range.start += 1;
        }
        if fault::is("cut-keeps-one") && !whole && p1 == u32::MAX {
            let last = range.end.saturating_sub(1);
            // The last one stays, at the place of the first that was to go.
            let (position, token) = (self.sequences[sequence as usize][range.start].0, self.sequences[sequence as usize][last].1);
            self.sequences[sequence as usize].truncate(range.start);
            if range.start > 0 {
                self.sequences[sequence as usize][range.start - 1] = (position - 1, token);
            }
            return Ok(());
        }
        if fault::is("cut-middle-random") && !whole && p1 != u32::MAX && counter() > 0 {
            range.end -= 1;
        }
        self.sequences[sequence as usize].drain(range);
        Ok(())
    }

    fn seq_shift(&mut self, sequence: u32, p0: u32, p1: u32, delta: i32) -> Result<(), Error> {
        let range = self.range(sequence, p0, p1);
        let list = &mut self.sequences[sequence as usize];
        let mut shifted = list.clone();
        for (position, _) in &mut shifted[range] {
            *position = position.checked_add_signed(delta).ok_or_else(|| Error::invalid_argument("a position would be below 0"))?;
        }
        if shifted.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(Error::invalid_argument("positions would fall on each other"));
        }
        if fault::is("shift-forgets")
            && let Some((_, token)) = shifted.first_mut()
        {
            *token = 0;
        }
        *list = shifted;
        Ok(())
    }

    fn state_size(&mut self, sequence: u32) -> Result<u64, Error> {
        Ok(16 + 8 * self.sequences[sequence as usize].len() as u64)
    }

    fn state_save(&mut self, sequence: u32, buffer: &mut [u8]) -> Result<u64, Error> {
        let need = self.state_size(sequence)?;
        let have = buffer.len() as u64;
        if have < need {
            return Err(Error::buffer_too_small(have, if fault::is("snapshot-size") { need + 1 } else { need }));
        }
        let list = &mut self.sequences[sequence as usize];
        let bytes: Vec<u8> =
            list.iter().flat_map(|(position, token)| (u64::from(*position) << 32 | u64::from(*token)).to_le_bytes()).collect();
        if fault::is("save-disturbs") {
            list.pop();
        }
        let check = bytes.iter().fold(0, |sum, byte| mix(sum ^ u64::from(*byte)));
        let whole = [MAGIC.as_slice(), &check.to_le_bytes(), &bytes].concat();
        buffer[..whole.len()].copy_from_slice(&whole);
        Ok(need)
    }

    fn state_load(&mut self, sequence: u32, buffer: &[u8]) -> Result<(), Error> {
        let wrong = || Error::invalid_argument("these bytes are no saved state");
        let read = |bytes: &[u8]| {
            let (words, rest) = bytes.strip_prefix(MAGIC.as_slice())?.as_chunks::<8>();
            let (check, list) = words.split_first()?;
            let sum = list.iter().flatten().fold(0, |sum, byte| mix(sum ^ u64::from(*byte)));
            (rest.is_empty() && sum == u64::from_le_bytes(*check))
                .then(|| list.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>())
        };
        let list = match read(buffer) {
            None if fault::is("snapshot-unchecked") => Vec::new(),
            list => list.ok_or_else(wrong)?,
        };
        let mut list: Sequence = list.iter().map(|word| ((word >> 32) as u32, *word as u32)).collect();
        if fault::is("snapshot-loses-last")
            && let Some((_, token)) = list.last_mut()
        {
            *token = 0;
        }
        let (have, need) = (self.allocation.context as usize, self.used() - self.sequences[sequence as usize].len() + list.len());
        if need > have {
            return Err(Error::context_overflow(have as u64, need as u64));
        }
        self.sequences[sequence as usize] = list;
        Ok(())
    }
}
