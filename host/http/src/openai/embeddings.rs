//! `POST /v1/embeddings`: vectors of length one, as numbers or as base64 of little-endian 32-bit floats (what OpenAI's own clients ask for).

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onebit_engine::EmbedRequest;
use serde::Serialize;

use super::head::fingerprint;
use super::prompts::{self, Entry};
use crate::app::{App, stamp};
use crate::calls::call;
use crate::errors::{ApiError, Kind};
use crate::fields::Fields;

/// OpenAI's limit for the number of inputs.
pub(super) const MAX_INPUTS: usize = 2048;

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Item>,
    model: &'a str,
    usage: Usage,
    system_fingerprint: String,
}

#[derive(Serialize)]
struct Item {
    object: &'static str,
    index: usize,
    embedding: Vector,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector {
    Numbers(Vec<f32>),
    Base64(String),
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u32,
    total_tokens: u32,
}

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let model = fields
        .string("model")?
        .filter(|name| !name.is_empty())
        .ok_or_else(|| fields.missing("model", "the name of a model of GET /v1/models"))?;
    let inputs = prompts::read(&fields, "input", MAX_INPUTS)?;
    if inputs.iter().any(|entry| matches!(entry, Entry::Text(text) if text.is_empty())) {
        return Err(ApiError::invalid("input", "\"input\" holds an empty string, which has no embedding; leave it out"));
    }
    let base64 = match fields.string("encoding_format")? {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let shown: String = other.chars().take(40).collect();
            return Err(ApiError::invalid(
                "encoding_format",
                format!("\"encoding_format\" is {shown:?}; it must be \"float\" or \"base64\""),
            ));
        }
    };
    let dimensions = fields.count("dimensions", 1..=u32::MAX)?;
    let lease = app.lease(model, &call).await?;
    let facts = lease.facts();
    let Some(own) = facts.embedding.map(|embedding| embedding.dimension) else {
        return Err(ApiError::new(Kind::UnsupportedJob, format!("the model {:?} does not embed; ask an embedding model", lease.model()))
            .param("model"));
    };
    if let Some(asked) = dimensions
        && asked != own
    {
        return Err(ApiError::unsupported(
            "dimensions",
            format!(
                "\"dimensions\" is {asked}; the vectors of {:?} have {own} values and are not shortened by this version",
                lease.model()
            ),
        ));
    }
    prompts::check_vocabulary("input", &inputs, facts.vocabulary)?;
    // Texts to embed are data: control tokens in them stay text.
    let embedded = lease.embed(EmbedRequest { inputs: inputs.into_iter().map(|entry| entry.into_prompt(false)).collect() }).await?;
    app.metrics.read(lease.model(), embedded.prompt_tokens);
    let encode = |values: Vec<f32>| {
        if !base64 {
            return Vector::Numbers(values);
        }
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Vector::Base64(STANDARD.encode(bytes))
    };
    let data =
        embedded.vectors.into_iter().enumerate().map(|(index, values)| Item { object: "embedding", index, embedding: encode(values) });
    let list = List {
        object: "list",
        data: data.collect(),
        model: lease.model(),
        usage: Usage { prompt_tokens: embedded.prompt_tokens, total_tokens: embedded.prompt_tokens },
        system_fingerprint: fingerprint(facts),
    };
    Ok(stamp(axum::Json(list).into_response(), facts))
}
