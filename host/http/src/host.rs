//! The real host behind the front's border: [`onebit_worker::Host`], in the shapes of [`crate::models`].

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use onebit_engine::{EmbedRequest, Embeddings, GenerateRequest, ModelFacts, Prompt, Ranking, RerankRequest, TokenId};
use onebit_worker::{
    Confinement, Host, HostError, KeepAlive, Lease, LeaseOptions, Lifecycle, ModelState, ModelSummary, Recipe, WorkerState as Phase,
    WorkerStatus,
};

use crate::errors::ApiError;
use crate::models::{Defaults, Details, Events, Leased, ModelCard, Models, Said, WorkerPhase, WorkerState};

/// A [`Host`] for [`crate::Server`].
#[derive(Clone)]
pub struct HostModels {
    host: Host,
    patience: Duration,
}

impl HostModels {
    /// Of this host. A request whose answer has not begun after `patience` is refused.
    pub fn new(host: Host, patience: Duration) -> Self {
        Self { host, patience }
    }
}

impl std::fmt::Debug for HostModels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostModels")
    }
}

impl Models for HostModels {
    fn cards(&self) -> Vec<ModelCard> {
        // What could only be refused is not offered.
        self.host.models().into_iter().filter(|model| matches!(model.state, ModelState::Here)).map(card).collect()
    }

    fn workers(&self) -> Vec<WorkerState> {
        self.host.status().into_iter().map(worker).collect()
    }

    fn lease<'a>(
        &'a self,
        model: &'a str,
        request_id: &'a str,
        keep_alive: Option<KeepAlive>,
    ) -> BoxFuture<'a, Result<Arc<dyn Leased>, ApiError>> {
        async move {
            let deadline = Instant::now() + self.patience;
            let lease = self.host.lease(model, LeaseOptions { deadline: Some(deadline), keep_alive }).await?.named(request_id);
            // Asked after the lease: what counts is the manifest as it is now.
            let defaults = defaults(self.host.model(&lease.spec().model).ok());
            Ok(Arc::new(HostLease { lease, defaults }) as Arc<dyn Leased>)
        }
        .boxed()
    }

    fn unload<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<bool, ApiError>> {
        async move { Ok(self.host.unload(model).await?) }.boxed()
    }

    fn make(&self, recipe: Recipe) -> BoxFuture<'_, Result<(), ApiError>> {
        async move { Ok(self.host.make(recipe).await?) }.boxed()
    }

    fn copy<'a>(&'a self, source: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        async move { Ok(self.host.copy(source, name).await?) }.boxed()
    }

    fn remove<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        async move { Ok(self.host.remove(model).await?) }.boxed()
    }

    fn look_again(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        async move { Ok(self.host.look_again().await?) }.boxed()
    }

    fn said(&self, model: &str) -> Result<Said, ApiError> {
        let ModelSummary { chat, defaults, .. } = self.host.model(model)?;
        Ok(Said { chat, defaults })
    }

    fn observe(&self, observer: Box<dyn Fn(&Lifecycle) + Send + Sync>) {
        self.host.observe(observer);
    }

    fn sandbox(&self) -> (Confinement, bool) {
        let (offered, required) = self.host.sandbox();
        (offered.clone(), required)
    }

    fn unknown(&self, model: &str) -> ApiError {
        match self.host.model(model) {
            Err(error) => error.into(),
            Ok(summary) => match summary.state {
                ModelState::NotDownloaded(message) => HostError::NotDownloaded { model: summary.name, message }.into(),
                ModelState::Broken(problems) => HostError::Broken { model: summary.name, problems }.into(),
                // It came a moment ago.
                ModelState::Here => crate::errors::unknown_model(model, &[summary.name]),
            },
        }
    }
}

fn card(model: ModelSummary) -> ModelCard {
    let created = model.modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, |since| since.as_secs());
    let facts = model.facts.as_ref();
    let known = |number: u64| (number > 0).then_some(number);
    let details = Details {
        bytes: model.bytes.unwrap_or(0),
        sha256: model.sha256,
        format: model.format,
        architecture: facts.map(|facts| facts.architecture.clone()),
        parameters: facts.and_then(|facts| known(facts.parameters)),
        quantisation: facts.map(|facts| facts.quantisation.clone()),
        context_trained: facts.and_then(|facts| known(facts.context_trained)),
        licence: model.licence,
        description: model.description,
        chats: model.chat.template.is_some() || facts.is_some_and(|facts| facts.chat_template),
        purpose: facts.map(|facts| facts.purpose),
    };
    ModelCard { id: model.name, aliases: model.aliases, created, details }
}

fn worker(status: WorkerStatus) -> WorkerState {
    let (phase, reason) = match status.state {
        Phase::Ready => (WorkerPhase::Ready, None),
        Phase::Draining => (WorkerPhase::Stopping, None),
        Phase::Crashed { reason } => (WorkerPhase::Crashed, Some(format!("{reason}; the next request starts it again"))),
        Phase::Failed { reason, .. } => (WorkerPhase::Failed, Some(reason)),
        _ => (WorkerPhase::Loading, None),
    };
    let sandbox = match (&status.confinement, phase) {
        (Some(confinement), _) => Some(confinement.to_string()),
        (None, WorkerPhase::Ready | WorkerPhase::Stopping) => Some("none".to_owned()),
        (None, _) => None,
    };
    WorkerState {
        model: status.model,
        phase,
        detail: reason.or(status.fallback_note),
        plugin: status.plugin,
        device: status.device,
        restarts: u64::from(status.restarts),
        memory_estimated: status.estimate.total(),
        memory_measured: status.rss_bytes,
        sandbox,
        refused_calls: status.refused_calls,
        active: u64::from(status.active),
        waiting: u64::from(status.waiting),
        expires_at: status.expires_at,
    }
}

fn defaults(model: Option<ModelSummary>) -> Defaults {
    let Some(ModelSummary { defaults, chat, .. }) = model else { return Defaults::default() };
    Defaults {
        temperature: defaults.temperature,
        top_p: defaults.top_p,
        top_k: defaults.top_k,
        min_p: defaults.min_p,
        typical_p: defaults.typical_p,
        repetition_penalty: defaults.repetition_penalty,
        penalty_window: defaults.penalty_window,
        presence_penalty: defaults.presence_penalty,
        frequency_penalty: defaults.frequency_penalty,
        seed: defaults.seed,
        stop: defaults.stop,
        max_tokens: defaults.max_tokens,
        system: chat.system,
        tool_format: chat.tool_format,
        reasoning_format: chat.reasoning_format,
    }
}

struct HostLease {
    lease: Lease,
    defaults: Defaults,
}

impl Leased for HostLease {
    fn model(&self) -> &str {
        &self.lease.spec().model
    }

    fn facts(&self) -> &ModelFacts {
        self.lease.facts()
    }

    fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    fn queue_position(&self) -> Option<u32> {
        Some(self.lease.queue_position())
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Events, ApiError>> {
        async move {
            let generation = self.lease.generate(request).await?;
            Ok(generation.map(|event| event.map_err(ApiError::from)).boxed())
        }
        .boxed()
    }

    fn encode(&self, prompt: Prompt, add_special: bool) -> BoxFuture<'_, Result<Vec<TokenId>, ApiError>> {
        async move { Ok(self.lease.encode(prompt, add_special).await?) }.boxed()
    }

    fn decode(&self, tokens: Vec<TokenId>) -> BoxFuture<'_, Result<Vec<u8>, ApiError>> {
        async move { Ok(self.lease.decode(tokens).await?) }.boxed()
    }

    fn embed(&self, request: EmbedRequest) -> BoxFuture<'_, Result<Embeddings, ApiError>> {
        async move { Ok(self.lease.embed(request).await?) }.boxed()
    }

    fn rerank(&self, request: RerankRequest) -> BoxFuture<'_, Result<Ranking, ApiError>> {
        async move { Ok(self.lease.rerank(request).await?) }.boxed()
    }
}
