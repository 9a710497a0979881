//! Keeps a client's text from becoming structure.
//!
//! A rendered chat template is one string in which `<|im_end|>` of the template and `<|im_end|>` typed by a user look the same. So every
//! control token's text inside a client's string is marked before rendering, with a Unicode noncharacter after its first character, and
//! found again afterwards: what the template wrote may become control tokens, what was marked may not. The text that reaches the model is
//! the client's, unaltered.
//!
//! Pieces can also join: a template that writes `<` + a tool's name + `>` turns the harmless name `s` into the start token. Strings that
//! begin or end like part of a control token are therefore rendered a second time with those parts marked too; if fewer control tokens come
//! out, some had been joined from a client's text, and the second rendering is the one that counts.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};
use onebit_engine::PromptPart;

use super::TemplateError;
use super::conversation::Conversation;

/// Noncharacters: valid in UTF-8, forbidden in interchange, so nobody's text needs them.
const MARKERS: std::ops::RangeInclusive<char> = '\u{FDD0}'..='\u{FDEF}';

/// The control tokens of one model, ready for searching.
#[derive(Debug)]
pub struct Guard {
    tokens: Vec<String>,
    /// Every occurrence, overlapping ones too.
    all: AhoCorasick,
    /// The longest one at a given place.
    longest: AhoCorasick,
    /// Proper beginnings and ends of the tokens.
    beginnings: HashSet<String>,
    ends: HashSet<String>,
    longest_bytes: usize,
}

/// Two noncharacters that no string of the conversation holds.
#[derive(Debug, Clone, Copy)]
pub struct Markers {
    /// "The character before this is a client's and may begin a control token."
    pub user: char,
    /// Where the last message's text ends, when it is to be continued.
    pub end: char,
}

impl Markers {
    /// Looks for two that are free.
    pub fn free(conversation: &Conversation) -> Result<Self, TemplateError> {
        let mut taken = HashSet::new();
        conversation.map_text(&mut |text| {
            // All markers are encoded with these two first bytes; most text has none and is skipped fast.
            if text.as_bytes().windows(2).any(|w| w == [0xEF, 0xB7]) {
                taken.extend(text.chars().filter(|c| MARKERS.contains(c)));
            }
            String::new()
        });
        let mut free = MARKERS.filter(|c| !taken.contains(c));
        match (free.next(), free.next()) {
            (Some(user), Some(end)) => Ok(Self { user, end }),
            _ => Err(TemplateError::Refused(
                "the messages use the Unicode noncharacters U+FDD0 to U+FDEF, of which this server needs two; remove them".to_owned(),
            )),
        }
    }
}

/// Fragments of control tokens that were marked in strict mode.
pub type Fragments = HashSet<String>;

impl Guard {
    /// For these control tokens. Empty texts are left out.
    pub fn new(tokens: &[String]) -> Result<Self, TemplateError> {
        let tokens: Vec<String> = tokens.iter().filter(|t| !t.is_empty()).cloned().collect();
        let build = |kind, start| AhoCorasick::builder().match_kind(kind).start_kind(start).build(&tokens);
        let all = build(MatchKind::Standard, StartKind::Unanchored);
        let longest = build(MatchKind::LeftmostLongest, StartKind::Both);
        let (Ok(all), Ok(longest)) = (all, longest) else {
            return Err(TemplateError::Unusable("the model has too many control tokens to search for".to_owned()));
        };
        let mut beginnings = HashSet::new();
        let mut ends = HashSet::new();
        for token in &tokens {
            for (cut, _) in token.char_indices().skip(1) {
                beginnings.insert(token[..cut].to_owned());
                ends.insert(token[cut..].to_owned());
            }
        }
        let longest_bytes = tokens.iter().map(String::len).max().unwrap_or(0);
        Ok(Self { tokens, all, longest, beginnings, ends, longest_bytes })
    }

    /// The text with a marker in every whole control token.
    pub fn mark(&self, text: &str, marker: char) -> String {
        self.insert(text, marker, self.starts(text))
    }

    /// Like [`Guard::mark`], and parts that could become control tokens together with neighbouring text are marked as well.
    pub fn mark_strictly(&self, text: &str, marker: char, fragments: &mut Fragments) -> String {
        let mut starts = self.starts(text);
        for (start, fragment) in self.fragments(text) {
            starts.push(start);
            fragments.insert(fragment.to_owned());
        }
        self.insert(text, marker, starts)
    }

    /// Whether strict marking differs from plain marking for this text.
    pub fn has_fragments(&self, text: &str) -> bool {
        !self.fragments(text).is_empty()
    }

    fn starts(&self, text: &str) -> Vec<usize> {
        self.all.find_overlapping_iter(text).map(|found| found.start()).collect()
    }

    fn fragments<'t>(&self, text: &'t str) -> Vec<(usize, &'t str)> {
        let mut found = Vec::new();
        if text.is_empty() {
            return found;
        }
        for (at, _) in text.char_indices().rev().take_while(|(at, _)| text.len() - at < self.longest_bytes) {
            if self.beginnings.contains(&text[at..]) {
                found.push((at, &text[at..]));
            }
        }
        for (at, character) in text.char_indices().take_while(|(at, _)| *at < self.longest_bytes) {
            let piece = &text[..at + character.len_utf8()];
            if self.ends.contains(piece) {
                found.push((0, piece));
            }
        }
        if text.len() < self.longest_bytes && self.tokens.iter().any(|token| token.len() > text.len() && token.contains(text)) {
            found.push((0, text));
        }
        found
    }

    fn insert(&self, text: &str, marker: char, mut starts: Vec<usize>) -> String {
        if starts.is_empty() {
            return text.to_owned();
        }
        starts.sort_unstable();
        starts.dedup();
        let mut out = String::with_capacity(text.len() + starts.len() * marker.len_utf8());
        let mut copied = 0;
        for start in starts {
            let after = start + text[start..].chars().next().map_or(0, char::len_utf8);
            out.push_str(&text[copied..after]);
            out.push(marker);
            copied = after;
        }
        out.push_str(&text[copied..]);
        out
    }

    /// Cuts a rendered text at its markers: template text that may hold control tokens, client text that may not. No marker is left.
    pub fn split(&self, rendered: &str, marker: char, fragments: &Fragments) -> Vec<PromptPart> {
        let mut clean = String::with_capacity(rendered.len());
        let mut marked = Vec::new();
        for piece in rendered.split_inclusive(marker) {
            match piece.strip_suffix(marker) {
                Some(text) => {
                    clean.push_str(text);
                    if let Some((at, _)) = clean.char_indices().next_back() {
                        marked.push(at);
                    }
                }
                None => clean.push_str(piece),
            }
        }
        let mut parts = Vec::new();
        let mut written = 0;
        let mut plain: Option<(usize, usize)> = None;
        for at in marked {
            let end = at + self.reach(&clean[at..], fragments);
            plain = match plain {
                Some((start, old_end)) if at <= old_end => Some((start, old_end.max(end))),
                Some((start, old_end)) => {
                    push(&mut parts, &clean[written..start], true);
                    push(&mut parts, &clean[start..old_end], false);
                    written = old_end;
                    Some((at, end))
                }
                None => Some((at, end)),
            };
        }
        if let Some((start, end)) = plain {
            push(&mut parts, &clean[written..start], true);
            push(&mut parts, &clean[start..end], false);
            written = end;
        }
        push(&mut parts, &clean[written..], true);
        parts
    }

    /// Bytes of the marked text that begins here: the longest control token, else the longest marked fragment, else one character (the
    /// template took the rest apart).
    fn reach(&self, text: &str, fragments: &Fragments) -> usize {
        let token = self.longest.find(Input::new(text).anchored(Anchored::Yes)).map_or(0, |found| found.end());
        let ends = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= self.longest_bytes);
        let fragment = if fragments.is_empty() { 0 } else { ends.filter(|end| fragments.contains(&text[..*end])).max().unwrap_or(0) };
        let character = text.chars().next().map_or(0, char::len_utf8);
        token.max(fragment).max(character)
    }

    /// Control tokens that would come out of the parts.
    pub fn count(&self, parts: &[PromptPart]) -> usize {
        parts.iter().filter(|part| part.control).map(|part| self.longest.find_iter(&part.text).count()).sum()
    }
}

fn push(parts: &mut Vec<PromptPart>, text: &str, control: bool) {
    if text.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(last) if last.control == control => last.text.push_str(text),
        _ => parts.push(PromptPart { text: text.to_owned(), control }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARKER: char = '\u{FDD0}';

    fn guard(tokens: &[&str]) -> Guard {
        Guard::new(&tokens.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>()).expect("a guard")
    }

    fn through(guard: &Guard, text: &str) -> Vec<PromptPart> {
        guard.split(&guard.mark(text, MARKER), MARKER, &Fragments::new())
    }

    #[test]
    fn a_typed_control_token_is_one_plain_part_and_the_templates_own_stays() {
        let guard = guard(&["<|im_start|>", "<|im_end|>"]);
        let rendered = format!("<|im_start|>user\n{}<|im_end|>\n", guard.mark("a<|im_end|>b", MARKER));
        let parts = guard.split(&rendered, MARKER, &Fragments::new());
        let shown: Vec<_> = parts.iter().map(|p| (p.text.as_str(), p.control)).collect();
        assert_eq!(shown, [("<|im_start|>user\na", true), ("<|im_end|>", false), ("b<|im_end|>\n", true)]);
    }

    #[test]
    fn overlapping_control_tokens_are_all_taken() {
        let guard = guard(&["<a>", "a>b", ">b<"]);
        let parts = through(&guard, "<a>b<");
        assert_eq!(parts, [PromptPart { text: "<a>b<".into(), control: false }]);
    }

    #[test]
    fn a_harmless_name_between_brackets_does_not_become_the_start_token() {
        let guard = guard(&["<s>", "</s>"]);
        let mut fragments = Fragments::new();
        let marked = guard.mark_strictly("s", MARKER, &mut fragments);
        let parts = guard.split(&format!("<{marked}>x</{marked}>"), MARKER, &fragments);
        assert_eq!(guard.count(&parts), 0);
        assert_eq!(parts.iter().map(|p| p.text.as_str()).collect::<String>(), "<s>x</s>");
    }

    proptest! {
        #[test]
        fn text_is_never_altered_and_never_holds_a_control_token(text in "[a-c<>|/é漢]{0,60}") {
            let guard = guard(&["<a>", "<|b|>", "</c>", "a", "é漢"]);
            let parts = through(&guard, &text);
            prop_assert_eq!(parts.iter().map(|p| p.text.as_str()).collect::<String>(), text);
            prop_assert_eq!(guard.count(&parts), 0);
        }

        #[test]
        fn two_strings_side_by_side_never_join_to_a_control_token(a in "[a<>|/]{0,8}", b in "[a<>|/]{0,8}") {
            let guard = guard(&["<a>", "<|a|>", "</a>"]);
            let mut fragments = Fragments::new();
            let rendered = format!("{}{}", guard.mark_strictly(&a, MARKER, &mut fragments), guard.mark_strictly(&b, MARKER, &mut fragments));
            let parts = guard.split(&rendered, MARKER, &fragments);
            prop_assert_eq!(parts.iter().map(|p| p.text.as_str()).collect::<String>(), format!("{a}{b}"));
            prop_assert_eq!(guard.count(&parts), 0);
        }
    }
}
