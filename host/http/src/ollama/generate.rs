//! `POST /api/generate`: one prompt, through the model's template unless it is `raw`.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use onebit_engine::{Prompt, PromptPart};
use serde_json::Value;

use super::chat::{Asked, nanoseconds, only_load};
use super::line::Route;
use super::{known_name, messages, options};
use crate::app::App;
use crate::calls::call;
use crate::chat::{self, ChatRequest, ToolChoice};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::generation::{HeldTo, Job, Run};
use crate::openai::middle;
use crate::template::conversation::{Conversation, Message, Role};

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let asked = Asked::read(&fields)?;
    let text = Text::read(&fields)?;
    let model = known_name(&app, &asked.model);
    if text.prompt.is_empty() && text.suffix.is_none() {
        return only_load(&app, &call, &model, asked.keep_alive, Route::Generate).await;
    }
    let wishes = options::read(&fields)?;
    let (format, thinking) = (messages::format(&fields)?, messages::thinking(&fields)?);
    drop(object);
    let began = Instant::now();
    let lease = app.lease_for(&model, &call, asked.keep_alive).await?;
    let load_ns = nanoseconds(began);
    let max_tokens = wishes.max_tokens.or(lease.defaults().max_tokens);
    let run = if text.raw || text.suffix.is_some() {
        let prompt = match &text.suffix {
            Some(suffix) => middle::prompt(lease.facts(), &text.prompt, suffix, "suffix")?,
            None => Prompt::Parts(vec![PromptPart { text: text.prompt, control: true }]),
        };
        let job = Job { logprobs: asked.logprobs, constraint: format.map(HeldTo::from), ..Job::plain(vec![prompt], wishes, max_tokens) };
        Run::start(Arc::clone(&lease), job, Arc::clone(&app.metrics)).await?
    } else {
        let system = text.system.map(|system| Message::text(Role::System, system));
        let messages = system.into_iter().chain([Message::text(Role::User, text.prompt)]).collect();
        let chat = ChatRequest {
            model,
            conversation: Conversation { messages, ..Conversation::default() },
            tools: Vec::new(),
            tool_choice: ToolChoice::None,
            parallel_tool_calls: None,
            format,
            thinking,
            max_tokens: wishes.max_tokens,
            wishes,
            logprobs: asked.logprobs,
        };
        let prepared = chat::prepare(&app, &*lease, chat).await?;
        chat::start(&app, &lease, prepared).await?
    };
    asked.answer(&app, &*lease, run, Route::Generate, load_ns).await
}

/// What is to be continued.
struct Text {
    prompt: String,
    system: Option<String>,
    suffix: Option<String>,
    raw: bool,
}

impl Text {
    fn read(fields: &Fields<'_>) -> Result<Self, ApiError> {
        messages::refuse_images(fields)?;
        for (name, instead) in
            [("template", "name a template in the model's manifest"), ("context", "use /api/chat with the messages so far")]
        {
            let empty = |value: &Value| value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty);
            if fields.value(name).is_some_and(|value| !empty(value)) {
                return Err(ApiError::unsupported(name, format!("{name:?} is not supported by this server; {instead}")));
            }
        }
        let text = |name| Ok::<_, ApiError>(fields.string(name)?.filter(|text| !text.is_empty()).map(str::to_owned));
        Ok(Self {
            prompt: text("prompt")?.unwrap_or_default(),
            system: text("system")?,
            suffix: text("suffix")?,
            raw: fields.boolean("raw")?.unwrap_or(false),
        })
    }
}
