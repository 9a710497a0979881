//! The items of an answer, while it is written.
//!
//! Each piece that is said becomes steps: an item is added, grows, is done. A stream tells them; whoever wants the answer only when it is
//! complete passes over them.

use onebit_engine::TokenOut;
use serde::Serialize;

use super::input::id;
use super::tools::Namespaces;
use crate::formats::Piece;
use crate::generation::{Part, Parts};
use crate::openai::logprobs::{ChatLogprobs, ChatToken};

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    InProgress,
    Completed,
    Incomplete,
}

/// An item of the answer.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    Reasoning {
        id: String,
        status: ItemState,
        summary: [(); 0],
        content: Vec<ReasoningText>,
        encrypted_content: Option<()>,
    },
    Message {
        id: String,
        status: ItemState,
        role: &'static str,
        content: Vec<OutputText>,
    },
    FunctionCall {
        id: String,
        status: ItemState,
        call_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        name: String,
        arguments: String,
    },
}

/// What was thought.
#[derive(Debug, Clone, Serialize)]
pub struct ReasoningText {
    r#type: &'static str,
    pub text: String,
}

/// What was said.
#[derive(Debug, Clone, Serialize)]
pub struct OutputText {
    r#type: &'static str,
    annotations: [(); 0],
    pub logprobs: Vec<ChatToken>,
    pub text: String,
}

impl ReasoningText {
    /// One with this text.
    pub fn new(text: String) -> Self {
        Self { r#type: "reasoning_text", text }
    }
}

impl OutputText {
    /// One with this text.
    pub fn new(text: String, logprobs: Vec<ChatToken>) -> Self {
        Self { r#type: "output_text", annotations: [], logprobs, text }
    }
}

impl Item {
    fn begun(part: &Part<'_>, namespaces: &Namespaces) -> Self {
        let status = ItemState::InProgress;
        match part {
            Part::Reasoning(_) => {
                let content = vec![ReasoningText::new(String::new())];
                Self::Reasoning { id: id("rs"), status, summary: [], content, encrypted_content: None }
            }
            Part::Text(_) => {
                let content = vec![OutputText::new(String::new(), Vec::new())];
                Self::Message { id: id("msg"), status, role: "assistant", content }
            }
            Part::Call(call) => {
                let (namespace, name) = namespaces.split(&call.name);
                Self::FunctionCall { id: id("fc"), status, call_id: call.id.clone(), namespace, name, arguments: String::new() }
            }
        }
    }

    fn takes(&self, part: &Part<'_>) -> bool {
        matches!((self, part), (Self::Reasoning { .. }, Part::Reasoning(_)) | (Self::Message { .. }, Part::Text(_)))
    }

    fn grow(&mut self, part: Part<'_>, tokens: &[ChatToken]) {
        match (self, part) {
            (Self::Reasoning { content, .. }, Part::Reasoning(more)) => {
                if let Some(last) = content.last_mut() {
                    last.text.push_str(more);
                }
            }
            (Self::Message { content, .. }, Part::Text(more)) => {
                if let Some(last) = content.last_mut() {
                    last.text.push_str(more);
                    last.logprobs.extend_from_slice(tokens);
                }
            }
            (Self::FunctionCall { arguments, .. }, Part::Call(call)) => *arguments = call.arguments,
            _ => {}
        }
    }

    fn status(&mut self) -> &mut ItemState {
        match self {
            Self::Reasoning { status, .. } | Self::Message { status, .. } | Self::FunctionCall { status, .. } => status,
        }
    }
}

/// Something to tell; the index is the item's.
#[derive(Debug)]
pub enum Step {
    /// It begins.
    Added(usize),
    /// It has this text more.
    Grew(usize, String, Vec<ChatToken>),
    /// It is complete, or will never be.
    Done(usize),
}

/// The answer so far.
#[derive(Debug, Default)]
pub struct Answer {
    /// Its items.
    pub items: Vec<Item>,
    namespaces: Namespaces,
    parts: Parts,
    /// The last item still grows.
    open: bool,
    /// Tokens whose text is not said yet.
    waiting: Vec<TokenOut>,
}

impl Answer {
    /// Nothing yet.
    pub fn new(namespaces: Namespaces) -> Self {
        Self { namespaces, ..Self::default() }
    }

    /// Takes what was said.
    pub fn take(&mut self, pieces: &[Piece], tokens: &[TokenOut]) -> Vec<Step> {
        let mut steps = Vec::new();
        self.waiting.extend(tokens.iter().filter(|token| token.logprob.is_some()).cloned());
        for piece in pieces {
            let Some(part) = self.parts.take(piece) else { continue };
            // All of them came with the first of the pieces; only text has a place for them.
            let tokens = ChatLogprobs::of(&std::mem::take(&mut self.waiting)).into_tokens();
            self.part(part, tokens, &mut steps);
        }
        steps
    }

    fn part(&mut self, part: Part<'_>, tokens: Vec<ChatToken>, steps: &mut Vec<Step>) {
        if !(self.open && self.items.last().is_some_and(|item| item.takes(&part))) {
            steps.extend(self.close(ItemState::Completed));
            steps.push(Step::Added(self.items.len()));
            self.items.push(Item::begun(&part, &self.namespaces));
            self.open = true;
        }
        let index = self.items.len() - 1;
        let text = match &part {
            Part::Text(text) | Part::Reasoning(text) => (*text).to_owned(),
            Part::Call(call) => call.arguments.clone(),
        };
        self.items[index].grow(part, &tokens);
        steps.push(Step::Grew(index, text, tokens));
    }

    /// Ends the item that still grows.
    pub fn close(&mut self, status: ItemState) -> Option<Step> {
        let index = self.items.len().checked_sub(1).filter(|_| self.open)?;
        self.open = false;
        *self.items[index].status() = status;
        Some(Step::Done(index))
    }
}

#[cfg(test)]
mod tests {
    use onebit_engine::TokenLogprob;

    use super::*;

    fn token(text: &str) -> TokenOut {
        TokenOut { id: 1, logprob: Some(TokenLogprob { bytes: text.as_bytes().to_vec(), logprob: -0.5, top: Vec::new() }) }
    }

    #[test]
    fn each_kind_of_piece_has_its_item_and_each_item_its_end() {
        let mut answer = Answer::default();
        let mut steps = answer.take(&[Piece::Reasoning("a".into())], &[]);
        steps.extend(answer.take(&[Piece::Reasoning("b".into()), Piece::Text("c".into())], &[]));
        steps.extend(answer.take(&[Piece::Call { id: "1".into(), name: "f".into() }, Piece::Arguments("{}".into()), Piece::CallEnd], &[]));
        steps.extend(answer.close(ItemState::Incomplete));
        let told: Vec<String> = steps
            .iter()
            .map(|step| match step {
                Step::Added(index) => format!("+{index}"),
                Step::Grew(index, text, _) => format!("{index}{text}"),
                Step::Done(index) => format!("-{index}"),
            })
            .collect();
        assert_eq!(told, ["+0", "0a", "0b", "-0", "+1", "1c", "-1", "+2", "2{}", "-2"]);
        assert!(answer.close(ItemState::Completed).is_none());
        let statuses: Vec<ItemState> = answer.items.iter_mut().map(|item| *item.status()).collect();
        assert_eq!(statuses, [ItemState::Completed, ItemState::Completed, ItemState::Incomplete]);
    }

    #[test]
    fn tokens_wait_for_their_text() {
        let mut answer = Answer::default();
        assert!(answer.take(&[], &[token("<")]).is_empty());
        answer.take(&[Piece::Text("<b".into())], &[token("b")]);
        let [Item::Message { content, .. }] = &answer.items[..] else { panic!("{:?}", answer.items) };
        assert_eq!((content[0].text.as_str(), content[0].logprobs.len()), ("<b", 2));
    }
}
