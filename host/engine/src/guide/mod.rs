//! What the next token may be: an answer that must look like something, and an answer that thinks first.
//!
//! A [`Guide`] belongs to one answer. It is told every token that was chosen and says what may come next. It knows nothing of logits:
//! the sampler forbids what is not allowed, and a token that is written by force is not sampled at all. One idea a file: [`lexicon`] is
//! the vocabulary as llguidance wants it, [`grammar`] compiles constraints, [`schema`] and [`finite`] refuse JSON schemas that would not
//! be followed to the letter, [`numerals`] ends numbers that would not end, [`dialect`] spells out what llguidance reads in its own way, [`gbnf`] translates llama.cpp's notation,
//! [`thought`] reads the marks of reasoning byte by byte, and [`desk`] computes all of it beside the device.
//!
//! **Reasoning comes first.** The constraint begins with the byte after the text that ends the reasoning. Whether an answer reasons is
//! only known once it has begun, so at its start two readings live side by side: that it opens with the reasoning's mark, and that it is
//! constrained from its first token. A token is allowed if one of them allows it, and a reading that a token contradicts is gone. So
//! neither has to be guessed. While an answer that is constrained reasons, it cannot end, and no token may write the end of the
//! reasoning together with text behind it: that text would have escaped the constraint.

mod desk;
mod dialect;
mod finite;
mod gbnf;
mod grammar;
mod lexicon;
mod numerals;
mod schema;
mod thought;

pub(crate) use desk::{Desk, Guided};
pub(crate) use grammar::{STACK_BYTES, compile};
pub(crate) use lexicon::{Lexicon, Mask};
pub(crate) use thought::check as check_reasoning;

use std::collections::HashMap;
use std::sync::Arc;

use crate::backend::Vocabulary;
use crate::request::{EngineError, TokenId};
use grammar::Matcher;
use thought::{Ending, Opening, Read, Thought};

/// What may come next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Allowed {
    /// Anything.
    Any,
    /// Tokens of this set; there is at least one.
    Only(Mask),
    /// This token, whatever the model says.
    Forced(TokenId),
    /// Nothing: the answer is complete.
    Complete,
}

/// Where an answer is.
enum Stage {
    /// It may reason, and it may be an answer from its first token on: `rival`, while that is possible.
    Opening { opening: Opening, rival: Option<Matcher> },
    /// It reasons, since `spent` tokens. `written` tokens of the end were forced.
    Reasoning { ending: Ending, spent: u32, written: usize },
    /// It follows its constraint.
    Constrained(Matcher),
    /// Nothing is asked of it any more.
    Free,
}

/// The rules of one answer, and where it is in them.
pub(crate) struct Guide {
    vocabulary: Arc<dyn Vocabulary>,
    stage: Stage,
    thought: Option<Thought>,
    /// The constraint as it is before its first token, and the vocabulary it was made for.
    constraint: Option<(Matcher, Arc<Lexicon>)>,
    /// Masks of the reasoning, by how much of its end is written.
    reasoning: HashMap<Ending, Mask>,
}

impl Guide {
    /// At the start of an answer.
    pub(crate) fn new(vocabulary: Arc<dyn Vocabulary>, thought: Option<Thought>, constraint: Option<(Matcher, Arc<Lexicon>)>) -> Self {
        let rival = constraint.as_ref().map(|(matcher, _)| matcher.fork());
        let stage = match (&thought, rival) {
            (Some(thought), rival) if thought.opens() => Stage::Opening { opening: Opening::default(), rival },
            (Some(_), _) => Stage::Reasoning { ending: Ending::default(), spent: 0, written: 0 },
            (None, Some(matcher)) => Stage::Constrained(matcher),
            (None, None) => Stage::Free,
        };
        Self { vocabulary, stage, thought, constraint, reasoning: HashMap::new() }
    }

    /// Nothing is asked of the answer any more, whatever comes.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.stage, Stage::Free)
    }

    /// What the next token may be.
    ///
    /// # Errors
    /// [`EngineError::Constraint`] when the constraint cannot say.
    pub(crate) fn allowed(&mut self) -> Result<Allowed, EngineError> {
        let lexicon = self.constraint.as_ref().map(|(_, lexicon)| Arc::clone(lexicon));
        match (&mut self.stage, &self.thought) {
            (Stage::Opening { opening, rival }, Some(thought)) => {
                let Some(lexicon) = lexicon else { return Ok(Allowed::Any) };
                let mut mask = lexicon.select(|bytes| !bytes.is_empty() && thought.may_open(*opening, bytes));
                if let Some(rival) = rival {
                    mask.or(&rival.mask()?);
                }
                Ok(Allowed::Only(mask))
            }
            (Stage::Reasoning { ending, spent, written }, Some(thought)) => {
                if thought.is_spent(*spent) {
                    let token = thought.end_token(*written).ok_or_else(|| unwritten(thought))?;
                    return Ok(Allowed::Forced(token));
                }
                let Some(lexicon) = lexicon else { return Ok(Allowed::Any) };
                let mask = self.reasoning.entry(*ending).or_insert_with(|| lexicon.select(|bytes| thought.may_go_on(*ending, bytes)));
                Ok(Allowed::Only(mask.clone()))
            }
            (Stage::Constrained(matcher), _) => match matcher.is_complete() {
                true => Ok(Allowed::Complete),
                false => Ok(Allowed::Only(matcher.mask()?)),
            },
            _ => Ok(Allowed::Any),
        }
    }

    /// `token` was chosen, of those that were allowed. The token that ends an answer never comes here.
    ///
    /// # Errors
    /// [`EngineError::Constraint`] when the constraint does not take it; the plugin's.
    pub(crate) fn accept(&mut self, token: TokenId) -> Result<(), EngineError> {
        self.stage = match (std::mem::replace(&mut self.stage, Stage::Free), &self.thought) {
            (Stage::Opening { opening, rival }, Some(thought)) => {
                let bytes = self.vocabulary.decode(&[token], true)?;
                let rival = rival.map(|rival| rival.follow(token)).transpose()?.flatten();
                match thought.open(opening, &bytes) {
                    Read::Opening(opening) => Stage::Opening { opening, rival },
                    Read::Reasoning(ending) => Stage::Reasoning { ending, spent: 0, written: 0 },
                    Read::Over => self.after(),
                    Read::Not => match (rival, &self.constraint) {
                        (Some(rival), _) => Stage::Constrained(rival),
                        (None, None) => Stage::Free,
                        (None, Some(_)) => return Err(EngineError::Constraint(format!("token {token} neither reasons nor follows it"))),
                    },
                }
            }
            (Stage::Reasoning { ending, spent, written }, Some(thought)) => {
                let bytes = self.vocabulary.decode(&[token], true)?;
                let written = written + usize::from(thought.is_spent(spent));
                match thought.go_on(ending, &bytes) {
                    Some(ending) => Stage::Reasoning { ending, spent: spent.saturating_add(1), written },
                    None => self.after(),
                }
            }
            (Stage::Constrained(mut matcher), _) => {
                matcher.take(token)?;
                Stage::Constrained(matcher)
            }
            _ => Stage::Free,
        };
        Ok(())
    }

    /// The reasoning is over.
    fn after(&self) -> Stage {
        self.constraint.as_ref().map_or(Stage::Free, |(matcher, _)| Stage::Constrained(matcher.fork()))
    }
}

/// The tokens of the end do not write it. [`check_reasoning`] looks for that before an answer begins.
fn unwritten(thought: &Thought) -> EngineError {
    EngineError::Constraint(format!("the tokens of {:?} do not write it", thought.end_text()))
}

#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;
