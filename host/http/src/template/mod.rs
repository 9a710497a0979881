//! Chat templates: from a conversation to prompt text, with a model file's own Jinja program.
//!
//! A template is foreign code and a client's text is foreign data. The first runs on fuel, in a process of its own ([`Renderer`]), and cannot
//! reach files or the network; the second is marked by [`guard::Guard`] so that it can never become a control token. A template's own
//! refusal (`raise_exception`) is the client's error and carries the template's words.

mod cache;
pub mod conversation;
mod engine;
mod filters;
pub mod guard;
mod process;
mod renderer;

pub use cache::Templates;
pub use process::{ROLE, render_main};
pub use renderer::Renderer;

use onebit_engine::PromptPart;
use serde::{Deserialize, Serialize};

use conversation::Conversation;
use engine::Program;
use guard::{Fragments, Guard, Markers};

/// Why there is no prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum TemplateError {
    /// The template (or a limit) refuses these messages.
    #[error("{0}")]
    Refused(String),
    /// The template itself cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// The process that runs it could not be started or reached.
    #[error("{0}")]
    Process(String),
}

/// What a template may know of its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateSource {
    /// Jinja, as Hugging Face's tokenizers write it.
    pub text: String,
    /// `bos_token`.
    pub bos: Option<String>,
    /// `eos_token`.
    pub eos: Option<String>,
    /// Texts of all control tokens.
    pub control_tokens: Vec<String>,
}

/// A compiled template with the control tokens of its model.
#[derive(Debug)]
pub struct ChatTemplate {
    source: TemplateSource,
    program: Program,
    guard: Guard,
}

impl ChatTemplate {
    /// Compiles.
    pub fn new(source: TemplateSource) -> Result<Self, TemplateError> {
        let program = Program::compile(&source.text)?;
        let guard = Guard::new(&source.control_tokens)?;
        Ok(Self { source, program, guard })
    }

    /// What it was made from.
    pub fn source(&self) -> &TemplateSource {
        &self.source
    }

    /// The prompt for a conversation.
    pub fn render(&self, conversation: &Conversation) -> Result<Vec<PromptPart>, TemplateError> {
        let markers = Markers::free(conversation)?;
        let mut risky = false;
        let marked = conversation.map_text(&mut |text| {
            risky |= self.guard.has_fragments(text);
            self.guard.mark(text, markers.user)
        });
        let parts = self.guard.split(&self.run(marked, markers)?, markers.user, &Fragments::new());
        if !risky {
            return Ok(parts);
        }
        let mut fragments = Fragments::new();
        let strict = conversation.map_text(&mut |text| self.guard.mark_strictly(text, markers.user, &mut fragments));
        let strict = self.guard.split(&self.run(strict, markers)?, markers.user, &fragments);
        // The first rendering is what other software sends to the model; it is given up only where it would let text become structure.
        Ok(if self.guard.count(&strict) < self.guard.count(&parts) { strict } else { parts })
    }

    fn run(&self, mut conversation: Conversation, markers: Markers) -> Result<String, TemplateError> {
        let continues = conversation.continues();
        if continues && let Some(last) = conversation.messages.last_mut() {
            last.content.push(markers.end);
        }
        let mut text = self.program.render(&conversation, &self.source, !continues)?;
        if continues {
            // Whatever the template writes after the message closes the turn that is to go on.
            let Some(end) = text.rfind(markers.end) else {
                return Err(TemplateError::Refused(
                    "the chat template of this model leaves out the last assistant message, so it cannot be continued; end with a user message".to_owned(),
                ));
            };
            text.truncate(end);
            text.retain(|c| c != markers.end);
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
