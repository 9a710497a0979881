//! A host for the front's targets: one model that says a fixed text, as fast as it can.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use onebit_engine::{
    EmbedRequest, EmbeddingFacts, Embeddings, Event, FinishReason, Finished, GenerateRequest, ModelFacts, Prompt, Ranking, RerankRequest,
    Timings, TokenId, TokenLogprob, TokenOut, Usage,
};
use onebit_http::Models;
use onebit_http::errors::{ApiError, unknown_model};
use onebit_http::models::{Defaults, Details, Events, Leased, ModelCard, Said, WorkerState};
use onebit_worker::{Confinement, KeepAlive, Lifecycle, Recipe};

/// What it says, token by token: characters of one to four bytes.
const PIECES: [&str; 4] = ["Hello", " é", "漢", " 😀"];

/// The host and its model.
#[derive(Debug)]
pub struct Host {
    facts: ModelFacts,
    defaults: Defaults,
}

impl Host {
    /// With a model called `m`, of 256 tokens, that chats through `template`.
    pub fn new(template: &str, control_tokens: &[String]) -> Self {
        let facts = ModelFacts {
            plugin: "scripted".into(),
            plugin_version: "1.0.0".into(),
            device: "cpu".into(),
            computes_on: "paper".into(),
            architecture: "llama".into(),
            quantisation: "Q4_1".into(),
            context: 2048,
            context_trained: 2048,
            slots: 2,
            vocabulary: 256,
            chat_template: Some(template.into()),
            bos: Some("<s>".into()),
            eos: Some("</s>".into()),
            control_tokens: control_tokens.to_vec(),
            embedding: Some(EmbeddingFacts { dimension: 2, tokens: 512 }),
            ranks: true,
            state_bytes: 1,
        };
        Self { facts, defaults: Defaults::default() }
    }
}

impl Models for HostHandle {
    fn cards(&self) -> Vec<ModelCard> {
        vec![ModelCard { id: "m".into(), aliases: Vec::new(), created: 0, details: Details::default() }]
    }

    fn workers(&self) -> Vec<WorkerState> {
        Vec::new()
    }

    fn lease<'a>(&'a self, model: &'a str, _: &'a str, _: Option<KeepAlive>) -> BoxFuture<'a, Result<Arc<dyn Leased>, ApiError>> {
        let leased = if model == "m" { Ok(Arc::clone(&self.0) as Arc<dyn Leased>) } else { Err(self.unknown(model)) };
        async move { leased }.boxed()
    }

    fn sandbox(&self) -> (Confinement, bool) {
        (Confinement::default(), false)
    }

    fn observe(&self, _: Box<dyn Fn(&Lifecycle) + Send + Sync>) {}

    fn unload<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<bool, ApiError>> {
        let known = model == "m";
        async move { Ok(known) }.boxed()
    }

    fn make(&self, _: Recipe) -> BoxFuture<'_, Result<(), ApiError>> {
        self.changes("m")
    }

    fn copy<'a>(&'a self, source: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        self.changes(source)
    }

    fn remove<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        self.changes(model)
    }

    fn look_again(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        self.changes("m")
    }

    fn said(&self, model: &str) -> Result<Said, ApiError> {
        if model == "m" { Ok(Said::default()) } else { Err(self.unknown(model)) }
    }

    fn unknown(&self, model: &str) -> ApiError {
        unknown_model(model, &["m".to_owned()])
    }
}

/// The host, as the front holds it.
#[derive(Debug)]
pub struct HostHandle(pub Arc<Host>);

impl HostHandle {
    /// Nothing really is: one input must not find what another has left.
    fn changes<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        let done = if model == "m" { Ok(()) } else { Err(self.unknown(model)) };
        async move { done }.boxed()
    }
}

impl Leased for Host {
    fn model(&self) -> &str {
        "m"
    }

    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    fn queue_position(&self) -> Option<u32> {
        Some(0)
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Events, ApiError>> {
        let said = PIECES.len().min(request.max_tokens.map_or(usize::MAX, |most| most as usize));
        let token = |piece: &&str| {
            let logprob = request.logprobs.map(|most| TokenLogprob {
                bytes: piece.as_bytes().to_vec(),
                logprob: -0.25,
                top: (0..most).map(|id| (id, vec![0xC3], f32::NEG_INFINITY)).collect(),
            });
            Event::Delta { text: (*piece).to_owned(), tokens: vec![TokenOut { id: 1, logprob }] }
        };
        let usage = Usage { prompt_tokens: 7, cached_tokens: 0, completion_tokens: said as u32 };
        let reason = if said < PIECES.len() { FinishReason::Length } else { FinishReason::EndOfGeneration };
        let mut events = vec![Event::Started { prompt_tokens: 7, cached_tokens: 0 }];
        events.extend(PIECES[..said].iter().map(token));
        events.push(Event::Finished(Finished { reason, usage, timings: Timings::default() }));
        async move { Ok(stream::iter(events.into_iter().map(Ok)).boxed()) }.boxed()
    }

    fn encode(&self, prompt: Prompt, _: bool) -> BoxFuture<'_, Result<Vec<TokenId>, ApiError>> {
        let count = match prompt {
            Prompt::Tokens(tokens) => tokens.len(),
            Prompt::Parts(parts) => parts.iter().map(|part| part.text.len()).sum(),
        };
        async move { Ok(vec![1; count]) }.boxed()
    }

    fn decode(&self, tokens: Vec<TokenId>) -> BoxFuture<'_, Result<Vec<u8>, ApiError>> {
        async move { Ok(vec![0xC3; tokens.len()]) }.boxed()
    }

    fn embed(&self, request: EmbedRequest) -> BoxFuture<'_, Result<Embeddings, ApiError>> {
        let vectors = vec![vec![1.0, -0.5]; request.inputs.len()];
        async move { Ok(Embeddings { vectors, prompt_tokens: 5 }) }.boxed()
    }

    fn rerank(&self, request: RerankRequest) -> BoxFuture<'_, Result<Ranking, ApiError>> {
        let scores = vec![0.5; request.documents.len()];
        async move { Ok(Ranking { scores, prompt_tokens: 5 }) }.boxed()
    }
}
