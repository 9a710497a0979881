//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};
use onebit_engine::{Event, FinishReason, Prompt, TokenOut};
use serde::Serialize;

use super::answer::{Head, Run, TimingFields, UsageFields, finish_reason};
use super::logprobs::ChatLogprobs;
use super::messages;
use super::refused::{Dialect, check};
use super::sampling::Common;
use super::sse::{self, Chunks, Frames};
use crate::app::{App, stamp};
use crate::body::Object;
use crate::calls::call;
use crate::errors::{ApiError, Kind};
use crate::fields::Fields;
use crate::models::Leased;
use crate::template::conversation::Conversation;
use crate::template::{TemplateError, TemplateSource};

/// OpenAI's limit for `top_logprobs`.
const MAX_TOP_LOGPROBS: u32 = 20;

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let asked = Asked::read(&object)?;
    drop(object);
    let lease = app.lease(&asked.common.model, &call).await?;
    asked.common.check_vocabulary(lease.facts().vocabulary)?;
    let Asked { common, mut conversation, logprobs } = asked;
    let defaults = lease.defaults();
    if let Some(system) = &defaults.system {
        conversation.begin_with(system);
    }
    let prompt = Prompt::Parts(render(&app, &*lease, conversation).await?);
    let (stream, include_usage, max_tokens) = (common.stream, common.include_usage, common.max_tokens.or(defaults.max_tokens));
    let requests = common.requests(vec![prompt], defaults, logprobs, max_tokens);
    let run = Run::start(Arc::clone(&lease), requests, Arc::clone(&app.metrics)).await?;
    let head = Head::new("chatcmpl", &*lease);
    let response = if stream {
        let writer = Writer { head, logprobs: logprobs.is_some(), include_usage };
        sse::respond(run, writer, Arc::clone(&app.metrics))
    } else {
        whole(run, &head, logprobs.is_some()).await?
    };
    Ok(stamp(response, lease.facts()))
}

struct Asked {
    common: Common,
    conversation: Conversation,
    logprobs: Option<u32>,
}

impl Asked {
    fn read(object: &Object) -> Result<Self, ApiError> {
        let fields = Fields::of(object);
        let common = Common::read(&fields)?;
        let conversation = messages::read(&fields)?;
        check(object, Dialect::Chat)?;
        Ok(Self { common, conversation, logprobs: logprobs(&fields)? })
    }
}

fn logprobs(fields: &Fields<'_>) -> Result<Option<u32>, ApiError> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0..=MAX_TOP_LOGPROBS)?;
    match (wanted, top) {
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(ApiError::invalid("top_logprobs", "\"top_logprobs\" needs \"logprobs\": true")),
    }
}

async fn render(app: &App, lease: &dyn Leased, conversation: Conversation) -> Result<Vec<onebit_engine::PromptPart>, ApiError> {
    let facts = lease.facts();
    let Some(text) = facts.chat_template.clone() else {
        return Err(ApiError::new(
            Kind::TemplateMissing,
            format!(
                "the model {:?} has no chat template; use /v1/completions, or name a template in the model's manifest (`chat_template`)",
                lease.model()
            ),
        ));
    };
    let source = TemplateSource { text, bos: facts.bos.clone(), eos: facts.eos.clone(), control_tokens: facts.control_tokens.clone() };
    match app.templates.render(lease.model().to_owned(), source, conversation).await {
        Ok(parts) => Ok(parts),
        Err(TemplateError::Refused(words)) => Err(ApiError::new(Kind::TemplateRefused, words).param("messages")),
        Err(TemplateError::Unusable(words)) => Err(ApiError::new(
            Kind::TemplateMissing,
            format!("{words}; use /v1/completions, or name another template in the model's manifest"),
        )),
        Err(TemplateError::Process(words)) => Err(ApiError::new(Kind::Internal, words)),
    }
}

#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'a str,
    choices: Vec<Choice>,
    usage: UsageFields,
    timings: TimingFields,
}

#[derive(Serialize, Default)]
struct Choice {
    index: u32,
    message: AssistantMessage,
    logprobs: Option<ChatLogprobs>,
    finish_reason: &'static str,
}

#[derive(Serialize, Default)]
struct AssistantMessage {
    role: Assistant,
    content: String,
    refusal: Option<()>,
}

/// The role of every answer.
#[derive(Serialize, Default)]
enum Assistant {
    #[default]
    #[serde(rename = "assistant")]
    Assistant,
}

async fn whole(mut run: Run, head: &Head, logprobs: bool) -> Result<Response, ApiError> {
    let fresh = |index| Choice { index, logprobs: logprobs.then(ChatLogprobs::default), ..Choice::default() };
    let mut choices: Vec<Choice> = (0..run.total()).map(fresh).collect();
    while let Some(event) = run.next().await {
        let (index, event) = event?;
        let Some(choice) = choices.get_mut(index as usize) else { continue };
        match event {
            Event::Delta { text, tokens } => {
                choice.message.content.push_str(&text);
                if let Some(list) = &mut choice.logprobs {
                    list.extend(&tokens);
                }
            }
            Event::Finished(finished) => choice.finish_reason = finish_reason(&finished.reason),
            Event::Started { .. } | Event::Prefill { .. } | Event::Prompt { .. } | Event::Failed(_) => {}
        }
    }
    let tally = run.tally();
    Ok(axum::Json(Completion {
        id: &head.id,
        object: "chat.completion",
        created: head.created,
        model: &head.model,
        system_fingerprint: &head.fingerprint,
        choices,
        usage: tally.usage(),
        timings: tally.timings(),
    })
    .into_response())
}

struct Writer {
    head: Head,
    logprobs: bool,
    include_usage: bool,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'a str,
    choices: &'a [ChunkChoice<'a>],
    /// Absent unless usage was asked for, `null` before the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageFields>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<TimingFields>,
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: u32,
    delta: Delta<'a>,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize, Default)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

impl Writer {
    fn write(&self, choices: &[ChunkChoice<'_>], usage: Option<UsageFields>, timings: Option<TimingFields>, out: &mut Frames) {
        let chunk = Chunk {
            id: &self.head.id,
            object: "chat.completion.chunk",
            created: self.head.created,
            model: &self.head.model,
            system_fingerprint: &self.head.fingerprint,
            choices,
            usage: self.include_usage.then_some(usage),
            timings,
        };
        out.push(&chunk);
    }
}

impl Chunks for Writer {
    fn started(&mut self, index: u32, out: &mut Frames) {
        let delta = Delta { role: Some("assistant"), content: Some("") };
        self.write(&[ChunkChoice { index, delta, logprobs: None, finish_reason: None }], None, None, out);
    }

    fn delta(&mut self, index: u32, text: &str, tokens: &[TokenOut], out: &mut Frames) {
        let logprobs = (self.logprobs && !tokens.is_empty()).then(|| ChatLogprobs::of(tokens));
        if text.is_empty() && logprobs.is_none() {
            return;
        }
        let delta = Delta { role: None, content: Some(text) };
        self.write(&[ChunkChoice { index, delta, logprobs, finish_reason: None }], None, None, out);
    }

    fn finished(&mut self, index: u32, reason: &FinishReason, timings: Option<TimingFields>, out: &mut Frames) {
        let choice = ChunkChoice { index, delta: Delta::default(), logprobs: None, finish_reason: Some(finish_reason(reason)) };
        self.write(&[choice], None, timings, out);
    }

    fn usage(&mut self, usage: UsageFields, out: &mut Frames) {
        if self.include_usage {
            self.write(&[], Some(usage), None, out);
        }
    }
}
