//! Sequences: lists of tokens, which are only ever made longer or cut at their end.

use std::sync::Arc;

use onebit_sdk::{Allocation, Batch, Error, Input, Session};

use crate::script::{Script, VOCABULARY};

pub(crate) struct ScriptedSession {
    script: Arc<Script>,
    allocation: Allocation,
    sequences: Vec<Vec<u32>>,
    logits: Vec<f32>,
}

impl ScriptedSession {
    pub(crate) fn new(script: Arc<Script>, allocation: Allocation, sequences: u32) -> Self {
        Self { script, allocation, sequences: vec![Vec::new(); sequences as usize], logits: Vec::new() }
    }

    fn sequence(&mut self, sequence: u32) -> Result<&mut Vec<u32>, Error> {
        self.sequences.get_mut(sequence as usize).ok_or_else(|| Error::invalid_argument(format!("there is no sequence {sequence}")))
    }
}

impl Session for ScriptedSession {
    fn allocated(&self) -> Allocation {
        self.allocation
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error> {
        let Input::Tokens(tokens) = batch.input else {
            return Err(Error::unsupported("this model takes tokens only"));
        };
        self.logits.clear();
        for (row, token) in tokens.iter().enumerate() {
            batch.cancel.check()?;
            let sequence = self.sequence(batch.sequences[row])?;
            if sequence.len() != batch.positions[row] as usize {
                return Err(Error::invalid_argument(format!("the sequence goes on at position {}", sequence.len())));
            }
            sequence.push(*token);
            if batch.wants_logits[row] != 0 {
                let next = self.script.next(&self.sequences[batch.sequences[row] as usize]) as usize;
                self.logits.extend((0..VOCABULARY as usize).map(|token| if token == next { 100.0 } else { 0.0 }));
            }
        }
        Ok(&self.logits)
    }

    fn seq_copy(&mut self, source: u32, destination: u32, p0: u32, p1: u32) -> Result<(), Error> {
        let from = self.sequence(source)?;
        let end = from.len().min(p1 as usize);
        if p0 != 0 {
            return Err(Error::unsupported("only the beginning of a sequence can be copied"));
        }
        *self.sequence(destination)? = self.sequences[source as usize][..end].to_vec();
        Ok(())
    }

    fn seq_remove(&mut self, sequence: u32, p0: u32, p1: u32) -> Result<(), Error> {
        let sequence = self.sequence(sequence)?;
        if (p1 as usize) < sequence.len() {
            return Err(Error::unsupported("only the end of a sequence can be cut"));
        }
        sequence.truncate(p0 as usize);
        Ok(())
    }
}
