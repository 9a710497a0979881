//! One thing that was looked at.

use serde::Serialize;
use serde_json::Value;

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be, or a plain fact.
    Ok,
    /// Works, but something is lost.
    Warn,
    /// Something does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Which part: `cpu`, `memory`, `devices`, `sandbox`, `plugins`, `folders`.
    pub area: &'static str,
    /// How it stands.
    pub level: Level,
    /// One sentence.
    pub text: String,
    /// What to do, if there is something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The same for programs.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub facts: Value,
}

impl Finding {
    /// A fact.
    pub fn ok(area: &'static str, text: impl Into<String>) -> Self {
        Self { area, level: Level::Ok, text: text.into(), next: None, facts: Value::Null }
    }

    /// A loss.
    pub fn warn(area: &'static str, text: impl Into<String>, next: impl Into<String>) -> Self {
        Self { level: Level::Warn, next: Some(next.into()), ..Self::ok(area, text) }
    }

    /// A fault.
    pub fn fail(area: &'static str, text: impl Into<String>, next: impl Into<String>) -> Self {
        Self { level: Level::Fail, next: Some(next.into()), ..Self::ok(area, text) }
    }

    /// Adds the facts for programs.
    pub fn with(mut self, facts: Value) -> Self {
        self.facts = facts;
        self
    }
}
