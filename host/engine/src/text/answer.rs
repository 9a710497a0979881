//! The answer as its reader sees it: text that nothing can change any more, with the tokens it was made of.
//!
//! Text waits while a character is open or while its end may be the beginning of a stop string; a token waits as long as its text. When
//! a stop string is complete, it and the tokens that only made it are gone for good; what came before is shown.

use super::{Match, Stops, Utf8};
use crate::request::TokenOut;

/// What may be shown now.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Shown {
    /// Whole characters.
    pub(crate) text: String,
    /// The tokens that are complete with it.
    pub(crate) tokens: Vec<TokenOut>,
}

impl Shown {
    /// Nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.tokens.is_empty()
    }
}

#[derive(Debug)]
struct Waiting {
    token: TokenOut,
    /// Text byte at which the token's text begins.
    start: usize,
    /// Text bytes that must be out for the token to be complete.
    end: usize,
}

/// Text and tokens of one answer.
#[derive(Debug)]
pub(crate) struct Answer {
    utf8: Utf8,
    stops: Stops,
    /// Text that is not out yet; its first byte is text byte `out`.
    held: String,
    out: usize,
    waiting: Vec<Waiting>,
}

impl Answer {
    /// An empty answer that ends at `stops`.
    pub(crate) fn new(stops: &[String]) -> Self {
        Self { utf8: Utf8::default(), stops: Stops::new(stops), held: String::new(), out: 0, waiting: Vec::new() }
    }

    /// Takes a token and its bytes. With a match the answer is over: what is shown is its last text, and neither `push` nor `finish`
    /// may follow.
    pub(crate) fn push(&mut self, token: TokenOut, bytes: &[u8]) -> (Shown, Option<usize>) {
        let start = self.out + self.held.len();
        let from = self.held.len();
        self.utf8.push(bytes, &mut self.held);
        // An open character has at least one byte of text to come.
        let end = self.out + self.held.len() + usize::from(self.utf8.is_open());
        self.waiting.push(Waiting { token, start, end });
        match self.stops.push(&self.held[from..]) {
            None => (self.release(self.held.len() - self.stops.held().min(self.held.len())), None),
            Some(Match { stop, start }) => {
                let shown = self.release(start.saturating_sub(self.out));
                let tokens = std::mem::take(&mut self.waiting).into_iter().filter(|w| w.start < start).map(|w| w.token);
                let mut shown = shown;
                shown.tokens.extend(tokens);
                self.held.clear();
                (shown, Some(stop))
            }
        }
    }

    /// The answer ends without a stop string: what was held back for one is text. An open character is dropped.
    pub(crate) fn finish(&mut self) -> Shown {
        let mut shown = self.release(self.held.len());
        shown.tokens.extend(std::mem::take(&mut self.waiting).into_iter().map(|w| w.token));
        shown
    }

    /// Lets the first `bytes` of the held text go, and the tokens that are complete with them.
    fn release(&mut self, bytes: usize) -> Shown {
        // Stop strings are whole characters and so is the text: their borders are borders of characters.
        let bytes = self.held.floor_char_boundary(bytes);
        let text: String = self.held.drain(..bytes).collect();
        self.out += bytes;
        let ready = self.waiting.iter().take_while(|w| w.end <= self.out).count();
        let tokens = self.waiting.drain(..ready).map(|w| w.token).collect();
        Shown { text, tokens }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(id: u32) -> TokenOut {
        TokenOut { id, logprob: None }
    }

    fn strings(stops: &[&str]) -> Vec<String> {
        stops.iter().map(|stop| (*stop).to_owned()).collect()
    }

    /// Pushes `pieces` until a stop or the end; all text, the ids shown, the stop.
    fn run(stops: &[String], pieces: &[&[u8]]) -> (String, Vec<u32>, Option<usize>) {
        let mut answer = Answer::new(stops);
        let mut text = String::new();
        let mut ids = Vec::new();
        for (id, piece) in pieces.iter().enumerate() {
            let (shown, stop) = answer.push(token(id as u32), piece);
            text.push_str(&shown.text);
            ids.extend(shown.tokens.iter().map(|t| t.id));
            if stop.is_some() {
                return (text, ids, stop);
            }
        }
        let shown = answer.finish();
        text.push_str(&shown.text);
        ids.extend(shown.tokens.iter().map(|t| t.id));
        (text, ids, None)
    }

    #[test]
    fn a_stop_across_tokens_leaves_no_part_of_itself() {
        let (text, ids, stop) = run(&strings(&["the end"]), &[b"so ", b"th", b"e e", b"nd", b" more"]);
        assert_eq!((text.as_str(), ids, stop), ("so ", vec![0], Some(0)));
    }

    #[test]
    fn a_stop_inside_one_token_shows_what_stands_before_it() {
        let (text, ids, stop) = run(&strings(&["STOP"]), &[b"a ", b"bSTOPc"]);
        assert_eq!((text.as_str(), ids, stop), ("a b", vec![0, 1], Some(0)));
    }

    #[test]
    fn what_only_looked_like_a_stop_is_shown_with_its_tokens() {
        let (text, ids, stop) = run(&strings(&["the end"]), &[b"the", b" e", b"gg"]);
        assert_eq!((text.as_str(), ids, stop), ("the egg", vec![0, 1, 2], None));
        let (text, ids, stop) = run(&strings(&["the end"]), &[b"the", b" e"]);
        assert_eq!((text.as_str(), ids, stop), ("the e", vec![0, 1], None));
    }

    #[test]
    fn an_open_character_at_the_end_is_dropped_and_its_token_still_counts() {
        let (text, ids, stop) = run(&[], &[b"a", &[0xF0, 0x9F]]);
        assert_eq!((text.as_str(), ids, stop), ("a", vec![0, 1], None));
    }

    #[test]
    fn text_without_a_stop_flows_at_once() {
        let mut answer = Answer::new(&strings(&["xyz"]));
        assert_eq!(answer.push(token(7), b"abc").0, Shown { text: "abc".into(), tokens: vec![token(7)] });
        assert_eq!(answer.push(token(8), b"abx").0, Shown { text: "ab".into(), tokens: vec![] });
    }

    /// The end of the first stop, by definition: the smallest end, then the longest stop.
    fn reference(stops: &[String], text: &str) -> (String, Option<usize>) {
        let mut best: Option<(usize, usize, usize)> = None;
        for (index, stop) in stops.iter().enumerate() {
            if let Some(start) = text.find(stop.as_str()) {
                let end = start + stop.len();
                if best.is_none_or(|(e, s, _)| end < e || (end == e && start < s)) {
                    best = Some((end, start, index));
                }
            }
        }
        best.map_or((text.to_owned(), None), |(_, start, index)| (text[..start].to_owned(), Some(index)))
    }

    proptest! {
        #[test]
        fn the_answer_is_the_text_before_the_first_stop_however_it_came_in_pieces(
            text in "[abé😀]{0,30}",
            stops in proptest::collection::vec("[abé😀]{1,4}", 0..4),
            cuts in proptest::collection::vec(0usize..4, 0..60),
        ) {
            let mut stops = stops;
            stops.sort();
            stops.dedup();
            let mut pieces: Vec<&[u8]> = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                pieces.push(head);
                rest = tail;
            }
            pieces.push(rest);
            let (shown, ids, stop) = run(&stops, &pieces);
            let (expected, expected_stop) = reference(&stops, &text);
            prop_assert_eq!(&shown, &expected);
            prop_assert_eq!(stop, expected_stop);
            // Tokens come out in order, none twice.
            prop_assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
            if stop.is_none() {
                prop_assert_eq!(ids.len(), pieces.len());
            }
        }
    }
}
