//! Very long runs of one kind of character, which no ordinary text has.
//!
//! For some vocabularies llama.cpp splits text with std::regex, which recurses once per character of a match: a hundred thousand equal
//! letters overflow the stack of the thread that encodes them. So a run of [`LONGEST`] characters is cut. Nothing else is touched: a text
//! without such a run reaches llama.cpp as it is, in one piece.
//!
//! A cut lies at least [`MARGIN`] characters inside a run, so it can never fall into the text of a control token.

/// Characters of one kind in a row that are passed on in one piece. Words, numbers, indentations and rulers are shorter.
pub const LONGEST: usize = 1024;
/// Characters of the run that stay on both sides of a cut, at least.
const MARGIN: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Space,
    Other,
}

fn kind(c: char) -> Kind {
    if c.is_whitespace() {
        Kind::Space
    } else if c.is_numeric() {
        Kind::Digit
    } else if c.is_alphabetic() || !c.is_ascii() {
        // Marks belong to their letters; foreign punctuation may as well.
        Kind::Letter
    } else {
        Kind::Other
    }
}

/// `text` in pieces that follow each other without a gap; one piece unless there is a very long run.
pub fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut run = 0;
    let mut current = None;
    let mut cuts = Vec::new();
    for (at, c) in text.char_indices() {
        let kind = kind(c);
        if Some(kind) != current {
            current = Some(kind);
            run = 0;
        } else if run == LONGEST {
            cuts.push(at);
            run = 0;
        }
        run += 1;
    }
    for (i, &cut) in cuts.iter().enumerate() {
        // Only where enough of the run follows; a next cut means that it does.
        let follows = cuts.get(i + 1).is_some() || same_kind_for(&text[cut..], MARGIN);
        if follows {
            pieces.push(&text[start..cut]);
            start = cut;
        }
    }
    pieces.push(&text[start..]);
    pieces
}

fn same_kind_for(text: &str, count: usize) -> bool {
    let mut chars = text.chars().map(kind);
    let Some(first) = chars.next() else { return false };
    let mut chars = chars.take(count - 1);
    let mut seen = 1;
    let all = chars.by_ref().all(|kind| {
        seen += 1;
        kind == first
    });
    all && seen == count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_stays_in_one_piece() {
        for text in ["", "Hello, world", "    indented\n\n\n", "漢字かな交じり文。", &"word ".repeat(100_000), &"=".repeat(LONGEST)]
        {
            assert_eq!(pieces(text), [text]);
        }
    }

    #[test]
    fn a_long_run_is_cut_and_nothing_is_lost() {
        for c in ["A", ".", "漢", " ", "é", "0", "e\u{301}"] {
            let text = format!("before {}after", c.repeat(50_000));
            let pieces = pieces(&text);
            assert!(pieces.len() > 40, "{c}: {} pieces", pieces.len());
            assert_eq!(pieces.concat(), text);
            assert!(pieces.iter().all(|piece| piece.chars().count() <= 2 * LONGEST), "{c}");
        }
    }

    #[test]
    fn a_cut_keeps_its_distance_from_the_end_of_a_run() {
        let text = format!("{}<|im_end|>", "<".repeat(LONGEST + 1));
        assert_eq!(pieces(&text), [text.as_str()]);
        let text = format!("{}<|im_end|>", "<".repeat(LONGEST + MARGIN));
        assert_eq!(pieces(&text).len(), 2);
        assert!(pieces(&text)[1].len() > MARGIN);
    }
}
