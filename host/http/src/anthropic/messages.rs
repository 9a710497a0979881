//! `POST /v1/messages`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};

use super::events::Events;
use super::reply::{Message, Usage, add, stop};
use super::request::Asked;
use crate::app::{App, request_id, stamp};
use crate::calls::call;
use crate::chat;
use crate::errors::ApiError;
use crate::generation::{Happening, Part, Parts, Run, stream};

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let (call, request_id) = (call(&request)?, request_id(&request));
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let Asked { chat, stream, thinking_shown } = Asked::read(&object)?;
    drop(object);
    let lease = app.lease(&chat.model, &call).await?;
    let head = Head {
        id: format!("msg_{}", uuid::Uuid::new_v4().simple()),
        request_id,
        model: lease.model().to_owned(),
        stops: chat.wishes.stop.clone(),
        thinking_shown,
    };
    let prepared = chat::prepare(&app, &*lease, chat).await?;
    let run = chat::start(&app, &lease, prepared).await?;
    let response = if stream {
        let events = Events::new(head, Usage::begun(run.first_prompt()));
        stream::respond(run, events, Arc::clone(&app.metrics))
    } else {
        whole(run, &head).await?
    };
    Ok(stamp(response, lease.facts()))
}

/// What is known of a message before it is written.
pub struct Head {
    pub id: String,
    pub request_id: Arc<str>,
    pub model: String,
    /// Stop strings of the request, which alone are told.
    pub stops: Vec<String>,
    pub thinking_shown: bool,
}

impl Head {
    /// The message without its content.
    pub fn message(&self) -> Message<'_> {
        Message {
            id: &self.id,
            r#type: "message",
            role: "assistant",
            model: &self.model,
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: Usage::begun((0, 0)),
        }
    }

    /// Whether the client wants to know of this.
    pub fn tells(&self, part: &Part<'_>) -> bool {
        self.thinking_shown || !matches!(part, Part::Reasoning(_))
    }
}

async fn whole(mut run: Run, head: &Head) -> Result<Response, ApiError> {
    let mut parts = Parts::default();
    let mut content = Vec::new();
    let mut end = None;
    while let Some(happening) = run.next().await {
        match happening?.1 {
            Happening::Said { pieces, .. } => {
                for part in pieces.iter().filter_map(|piece| parts.take(piece)).filter(|part| head.tells(part)) {
                    add(&mut content, &part);
                }
            }
            Happening::Finished(reason) => end = Some(reason),
            Happening::Started | Happening::Prompt(_) => {}
        }
    }
    let (stop_reason, stop_sequence) = end.as_ref().map(|end| stop(end, &head.stops)).unzip();
    let message = Message { content, stop_reason, stop_sequence: stop_sequence.flatten(), usage: run.tally().into(), ..head.message() };
    Ok(axum::Json(message).into_response())
}
