//! `POST /api/embed` and the older `/api/embeddings`.

use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};
use onebit_engine::{EmbedRequest, Embeddings, Prompt, PromptPart};
use serde_json::json;

use super::chat::nanoseconds;
use super::{keep, known_name};
use crate::app::{App, stamp};
use crate::calls::call;
use crate::errors::{ApiError, Kind};
use crate::fields::Fields;
use crate::models::Leased;
use crate::openai::common::model;
use crate::openai::prompts::{self, Entry};

/// Most texts in one request.
pub(super) const MAX_INPUTS: usize = 2048;

/// Handles `/api/embed`.
pub async fn embed(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let (asked, keep_alive) = (model(&fields)?, keep::read(&fields)?);
    let truncate = fields.boolean("truncate")?.unwrap_or(true);
    let dimensions = fields.count("dimensions", 1..=u32::MAX)?;
    let empty = fields.value("input").and_then(|value| value.as_array()).is_some_and(Vec::is_empty);
    let inputs = if empty { Vec::new() } else { prompts::read(&fields, "input", MAX_INPUTS)? };
    let inputs: Vec<String> = inputs
        .into_iter()
        .map(|entry| match entry {
            Entry::Text(text) => Ok(text),
            Entry::Tokens(_) => Err(ApiError::invalid("input", "\"input\" must be a string or a list of strings")),
        })
        .collect::<Result<_, _>>()?;
    if inputs.iter().any(String::is_empty) && inputs.len() > 1 {
        return Err(ApiError::invalid("input", "\"input\" holds an empty string, which has no embedding; leave it out"));
    }
    // One empty text is no text, as with Ollama.
    let inputs: Vec<String> = inputs.into_iter().filter(|text| !text.is_empty()).collect();
    let began = Instant::now();
    let lease = app.lease_for(&known_name(&app, &asked), &call, keep_alive).await?;
    let load_ns = nanoseconds(began);
    check(&*lease, dimensions)?;
    let embedded = vectors(&app, &*lease, inputs, truncate).await?;
    let body = json!({
        "model": asked,
        "embeddings": embedded.vectors,
        "total_duration": nanoseconds(began),
        "load_duration": load_ns,
        "prompt_eval_count": embedded.prompt_tokens,
    });
    Ok(stamp(axum::Json(body).into_response(), lease.facts()))
}

/// Handles `/api/embeddings`: one text, one vector.
pub async fn embeddings(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let (asked, keep_alive) = (model(&fields)?, keep::read(&fields)?);
    let text = fields.string("prompt")?.unwrap_or_default().to_owned();
    let lease = app.lease_for(&known_name(&app, &asked), &call, keep_alive).await?;
    check(&*lease, None)?;
    let inputs = if text.is_empty() { Vec::new() } else { vec![text] };
    let vector = vectors(&app, &*lease, inputs, true).await?.vectors.pop().unwrap_or_default();
    Ok(stamp(axum::Json(json!({"embedding": vector})).into_response(), lease.facts()))
}

fn check(lease: &dyn Leased, dimensions: Option<u32>) -> Result<(), ApiError> {
    let Some(own) = lease.facts().embedding.map(|embedding| embedding.dimension) else {
        return Err(ApiError::new(Kind::UnsupportedJob, format!("the model {:?} does not embed; ask an embedding model", lease.model()))
            .param("model"));
    };
    match dimensions {
        Some(asked) if asked != own => Err(ApiError::unsupported(
            "dimensions",
            format!(
                "\"dimensions\" is {asked}; the vectors of {:?} have {own} values and are not shortened by this version",
                lease.model()
            ),
        )),
        _ => Ok(()),
    }
}

/// `truncate`: a text that is too long is cut to what the model takes, because the request said so.
async fn vectors(app: &App, lease: &dyn Leased, texts: Vec<String>, truncate: bool) -> Result<Embeddings, ApiError> {
    if texts.is_empty() {
        return Ok(Embeddings { vectors: Vec::new(), prompt_tokens: 0 });
    }
    let most = lease.facts().embedding.map_or(usize::MAX, |embedding| embedding.tokens as usize);
    let mut inputs = Vec::with_capacity(texts.len());
    for text in texts {
        let prompt = Prompt::Parts(vec![PromptPart { text, control: false }]);
        inputs.push(match lease.encode(prompt.clone(), true).await? {
            mut tokens if truncate && tokens.len() > most => {
                tokens.truncate(most);
                Prompt::Tokens(tokens)
            }
            _ => prompt,
        });
    }
    let embedded = lease.embed(EmbedRequest { inputs }).await?;
    app.metrics.read(lease.model(), embedded.prompt_tokens);
    Ok(embedded)
}
