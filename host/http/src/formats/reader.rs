//! What every reader of calls has in common.

use serde_json::Value;

use super::piece::Piece;

/// Longest name of a function, in bytes. OpenAI allows 64; a name that never ends is no name.
const MAX_NAME: usize = 256;

/// How far a reader came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It needs more text.
    More,
    /// All calls are read; what follows is text.
    Done,
    /// This is no call.
    Broken,
}

/// Reads calls as their text comes in, beginning with the text that opens them.
pub(super) trait Reader: std::fmt::Debug + Send {
    /// Reads one thing: a mark, a name, a value or what is there of one. The number of bytes it is done with, or why it cannot go on; what it
    /// is not done with it is given again, with more behind it. `last`: nothing more will come.
    ///
    /// What a text means does not depend on the portions it comes in.
    fn step(&mut self, text: &str, last: bool, out: &mut Vec<Piece>) -> Result<usize, Verdict>;

    /// A call is complete and the next one has not begun: what was read so far will not turn out to be text.
    fn is_settled(&self) -> bool;

    /// The mark after all calls, where there is one.
    fn end(&self) -> &'static str;
}

/// Whether this can be the name of a function.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(|c: char| c.is_whitespace() || c.is_control() || "{}<>\"'".contains(c))
}

/// Whether text that should hold a name goes on for too long.
pub(super) fn too_long(text: &str) -> bool {
    text.len() > MAX_NAME
}

/// A function the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// JSON schema of its arguments; an object.
    pub parameters: Value,
}

impl Tool {
    /// The schema of one argument.
    pub(super) fn argument(&self, key: &str) -> Option<&Value> {
        self.parameters.get("properties")?.get(key)
    }
}

/// Whether the schema of an argument allows nothing but text.
pub(super) fn is_text(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("string")
}
