//! `POST /api/chat`, and what it shares with `/api/generate`.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};
use onebit_engine::TokenOut;
use onebit_worker::KeepAlive;
use serde_json::{Value, json};

use super::line::{Route, Said, end, line};
use super::{keep, known_name, messages, options};
use crate::app::{App, stamp};
use crate::calls::{Call, call};
use crate::chat::{self, ChatRequest, ToolChoice};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::formats::Piece;
use crate::generation::stream::{self, Frames, LINES, Writer};
use crate::generation::{End, Happening, Run, Tally};
use crate::keys::Scope;
use crate::models::Leased;
use crate::openai::chat::MAX_TOP_LOGPROBS;
use crate::template::conversation::Conversation;

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let asked = Asked::read(&fields)?;
    let messages = messages::messages(&fields)?;
    let model = known_name(&app, &asked.model);
    if messages.is_empty() {
        return only_load(&app, &call, &model, asked.keep_alive, Route::Chat).await;
    }
    let wishes = options::read(&fields)?;
    let chat = ChatRequest {
        model: model.clone(),
        conversation: Conversation { messages, ..Conversation::default() },
        tools: messages::tools(&fields)?,
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: None,
        format: messages::format(&fields)?,
        thinking: messages::thinking(&fields)?,
        max_tokens: wishes.max_tokens,
        wishes,
        logprobs: asked.logprobs,
    };
    drop(object);
    let began = Instant::now();
    let lease = app.lease_for(&model, &call, asked.keep_alive).await?;
    let load_ns = nanoseconds(began);
    let prepared = chat::prepare(&app, &*lease, chat).await?;
    let run = chat::start(&app, &lease, prepared).await?;
    asked.answer(&app, &*lease, run, Route::Chat, load_ns).await
}

/// What chat and generate read the same way.
pub struct Asked {
    /// As the client names it; answers carry it unchanged, as clients compare.
    pub model: String,
    /// `None` = as the manifest has it.
    pub keep_alive: Option<KeepAlive>,
    stream: bool,
    /// Log-probabilities of each token and of so many alternatives.
    pub logprobs: Option<u32>,
}

impl Asked {
    /// Reads them.
    pub fn read(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let logprobs = fields.boolean("logprobs")?.unwrap_or(false);
        let top = fields.count("top_logprobs", 0..=MAX_TOP_LOGPROBS)?.unwrap_or(0);
        Ok(Self {
            model: crate::openai::common::model(fields)?,
            keep_alive: keep::read(fields)?,
            stream: fields.boolean("stream")?.unwrap_or(true),
            logprobs: logprobs.then_some(top),
        })
    }

    /// Answers with a started run.
    pub async fn answer(self, app: &App, lease: &dyn Leased, mut run: Run, route: Route, load_ns: u64) -> Result<Response, ApiError> {
        let logprobs = self.logprobs.is_some();
        if self.stream {
            let lines = Lines { route, model: self.model, logprobs, load_ns, said: Said::default() };
            return Ok(stamp(stream::respond(run, lines, Arc::clone(&app.metrics)), lease.facts()));
        }
        let (mut said, mut tokens, mut last) = (Said::default(), Vec::new(), End::Stop);
        while let Some(happening) = run.next().await {
            match happening?.1 {
                Happening::Said { pieces, tokens: new } => {
                    said.take(&pieces);
                    tokens.extend(new);
                }
                Happening::Finished(reason) => last = reason,
                Happening::Started | Happening::Prompt(_) => {}
            }
        }
        let whole = line(route, &self.model, said, logprobs.then_some(&tokens), Some(end(&last, run.tally(), load_ns)));
        Ok(stamp(axum::Json(whole).into_response(), lease.facts()))
    }
}

/// Nanoseconds since then.
pub fn nanoseconds(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A request without a question loads the model, or sends it away.
pub async fn only_load(
    app: &App,
    call: &Arc<Call>,
    model: &str,
    keep_alive: Option<KeepAlive>,
    route: Route,
) -> Result<Response, ApiError> {
    let away = matches!(keep_alive, Some(KeepAlive::For(time)) if time.is_zero());
    let reason = if away {
        // As `/models/unload`: others may be using it.
        call.caller().require(Scope::Admin)?;
        app.models.unload(model).await?;
        "unload"
    } else {
        app.lease_for(model, call, keep_alive).await?;
        "load"
    };
    Ok(axum::Json(line(route, model, Said::default(), None, Some(json!({"done_reason": reason})))).into_response())
}

struct Lines {
    route: Route,
    model: String,
    logprobs: bool,
    load_ns: u64,
    said: Said,
}

impl Writer for Lines {
    const CONTENT_TYPE: &'static str = LINES;

    fn started(&mut self, _: u32, _: &mut Frames) {}

    /// Calls go out whole: clients of this dialect expect their arguments as an object.
    fn said(&mut self, _: u32, pieces: &[Piece], tokens: &[TokenOut], out: &mut Frames) {
        self.said.take(pieces);
        let new = self.said.drain();
        let tokens = (self.logprobs && !tokens.is_empty()).then_some(tokens);
        if !new.is_empty() || tokens.is_some() {
            out.line(&line(self.route, &self.model, new, tokens, None));
        }
    }

    fn finished(&mut self, _: u32, reason: &End, tally: &Tally, _: bool, out: &mut Frames) {
        out.line(&line(self.route, &self.model, Said::default(), None, Some(end(reason, tally, self.load_ns))));
    }

    fn failed(&mut self, error: &ApiError, out: &mut Frames) {
        out.line(&crate::dialect::ollama(error));
    }

    /// A line must be an object, and clients take every one for a part of the answer: an empty part says nothing and keeps the line open.
    fn silence(&mut self, out: &mut Frames) {
        let part: Value = line(self.route, &self.model, Said::default(), None, None);
        out.line(&part);
    }
}
