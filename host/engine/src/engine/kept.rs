//! State that is kept when its request has ended, and who may go on from it.
//!
//! The next turn of a conversation begins with everything that was said, and many conversations begin with the same instructions: their
//! state is in the session already. A new request therefore looks for the sequence that agrees with its prompt the longest, takes it over if
//! it goes on from its end, and else copies what both have in common. What nobody asks for is forgotten, the longest unused first, as soon as
//! a sequence or a position is needed.
//!
//! State is only ever shared within one scope: whoever can measure that a prompt was there before learns what others have asked.
//!
//! Pure bookkeeping: no plugin, no clock. The scheduler carries out what is decided here.

use crate::request::TokenId;

/// Fewer tokens than this are computed again sooner than they are looked for and copied.
const LEAST: usize = 16;

/// Who may see by the time an answer takes that somebody has asked the same.
pub(crate) type Scope = Option<String>;

/// The sequences that no request has.
pub(crate) struct Kept {
    /// With state, the longest unused first.
    entries: Vec<Entry>,
    /// Without.
    empty: Vec<u32>,
    /// Sequences can be cut and copied in parts.
    cuttable: bool,
}

/// A sequence and the tokens its state is of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    sequence: u32,
    tokens: Vec<TokenId>,
    scope: Scope,
}

/// How a request gets its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// With an empty one.
    Empty {
        /// The sequence.
        sequence: u32,
    },
    /// It takes over a kept one, of which the first `shared` positions are its own.
    TakeOver {
        /// The sequence.
        sequence: u32,
        /// Positions.
        shared: usize,
        /// There are no others; otherwise they must be removed.
        whole: bool,
    },
    /// With an empty one, into which the first `shared` positions of `source` must be copied.
    Copy {
        /// The sequence.
        sequence: u32,
        /// Whose state it is.
        source: u32,
        /// Positions.
        shared: usize,
    },
}

impl Kept {
    /// All sequences are empty.
    pub(crate) fn new(sequences: u32, cuttable: bool) -> Self {
        // The lowest first.
        Self { entries: Vec::new(), empty: (0..sequences).rev().collect(), cuttable }
    }

    /// Positions that are kept.
    pub(crate) fn positions(&self) -> usize {
        self.entries.iter().map(|entry| entry.tokens.len()).sum()
    }

    /// Nothing is kept.
    pub(crate) fn is_bare(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many tokens of `prompt` a request with it would find: of what is kept, or of one of `others`, sequences of requests that run, with the
    /// tokens of which they hold the state.
    pub(crate) fn found<'a>(
        &self,
        prompt: &[TokenId],
        scope: &Scope,
        others: impl Iterator<Item = (u32, &'a [TokenId], &'a Scope)>,
    ) -> usize {
        let kept = self.entries.iter().map(|entry| self.shared(entry, prompt, scope)).max().unwrap_or(0);
        let running = others.map(|other| self.shared_with_running(other, prompt, scope)).max().unwrap_or(0);
        kept.max(running)
    }

    /// Gives a request its sequence; `None` = there are more requests than sequences. Copied positions are positions more, so others are given up
    /// until all that is kept takes no more than `room`. The sequences of the second part must be emptied before anything else is done.
    pub(crate) fn begin<'a>(
        &mut self,
        prompt: &[TokenId],
        scope: &Scope,
        others: impl Iterator<Item = (u32, &'a [TokenId], &'a Scope)>,
        room: usize,
    ) -> (Option<Begin>, Vec<u32>) {
        let mut given_up = Vec::new();
        let running = others.map(|other| (self.shared_with_running(other, prompt, scope), other.0)).max().filter(|(shared, _)| *shared > 0);
        let kept = (0..self.entries.len()).map(|index| (self.shared(&self.entries[index], prompt, scope), index)).max();
        let begin = match (kept.filter(|(shared, _)| *shared > 0), running) {
            (Some((shared, index)), running) if running.is_none_or(|(other, _)| other <= shared) => {
                Some(self.go_on(index, shared, room, &mut given_up))
            }
            (_, Some((shared, source))) => self.free(shared, room, &mut given_up).map(|sequence| Begin::Copy { sequence, source, shared }),
            _ => self.free(0, usize::MAX, &mut given_up).map(|sequence| Begin::Empty { sequence }),
        };
        (begin, given_up)
    }

    /// From an entry: takes it over if nobody else could want its rest or there is no place for two, else copies.
    fn go_on(&mut self, index: usize, shared: usize, room: usize, given_up: &mut Vec<u32>) -> Begin {
        // Not in the list, it is not given up.
        let entry = self.entries.remove(index);
        let source = entry.sequence;
        let whole = shared == entry.tokens.len();
        let copy = if whole { None } else { self.free(entry.tokens.len() + shared, room, given_up) };
        match copy {
            Some(sequence) => {
                self.entries.push(entry);
                Begin::Copy { sequence, source, shared }
            }
            None => Begin::TakeOver { sequence: source, shared, whole },
        }
    }

    /// An empty sequence and `more` positions beside all that is kept, if that can be had.
    fn free(&mut self, more: usize, room: usize, given_up: &mut Vec<u32>) -> Option<u32> {
        while self.empty.is_empty() || self.positions() + more > room {
            given_up.push(self.forget()?);
        }
        self.empty.pop()
    }

    /// Keeps the state of a request that has ended. The sequences that it makes needless must be emptied.
    pub(crate) fn keep(&mut self, sequence: u32, tokens: Vec<TokenId>, scope: Scope) -> Vec<u32> {
        let known = |entry: &Entry| entry.scope == scope && entry.tokens.starts_with(&tokens);
        if tokens.len() < LEAST || self.entries.iter().any(known) {
            self.empty.push(sequence);
            return vec![sequence];
        }
        let needless = |entry: &mut Entry| entry.scope == scope && tokens.starts_with(&entry.tokens);
        let given_up: Vec<u32> = self.entries.extract_if(.., needless).map(|entry| entry.sequence).collect();
        self.empty.extend(&given_up);
        self.entries.push(Entry { sequence, tokens, scope });
        given_up
    }

    /// A sequence has no state any more.
    pub(crate) fn emptied(&mut self, sequence: u32) {
        self.empty.push(sequence);
    }

    /// Gives up the longest unused one, which must be emptied.
    pub(crate) fn forget(&mut self) -> Option<u32> {
        if self.entries.is_empty() {
            return None;
        }
        let Entry { sequence, .. } = self.entries.remove(0);
        self.empty.push(sequence);
        Some(sequence)
    }

    /// Tokens of `prompt` whose state an entry has.
    fn shared(&self, entry: &Entry, prompt: &[TokenId], scope: &Scope) -> usize {
        if entry.scope != *scope {
            return 0;
        }
        let shared = common(&entry.tokens, prompt);
        if shared < LEAST || (shared < entry.tokens.len() && !self.cuttable) { 0 } else { shared }
    }

    fn shared_with_running(&self, (_, tokens, theirs): (u32, &[TokenId], &Scope), prompt: &[TokenId], scope: &Scope) -> usize {
        let shared = if *theirs == *scope && self.cuttable { common(tokens, prompt) } else { 0 };
        if shared < LEAST { 0 } else { shared }
    }
}

/// How long two beginnings agree. The last token of a prompt does not count, it is always computed: its logits are what is asked for.
pub(crate) fn common(tokens: &[TokenId], prompt: &[TokenId]) -> usize {
    let most = prompt.len().saturating_sub(1);
    tokens.iter().zip(&prompt[..most]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(range: std::ops::Range<u32>) -> Vec<TokenId> {
        range.collect()
    }

    fn scope(name: &str) -> Scope {
        Some(name.into())
    }

    fn alone() -> impl Iterator<Item = (u32, &'static [TokenId], &'static Scope)> {
        std::iter::empty()
    }

    fn begin(kept: &mut Kept, prompt: &[TokenId]) -> (Begin, Vec<u32>) {
        let (begin, given_up) = kept.begin(prompt, &None, alone(), 10_000);
        (begin.expect("a sequence"), given_up)
    }

    /// With the state of `sequences` kept, the first one first.
    fn with(sequences: &[(u32, u32)], spare: u32, cuttable: bool) -> Kept {
        let mut kept = Kept::new(sequences.len() as u32 + spare, cuttable);
        for _ in sequences {
            begin(&mut kept, &[4711]);
        }
        for (sequence, &(from, to)) in (0..).zip(sequences) {
            assert_eq!(kept.keep(sequence, tokens(from..to), None), [0; 0]);
        }
        kept
    }

    #[test]
    fn the_next_turn_takes_over_and_another_branch_copies() {
        let mut kept = with(&[(0, 60)], 2, true);
        let branch = [tokens(0..40), tokens(100..120)].concat();
        assert_eq!(begin(&mut kept, &branch), (Begin::Copy { sequence: 1, source: 0, shared: 40 }, vec![]));
        assert_eq!(begin(&mut kept, &tokens(0..80)), (Begin::TakeOver { sequence: 0, shared: 60, whole: true }, vec![]));
        assert_eq!(begin(&mut kept, &tokens(0..80)), (Begin::Empty { sequence: 2 }, vec![]));
    }

    #[test]
    fn the_last_token_of_a_prompt_is_always_computed() {
        let mut kept = with(&[(0, 50)], 1, true);
        assert_eq!(begin(&mut kept, &tokens(0..50)), (Begin::Copy { sequence: 1, source: 0, shared: 49 }, vec![]));
    }

    #[test]
    fn state_that_cannot_be_cut_is_taken_over_whole_or_not_at_all() {
        let mut kept = with(&[(0, 50)], 1, false);
        assert_eq!(kept.found(&tokens(0..50), &None, alone()), 0, "the last token is to be computed, and the state has it already");
        assert_eq!(begin(&mut kept, &tokens(0..40)).0, Begin::Empty { sequence: 1 });
        assert_eq!(begin(&mut kept, &tokens(0..51)).0, Begin::TakeOver { sequence: 0, shared: 50, whole: true });
    }

    #[test]
    fn nothing_is_shared_between_scopes() {
        let mut kept = Kept::new(4, true);
        kept.begin(&tokens(0..50), &scope("a"), alone(), 10_000);
        let (running, theirs) = (tokens(0..50), scope("a"));
        let others = || [(0, running.as_slice(), &theirs)].into_iter();
        assert_eq!(kept.begin(&tokens(0..50), &scope("b"), others(), 10_000).0, Some(Begin::Empty { sequence: 1 }));
        kept.keep(0, tokens(0..50), scope("a"));
        assert_eq!(kept.found(&tokens(0..60), &scope("b"), alone()), 0);
        assert_eq!(kept.found(&tokens(0..60), &None, alone()), 0);
        assert_eq!(kept.found(&tokens(0..60), &scope("a"), alone()), 50);
        // The same tokens of another scope do not make them needless.
        assert_eq!(kept.keep(1, tokens(0..70), scope("b")), [0; 0]);
    }

    #[test]
    fn what_runs_is_copied_as_far_as_it_is_computed() {
        let mut kept = Kept::new(2, true);
        begin(&mut kept, &tokens(0..50));
        let running = tokens(0..30);
        let others = || [(0, running.as_slice(), &None)].into_iter();
        assert_eq!(kept.found(&tokens(0..50), &None, others()), 30);
        let copy = Some(Begin::Copy { sequence: 1, source: 0, shared: 30 });
        assert_eq!(kept.begin(&tokens(0..50), &None, others(), 10_000), (copy, vec![]));
    }

    #[test]
    fn the_longest_unused_goes_when_a_sequence_is_needed() {
        let mut kept = with(&[(0, 50), (1000, 1050)], 0, true);
        let branch = [tokens(0..40), tokens(100..120)].concat();
        // The first is used, so the second goes.
        assert_eq!(begin(&mut kept, &branch), (Begin::Copy { sequence: 1, source: 0, shared: 40 }, vec![1]));
        // There is no place for two any more.
        assert_eq!(begin(&mut kept, &branch), (Begin::TakeOver { sequence: 0, shared: 40, whole: false }, vec![]));
        assert_eq!(kept.begin(&branch, &None, alone(), 10_000), (None, vec![]), "more requests than sequences");
    }

    #[test]
    fn copies_are_made_only_where_there_is_room_for_them() {
        let branch = [tokens(0..40), tokens(100..120)].concat();
        let mut kept = with(&[(1000, 1050), (0, 50)], 2, true);
        assert_eq!(kept.begin(&branch, &None, alone(), 100), (Some(Begin::Copy { sequence: 0, source: 1, shared: 40 }), vec![0]));
        let mut kept = with(&[(1000, 1050), (0, 50)], 2, true);
        let over = Some(Begin::TakeOver { sequence: 1, shared: 40, whole: false });
        assert_eq!(kept.begin(&branch, &None, alone(), 80), (over, vec![0]));
    }

    #[test]
    fn what_another_entry_begins_with_is_needless() {
        let mut kept = with(&[(0, 50)], 2, true);
        begin(&mut kept, &[4711]);
        begin(&mut kept, &[4711]);
        assert_eq!(kept.keep(1, tokens(0..80), None), [0]);
        assert_eq!(kept.keep(2, tokens(0..60), None), [2]);
        assert_eq!(kept.positions(), 80);
        assert_eq!(kept.forget(), Some(1));
        assert_eq!((kept.positions(), kept.forget()), (0, None));
        assert_eq!(kept.keep(1, tokens(0..5), None), [1], "too short to be worth a sequence");
    }
}
