//! Sequences and their state.

use crate::{Allocation, Batch, ForwardLimits, PluginError};

/// Logits of the rows that wanted them, in batch order. Valid until the next call on the session.
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

/// Sequences and their state. Used by one thread at a time; keeps its model alive.
pub struct Session {}

impl Session {
    /// What was allocated.
    pub fn allocated(&self) -> Allocation {
        todo!()
    }
    /// What the model can do.
    pub fn limits(&self) -> &ForwardLimits {
        todo!()
    }
    /// Computes a batch and appends it to the state.
    pub fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits<'_>, PluginError> {
        let _ = batch;
        todo!()
    }
    /// Copies positions `p0 ..< p1` of `source` into the empty `destination`; `p1 = u32::MAX` = to the end.
    pub fn seq_copy(&mut self, source: u32, destination: u32, p0: u32, p1: u32) -> Result<(), PluginError> {
        let _ = (source, destination, p0, p1);
        todo!()
    }
    /// Removes positions `p0 ..< p1`.
    pub fn seq_remove(&mut self, sequence: u32, p0: u32, p1: u32) -> Result<(), PluginError> {
        let _ = (sequence, p0, p1);
        todo!()
    }
    /// Adds `delta` to positions `p0 ..< p1`.
    pub fn seq_shift(&mut self, sequence: u32, p0: u32, p1: u32, delta: i32) -> Result<(), PluginError> {
        let _ = (sequence, p0, p1, delta);
        todo!()
    }
    /// Bytes that [`Session::state_save`] would give now.
    pub fn state_size(&mut self, sequence: u32) -> Result<u64, PluginError> {
        let _ = sequence;
        todo!()
    }
    /// The state of one sequence.
    pub fn state_save(&mut self, sequence: u32) -> Result<Vec<u8>, PluginError> {
        let _ = sequence;
        todo!()
    }
    /// Replaces the state of one sequence.
    pub fn state_load(&mut self, sequence: u32, state: &[u8]) -> Result<(), PluginError> {
        let _ = (sequence, state);
        todo!()
    }
}
