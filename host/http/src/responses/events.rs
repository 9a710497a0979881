//! A response as a stream of events, each with its number.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use onebit_engine::TokenOut;
use serde_json::{Map, Value, json};

use super::Responses;
use super::answer::{Answer, Item, ItemState, OutputText, ReasoningText, Step};
use super::object::{Head, Stage};
use crate::errors::ApiError;
use crate::formats::Piece;
use crate::generation::stream::{EVENTS, Frames, Writer};
use crate::generation::{End, Tally};

/// Writes them.
pub struct Events {
    head: Head,
    answer: Answer,
    /// Where the response is kept at its end; `None` = nowhere.
    keep: Option<Arc<Responses>>,
    /// Steps of the end, told when it is kept.
    last_steps: Vec<Step>,
    number: u64,
}

impl Events {
    /// Of a response that begins.
    pub fn new(head: Head, keep: Option<Arc<Responses>>) -> Self {
        let answer = Answer::new(head.namespaces.clone());
        Self { head, answer, keep, last_steps: Vec::new(), number: 0 }
    }

    fn event(&mut self, name: &str, fields: Value, out: &mut Frames) {
        let mut event = Map::new();
        event.insert("type".into(), name.into());
        event.insert("sequence_number".into(), self.number.into());
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
        self.number += 1;
        out.event(name, &event);
    }

    fn stage(&mut self, name: &str, stage: Stage<'_>, out: &mut Frames) {
        let response = json!({"response": self.head.response(stage, &self.answer.items)});
        self.event(name, response, out);
    }

    fn tell(&mut self, step: Step, out: &mut Frames) {
        match step {
            Step::Added(index) => self.added(index, out),
            Step::Grew(index, text, logprobs) => {
                let Some(item) = self.answer.items.get(index) else { return };
                let (name, fields) = match item {
                    Item::Message { id, .. } => (
                        "response.output_text.delta",
                        json!({"item_id": id, "output_index": index, "content_index": 0, "delta": text, "logprobs": logprobs}),
                    ),
                    Item::Reasoning { id, .. } => {
                        ("response.reasoning_text.delta", json!({"item_id": id, "output_index": index, "content_index": 0, "delta": text}))
                    }
                    Item::FunctionCall { id, .. } => {
                        ("response.function_call_arguments.delta", json!({"item_id": id, "output_index": index, "delta": text}))
                    }
                };
                self.event(name, fields, out);
            }
            Step::Done(index) => self.done(index, out),
        }
    }

    /// An item begins: first without what it will hold, then with an empty part to fill.
    fn added(&mut self, index: usize, out: &mut Frames) {
        let Some(mut item) = self.answer.items.get(index).cloned() else { return };
        let (id, part) = match &mut item {
            Item::Message { id, status, content, .. } => {
                (*status, *content) = (ItemState::InProgress, Vec::new());
                (id.clone(), json!(OutputText::new(String::new(), Vec::new())))
            }
            Item::Reasoning { id, status, content, .. } => {
                (*status, *content) = (ItemState::InProgress, Vec::new());
                (id.clone(), json!(ReasoningText::new(String::new())))
            }
            Item::FunctionCall { status, arguments, .. } => {
                *status = ItemState::InProgress;
                arguments.clear();
                return self.event("response.output_item.added", json!({"output_index": index, "item": item}), out);
            }
        };
        self.event("response.output_item.added", json!({"output_index": index, "item": item}), out);
        self.event("response.content_part.added", json!({"item_id": id, "output_index": index, "content_index": 0, "part": part}), out);
    }

    fn done(&mut self, index: usize, out: &mut Frames) {
        let Some(item) = self.answer.items.get(index).cloned() else { return };
        let place = |id: &str| json!({"item_id": id, "output_index": index, "content_index": 0});
        match &item {
            Item::Message { id, content, .. } => {
                for part in content {
                    self.event("response.output_text.done", with(place(id), json!({"text": part.text, "logprobs": part.logprobs})), out);
                    self.event("response.content_part.done", with(place(id), json!({"part": part})), out);
                }
            }
            Item::Reasoning { id, content, .. } => {
                for part in content {
                    self.event("response.reasoning_text.done", with(place(id), json!({"text": part.text})), out);
                    self.event("response.content_part.done", with(place(id), json!({"part": part})), out);
                }
            }
            Item::FunctionCall { id, name, arguments, .. } => {
                let fields = json!({"item_id": id, "output_index": index, "name": name, "arguments": arguments});
                self.event("response.function_call_arguments.done", fields, out);
            }
        }
        self.event("response.output_item.done", json!({"output_index": index, "item": item}), out);
    }
}

fn with(mut fields: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    fields
}

impl Writer for Events {
    const CONTENT_TYPE: &'static str = EVENTS;

    fn started(&mut self, _: u32, out: &mut Frames) {
        self.stage("response.created", Stage::Running, out);
        self.stage("response.in_progress", Stage::Running, out);
    }

    fn said(&mut self, _: u32, pieces: &[Piece], tokens: &[TokenOut], out: &mut Frames) {
        for step in self.answer.take(pieces, tokens) {
            self.tell(step, out);
        }
    }

    fn before_end(&mut self, _: u32, end: &End, tally: &Tally) -> BoxFuture<'static, Result<(), ApiError>> {
        let status = if *end == End::Length { ItemState::Incomplete } else { ItemState::Completed };
        self.last_steps.extend(self.answer.close(status));
        let Some(keep) = self.keep.clone() else { return std::future::ready(Ok(())).boxed() };
        let kept = self.head.kept(Stage::Ended(end, tally), &self.answer.items);
        async move { keep.keep(kept?).await }.boxed()
    }

    fn finished(&mut self, _: u32, end: &End, tally: &Tally, _: bool, out: &mut Frames) {
        for step in std::mem::take(&mut self.last_steps) {
            self.tell(step, out);
        }
        let name = if *end == End::Length { "response.incomplete" } else { "response.completed" };
        self.stage(name, Stage::Ended(end, tally), out);
    }

    fn failed(&mut self, error: &ApiError, out: &mut Frames) {
        self.answer.close(ItemState::Incomplete);
        self.stage("response.failed", Stage::Failed(error), out);
        if let (Some(keep), Ok(kept)) = (self.keep.clone(), self.head.kept(Stage::Failed(error), &self.answer.items)) {
            // The client knows already; whoever asks for it later is to know, too.
            tokio::spawn(async move {
                if let Err(error) = keep.keep(kept).await {
                    tracing::warn!("a failed response could not be kept: {error}");
                }
            });
        }
    }
}
