//! A message of the assistant in Anthropic's shape.

use serde::Serialize;
use serde_json::Value;

use super::conversation::id_for_client;
use crate::generation::{Call, End, Part, Tally};

/// A message.
#[derive(Debug, Serialize)]
pub struct Message<'a> {
    pub id: &'a str,
    pub r#type: &'static str,
    pub role: &'static str,
    pub model: &'a str,
    pub content: Vec<Block>,
    pub stop_reason: Option<&'static str>,
    pub stop_sequence: Option<&'a str>,
    pub usage: Usage,
}

/// A block of content.
#[derive(Debug, Serialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Thinking {
        thinking: String,
        /// Nobody is asked to prove what was thought.
        signature: &'static str,
    },
    Text {
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
}

impl Block {
    /// A call with its arguments.
    pub fn call(call: &Call) -> Self {
        // Complete calls have an object; the parser has seen to it.
        let input = serde_json::from_str(&call.arguments).unwrap_or_default();
        Self::ToolUse { id: id_for_client(&call.id), name: call.name.clone(), input }
    }

    /// The block that this part begins.
    pub fn begun(part: &Part<'_>) -> Self {
        match part {
            Part::Text(_) => Self::Text { text: String::new() },
            Part::Reasoning(_) => Self::Thinking { thinking: String::new(), signature: "" },
            Part::Call(call) => {
                Self::ToolUse { id: id_for_client(&call.id), name: call.name.clone(), input: Value::Object(serde_json::Map::new()) }
            }
        }
    }

    /// Whether this part goes on in the block.
    pub fn takes(&self, part: &Part<'_>) -> bool {
        matches!((self, part), (Self::Text { .. }, Part::Text(_)) | (Self::Thinking { .. }, Part::Reasoning(_)))
    }

    /// Adds it.
    pub fn grow(&mut self, part: &Part<'_>) {
        match (self, part) {
            (Self::Text { text }, Part::Text(more)) => text.push_str(more),
            (Self::Thinking { thinking, .. }, Part::Reasoning(more)) => thinking.push_str(more),
            (block, Part::Call(call)) => *block = Self::call(call),
            _ => {}
        }
    }
}

/// Adds a part to the content of a message.
pub fn add(content: &mut Vec<Block>, part: &Part<'_>) {
    match content.last_mut() {
        Some(last) if last.takes(part) => last.grow(part),
        _ => {
            let mut block = Block::begun(part);
            block.grow(part);
            content.push(block);
        }
    }
}

/// Numbers of a request.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Usage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct OutputDetails {
    thinking_tokens: u64,
}

impl Usage {
    /// Before the first token. In Anthropic's count what was found is not part of the input.
    pub fn begun((prompt_tokens, cached_tokens): (u64, u64)) -> Self {
        Self {
            input_tokens: prompt_tokens.saturating_sub(cached_tokens),
            // Nothing is written on purpose, and nothing is paid for it.
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached_tokens,
            output_tokens: 0,
            output_tokens_details: OutputDetails { thinking_tokens: 0 },
        }
    }
}

impl From<&Tally> for Usage {
    fn from(tally: &Tally) -> Self {
        Self {
            output_tokens: tally.completion_tokens,
            output_tokens_details: OutputDetails { thinking_tokens: tally.reasoning_tokens },
            ..Self::begun((tally.prompt_tokens, tally.cached_tokens))
        }
    }
}

/// The reasons that [`stop`] has.
pub const STOP_REASONS: &[&str] = &["stop_sequence", "end_turn", "max_tokens", "tool_use"];

/// `stop_reason` and `stop_sequence`. A stop string of the manifest's is the model's own end: the client did not ask for it.
pub fn stop<'a>(end: &'a End, asked: &[String]) -> (&'static str, Option<&'a str>) {
    match end {
        End::StopString(text) if asked.contains(text) => ("stop_sequence", Some(text)),
        End::Stop | End::StopString(_) => ("end_turn", None),
        End::Length => ("max_tokens", None),
        End::Calls => ("tool_use", None),
    }
}
