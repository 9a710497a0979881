//! `POST /v1/completions`: OpenAI's old form, text in and text out. The prompt is raw: texts of control tokens in it become those tokens.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};
use onebit_engine::{Prompt, TokenOut};
use serde::Serialize;

use super::common::Common;
use super::head::{Head, TimingFields, UsageFields, finish_reason};
use super::logprobs::{LegacyLogprobs, Offset};
use super::prompts::{self, Entry};
use super::refused::{Dialect, check};
use super::{format, middle};
use crate::app::{App, stamp};
use crate::body::Object;
use crate::calls::call;
use crate::chat::AskedFormat;
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::formats::Piece;
use crate::generation::stream::{self, EVENTS, Frames, Writer};
use crate::generation::{End, Happening, HeldTo, Job, MAX_CHOICES, Run, Tally};
use crate::models::Leased;

/// OpenAI's default of this route.
pub(super) const DEFAULT_MAX_TOKENS: u32 = 16;
/// OpenAI's limit of this route.
pub(super) const MAX_LOGPROBS: u32 = 5;

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let call = call(&request)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let asked = Asked::read(&object)?;
    drop(object);
    let lease = app.lease(&asked.common.model, &call).await?;
    let Asked { common, prompts, suffix, logprobs, echo, best_of, format } = asked;
    common.wishes.check_vocabulary(lease.facts().vocabulary)?;
    prompts::check_vocabulary("prompt", &prompts, lease.facts().vocabulary)?;
    let echoes = if echo { echoes(&*lease, &prompts).await? } else { Vec::new() };
    let max_tokens = common.wishes.max_tokens.or(lease.defaults().max_tokens).unwrap_or(DEFAULT_MAX_TOKENS);
    let n = common.wishes.n;
    let mut wishes = common.wishes;
    wishes.n = best_of;
    let job = Job {
        // The best answer is the one the model finds likeliest.
        logprobs: logprobs.or((best_of > n).then_some(0)),
        prompt_logprobs: logprobs.filter(|_| echo),
        constraint: format.map(HeldTo::from),
        ..Job::plain(inputs(&*lease, prompts, suffix.as_deref())?, wishes, Some(max_tokens))
    };
    let run = Run::start(Arc::clone(&lease), job, Arc::clone(&app.metrics)).await?;
    let head = Head::new("cmpl", &*lease);
    let response = if common.stream {
        let answers = (0..run.total()).map(|index| Answer::new(index, n, &echoes, logprobs.is_some())).collect();
        stream::respond(run, Chunks { head, include_usage: common.include_usage, answers }, Arc::clone(&app.metrics))
    } else {
        whole(run, &*lease, &head, &Shape { n, best_of, echoes, logprobs: logprobs.is_some() }).await?
    };
    Ok(stamp(response, lease.facts()))
}

struct Asked {
    common: Common,
    prompts: Vec<Entry>,
    /// What comes after the text that is to be written.
    suffix: Option<String>,
    logprobs: Option<u32>,
    echo: bool,
    best_of: u32,
    format: Option<AskedFormat>,
}

impl Asked {
    fn read(object: &Object) -> Result<Self, ApiError> {
        let fields = Fields::of(object);
        let common = Common::read(&fields)?;
        check(object, Dialect::Completions)?;
        let prompts = prompts::read(&fields, "prompt", MAX_CHOICES as usize)?;
        let (n, best_of) = (common.wishes.n, fields.count("best_of", 1..=MAX_CHOICES)?);
        let best_of = match best_of {
            Some(best_of) if best_of < n => {
                return Err(ApiError::invalid("best_of", format!("\"best_of\" is {best_of} and \"n\" is {n}; it must not be below \"n\"")));
            }
            Some(best_of) if best_of > n && common.stream => {
                return Err(ApiError::invalid(
                    "best_of",
                    "the best answers are known at the end only; \"best_of\" above \"n\" cannot be streamed",
                ));
            }
            best_of => best_of.unwrap_or(n),
        };
        let answers = prompts.len() * best_of as usize;
        if answers > MAX_CHOICES as usize {
            return Err(ApiError::invalid(
                "n",
                format!("{} prompts with {best_of} answers each make {answers}; at most {MAX_CHOICES} are allowed", prompts.len()),
            ));
        }
        let suffix = fields.string("suffix")?.filter(|text| !text.is_empty()).map(str::to_owned);
        let echo = fields.boolean("echo")?.unwrap_or(false);
        if suffix.is_some() && echo {
            return Err(ApiError::invalid("echo", "\"echo\" has no meaning beside \"suffix\"; leave one of them out"));
        }
        let logprobs = fields.count("logprobs", 0..=MAX_LOGPROBS)?;
        Ok(Self { common, prompts, suffix, logprobs, echo, best_of, format: format::read(&fields)? })
    }
}

fn inputs(lease: &dyn Leased, prompts: Vec<Entry>, suffix: Option<&str>) -> Result<Vec<Prompt>, ApiError> {
    prompts
        .into_iter()
        .map(|entry| match (suffix, entry) {
            (None, entry) => Ok(entry.into_prompt(true)),
            (Some(suffix), Entry::Text(before)) => middle::prompt(lease.facts(), &before, suffix, "suffix"),
            (Some(_), Entry::Tokens(_)) => Err(ApiError::invalid("suffix", "\"suffix\" needs a prompt of text, not of token ids")),
        })
        .collect()
}

/// The texts of the prompts, for answers that begin with them.
async fn echoes(lease: &dyn Leased, prompts: &[Entry]) -> Result<Vec<String>, ApiError> {
    let mut texts = Vec::with_capacity(prompts.len());
    for entry in prompts {
        texts.push(match entry {
            Entry::Text(text) => text.clone(),
            Entry::Tokens(tokens) => String::from_utf8_lossy(&lease.decode(tokens.clone()).await?).into_owned(),
        });
    }
    Ok(texts)
}

/// The whole answer and the chunks of a streamed one have the same shape here.
#[derive(Serialize)]
struct Completion<'a, C: Serialize> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'a str,
    choices: C,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageFields>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<TimingFields>,
}

impl<'a, C: Serialize> Completion<'a, C> {
    fn new(head: &'a Head, choices: C, usage: Option<Option<UsageFields>>, timings: Option<TimingFields>) -> Self {
        Self {
            id: &head.id,
            object: "text_completion",
            created: head.created,
            model: &head.model,
            system_fingerprint: &head.fingerprint,
            choices,
            usage,
            timings,
        }
    }
}

#[derive(Serialize)]
struct Choice<T: Serialize> {
    text: T,
    index: u32,
    logprobs: Option<LegacyLogprobs>,
    finish_reason: Option<&'static str>,
}

/// How the answers become choices.
struct Shape {
    n: u32,
    best_of: u32,
    echoes: Vec<String>,
    logprobs: bool,
}

/// An answer that is being put together.
#[derive(Default)]
struct Text {
    text: String,
    prompt: Vec<TokenOut>,
    tokens: Vec<TokenOut>,
    end: Option<&'static str>,
}

impl Text {
    /// Mean log-probability of its tokens.
    fn likelihood(&self) -> f64 {
        let all: Vec<f64> = self.tokens.iter().filter_map(|token| token.logprob.as_ref()).map(|known| f64::from(known.logprob)).collect();
        if all.is_empty() { f64::NEG_INFINITY } else { all.iter().sum::<f64>() / all.len() as f64 }
    }
}

async fn whole(mut run: Run, lease: &dyn Leased, head: &Head, shape: &Shape) -> Result<Response, ApiError> {
    let mut answers: Vec<Text> = (0..run.total()).map(|_| Text::default()).collect();
    while let Some(happening) = run.next().await {
        let (index, happening) = happening?;
        let Some(answer) = answers.get_mut(index as usize) else { continue };
        match happening {
            Happening::Said { pieces, tokens } => {
                answer.text.push_str(&text_of(&pieces));
                answer.tokens.extend(tokens);
            }
            Happening::Prompt(tokens) => answer.prompt = tokens,
            Happening::Finished(end) => answer.end = Some(finish_reason(&end)),
            Happening::Started => {}
        }
    }
    let mut choices = Vec::new();
    for (number, group) in answers.chunks_mut(shape.best_of.max(1) as usize).enumerate() {
        if shape.best_of > shape.n {
            group.sort_by(|a, b| b.likelihood().total_cmp(&a.likelihood()));
        }
        for answer in group.iter_mut().take(shape.n as usize) {
            let echo = shape.echoes.get(number);
            let logprobs = if shape.logprobs { Some(logprobs(answer, echo, lease).await?) } else { None };
            let text = echo.map_or_else(String::new, Clone::clone) + &answer.text;
            choices.push(Choice { text, index: choices.len() as u32, logprobs, finish_reason: answer.end });
        }
    }
    let tally = run.tally();
    Ok(axum::Json(Completion::new(head, choices, Some(Some(tally.into())), Some(tally.into()))).into_response())
}

/// Of the answer, after those of the prompt where it is repeated.
async fn logprobs(answer: &Text, echo: Option<&String>, lease: &dyn Leased) -> Result<LegacyLogprobs, ApiError> {
    let (mut all, mut offset) = (LegacyLogprobs::default(), Offset::default());
    if let (Some(_), Some((first, rest))) = (echo, answer.prompt.split_first()) {
        all.begin(&lease.decode(vec![first.id]).await?, &mut offset);
        all.extend(rest, &mut offset);
    }
    all.extend(&answer.tokens, &mut offset);
    Ok(all)
}

/// Nothing is marked up here: all of it is text.
fn text_of(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| if let Piece::Text(text) = piece { text.as_str() } else { "" }).collect()
}

struct Chunks {
    head: Head,
    include_usage: bool,
    answers: Vec<Answer>,
}

/// What a streamed answer remembers.
struct Answer {
    /// The prompt's text, until it is out.
    echo: Option<String>,
    logprobs: bool,
    offset: Offset,
}

impl Answer {
    fn new(index: u32, n: u32, echoes: &[String], logprobs: bool) -> Self {
        Self { echo: echoes.get((index / n.max(1)) as usize).cloned(), logprobs, offset: Offset::default() }
    }
}

impl Chunks {
    fn write(&self, choice: Option<Choice<&str>>, usage: Option<UsageFields>, timings: Option<TimingFields>, out: &mut Frames) {
        out.data(&Completion::new(&self.head, choice.as_slice(), self.include_usage.then_some(usage), timings));
    }
}

impl Writer for Chunks {
    const CONTENT_TYPE: &'static str = EVENTS;

    /// The old form has no opening chunk; a repeated prompt comes first.
    fn started(&mut self, index: u32, out: &mut Frames) {
        let Some(answer) = self.answers.get_mut(index as usize) else { return };
        if let Some(text) = answer.echo.take() {
            answer.offset.skip(&text);
            self.write(Some(Choice { text: &text, index, logprobs: None, finish_reason: None }), None, None, out);
        }
    }

    fn said(&mut self, index: u32, pieces: &[Piece], tokens: &[TokenOut], out: &mut Frames) {
        let logprobs = match self.answers.get_mut(index as usize) {
            Some(answer) if answer.logprobs && !tokens.is_empty() => Some(LegacyLogprobs::of(tokens, &mut answer.offset)),
            _ => None,
        };
        let text = text_of(pieces);
        if text.is_empty() && logprobs.is_none() {
            return;
        }
        self.write(Some(Choice { text: &text, index, logprobs, finish_reason: None }), None, None, out);
    }

    fn finished(&mut self, index: u32, end: &End, tally: &Tally, last: bool, out: &mut Frames) {
        let choice = Choice { text: "", index, logprobs: None, finish_reason: Some(finish_reason(end)) };
        self.write(Some(choice), None, last.then(|| tally.into()), out);
        if last {
            if self.include_usage {
                self.write(None, Some(tally.into()), None, out);
            }
            out.done();
        }
    }

    fn failed(&mut self, error: &ApiError, out: &mut Frames) {
        out.data(&error.body());
    }
}
