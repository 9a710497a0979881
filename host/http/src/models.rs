//! What the front needs of the host: a list of models, their real states, and a lease to work with one.
//!
//! The dialects are written against these traits, so that they can be driven by a scripted host in this crate's tests; the real one
//! (`host.rs`) is the only other implementation. Nothing here promises more than the worker reported.

use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use onebit_engine::{EmbedRequest, Embeddings, Event, GenerateRequest, ModelFacts, Prompt, Ranking, RerankRequest, TokenId};
use onebit_worker::{Confinement, KeepAlive, Lifecycle, Purpose, Recipe};

use crate::errors::ApiError;

/// A model that may be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCard {
    /// The name answers carry.
    pub id: String,
    /// Other names that mean the same model.
    pub aliases: Vec<String>,
    /// When it came, Unix seconds.
    pub created: u64,
    /// What its file and manifest say.
    pub details: Details,
}

/// What is known of a model without loading it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Bytes of its file.
    pub bytes: u64,
    /// What the file must hash to, where a manifest says so.
    pub sha256: Option<String>,
    /// `gguf`, …
    pub format: Option<String>,
    /// `llama`, `mamba`, …
    pub architecture: Option<String>,
    /// Weights, counted.
    pub parameters: Option<u64>,
    /// `Q4_1`, …
    pub quantisation: Option<String>,
    /// Positions it was trained for.
    pub context_trained: Option<u64>,
    /// SPDX expression or a name.
    pub licence: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// It has a chat template.
    pub chats: bool,
    /// What it was made for; `None` = not known before it is loaded.
    pub purpose: Option<Purpose>,
}

/// What a worker is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerPhase {
    /// It opens the model.
    Loading,
    /// It answers.
    Ready,
    /// It finishes what runs and ends.
    Stopping,
    /// It ended badly; the next request starts a new one.
    Crashed,
    /// It failed and is not tried again yet.
    Failed,
}

impl WorkerPhase {
    /// As it appears in `/readyz`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
            Self::Crashed => "crashed",
            Self::Failed => "failed",
        }
    }
}

/// A worker as the supervisor sees it now.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerState {
    /// The model it serves.
    pub model: String,
    /// What it is doing.
    pub phase: WorkerPhase,
    /// Why, where that is known (a failure's words).
    pub detail: Option<String>,
    /// Plugin that computes.
    pub plugin: String,
    /// Device id.
    pub device: String,
    /// Times it was started again after a failure.
    pub restarts: u64,
    /// Bytes the plugin said it would need.
    pub memory_estimated: u64,
    /// Bytes it really has.
    pub memory_measured: u64,
    /// What confines its process (`landlock 7, seccomp`), or `none`; `None` before the model is loaded.
    pub sandbox: Option<String>,
    /// System calls that the sandbox refused to the plugin.
    pub refused_calls: u64,
    /// Requests being computed.
    pub active: u64,
    /// Requests waiting.
    pub waiting: u64,
    /// When it leaves if nobody uses it; `None` while it is used, and for a model that stays.
    pub expires_at: Option<SystemTime>,
}

/// What the manifest says of answers; a request's own word wins, and what is `None` here is the dialect's default.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "named as in `Sampling`")]
pub struct Defaults {
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<u32>,
    pub min_p: Option<f32>,
    pub typical_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    pub penalty_window: Option<u32>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub seed: Option<u64>,
    /// Texts that end every answer, besides the request's own.
    pub stop: Vec<String>,
    pub max_tokens: Option<u32>,
    /// System message of chats that have none.
    pub system: Option<String>,
    /// How the model calls functions; `None` = as its template gives away.
    pub tool_format: Option<String>,
    /// How it marks reasoning; `None` = as its template gives away.
    pub reasoning_format: Option<String>,
}

/// A manifest's own words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// Templates and the system message.
    pub chat: onebit_worker::Chat,
    /// Sampling and limits.
    pub defaults: onebit_worker::Defaults,
}

/// The events of one generation. Dropping it cancels the work.
pub type Events = BoxStream<'static, Result<Event, ApiError>>;

/// The host, seen from the front.
pub trait Models: Send + Sync + 'static {
    /// All models, in the order to list them.
    fn cards(&self) -> Vec<ModelCard>;
    /// All workers there are now.
    fn workers(&self) -> Vec<WorkerState>;
    /// Gets hold of a model, loading it if need be. Dropping the future gives up waiting. `request_id` is for the logs on the other side;
    /// `keep_alive` takes the place of the manifest's until the next request.
    fn lease<'a>(
        &'a self,
        model: &'a str,
        request_id: &'a str,
        keep_alive: Option<KeepAlive>,
    ) -> BoxFuture<'a, Result<Arc<dyn Leased>, ApiError>>;
    /// Ends the worker of a model once its running answers are done; false where none was loaded.
    fn unload<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<bool, ApiError>>;
    /// Makes a model; the next request finds it.
    fn make(&self, recipe: Recipe) -> BoxFuture<'_, Result<(), ApiError>>;
    /// Gives a model a second name, under which it may be changed and removed by itself.
    fn copy<'a>(&'a self, source: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), ApiError>>;
    /// Removes a model.
    fn remove<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<(), ApiError>>;
    /// Looks at once which models there are; files may have come.
    fn look_again(&self) -> BoxFuture<'_, Result<(), ApiError>>;
    /// What a model's manifest says of its prompts and answers, in its own words.
    fn said(&self, model: &str) -> Result<Said, ApiError>;
    /// Calls `observer` for what happens to workers from now on. It must be quick.
    fn observe(&self, observer: Box<dyn Fn(&Lifecycle) + Send + Sync>);
    /// What this kernel confines plugins with, and whether the configuration takes nothing less.
    fn sandbox(&self) -> (Confinement, bool);
    /// The error for a name that is not in [`Models::cards`]: why it is not, or the names that look alike.
    fn unknown(&self, model: &str) -> ApiError;
}

/// A loaded model, held for as long as this lives.
pub trait Leased: Send + Sync + 'static {
    /// The name answers carry.
    fn model(&self) -> &str;
    /// What the worker said of it; its chat template is the manifest's where that has one.
    fn facts(&self) -> &ModelFacts;
    /// What the manifest says of answers.
    fn defaults(&self) -> &Defaults;
    /// How many requests had to end first when this one came, counted from the front of the queue: 0 = it could begin at once. `None` = unknown.
    fn queue_position(&self) -> Option<u32>;
    /// Starts a generation.
    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Events, ApiError>>;
    /// The tokens of a prompt; `add_special`: with the start token, where the vocabulary asks for one.
    fn encode(&self, prompt: Prompt, add_special: bool) -> BoxFuture<'_, Result<Vec<TokenId>, ApiError>>;
    /// The bytes of tokens; not always whole characters.
    fn decode(&self, tokens: Vec<TokenId>) -> BoxFuture<'_, Result<Vec<u8>, ApiError>>;
    /// Embeds.
    fn embed(&self, request: EmbedRequest) -> BoxFuture<'_, Result<Embeddings, ApiError>>;
    /// Says how well documents answer a query.
    fn rerank(&self, request: RerankRequest) -> BoxFuture<'_, Result<Ranking, ApiError>>;
}
