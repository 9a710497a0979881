//! Which positions each sequence has, and how many places of the cache that takes.
//!
//! llama.cpp rounds the cache up and shares places between copied sequences, and it tells neither how many are left nor which positions
//! are there. The contract needs both: a context of exactly the size asked for, and rows that follow their sequence without a gap. So the
//! session keeps this book beside it; what the book refuses never reaches llama.cpp.

use std::collections::HashMap;

use onebit_sdk::Error;

/// One position of a sequence and the place its state lies in; copies share places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    position: u32,
    place: u64,
}

/// The book of one session.
#[derive(Debug)]
pub struct Rows {
    context: u32,
    sequences: Vec<Vec<Row>>,
    /// Sequences that use a place; a place that nobody uses is not here.
    users: HashMap<u64, u32>,
    next_place: u64,
}

impl Rows {
    /// Empty sequences in a context of `context` positions.
    pub fn new(context: u32, sequences: u32) -> Self {
        Self { context, sequences: vec![Vec::new(); sequences as usize], users: HashMap::new(), next_place: 0 }
    }

    /// Places in use.
    pub fn used(&self) -> u64 {
        self.users.len() as u64
    }

    fn rows(&self, sequence: u32) -> Result<&Vec<Row>, Error> {
        self.sequences
            .get(sequence as usize)
            .ok_or_else(|| Error::invalid_argument(format!("sequence {sequence}: this session has {} sequences", self.sequences.len())))
    }

    /// Whether a sequence has no positions.
    pub fn is_empty(&self, sequence: u32) -> Result<bool, Error> {
        Ok(self.rows(sequence)?.is_empty())
    }

    /// Positions of a sequence, rising.
    pub fn positions(&self, sequence: u32) -> Result<impl ExactSizeIterator<Item = u32>, Error> {
        Ok(self.rows(sequence)?.iter().map(|row| row.position))
    }

    /// Whether `p0 ..< p1` is everything the sequence has.
    pub fn is_whole(&self, sequence: u32, p0: u32, p1: u32) -> Result<bool, Error> {
        Ok(self.rows(sequence)?.iter().all(|row| (p0..p1).contains(&row.position)))
    }

    /// Checks that a batch follows what is there and fits. Nothing is entered.
    pub fn check(&self, positions: &[u32], sequences: &[u32]) -> Result<(), Error> {
        let mut next: HashMap<u32, Option<u32>> = HashMap::new();
        for (&position, &sequence) in positions.iter().zip(sequences) {
            let expected = match next.get(&sequence) {
                Some(known) => *known,
                None => self.rows(sequence)?.last().map(|row| row.position.wrapping_add(1)),
            };
            // An empty sequence may begin anywhere; positions are signed on the other side.
            if expected.is_some_and(|expected| expected != position) || position >= i32::MAX as u32 {
                let expected = expected.map_or_else(|| "0".to_owned(), |p| p.to_string());
                return Err(Error::invalid_argument(format!(
                    "sequence {sequence}: position {position} does not follow, expected {expected}"
                )));
            }
            next.insert(sequence, Some(position + 1));
        }
        let need = self.used() + positions.len() as u64;
        if need > u64::from(self.context) { Err(Error::context_overflow(self.context.into(), need)) } else { Ok(()) }
    }

    /// Enters a batch that was checked and computed.
    pub fn enter(&mut self, positions: &[u32], sequences: &[u32]) {
        for (&position, &sequence) in positions.iter().zip(sequences) {
            let place = self.take_place();
            if let Some(rows) = self.sequences.get_mut(sequence as usize) {
                rows.push(Row { position, place });
            }
        }
    }

    fn take_place(&mut self) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.users.insert(place, 1);
        place
    }

    /// Lets `destination`, which must be empty, share `p0 ..< p1` of `source`.
    pub fn copy(&mut self, source: u32, destination: u32, p0: u32, p1: u32) -> Result<(), Error> {
        if !self.is_empty(destination)? {
            return Err(Error::invalid_argument(format!("sequence {destination} is not empty; a copy needs an empty destination")));
        }
        let shared: Vec<Row> = self.rows(source)?.iter().copied().filter(|row| (p0..p1).contains(&row.position)).collect();
        for row in &shared {
            *self.users.entry(row.place).or_insert(0) += 1;
        }
        if let Some(rows) = self.sequences.get_mut(destination as usize) {
            *rows = shared;
        }
        Ok(())
    }

    /// Removes `p0 ..< p1`.
    pub fn remove(&mut self, sequence: u32, p0: u32, p1: u32) -> Result<(), Error> {
        self.rows(sequence)?;
        let Some(rows) = self.sequences.get_mut(sequence as usize) else {
            return Ok(());
        };
        let (gone, kept) = rows.drain(..).partition(|row: &Row| (p0..p1).contains(&row.position));
        *rows = kept;
        let gone: Vec<Row> = gone;
        for row in gone {
            if let Some(users) = self.users.get_mut(&row.place) {
                *users -= 1;
                if *users == 0 {
                    self.users.remove(&row.place);
                }
            }
        }
        Ok(())
    }

    /// Gives an empty sequence the positions of a state that was loaded.
    pub fn restore(&mut self, sequence: u32, positions: &[u32]) {
        let sequences = vec![sequence; positions.len()];
        self.enter(positions, &sequences);
    }

    /// Places that would be in use if `sequence` were replaced by `count` rows of its own.
    pub fn used_with(&self, sequence: u32, count: u64) -> Result<u64, Error> {
        let freed = self.rows(sequence)?.iter().filter(|row| self.users.get(&row.place) == Some(&1)).count();
        Ok(self.used() - freed as u64 + count)
    }

    /// Positions in all sequences together, as asked for.
    pub fn context(&self) -> u32 {
        self.context
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Rows {
        let mut rows = Rows::new(10, 3);
        rows.check(&[0, 1, 0], &[0, 0, 1]).expect("fits");
        rows.enter(&[0, 1, 0], &[0, 0, 1]);
        rows
    }

    #[test]
    fn a_gap_is_refused_with_the_position_that_was_expected() {
        let rows = filled();
        assert!(rows.check(&[2], &[0]).is_ok());
        let error = rows.check(&[3], &[0]).expect_err("a gap");
        assert!(error.message().contains("expected 2"), "{error}");
        assert!(rows.check(&[1, 3], &[1, 1]).is_err());
        assert!(rows.check(&[2, 1, 3], &[0, 1, 0]).is_ok());
        assert!(rows.check(&[0], &[3]).is_err(), "there is no sequence 3");
    }

    #[test]
    fn the_context_is_exactly_as_large_as_asked_for() {
        let rows = filled();
        let seven: Vec<u32> = (2..9).collect();
        assert!(rows.check(&seven, &[0; 7]).is_ok());
        let eight: Vec<u32> = (2..10).collect();
        let error = rows.check(&eight, &[0; 8]).expect_err("one too many");
        assert_eq!(error, Error::context_overflow(10, 11));
    }

    #[test]
    fn copies_share_places_until_the_last_user_leaves() {
        let mut rows = filled();
        rows.copy(0, 2, 0, 2).expect("empty destination");
        assert_eq!(rows.used(), 3);
        rows.remove(0, 0, u32::MAX).expect("there");
        assert_eq!(rows.used(), 3, "sequence 2 still uses them");
        assert!(rows.copy(1, 2, 0, u32::MAX).is_err(), "not empty");
        rows.remove(2, 1, u32::MAX).expect("there");
        assert_eq!(rows.used(), 2);
        assert_eq!(rows.positions(2).expect("there").collect::<Vec<_>>(), [0]);
        assert!(rows.is_whole(2, 0, 1).expect("there"));
    }

    #[test]
    fn a_restored_state_counts_as_its_own_rows() {
        let mut rows = filled();
        assert_eq!(rows.used_with(0, 5).expect("there"), 6);
        rows.remove(0, 0, u32::MAX).expect("there");
        rows.restore(0, &[0, 1, 2, 3, 4]);
        assert_eq!(rows.used(), 6);
        assert!(rows.check(&[5], &[0]).is_ok());
    }
}
