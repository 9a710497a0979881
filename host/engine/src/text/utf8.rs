//! Bytes to characters, as they come.
//!
//! A token may end inside a character, so up to three bytes wait for the rest. A byte that no continuation can make valid becomes
//! U+FFFD, one per maximal invalid part, exactly as a lossy conversion of all bytes at once would do it; until that is certain nothing
//! is said. Bytes that still wait when the answer ends are not text.

/// The bytes of a character that is still open.
#[derive(Debug, Default)]
pub(crate) struct Utf8 {
    open: Vec<u8>,
}

impl Utf8 {
    /// Takes bytes and appends the characters that are certain now to `text`.
    pub(crate) fn push(&mut self, bytes: &[u8], text: &mut String) {
        if self.open.is_empty()
            && let Ok(whole) = std::str::from_utf8(bytes)
        {
            text.push_str(whole);
            return;
        }
        self.open.extend_from_slice(bytes);
        let mut done = 0;
        loop {
            match std::str::from_utf8(&self.open[done..]) {
                Ok(rest) => {
                    text.push_str(rest);
                    self.open.clear();
                    return;
                }
                Err(error) => {
                    let (valid, _) = self.open[done..].split_at(error.valid_up_to());
                    text.push_str(std::str::from_utf8(valid).unwrap_or_default());
                    done += valid.len();
                    match error.error_len() {
                        Some(invalid) => {
                            text.push(char::REPLACEMENT_CHARACTER);
                            done += invalid;
                        }
                        None => {
                            self.open.drain(..done);
                            return;
                        }
                    }
                }
            }
        }
    }

    /// A character is open.
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn in_pieces(bytes: &[u8], cuts: &[usize]) -> (String, usize) {
        let mut utf8 = Utf8::default();
        let mut text = String::new();
        let mut rest = bytes;
        for cut in cuts {
            let (head, tail) = rest.split_at((*cut).min(rest.len()));
            utf8.push(head, &mut text);
            rest = tail;
        }
        utf8.push(rest, &mut text);
        (text, utf8.open.len())
    }

    #[test]
    fn an_emoji_in_four_tokens_comes_out_once_and_whole() {
        let mut utf8 = Utf8::default();
        let mut text = String::new();
        for byte in "😀".as_bytes() {
            assert_eq!(text, "");
            utf8.push(&[*byte], &mut text);
        }
        assert_eq!(text, "😀");
        assert!(!utf8.is_open());
    }

    #[test]
    fn an_impossible_byte_becomes_a_replacement_character_as_soon_as_it_is_certain() {
        let mut utf8 = Utf8::default();
        let mut text = String::new();
        utf8.push(&[0xE2, 0x82], &mut text);
        assert_eq!(text, "");
        utf8.push(b"a", &mut text);
        assert_eq!(text, "\u{FFFD}a");
        utf8.push(&[0xFF], &mut text);
        assert_eq!(text, "\u{FFFD}a\u{FFFD}");
    }

    proptest! {
        #[test]
        fn pieces_give_the_same_text_as_the_whole(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                "\\PC{0,12}".prop_map(String::into_bytes),
            ],
            cuts in proptest::collection::vec(0usize..5, 0..20),
        ) {
            let (text, open) = in_pieces(&bytes, &cuts);
            prop_assert!(open <= 3);
            let closed = &bytes[..bytes.len() - open];
            prop_assert_eq!(text, String::from_utf8_lossy(closed).into_owned());
        }
    }
}
