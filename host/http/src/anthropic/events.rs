//! A message as a stream of events.

use onebit_engine::TokenOut;
use serde_json::{Value, json};

use super::messages::Head;
use super::reply::{Block, Message, Usage, stop};
use crate::dialect;
use crate::errors::ApiError;
use crate::formats::Piece;
use crate::generation::stream::{EVENTS, Frames, Writer};
use crate::generation::{End, Part, Parts, Tally};

/// Writes them.
pub struct Events {
    head: Head,
    usage: Usage,
    parts: Parts,
    /// The block that is being filled.
    open: Option<Block>,
    index: u32,
}

impl Events {
    /// Of a message whose prompt has so many tokens.
    pub fn new(head: Head, usage: Usage) -> Self {
        Self { head, usage, parts: Parts::default(), open: None, index: 0 }
    }

    fn tell(&mut self, part: &Part<'_>, out: &mut Frames) {
        if !self.open.as_ref().is_some_and(|block| block.takes(part)) {
            self.close(out);
            let block = self.open.insert(Block::begun(part));
            out.event("content_block_start", &json!({"type": "content_block_start", "index": self.index, "content_block": block}));
        }
        let delta = match part {
            Part::Text(text) => json!({"type": "text_delta", "text": text}),
            Part::Reasoning(text) => json!({"type": "thinking_delta", "thinking": text}),
            Part::Call(call) => json!({"type": "input_json_delta", "partial_json": call.arguments}),
        };
        self.delta(delta, out);
    }

    fn delta(&self, delta: Value, out: &mut Frames) {
        out.event("content_block_delta", &json!({"type": "content_block_delta", "index": self.index, "delta": delta}));
    }

    fn close(&mut self, out: &mut Frames) {
        let Some(block) = self.open.take() else { return };
        if matches!(block, Block::Thinking { .. }) {
            // Clients wait for it before they take the block for complete.
            self.delta(json!({"type": "signature_delta", "signature": ""}), out);
        }
        out.event("content_block_stop", &json!({"type": "content_block_stop", "index": self.index}));
        self.index += 1;
    }
}

impl Writer for Events {
    const CONTENT_TYPE: &'static str = EVENTS;

    fn started(&mut self, _: u32, out: &mut Frames) {
        let message = Message { usage: self.usage, ..self.head.message() };
        out.event("message_start", &json!({"type": "message_start", "message": message}));
    }

    fn said(&mut self, _: u32, pieces: &[Piece], _: &[TokenOut], out: &mut Frames) {
        for piece in pieces {
            if let Some(part) = self.parts.take(piece)
                && self.head.tells(&part)
            {
                self.tell(&part, out);
            }
        }
    }

    fn finished(&mut self, _: u32, end: &End, tally: &Tally, _: bool, out: &mut Frames) {
        self.close(out);
        let (reason, sequence) = stop(end, &self.head.stops);
        let delta = json!({"stop_reason": reason, "stop_sequence": sequence});
        out.event("message_delta", &json!({"type": "message_delta", "delta": delta, "usage": Usage::from(tally)}));
        out.event("message_stop", &json!({"type": "message_stop"}));
    }

    fn failed(&mut self, error: &ApiError, out: &mut Frames) {
        out.event("error", &dialect::anthropic(error, &self.head.request_id));
    }

    fn silence(&mut self, out: &mut Frames) {
        out.event("ping", &json!({"type": "ping"}));
    }
}
