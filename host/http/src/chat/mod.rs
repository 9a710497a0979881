//! One request type for every chat dialect, and the way from it to a running answer.
//!
//! A dialect reads its own fields into a [`ChatRequest`] and writes what happens in the [`Run`] in its own shapes. Everything between is here
//! and written once: which of the family's formats the model has, how tools reach the prompt, what reasoning costs, what the answer is held to.

mod closed;
mod constrain;
mod formats;
pub mod functions;
mod render;
mod request;
mod tools;

use std::sync::Arc;

pub use request::{AnswerFormat, AskedFormat, ChatRequest, Thinking, ToolChoice};

use crate::app::App;
use crate::errors::ApiError;
use crate::formats::{BY_HOST, Marks, ToolFormat, tool_format};
use crate::generation::{Job, Reading, Run};
use crate::models::Leased;
use formats::Formats;
use onebit_engine::{Prompt, PromptPart};

/// A chat whose prompt is rendered.
#[derive(Debug)]
pub struct Prepared {
    /// The prompt.
    pub parts: Vec<PromptPart>,
    job: Job,
}

/// From a request to a prompt: formats, tools, template, constraint.
pub async fn prepare(app: &App, lease: &dyn Leased, request: ChatRequest) -> Result<Prepared, ApiError> {
    let ChatRequest { model: _, mut conversation, tools, tool_choice, parallel_tool_calls, format, thinking, wishes, max_tokens, logprobs } =
        request;
    wishes.check_vocabulary(lease.facts().vocabulary)?;
    let defaults = lease.defaults();
    if let Some(system) = &defaults.system {
        conversation.begin_with(system);
    }
    let formats = Formats::of(lease)?;
    let tools = tools::chosen(tools, &tool_choice)?;
    tools::write(&mut conversation, &tools, &formats);
    thinking.write(&mut conversation.variables);
    let parts = render::render(app, lease, conversation).await?;
    let demanded = matches!(tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    // A call that must come is asked for in the host's own notation where no grammar describes the family's.
    let family = formats.tools.and_then(|format| if demanded && !format.has_grammar() { tool_format(BY_HOST) } else { Some(format) });
    let reading = Reading {
        reasoning: formats.reasoning.and_then(|format| border(&parts, format.start, format.end)),
        tools: family.filter(|format| !tools.is_empty() || format.marks_whole_answer()),
        known: Arc::from(tools),
    };
    let constraint = constrain::constraint(&reading, &tool_choice, parallel_tool_calls, format)?;
    // Where one call is all, what ends it ends the answer.
    let single = parallel_tool_calls == Some(false) && !reading.known.is_empty();
    let own_stops = reading.tools.filter(|_| single).and_then(ToolFormat::call_end).map(str::to_owned).into_iter().collect();
    let job = Job {
        logprobs,
        constraint,
        reasoning_budget: thinking.budget,
        own_stops,
        reading,
        ..Job::plain(Vec::new(), wishes, max_tokens.or(defaults.max_tokens))
    };
    Ok(Prepared { parts, job })
}

/// Starts the answers to a prepared chat.
pub async fn start(app: &App, lease: &Arc<dyn Leased>, prepared: Prepared) -> Result<Run, ApiError> {
    let job = Job { prompts: vec![Prompt::Parts(prepared.parts)], ..prepared.job };
    Run::start(Arc::clone(lease), job, Arc::clone(&app.metrics)).await
}

/// The marks around reasoning in an answer to this prompt: a template may have opened it, or closed it, as when thinking is switched off.
fn border(parts: &[PromptPart], start: &str, end: &str) -> Option<Marks> {
    let tail: String = parts.iter().rev().take(4).collect::<Vec<_>>().into_iter().rev().map(|part| part.text.as_str()).collect();
    let tail = tail.trim_end();
    if tail.ends_with(end.trim_end()) {
        None
    } else if tail.ends_with(start.trim_end()) {
        Some(Marks { start: None, end: end.to_owned() })
    } else {
        Some(Marks { start: Some(start.to_owned()), end: end.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> PromptPart {
        PromptPart { text: text.to_owned(), control: true }
    }

    #[test]
    fn a_prompt_may_have_opened_or_closed_the_reasoning() {
        let of = |text: &str| border(&[part("<|assistant|>"), part(text)], "<think>", "</think>");
        assert_eq!(of("\n"), Some(Marks { start: Some("<think>".into()), end: "</think>".into() }));
        assert_eq!(of("<think>\n"), Some(Marks { start: None, end: "</think>".into() }));
        assert_eq!(of("<think>\n\n</think>\n\n"), None);
    }
}
