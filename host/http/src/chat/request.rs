//! A chat as every dialect asks it.

use onebit_engine::Constraint;
use serde_json::{Map, Value};

use super::closed::closed;
use crate::formats::Tool;
use crate::generation::{HeldTo, Wishes};
use crate::template::conversation::Conversation;

/// A chat.
#[derive(Debug)]
pub struct ChatRequest {
    /// The model asked for.
    pub model: String,
    /// What was said; its `tools` stay empty here, [`ChatRequest::tools`] are written into it as the model wants them.
    pub conversation: Conversation,
    /// Functions the model may call.
    pub tools: Vec<Tool>,
    /// Whether it must.
    pub tool_choice: ToolChoice,
    /// More than one call in an answer; `None` = as the model sees fit, and one where a call is demanded: a small model that must call does not
    /// find an end.
    pub parallel_tool_calls: Option<bool>,
    /// What the answer must look like where it is no call.
    pub format: Option<AskedFormat>,
    /// How much to think.
    pub thinking: Thinking,
    /// How answers are made.
    pub wishes: Wishes,
    /// Tokens of an answer at most.
    pub max_tokens: Option<u32>,
    /// Log-probabilities of each token and of so many alternatives.
    pub logprobs: Option<u32>,
}

/// Whether functions must be called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// As the model sees fit.
    #[default]
    Auto,
    /// Never.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// What an answer must look like, and the field that said so.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedFormat {
    /// As the dialect calls it.
    pub field: &'static str,
    /// What it said.
    pub format: AnswerFormat,
}

/// What an answer must look like.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerFormat {
    /// JSON that fits a schema.
    Schema(Value),
    /// Anything the engine knows.
    Constraint(Constraint),
}

impl AnswerFormat {
    /// Asked for in this field.
    pub fn asked_in(self, field: &'static str) -> AskedFormat {
        AskedFormat { field, format: self }
    }

    /// Any JSON object.
    pub fn object() -> Self {
        Self::Schema(serde_json::json!({"type": "object"}))
    }

    /// For the engine.
    pub(super) fn into_constraint(self) -> Constraint {
        match self {
            Self::Schema(schema) => Constraint::JsonSchema(closed(schema).to_string()),
            Self::Constraint(constraint) => constraint,
        }
    }
}

impl From<AskedFormat> for HeldTo {
    fn from(asked: AskedFormat) -> Self {
        Self { constraint: asked.format.into_constraint(), field: asked.field }
    }
}

/// How much a model is to think before it answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Thinking {
    /// Whether at all; `None` = as the model's template has it.
    pub wanted: Option<bool>,
    /// `low`, `medium`, `high`, …: for templates that know such a thing.
    pub effort: Option<String>,
    /// Tokens of reasoning at most.
    pub budget: Option<u32>,
}

impl Thinking {
    /// Into the template's variables, under the names that families look for. What a client set itself stays.
    pub(super) fn write(&self, variables: &mut Map<String, Value>) {
        let mut say = |name: &str, value: Value| {
            variables.entry(name).or_insert(value);
        };
        if let Some(wanted) = self.wanted {
            // Qwen, GLM and others; DeepSeek and Granite.
            say("enable_thinking", wanted.into());
            say("thinking", wanted.into());
        }
        if let Some(effort) = &self.effort {
            say("reasoning_effort", effort.as_str().into());
        }
        if let Some(budget) = self.budget {
            say("thinking_budget", budget.into());
        }
    }
}
