//! `POST /infill`: what stands between two texts, for editors.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};
use onebit_engine::TokenOut;
use serde_json::{Value, json};

use super::model_of;
use crate::app::{App, stamp};
use crate::calls::call;
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::formats::Piece;
use crate::generation::stream::{self, EVENTS, Frames, Writer};
use crate::generation::{End, Happening, Job, Run, Tally, Wishes};
use crate::openai::common::{sampling, stop};
use crate::openai::middle;

/// Handles the request. `prompt` is text between the beginning and what is to be written; `input_extra` is files beside this one, before it.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let model = model_of(&app, &fields)?;
    let text = |name| Ok::<_, ApiError>(fields.string(name)?.unwrap_or_default());
    let before = extra(&fields)? + text("input_prefix")? + text("prompt")?;
    let after =
        fields.string("input_suffix")?.ok_or_else(|| fields.missing("input_suffix", "the text after what is to be written"))?.to_owned();
    let max_tokens = fields.integer("n_predict", -1..=i64::from(u32::MAX))?.and_then(|count| u32::try_from(count).ok());
    let wishes = Wishes { stop: stop(&fields, "stop")?, sampling: sampling(&fields)?, max_tokens, ..Wishes::default() };
    let streamed = fields.boolean("stream")?.unwrap_or(false);
    drop(object);
    let lease = app.lease(&model, &call).await?;
    wishes.check_vocabulary(lease.facts().vocabulary)?;
    let prompt = middle::prompt(lease.facts(), &before, &after, "input_suffix")?;
    let max_tokens = max_tokens.or(lease.defaults().max_tokens);
    let mut run = Run::start(Arc::clone(&lease), Job::plain(vec![prompt], wishes, max_tokens), Arc::clone(&app.metrics)).await?;
    let model = lease.model().to_owned();
    if streamed {
        return Ok(stamp(stream::respond(run, Parts { model }, Arc::clone(&app.metrics)), lease.facts()));
    }
    let (mut content, mut end) = (String::new(), End::Stop);
    while let Some(happening) = run.next().await {
        match happening?.1 {
            Happening::Said { pieces, .. } => content.push_str(&said(&pieces)),
            Happening::Finished(reason) => end = reason,
            Happening::Started | Happening::Prompt(_) => {}
        }
    }
    Ok(stamp(axum::Json(last(&model, &content, &end, run.tally())).into_response(), lease.facts()))
}

fn extra(fields: &Fields<'_>) -> Result<String, ApiError> {
    let mut text = String::new();
    for (index, item) in fields.list("input_extra")?.unwrap_or_default().iter().enumerate() {
        let path = format!("input_extra[{index}]");
        let Some(object) = item.as_object() else {
            return Err(ApiError::invalid(&path, format!("{path:?} must be an object with \"filename\" and \"text\"")));
        };
        let inside = Fields::inside(object, path);
        let own = inside.string("text")?.ok_or_else(|| inside.missing("text", "the file's text"))?;
        text.push_str(own);
        text.push('\n');
    }
    Ok(text)
}

fn said(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| if let Piece::Text(text) = piece { text.as_str() } else { "" }).collect()
}

fn last(model: &str, content: &str, end: &End, tally: &Tally) -> Value {
    let (stop_type, word) = match end {
        End::StopString(word) => ("word", word.as_str()),
        End::Length => ("limit", ""),
        End::Stop | End::Calls => ("eos", ""),
    };
    let ms = |us: u64| us as f64 / 1000.0;
    json!({
        "content": content,
        "stop": true,
        "model": model,
        "stop_type": stop_type,
        "stopping_word": word,
        "tokens_predicted": tally.completion_tokens,
        "tokens_evaluated": tally.prompt_tokens,
        "timings": {
            "prompt_n": tally.prompt_tokens,
            "prompt_ms": ms(tally.prefill_us),
            "predicted_n": tally.completion_tokens,
            "predicted_ms": ms(tally.decode_us),
            "predicted_per_second": tally.tokens_per_second(),
        },
    })
}

struct Parts {
    model: String,
}

impl Writer for Parts {
    const CONTENT_TYPE: &'static str = EVENTS;

    fn started(&mut self, _: u32, _: &mut Frames) {}

    fn said(&mut self, _: u32, pieces: &[Piece], _: &[TokenOut], out: &mut Frames) {
        let content = said(pieces);
        if !content.is_empty() {
            out.data(&json!({"content": content, "stop": false}));
        }
    }

    fn finished(&mut self, _: u32, end: &End, tally: &Tally, _: bool, out: &mut Frames) {
        out.data(&last(&self.model, "", end, tally));
    }

    fn failed(&mut self, error: &ApiError, out: &mut Frames) {
        out.data(&error.body());
    }
}
