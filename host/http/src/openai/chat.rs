//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};
use onebit_engine::TokenOut;
use serde::Serialize;

use super::common::Common;
use super::head::{Head, TimingFields, UsageFields, finish_reason};
use super::logprobs::ChatLogprobs;
use super::refused::{Dialect, check};
use super::reply::{Calls, Delta, Message};
use super::{format, messages, tools};
use crate::app::{App, stamp};
use crate::body::Object;
use crate::calls::call;
use crate::chat::{self, ChatRequest, Thinking};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::formats::Piece;
use crate::generation::stream::{self, EVENTS, Frames, Writer};
use crate::generation::{End, Happening, Run, Tally};

/// OpenAI's limit for `top_logprobs`.
pub const MAX_TOP_LOGPROBS: u32 = 20;

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let Asked { chat, stream, include_usage } = Asked::read(&object)?;
    drop(object);
    let lease = app.lease(&chat.model, &call).await?;
    let logprobs = chat.logprobs.is_some();
    let prepared = chat::prepare(&app, &*lease, chat).await?;
    let run = chat::start(&app, &lease, prepared).await?;
    let head = Head::new("chatcmpl", &*lease);
    let response = if stream {
        let calls = vec![Calls::default(); run.total() as usize];
        stream::respond(run, Chunks { head, logprobs, include_usage, calls }, Arc::clone(&app.metrics))
    } else {
        whole(run, &head, logprobs).await?
    };
    Ok(stamp(response, lease.facts()))
}

/// The request and how it is to be answered.
struct Asked {
    chat: ChatRequest,
    stream: bool,
    include_usage: bool,
}

impl Asked {
    fn read(object: &Object) -> Result<Self, ApiError> {
        let fields = Fields::of(object);
        let Common { model, stream, include_usage, wishes } = Common::read(&fields)?;
        let conversation = messages::read(&fields)?;
        check(object, Dialect::Chat)?;
        let tools = tools::read(&fields)?;
        let chat = ChatRequest {
            model,
            conversation,
            tools: tools.tools,
            tool_choice: tools.choice,
            parallel_tool_calls: tools.parallel,
            format: format::read(&fields)?,
            thinking: thinking(&fields)?,
            max_tokens: wishes.max_tokens,
            wishes,
            logprobs: logprobs(&fields)?,
        };
        Ok(Self { chat, stream, include_usage })
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

/// OpenAI's `reasoning_effort`; the budget under llama-server's name, as OpenAI has none.
pub fn thinking(fields: &Fields<'_>) -> Result<Thinking, ApiError> {
    let budget = fields.count("thinking_budget_tokens", 0..=u32::MAX)?;
    let thinking = match fields.string("reasoning_effort")? {
        Some(word) => effort_of("reasoning_effort", word)?,
        None => Thinking::default(),
    };
    Ok(Thinking { budget, ..thinking })
}

/// What [`effort_of`] knows.
pub const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A word for how much to think.
pub fn effort_of(param: &str, word: &str) -> Result<Thinking, ApiError> {
    match word {
        "none" => Ok(Thinking { wanted: Some(false), ..Thinking::default() }),
        effort if EFFORTS.contains(&effort) => Ok(Thinking { wanted: Some(true), effort: Some(effort.to_owned()), ..Thinking::default() }),
        other => {
            let shown: String = other.chars().take(40).collect();
            Err(ApiError::invalid(param, format!("{param:?} is {shown:?}; it must be one of {EFFORTS:?}")))
        }
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
    message: Message,
    logprobs: Option<ChatLogprobs>,
    finish_reason: &'static str,
}

async fn whole(mut run: Run, head: &Head, logprobs: bool) -> Result<Response, ApiError> {
    let fresh = |index| Choice { index, logprobs: logprobs.then(ChatLogprobs::default), ..Choice::default() };
    let mut choices: Vec<Choice> = (0..run.total()).map(fresh).collect();
    while let Some(happening) = run.next().await {
        let (index, happening) = happening?;
        let Some(choice) = choices.get_mut(index as usize) else { continue };
        match happening {
            Happening::Said { pieces, tokens } => {
                choice.message.take(pieces);
                if let Some(list) = &mut choice.logprobs {
                    list.extend(&tokens);
                }
            }
            Happening::Finished(end) => {
                choice.message.finish();
                choice.finish_reason = finish_reason(&end);
            }
            Happening::Started | Happening::Prompt(_) => {}
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
        usage: tally.into(),
        timings: tally.into(),
    })
    .into_response())
}

struct Chunks {
    head: Head,
    logprobs: bool,
    include_usage: bool,
    calls: Vec<Calls>,
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

impl Chunks {
    fn write(&self, choices: &[ChunkChoice<'_>], usage: Option<UsageFields>, timings: Option<TimingFields>, out: &mut Frames) {
        out.data(&Chunk {
            id: &self.head.id,
            object: "chat.completion.chunk",
            created: self.head.created,
            model: &self.head.model,
            system_fingerprint: &self.head.fingerprint,
            choices,
            usage: self.include_usage.then_some(usage),
            timings,
        });
    }
}

impl Writer for Chunks {
    const CONTENT_TYPE: &'static str = EVENTS;

    fn started(&mut self, index: u32, out: &mut Frames) {
        let delta = Delta { role: Some("assistant"), content: Some(""), ..Delta::default() };
        self.write(&[ChunkChoice { index, delta, logprobs: None, finish_reason: None }], None, None, out);
    }

    fn said(&mut self, index: u32, pieces: &[Piece], tokens: &[TokenOut], out: &mut Frames) {
        let mut logprobs = (self.logprobs && !tokens.is_empty()).then(|| ChatLogprobs::of(tokens));
        let Some(calls) = self.calls.get_mut(index as usize) else { return };
        let mut deltas: Vec<Delta<'_>> = pieces.iter().filter_map(|piece| calls.delta(piece)).collect();
        if deltas.is_empty() && logprobs.is_some() {
            deltas.push(Delta { content: Some(""), ..Delta::default() });
        }
        for delta in deltas {
            self.write(&[ChunkChoice { index, delta, logprobs: logprobs.take(), finish_reason: None }], None, None, out);
        }
    }

    fn finished(&mut self, index: u32, end: &End, tally: &Tally, last: bool, out: &mut Frames) {
        let choice = ChunkChoice { index, delta: Delta::default(), logprobs: None, finish_reason: Some(finish_reason(end)) };
        self.write(&[choice], None, last.then(|| tally.into()), out);
        if last {
            if self.include_usage {
                self.write(&[], Some(tally.into()), None, out);
            }
            out.done();
        }
    }

    fn failed(&mut self, error: &ApiError, out: &mut Frames) {
        out.data(&error.body());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn efforts_are_read_and_others_refused() {
        let read = |value: Value| thinking(&Fields::of(value.as_object().expect("an object")));
        assert_eq!(read(json!({})).expect("fine"), Thinking::default());
        assert_eq!(read(json!({"reasoning_effort": "none"})).expect("fine").wanted, Some(false));
        let high = read(json!({"reasoning_effort": "high", "thinking_budget_tokens": 64})).expect("fine");
        assert_eq!((high.wanted, high.effort.as_deref(), high.budget), (Some(true), Some("high"), Some(64)));
        assert!(read(json!({"reasoning_effort": "very"})).is_err());
    }
}
