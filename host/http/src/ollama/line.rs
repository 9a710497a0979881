//! The lines of an answer: parts, and the last one with the numbers.

use onebit_engine::TokenOut;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::formats::Piece;
use crate::generation::{Call, End, Part, Parts, Tally};
use crate::openai::logprobs::ChatLogprobs;

/// When something was said, as Ollama writes it.
pub fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// What a line says, for `/api/chat` and `/api/generate`.
#[derive(Debug, Default)]
pub struct Said {
    /// Text for the reader.
    pub text: String,
    /// What the model thought.
    pub thinking: String,
    /// Whole calls.
    pub calls: Vec<Value>,
    /// Something began like a call and is none; it stands in the text.
    pub malformed: bool,
    parts: Parts,
    /// Calls of the whole answer: their numbers go on from line to line.
    told: usize,
}

impl Said {
    /// Adds pieces.
    pub fn take(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.malformed |= matches!(piece, Piece::Broken(_));
            match self.parts.take(piece) {
                Some(Part::Text(text)) => self.text.push_str(text),
                Some(Part::Reasoning(text)) => self.thinking.push_str(text),
                Some(Part::Call(Call { id, name, arguments })) => {
                    // A call is whole only if its arguments are an object.
                    let arguments: Map<String, Value> = serde_json::from_str(&arguments).unwrap_or_default();
                    self.calls.push(json!({"id": id, "function": {"index": self.told, "name": name, "arguments": arguments}}));
                    self.told += 1;
                }
                None => {}
            }
        }
    }

    /// What is new, leaving a call that has begun.
    pub fn drain(&mut self) -> Self {
        let kept = Self { parts: std::mem::take(&mut self.parts), told: self.told, ..Self::default() };
        std::mem::replace(self, kept)
    }

    /// Nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty() && self.calls.is_empty()
    }

    fn message(self) -> Value {
        let mut message = json!({"role": "assistant", "content": self.text});
        if !self.thinking.is_empty() {
            message["thinking"] = self.thinking.into();
        }
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.into();
        }
        if self.malformed {
            message["tool_call_parse_error"] = true.into();
        }
        message
    }
}

/// Which of the two routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `/api/chat`.
    Chat,
    /// `/api/generate`.
    Generate,
}

/// One line.
pub fn line(route: Route, model: &str, said: Said, tokens: Option<&[TokenOut]>, end: Option<Value>) -> Value {
    let mut line = json!({"model": model, "created_at": now()});
    match route {
        Route::Chat => line["message"] = said.message(),
        Route::Generate => {
            line["response"] = said.text.into();
            if !said.thinking.is_empty() {
                line["thinking"] = said.thinking.into();
            }
        }
    }
    if let Some(tokens) = tokens {
        line["logprobs"] = ChatLogprobs::of(tokens).into_list();
    }
    line["done"] = end.is_some().into();
    if let (Some(Value::Object(end)), Some(line)) = (end, line.as_object_mut()) {
        line.extend(end);
    }
    line
}

/// Numbers of the last line, nanoseconds.
#[derive(Debug, Serialize)]
struct Numbers {
    done_reason: &'static str,
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: u64,
    prompt_eval_duration: u64,
    eval_count: u64,
    eval_duration: u64,
}

/// The end of an answer. `load_ns`: until the model was there.
pub fn end(end: &End, tally: &Tally, load_ns: u64) -> Value {
    let ns = |us: u64| us.saturating_mul(1000);
    let reason = match end {
        End::Length => "length",
        End::Stop | End::StopString(_) | End::Calls => "stop",
    };
    let (prompt, eval) = (ns(tally.prefill_us), ns(tally.decode_us));
    let numbers = Numbers {
        done_reason: reason,
        total_duration: load_ns + ns(tally.queue_us) + prompt + eval,
        load_duration: load_ns,
        prompt_eval_count: tally.prompt_tokens,
        prompt_eval_duration: prompt,
        eval_count: tally.completion_tokens,
        eval_duration: eval,
    };
    serde_json::to_value(numbers).unwrap_or_default()
}
