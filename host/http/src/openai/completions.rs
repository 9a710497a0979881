//! `POST /v1/completions`: OpenAI's old form, text in and text out. The prompt is raw: texts of control tokens in it become those tokens.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};
use onebit_engine::{Event, FinishReason, TokenOut};
use serde::Serialize;

use super::answer::{Head, Run, TimingFields, UsageFields, finish_reason};
use super::logprobs::{LegacyLogprobs, Offset};
use super::prompts::{self, Entry};
use super::refused::{Dialect, check};
use super::sampling::{Common, MAX_CHOICES};
use super::sse::{self, Chunks, Frames};
use crate::app::{App, stamp};
use crate::body::Object;
use crate::calls::call;
use crate::errors::ApiError;
use crate::fields::Fields;

/// OpenAI's default of this route.
const DEFAULT_MAX_TOKENS: u32 = 16;
/// OpenAI's limit of this route.
const MAX_LOGPROBS: u32 = 5;

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let Asked { common, prompts, logprobs } = Asked::read(&object)?;
    drop(object);
    let lease = app.lease(&common.model, &call).await?;
    let facts = lease.facts();
    common.check_vocabulary(facts.vocabulary)?;
    prompts::check_vocabulary("prompt", &prompts, facts.vocabulary)?;
    let defaults = lease.defaults();
    let prompts = prompts.into_iter().map(|entry| entry.into_prompt(true)).collect();
    let max_tokens = common.max_tokens.or(defaults.max_tokens).unwrap_or(DEFAULT_MAX_TOKENS);
    let (stream, include_usage) = (common.stream, common.include_usage);
    let requests = common.requests(prompts, defaults, logprobs, Some(max_tokens));
    let run = Run::start(Arc::clone(&lease), requests, Arc::clone(&app.metrics)).await?;
    let head = Head::new("cmpl", &*lease);
    let response = if stream {
        let offsets = vec![Offset::default(); run.total() as usize];
        let writer = Writer { head, logprobs: logprobs.is_some(), include_usage, offsets };
        sse::respond(run, writer, Arc::clone(&app.metrics))
    } else {
        whole(run, &head, logprobs.is_some()).await?
    };
    Ok(stamp(response, lease.facts()))
}

struct Asked {
    common: Common,
    prompts: Vec<Entry>,
    logprobs: Option<u32>,
}

impl Asked {
    fn read(object: &Object) -> Result<Self, ApiError> {
        let fields = Fields::of(object);
        let common = Common::read(&fields)?;
        let prompts = prompts::read(&fields, "prompt", MAX_CHOICES as usize)?;
        let answers = prompts.len() * common.n as usize;
        if answers > MAX_CHOICES as usize {
            return Err(ApiError::invalid(
                "n",
                format!("{} prompts with \"n\" {} make {answers} answers; at most {MAX_CHOICES} are allowed", prompts.len(), common.n),
            ));
        }
        check(object, Dialect::Completions)?;
        Ok(Self { common, prompts, logprobs: fields.count("logprobs", 0..=MAX_LOGPROBS)? })
    }
}

/// The whole answer and the chunks of a streamed one have the same shape here.
#[derive(Serialize)]
struct Completion<'a, C: Serialize> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'a str,
    choices: C,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageFields>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<TimingFields>,
}

impl<'a, C: Serialize> Completion<'a, C> {
    fn new(head: &'a Head, choices: C, usage: Option<Option<UsageFields>>, timings: Option<TimingFields>) -> Self {
        Self {
            id: &head.id,
            object: "text_completion",
            created: head.created,
            model: &head.model,
            system_fingerprint: &head.fingerprint,
            choices,
            usage,
            timings,
        }
    }
}

#[derive(Serialize)]
struct Choice<T: Serialize> {
    text: T,
    index: u32,
    logprobs: Option<LegacyLogprobs>,
    finish_reason: Option<&'static str>,
}

async fn whole(mut run: Run, head: &Head, logprobs: bool) -> Result<Response, ApiError> {
    let fresh = |index| Choice { text: String::new(), index, logprobs: logprobs.then(LegacyLogprobs::default), finish_reason: None };
    let mut choices: Vec<(Choice<String>, Offset)> = (0..run.total()).map(|index| (fresh(index), Offset::default())).collect();
    while let Some(event) = run.next().await {
        let (index, event) = event?;
        let Some((choice, offset)) = choices.get_mut(index as usize) else { continue };
        match event {
            Event::Delta { text, tokens } => {
                choice.text.push_str(&text);
                if let Some(list) = &mut choice.logprobs {
                    list.extend(&tokens, offset);
                }
            }
            Event::Finished(finished) => choice.finish_reason = Some(finish_reason(&finished.reason)),
            Event::Started { .. } | Event::Prefill { .. } | Event::Prompt { .. } | Event::Failed(_) => {}
        }
    }
    let choices: Vec<_> = choices.into_iter().map(|(choice, _)| choice).collect();
    let tally = run.tally();
    Ok(axum::Json(Completion::new(head, choices, Some(Some(tally.usage())), Some(tally.timings()))).into_response())
}

struct Writer {
    head: Head,
    logprobs: bool,
    include_usage: bool,
    offsets: Vec<Offset>,
}

impl Writer {
    fn write(&self, choice: Option<Choice<&str>>, usage: Option<UsageFields>, timings: Option<TimingFields>, out: &mut Frames) {
        out.push(&Completion::new(&self.head, choice.as_slice(), self.include_usage.then_some(usage), timings));
    }
}

impl Chunks for Writer {
    /// The old form has no opening chunk.
    fn started(&mut self, _: u32, _: &mut Frames) {}

    fn delta(&mut self, index: u32, text: &str, tokens: &[TokenOut], out: &mut Frames) {
        let logprobs = match self.offsets.get_mut(index as usize) {
            Some(offset) if self.logprobs && !tokens.is_empty() => Some(LegacyLogprobs::of(tokens, offset)),
            _ => None,
        };
        if text.is_empty() && logprobs.is_none() {
            return;
        }
        self.write(Some(Choice { text, index, logprobs, finish_reason: None }), None, None, out);
    }

    fn finished(&mut self, index: u32, reason: &FinishReason, timings: Option<TimingFields>, out: &mut Frames) {
        self.write(Some(Choice { text: "", index, logprobs: None, finish_reason: Some(finish_reason(reason)) }), None, timings, out);
    }

    fn usage(&mut self, usage: UsageFields, out: &mut Frames) {
        if self.include_usage {
            self.write(None, Some(usage), None, out);
        }
    }
}
