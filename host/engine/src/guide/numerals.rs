//! Numbers that would never end.
//!
//! No schema forbids another digit behind a point, and a small model that has begun a row of them may never find out of it. So after
//! [`MOST_DIGITS`] in a row a number ends, if its constraint lets it: more than any type holds that a number is read into. Where a letter
//! might follow it is text, which is not for us to cut, and what a constraint demands is never taken away.

use std::sync::Arc;

use llguidance::toktrie::TokEnv;

use super::lexicon::{Lexicon, Mask};
use crate::request::TokenId;

/// Digits in a row. A double has 17, an integer of 64 bits 20, the longest number of a bank account 30.
const MOST_DIGITS: usize = 32;
/// Part of no number, time or date.
const LETTER: &[u8] = b"q";

/// The digits at the end of an answer.
#[derive(Clone)]
pub(super) struct Numerals {
    row: usize,
    words: TokEnv,
    digits: Arc<Mask>,
    letter: Option<TokenId>,
}

impl Numerals {
    /// At the start of an answer.
    pub(super) fn new(lexicon: &Lexicon) -> Self {
        let words = lexicon.factory().tok_env().clone();
        Self { row: 0, letter: words.tok_trie().token_id_at_bytes(LETTER), words, digits: lexicon.digits() }
    }

    /// The answer goes on by this token.
    pub(super) fn take(&mut self, token: TokenId) {
        let word = self.words.tok_trie().token(token);
        let digits = word.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        self.row = if digits == word.len() { self.row + digits } else { digits };
    }

    /// Takes away what would make a number longer that is too long already.
    pub(super) fn bound(&self, mask: &mut Mask) {
        if self.row < MOST_DIGITS || self.letter.is_some_and(|letter| mask.is_allowed(letter)) {
            return;
        }
        let mut rest = mask.clone();
        rest.sub(&self.digits);
        if !rest.is_zero() {
            *mask = rest;
        }
    }
}
