//! How requests get their sequences and give them back: what [`Kept`](super::kept::Kept) decides, carried out on the session.

use super::kept::{Begin, common};
use super::plan::Share;
use super::running::Running;
use super::scheduler::Scheduler;
use crate::backend::Fault;
use crate::request::EngineError;

/// A request waits for an older one that is computing what both begin with, if that saves it so many rows.
const WORTH_WAITING: usize = 64;

impl Scheduler {
    /// Gives a sequence to every request that has none yet, the oldest first, unless it is better off when it waits for another.
    pub(super) fn begin(&mut self) -> Result<(), EngineError> {
        let mut new: Vec<usize> =
            (0..self.slots.len()).filter(|&slot| self.slots[slot].as_ref().is_some_and(|r| r.sequence.is_none())).collect();
        new.sort_unstable_by_key(|&slot| self.slots[slot].as_ref().map(|running| running.order));
        for slot in new {
            self.begin_one(slot)?;
        }
        Ok(())
    }

    fn begin_one(&mut self, slot: usize) -> Result<(), EngineError> {
        let room = (self.limits.context as usize).saturating_sub(self.running_positions());
        let Some(running) = &self.slots[slot] else { return Ok(()) };
        let (prompt, scope) = (running.may_be_cached(), &running.scope);
        let shares = self.keeps && self.limits.cuttable;
        let others = || self.slots.iter().flatten().filter(move |other| shares && other.order < running.order);
        let computed =
            || others().filter_map(|other| other.sequence.map(|sequence| (sequence, &other.tokens[..other.computed], &other.scope)));
        if self.keeps {
            let found = self.kept.found(prompt, scope, computed());
            let coming = others().filter(|other| other.scope == *scope).map(|other| common(&other.tokens, prompt)).max().unwrap_or(0);
            if coming >= found + WORTH_WAITING {
                return Ok(());
            }
        }
        let (begin, given_up) = self.kept.begin(prompt, scope, computed(), room);
        for sequence in given_up {
            self.session.remove(sequence, 0)?;
        }
        let (sequence, shared) = match begin {
            // As many sequences as slots: there is one for each.
            None => return Err(EngineError::Internal("there is no sequence for a request in a slot".into())),
            Some(Begin::Empty { sequence }) => (sequence, 0),
            Some(Begin::TakeOver { sequence, shared, whole }) => {
                if !whole {
                    self.session.remove(sequence, shared as u32)?;
                }
                (sequence, shared)
            }
            Some(Begin::Copy { sequence, source, shared }) => {
                let shared = match self.session.copy(source, sequence, shared as u32) {
                    Ok(()) => shared,
                    Err(fault @ Fault::Broken { .. }) => return Err(fault.into()),
                    // What was to save work must not end it: it is computed again.
                    Err(fault) => {
                        tracing::warn!(error = %EngineError::from(fault), "a beginning could not be copied");
                        self.session.remove(sequence, 0)?;
                        0
                    }
                };
                (sequence, shared)
            }
        };
        if let Some(running) = &mut self.slots[slot] {
            running.begin(sequence, shared);
        }
        Ok(())
    }

    /// Forgets what is kept until the rows of `shares` fit in beside it. Shared positions are counted more than once: that is too careful, never
    /// too careless.
    pub(super) fn make_room(&mut self, shares: &[Share]) -> Result<(), EngineError> {
        let rows: usize = shares.iter().map(|share| share.rows).sum();
        let running = self.running_positions();
        while running + rows + self.kept.positions() > self.limits.context as usize
            && let Some(sequence) = self.kept.forget()
        {
            self.session.remove(sequence, 0)?;
        }
        Ok(())
    }

    fn running_positions(&self) -> usize {
        self.slots.iter().flatten().map(|running| running.computed).sum()
    }

    pub(super) fn forget_all(&mut self) -> Result<(), EngineError> {
        while let Some(sequence) = self.kept.forget() {
            self.session.remove(sequence, 0)?;
        }
        Ok(())
    }

    /// Takes a request's sequence back, with its state if that is `whole`: what `computed` tokens say.
    pub(super) fn put_back(&mut self, running: &mut Running, whole: bool) -> Result<(), EngineError> {
        let Some(sequence) = running.sequence.take() else { return Ok(()) };
        if !whole || !self.keeps {
            self.session.remove(sequence, 0)?;
            self.kept.emptied(sequence);
            return Ok(());
        }
        let mut tokens = std::mem::take(&mut running.tokens);
        tokens.truncate(running.computed);
        for sequence in self.kept.keep(sequence, tokens, running.scope.take()) {
            self.session.remove(sequence, 0)?;
        }
        Ok(())
    }
}
