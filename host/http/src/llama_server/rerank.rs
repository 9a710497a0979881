//! `POST /v1/rerank`, as llama-server, Jina and Cohere have it: a query and documents in, the documents' numbers out, the best first.
//!
//! Scores lie between 0 and 1 whatever the model, so that a threshold means the same everywhere.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};
use onebit_engine::RerankRequest;
use serde::Serialize;
use serde_json::Value;

use super::model_of;
use crate::app::{App, stamp};
use crate::calls::call;
use crate::errors::{ApiError, Kind};
use crate::fields::Fields;

/// Most documents in one request; Jina's limit.
pub(super) const MAX_DOCUMENTS: usize = 2048;

#[derive(Serialize)]
struct Answer<'a> {
    object: &'static str,
    model: &'a str,
    usage: Usage,
    results: Vec<Ranked>,
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u32,
    total_tokens: u32,
}

#[derive(Serialize)]
struct Ranked {
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Document>,
}

#[derive(Serialize)]
struct Document {
    text: String,
}

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let model = model_of(&app, &fields)?;
    let query = fields
        .string("query")?
        .filter(|query| !query.is_empty())
        .ok_or_else(|| fields.missing("query", "the text that the documents are to answer"))?
        .to_owned();
    let documents = documents(&fields)?;
    let top = fields.count("top_n", 1..=u32::MAX)?.map_or(usize::MAX, |top| top as usize);
    let with_documents = fields.boolean("return_documents")?.unwrap_or(false);
    let truncate = fields.boolean("truncate")?.unwrap_or(false);
    let lease = app.lease(&model, &call).await?;
    if !lease.facts().ranks {
        return Err(ApiError::new(
            Kind::UnsupportedJob,
            format!("the model {:?} does not rank documents; ask a model made for that (a reranker)", lease.model()),
        )
        .param("model"));
    }
    let texts = if with_documents { documents.clone() } else { Vec::new() };
    let ranking = lease.rerank(RerankRequest { query, documents, truncate }).await?;
    app.metrics.read(lease.model(), ranking.prompt_tokens);
    let mut order: Vec<(usize, f32)> = ranking.scores.into_iter().enumerate().collect();
    // Stable: documents that are equally good stay in the order asked.
    order.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    let results = order.into_iter().take(top).map(|(index, relevance_score)| Ranked {
        index,
        relevance_score,
        document: texts.get(index).map(|text| Document { text: text.clone() }),
    });
    let answer = Answer {
        object: "list",
        model: lease.model(),
        usage: Usage { prompt_tokens: ranking.prompt_tokens, total_tokens: ranking.prompt_tokens },
        results: results.collect(),
    };
    Ok(stamp(axum::Json(answer).into_response(), lease.facts()))
}

/// Strings, or objects with a `text`.
fn documents(fields: &Fields<'_>) -> Result<Vec<String>, ApiError> {
    let documents = fields
        .list("documents")?
        .filter(|documents| !documents.is_empty())
        .ok_or_else(|| fields.missing("documents", "a list of at least one text"))?;
    if documents.len() > MAX_DOCUMENTS {
        let message = format!("\"documents\" has {} entries; at most {MAX_DOCUMENTS} are ranked at a time", documents.len());
        return Err(ApiError::invalid("documents", message));
    }
    let text = |(index, document): (usize, &Value)| match document {
        Value::String(text) => Ok(text.clone()),
        Value::Object(object) => {
            let fields = Fields::inside(object, format!("documents[{index}]"));
            fields.string("text")?.map(str::to_owned).ok_or_else(|| fields.missing("text", "the document's text"))
        }
        other => Err(fields.wrong(&format!("documents[{index}]"), other, "a string, or an object with a \"text\"")),
    };
    documents.iter().enumerate().map(text).collect()
}
