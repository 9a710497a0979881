//! The marks of reasoning, read byte by byte.
//!
//! A mark need not be a token, and a token may hold the end of one thing and the beginning of another, so nothing here looks at tokens as
//! wholes: a mark is found where its bytes are, however they came. Texts of control tokens count as text, because in some vocabularies the
//! marks are control tokens.

use crate::backend::Vocabulary;
use crate::request::{EngineError, Reasoning, TokenId};

/// Bytes a mark may have. Each has a state, and a constrained answer keeps a mask for each state it meets.
const MOST_MARK_BYTES: usize = 64;

/// How an answer reasons.
#[derive(Debug, Clone)]
pub(crate) struct Thought {
    start: Option<Box<[u8]>>,
    end: Box<[u8]>,
    end_text: String,
    /// `fallback[i]`: the longest proper beginning of the end that its first `i + 1` bytes end with.
    fallback: Box<[usize]>,
    /// What writes the end.
    end_tokens: Vec<TokenId>,
    budget: Option<u32>,
}

/// How much of the start is there. 0 = nothing, or whitespace before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Opening(usize);

/// How much of the end the reasoning ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Ending(usize);

/// What a text that may open a reasoning turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// It may still open one.
    Opening(Opening),
    /// It did, and the reasoning is open.
    Reasoning(Ending),
    /// It did, and the reasoning is over.
    Over,
    /// It did not.
    Not,
}

/// Looks at the marks and finds the tokens of the end.
///
/// # Errors
/// [`EngineError::InvalidRequest`] for marks that cannot be read or written; the plugin's.
pub(crate) fn check(reasoning: &Reasoning, vocabulary: &dyn Vocabulary) -> Result<Thought, EngineError> {
    let Reasoning { start, end, budget } = reasoning;
    for (name, mark) in [("start", start.as_deref()), ("end", Some(end.as_str()))] {
        let Some(mark) = mark else { continue };
        if mark.is_empty() || mark.len() > MOST_MARK_BYTES {
            return Err(invalid(format!("reasoning.{name} has {} bytes; it must have 1 to {MOST_MARK_BYTES}", mark.len())));
        }
        if name == "start" && mark.starts_with(|c: char| c.is_ascii_whitespace()) {
            return Err(invalid("reasoning.start begins with whitespace; whitespace before it is allowed without that".to_owned()));
        }
    }
    let end_tokens = match budget {
        None => Vec::new(),
        Some(_) => vocabulary.encode(end, true)?,
    };
    let thought = Thought {
        start: start.as_ref().map(|start| start.as_bytes().into()),
        end: end.as_bytes().into(),
        end_text: end.clone(),
        fallback: fallback(end.as_bytes()),
        end_tokens,
        budget: *budget,
    };
    if budget.is_some() && thought.go_on(Ending::default(), &vocabulary.decode(&thought.end_tokens, true)?).is_some() {
        return Err(invalid(format!("the tokenizer of this model does not give {end:?} back; reasoning with it cannot have a budget")));
    }
    Ok(thought)
}

fn invalid(message: String) -> EngineError {
    EngineError::InvalidRequest { message, param: Some("reasoning".to_owned()) }
}

impl Thought {
    /// The answer itself opens it.
    pub(crate) fn opens(&self) -> bool {
        self.start.is_some()
    }

    /// The text that ends it.
    pub(crate) fn end_text(&self) -> &str {
        &self.end_text
    }

    /// No token of its own is left to a reasoning that had `spent`.
    pub(crate) fn is_spent(&self, spent: u32) -> bool {
        self.budget.is_some_and(|budget| spent >= budget)
    }

    /// The token that writes the end after `written` of them.
    pub(crate) fn end_token(&self, written: usize) -> Option<TokenId> {
        self.end_tokens.get(written).copied()
    }

    /// Reads on in an answer that may open a reasoning.
    pub(crate) fn open(&self, opening: Opening, bytes: &[u8]) -> Read {
        match self.opened(opening, bytes) {
            Ok(read) => read,
            Err(rest) => self.go_on(Ending::default(), rest).map_or(Read::Over, Read::Reasoning),
        }
    }

    /// `bytes` may open a reasoning, and do not go beyond its end.
    pub(crate) fn may_open(&self, opening: Opening, bytes: &[u8]) -> bool {
        match self.opened(opening, bytes) {
            Ok(read) => read != Read::Not,
            Err(rest) => self.may_go_on(Ending::default(), rest),
        }
    }

    /// With the whole start read: what comes after it.
    fn opened<'a>(&self, Opening(mut read): Opening, bytes: &'a [u8]) -> Result<Read, &'a [u8]> {
        let start = self.start.as_deref().unwrap_or_default();
        for (at, byte) in bytes.iter().enumerate() {
            if start.get(read) == Some(byte) {
                read += 1;
            } else if read > 0 || !byte.is_ascii_whitespace() {
                return Ok(Read::Not);
            }
            if read == start.len() {
                return Err(&bytes[at + 1..]);
            }
        }
        Ok(Read::Opening(Opening(read)))
    }

    /// Reads on in a reasoning; `None` = it is over.
    pub(crate) fn go_on(&self, ending: Ending, bytes: &[u8]) -> Option<Ending> {
        self.find(ending, bytes).ok()
    }

    /// `bytes` do not go beyond the end of the reasoning.
    pub(crate) fn may_go_on(&self, ending: Ending, bytes: &[u8]) -> bool {
        self.find(ending, bytes).err().is_none_or(|end| end == bytes.len())
    }

    /// The first end of the reasoning: how many of `bytes` come until then.
    fn find(&self, Ending(mut matched): Ending, bytes: &[u8]) -> Result<Ending, usize> {
        for (at, byte) in bytes.iter().enumerate() {
            while matched > 0 && self.end[matched] != *byte {
                matched = self.fallback[matched - 1];
            }
            matched += usize::from(self.end[matched] == *byte);
            if matched == self.end.len() {
                return Err(at + 1);
            }
        }
        Ok(Ending(matched))
    }
}

/// The automaton of Knuth, Morris and Pratt.
fn fallback(pattern: &[u8]) -> Box<[usize]> {
    let mut fallback = vec![0; pattern.len()].into_boxed_slice();
    let mut length = 0;
    for i in 1..pattern.len() {
        while length > 0 && pattern[i] != pattern[length] {
            length = fallback[length - 1];
        }
        length += usize::from(pattern[i] == pattern[length]);
        fallback[i] = length;
    }
    fallback
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Toy;

    fn thought(start: Option<&str>, end: &str) -> Thought {
        let reasoning = Reasoning { start: start.map(str::to_owned), end: end.to_owned(), budget: None };
        check(&reasoning, &Toy::new(1, 10)).expect("lawful marks")
    }

    #[test]
    fn marks_are_found_however_the_bytes_come() {
        let thought = thought(Some("<t>"), "</t>");
        let text = b"\n <t>so </t </t>";
        for cut in 0..text.len() {
            let read = match thought.open(Opening::default(), &text[..cut]) {
                Read::Opening(opening) => thought.open(opening, &text[cut..]),
                Read::Reasoning(ending) => thought.go_on(ending, &text[cut..]).map_or(Read::Over, Read::Reasoning),
                other => panic!("{other:?} after {cut} bytes"),
            };
            assert_eq!(read, Read::Over, "cut at {cut}");
        }
        assert_eq!(thought.open(Opening::default(), b" x<t>"), Read::Not);
        assert_eq!(thought.open(Opening::default(), b"< t>"), Read::Not);
        assert_eq!(thought.open(Opening::default(), b"<t></t>x"), Read::Over);
    }

    #[test]
    fn an_end_that_repeats_itself_is_found_after_a_false_start() {
        let thought = thought(None, "aab");
        assert_eq!(thought.go_on(Ending::default(), b"aaab"), None);
        assert!(thought.may_go_on(Ending(2), b"b") && !thought.may_go_on(Ending(2), b"b ") && thought.may_go_on(Ending(2), b"a"));
    }

    #[test]
    fn marks_that_mean_nothing_are_refused_by_name() {
        let vocabulary = Toy::new(1, 10);
        for (start, end) in [(None, ""), (Some(""), "x"), (Some(" <t>"), "x"), (None, "x".repeat(65).as_str())] {
            let reasoning = Reasoning { start: start.map(str::to_owned), end: end.to_owned(), budget: Some(3) };
            match check(&reasoning, &vocabulary) {
                Err(EngineError::InvalidRequest { param, .. }) => assert_eq!(param.as_deref(), Some("reasoning")),
                other => panic!("{other:?} for {reasoning:?}"),
            }
        }
    }
}
