//! Runs one list of operations on a session of the plugin and holds it against the oracle.

use onebit_loader::bare::SeqCall;
use onebit_loader::{ForwardModel, PluginError, Session, Status};

use super::Op;
use super::oracle::Story;
use crate::bench::Bench;
use crate::case::{Failing, Outcome, Stop, ensure, fail};
use crate::rows::{Cell, Row, Shape, submit};

/// A session under test and what it must hold.
struct Subject<'a> {
    bench: &'a Bench,
    forward: ForwardModel,
    shape: Shape,
    session: Session,
    stories: Vec<Story>,
    saved: [Option<(Vec<u8>, Story)>; 2],
}

/// Runs a list. The failure names the operation by its number, from 1.
pub(crate) fn attempt(bench: &Bench, ops: &[Op]) -> Outcome {
    let forward = bench.forward()?;
    let shape = bench.shape()?;
    let session = shape.open(&forward)?;
    let stories = vec![Story::default(); shape.sequences as usize];
    let mut subject = Subject { bench, forward, shape, session, stories, saved: [None, None] };
    for (number, op) in (1..).zip(ops) {
        bench.step(&format!("operation {number}: {op:?}"));
        subject.run(op).map_err(|stop| match stop {
            Stop::Failed(text) => Stop::Failed(format!("operation {number} ({op:?}): {text}")),
            other => other,
        })?;
    }
    bench.step("after the last operation");
    subject.finish()
}

impl Subject<'_> {
    fn index(&self, sequence: u8) -> u32 {
        u32::from(sequence) % self.shape.sequences
    }

    fn story(&self, sequence: u32) -> Result<&Story, Stop> {
        self.stories.get(sequence as usize).ok_or_else(|| Stop::Failed("the kit lost a sequence".into()))
    }

    fn set(&mut self, sequence: u32, story: Story) {
        if let Some(place) = self.stories.get_mut(sequence as usize) {
            *place = story;
        }
    }

    /// Whether `more` positions fit beside what there is.
    fn fits(&self, more: usize) -> bool {
        // One position for each sequence stays free, for the check at the end.
        self.stories.iter().map(Story::len).sum::<usize>() + more + self.stories.len() <= self.shape.context as usize
    }

    fn run(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Forward { rows, start } => self.compute(rows, u32::from(*start)),
            Op::Copy { from, to, keep } => self.copy(self.index(*from), self.index(*to), *keep),
            Op::Remove { sequence } => {
                let sequence = self.index(*sequence);
                self.session.seq_remove(sequence, 0, u32::MAX).failed("removing a whole sequence")?;
                self.set(sequence, Story::default());
                Ok(())
            }
            Op::Cut { sequence, keep } => self.cut(self.index(*sequence), usize::from(*keep), None),
            Op::CutMiddle { sequence, keep, gone } => self.cut(self.index(*sequence), usize::from(*keep), Some(usize::from(*gone))),
            Op::Shift { sequence, delta } => self.shift(self.index(*sequence), i32::from(*delta)),
            Op::Save { sequence, slot } => self.save(self.index(*sequence), usize::from(*slot)),
            Op::Load { sequence, slot } => self.load(self.index(*sequence), usize::from(*slot)),
            Op::LoadTorn { sequence, slot, missing } => self.load_torn(self.index(*sequence), usize::from(*slot), usize::from(*missing)),
            Op::Gap { sequence, rows } => self.gap(self.index(*sequence), u32::from(*rows)),
            Op::NoSuchToken { sequence } => {
                let (sequence, vocabulary) = (self.index(*sequence), self.forward.limits().vocabulary);
                let next = self.story(sequence)?.next().unwrap_or(0);
                self.refused(&[(0, next, sequence), (vocabulary, next + 1, sequence)])
            }
            Op::NoSuchSequence { sequence } => {
                let sequence = self.index(*sequence);
                let next = self.story(sequence)?.next().unwrap_or(0);
                self.refused(&[(0, next, sequence), (0, 0, self.shape.sequences)])
            }
        }
    }

    fn compute(&mut self, rows: &[(u8, u16)], start: u32) -> Outcome {
        if !self.fits(rows.len()) || rows.len() > self.shape.batch as usize {
            return Ok(());
        }
        let vocabulary = self.forward.limits().vocabulary;
        let mut after = self.stories.clone();
        let mut batch: Vec<Cell> = Vec::new();
        for (sequence, token) in rows {
            let (sequence, token) = (self.index(*sequence), u32::from(*token) % vocabulary);
            if let Some(story) = after.get_mut(sequence as usize) {
                let position = story.next().unwrap_or(start);
                story.append(position, token);
                batch.push((token, position, sequence));
            }
        }
        // Of each sequence the last row is looked at.
        let last = |index: usize| batch[index + 1..].iter().all(|row| row.2 != batch[index].2);
        let logits = submit(&mut self.session, &batch, last).failed("a valid batch")?;
        let wanted: Vec<usize> = (0..batch.len()).filter(|index| last(*index)).collect();
        ensure!(logits.len() == wanted.len(), "{} rows of logits, {} were wanted", logits.len(), wanted.len());
        for (index, got) in wanted.iter().zip(&logits) {
            let (token, position, sequence) = batch[*index];
            let mut before = after.get(sequence as usize).cloned().unwrap_or_default();
            before.remove(position, u32::MAX);
            self.compare(&before, (token, position), got, sequence)?;
        }
        self.stories = after;
        Ok(())
    }

    fn compare(&self, before: &Story, next: (u32, u32), got: &Row, sequence: u32) -> Outcome {
        let told = before.told(&self.forward, self.shape, next)?;
        self.bench.close(&format!("sequence {sequence} against the same in a new session"), std::slice::from_ref(got), &[told])
    }

    fn copy(&mut self, from: u32, to: u32, keep: Option<u8>) -> Outcome {
        let (source, busy) = (self.story(from)?.clone(), !self.story(to)?.is_empty());
        if from == to || busy {
            let refused = self.session.seq_unchecked(SeqCall::Copy, from, to, [0, u32::MAX], 0);
            return self.is_refused("a copy onto a sequence that is not empty", refused);
        }
        let end = keep.map_or(u32::MAX, |keep| source.at(usize::from(keep)));
        let mut part = source.clone();
        part.remove(end, u32::MAX);
        if !self.fits(part.len()) {
            return Ok(());
        }
        match self.session.seq_copy(from, to, 0, end) {
            Err(error) if self.may_not_cut(&error) && part != source => Ok(()),
            result => {
                result.failed("a copy into an empty sequence")?;
                self.set(to, part);
                Ok(())
            }
        }
    }

    fn may_not_cut(&self, error: &PluginError) -> bool {
        error.status == Status::UNSUPPORTED && !self.forward.limits().cut
    }

    fn cut(&mut self, sequence: u32, keep: usize, gone: Option<usize>) -> Outcome {
        let story = self.story(sequence)?;
        let p0 = story.at(keep);
        let p1 = gone.map_or(u32::MAX, |gone| story.at(keep + gone));
        if p0 >= p1 {
            return Ok(());
        }
        match self.session.seq_remove(sequence, p0, p1) {
            Err(error) if self.may_not_cut(&error) => Ok(()),
            result => {
                result.failed("removing a part")?;
                let mut story = self.story(sequence)?.clone();
                story.remove(p0, p1);
                self.set(sequence, story);
                Ok(())
            }
        }
    }

    fn shift(&mut self, sequence: u32, delta: i32) -> Outcome {
        if !self.forward.limits().shift {
            return Ok(());
        }
        let result = self.session.seq_shift(sequence, 0, u32::MAX, delta);
        match self.story(sequence)?.shifted(delta) {
            Some(shifted) => {
                result.failed("a shift")?;
                self.set(sequence, shifted);
                Ok(())
            }
            None => self.is_refused("a shift below position 0", result),
        }
    }

    fn save(&mut self, sequence: u32, slot: usize) -> Outcome {
        if !self.forward.limits().snapshot {
            return Ok(());
        }
        let state = self.session.state_save(sequence).failed("saving a sequence")?;
        let story = self.story(sequence)?.clone();
        if let Some(place) = self.saved.get_mut(slot) {
            *place = Some((state, story));
        }
        Ok(())
    }

    fn load(&mut self, sequence: u32, slot: usize) -> Outcome {
        let Some(Some((state, story))) = self.saved.get(slot).cloned() else { return Ok(()) };
        if !self.fits(story.len()) {
            return Ok(());
        }
        self.session.state_load(sequence, &state).failed("loading what was saved")?;
        self.set(sequence, story);
        Ok(())
    }

    fn load_torn(&mut self, sequence: u32, slot: usize, missing: usize) -> Outcome {
        let Some(Some((state, _))) = self.saved.get(slot).cloned() else { return Ok(()) };
        let left = state.len().saturating_sub(missing.max(1));
        let result = self.session.state_load(sequence, &state[..left]);
        // A shorter state may be a state of its own, of fewer positions; then nothing is known of the sequence, and it is emptied.
        match result {
            Ok(()) => {
                self.session.seq_remove(sequence, 0, u32::MAX).failed("removing a whole sequence")?;
                self.set(sequence, Story::default());
                Ok(())
            }
            refused => self.is_refused("a state without its end", refused),
        }
    }

    fn gap(&mut self, sequence: u32, rows: u32) -> Outcome {
        let next = self.story(sequence)?.next();
        if next.is_none() && rows == 0 {
            return Ok(());
        }
        let start = next.unwrap_or(0);
        let mut batch: Vec<Cell> = (0..rows).map(|row| (0, start + row, sequence)).collect();
        batch.push((0, start + rows + 1, sequence));
        self.refused(&batch)
    }

    fn refused(&mut self, batch: &[Cell]) -> Outcome {
        if !self.fits(batch.len()) || batch.len() > self.shape.batch as usize {
            return Ok(());
        }
        let result = submit(&mut self.session, batch, |_| true).map(|_| ());
        self.is_refused("a batch that breaks the rules", result)
    }

    fn is_refused(&self, what: &str, result: Result<(), PluginError>) -> Outcome {
        match result {
            Err(error) if error.status == Status::INVALID_ARGUMENT || error.status == Status::UNSUPPORTED => Ok(()),
            Err(error) => fail!("{what} is to be refused with invalid_argument, not with {error}"),
            Ok(()) => fail!("{what} is to be refused, and was accepted"),
        }
    }

    /// Every sequence goes on as it should.
    fn finish(&mut self) -> Outcome {
        for (sequence, story) in (0..).zip(self.stories.clone()) {
            let next = (1 % self.forward.limits().vocabulary, story.next().unwrap_or(0));
            let rows = submit(&mut self.session, &[(next.0, next.1, sequence)], |_| true).failed("one more token")?;
            let got = rows.first().ok_or_else(|| Stop::Failed("one row was wanted and none came".into()))?;
            self.compare(&story, next, got, sequence)?;
        }
        Ok(())
    }
}
