//! Stop strings, found across token borders, in time linear in the text.
//!
//! Each stop string is an automaton (Knuth, Morris, Pratt) that knows how much of it the text ends with. The longest such beginning is
//! what must be held back: not a byte more, so text flows as early as it can, and not a byte less, so no part of a stop string leaves.
//! A stop string of any length costs its length once.
//!
//! The first match is the one that is complete first; of those that end at the same byte, the longest. So the answer does not depend on
//! how the text came in pieces.

/// A stop string was completed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// Which one.
    pub(crate) stop: usize,
    /// Bytes of the text before it, counted from the first byte ever pushed.
    pub(crate) start: usize,
}

#[derive(Debug)]
struct Automaton {
    pattern: Box<[u8]>,
    /// `fallback[i]`: longest proper beginning of the pattern that is also an end of its first `i + 1` bytes.
    fallback: Box<[u32]>,
    matched: usize,
}

impl Automaton {
    fn new(pattern: &str) -> Self {
        let pattern: Box<[u8]> = pattern.as_bytes().into();
        let mut fallback = vec![0u32; pattern.len()].into_boxed_slice();
        let mut length = 0usize;
        for i in 1..pattern.len() {
            while length > 0 && pattern[i] != pattern[length] {
                length = fallback[length - 1] as usize;
            }
            if pattern[i] == pattern[length] {
                length += 1;
            }
            // A stop string is far shorter than 4 GiB: the text of a whole request is bounded well below.
            fallback[i] = u32::try_from(length).unwrap_or(u32::MAX);
        }
        Self { pattern, fallback, matched: 0 }
    }

    /// True when the pattern is complete.
    fn step(&mut self, byte: u8) -> bool {
        while self.matched > 0 && self.pattern[self.matched] != byte {
            self.matched = self.fallback[self.matched - 1] as usize;
        }
        if self.pattern[self.matched] == byte {
            self.matched += 1;
        }
        self.matched == self.pattern.len()
    }
}

/// All stop strings of a request. None may be empty.
#[derive(Debug)]
pub(crate) struct Stops {
    automata: Vec<Automaton>,
    seen: usize,
}

impl Stops {
    /// Prepares `stops`. Empty ones are left out: they were refused before.
    pub(crate) fn new(stops: &[String]) -> Self {
        Self { automata: stops.iter().filter(|stop| !stop.is_empty()).map(|stop| Automaton::new(stop)).collect(), seen: 0 }
    }

    /// Takes more text. After a match nothing more may be pushed.
    pub(crate) fn push(&mut self, text: &str) -> Option<Match> {
        if self.automata.is_empty() {
            self.seen += text.len();
            return None;
        }
        for byte in text.bytes() {
            self.seen += 1;
            let mut found: Option<(usize, usize)> = None;
            for (index, automaton) in self.automata.iter_mut().enumerate() {
                if automaton.step(byte) && found.is_none_or(|(_, length)| automaton.pattern.len() > length) {
                    found = Some((index, automaton.pattern.len()));
                }
            }
            if let Some((stop, length)) = found {
                return Some(Match { stop, start: self.seen - length });
            }
        }
        None
    }

    /// Bytes at the end of the text that may become part of a stop string.
    pub(crate) fn held(&self) -> usize {
        self.automata.iter().map(|automaton| automaton.matched).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(stops: &[&str], text: &str) -> Option<Match> {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        Stops::new(&stops).push(text)
    }

    #[test]
    fn of_two_stops_the_one_complete_first_wins_and_of_those_the_longest() {
        assert_eq!(first(&["abcd", "c"], "xabcd"), Some(Match { stop: 1, start: 3 }));
        assert_eq!(first(&["c", "bc"], "abc"), Some(Match { stop: 1, start: 1 }));
        assert_eq!(first(&["zz"], "abc"), None);
    }

    #[test]
    fn a_beginning_that_repeats_itself_is_held_exactly() {
        let mut stops = Stops::new(&["aab".to_owned()]);
        assert_eq!(stops.push("aaa"), None);
        assert_eq!(stops.held(), 2);
        assert_eq!(stops.push("b"), Some(Match { stop: 0, start: 1 }));
    }

    #[test]
    fn a_stop_string_of_200000_equal_letters_costs_linear_time() {
        let long = "A".repeat(200_000);
        let mut stops = Stops::new(&[format!("{long}B")]);
        let begin = std::time::Instant::now();
        assert_eq!(stops.push(&long), None);
        assert_eq!(stops.push(&long), None);
        assert_eq!(stops.held(), 200_000);
        assert!(begin.elapsed() < std::time::Duration::from_secs(1));
    }
}
