//! `POST /tokenize`, `/detokenize` and `/apply-template`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use onebit_engine::{Prompt, PromptPart, TokenId};
use serde_json::{Value, json};

use super::model_of;
use crate::app::App;
use crate::calls::call;
use crate::chat::{self, ChatRequest};
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::generation::Wishes;
use crate::openai::{messages, tools};

/// Text to tokens. `parse_special` (default): texts of control tokens become those tokens; `with_pieces`: with the text of each.
pub async fn tokenize(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Json<Value>, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let model = model_of(&app, &fields)?;
    let text = fields.string("content")?.ok_or_else(|| fields.missing("content", "the text"))?.to_owned();
    let add_special = fields.boolean("add_special")?.unwrap_or(false);
    let control = fields.boolean("parse_special")?.unwrap_or(true);
    let pieces = fields.boolean("with_pieces")?.unwrap_or(false);
    let lease = app.lease(&model, &call).await?;
    let tokens = lease.encode(Prompt::Parts(vec![PromptPart { text, control }]), add_special).await?;
    if !pieces {
        return Ok(Json(json!({"tokens": tokens})));
    }
    let mut all = Vec::with_capacity(tokens.len());
    for token in tokens {
        let bytes = lease.decode(vec![token]).await?;
        // A part of a character is given as its bytes, as llama-server does.
        let piece = match String::from_utf8(bytes) {
            Ok(text) => Value::String(text),
            Err(error) => error.into_bytes().into(),
        };
        all.push(json!({"id": token, "piece": piece}));
    }
    Ok(Json(json!({"tokens": all})))
}

/// Tokens to text.
pub async fn detokenize(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Json<Value>, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let model = model_of(&app, &fields)?;
    let items = fields.list("tokens")?.ok_or_else(|| fields.missing("tokens", "a list of token ids"))?;
    let ids: Option<Vec<TokenId>> = items.iter().map(|item| item.as_u64().and_then(|id| TokenId::try_from(id).ok())).collect();
    let ids = ids.ok_or_else(|| ApiError::invalid("tokens", "\"tokens\" must hold token ids (whole numbers from 0)"))?;
    let lease = app.lease(&model, &call).await?;
    let vocabulary = lease.facts().vocabulary;
    if let Some(id) = ids.iter().find(|id| **id >= vocabulary) {
        return Err(ApiError::invalid(
            "tokens",
            format!("\"tokens\" holds {id}; this model has tokens 0 to {}", vocabulary.saturating_sub(1)),
        ));
    }
    let text = if ids.is_empty() { Vec::new() } else { lease.decode(ids).await? };
    Ok(Json(json!({"content": String::from_utf8_lossy(&text)})))
}

/// Messages to the prompt that a chat with them begins with.
pub async fn apply_template(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Json<Value>, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let tools = tools::read(&fields)?;
    let chat = ChatRequest {
        model: model_of(&app, &fields)?,
        conversation: messages::read(&fields)?,
        tools: tools.tools,
        tool_choice: tools.choice,
        parallel_tool_calls: tools.parallel,
        format: None,
        thinking: crate::openai::chat::thinking(&fields)?,
        wishes: Wishes::default(),
        max_tokens: None,
        logprobs: None,
    };
    let lease = app.lease(&chat.model, &call).await?;
    let prepared = chat::prepare(&app, &*lease, chat).await?;
    let prompt: String = prepared.parts.into_iter().map(|part| part.text).collect();
    Ok(Json(json!({"prompt": prompt})))
}
