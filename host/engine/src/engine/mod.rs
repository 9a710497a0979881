//! The engine: one thread that computes, and the handle the rest of the process holds.
//!
//! A request is checked and tokenised on the thread that submits it (a long text and a constraint on helper threads), so that neither a
//! huge prompt nor a huge grammar stands in the way of running answers. From there on only the engine's thread touches it. Every request ends with exactly one
//! [`Event::Finished`](crate::Event::Finished) or [`Event::Failed`](crate::Event::Failed), whatever happens: see [`reply`].

mod call;
mod embed;
mod facts;
mod kept;
mod pace;
mod plan;
mod prepare;
mod queue;
mod reply;
mod rerank;
mod running;
mod scheduler;
mod sequences;
mod shared;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, unbounded};
use onebit_loader::CancelFlag;

use crate::backend::{Embed, Forward, LoadedSession, Rerank, Vocabulary};
use crate::guide::{self, Desk};
use crate::prompt::{self, Purpose};
use crate::request::{
    EmbedRequest, Embeddings, EngineError, Event, GenerateRequest, ModelFacts, Prompt, Ranking, RequestId, RerankRequest, TokenId,
};
use facts::Tokens;
use prepare::{Draft, Preparer};
use scheduler::{Command, Scheduler};
use shared::Shared;

/// Positions per request where neither the options nor the model say less: state for the whole trained context of every slot would take
/// more memory than most machines have.
const DEFAULT_CONTEXT: u32 = 4096;

/// Tokens per batch where the options say nothing. How many of them a step really takes is a matter of time: see [`pace`].
const DEFAULT_BATCH: u32 = 2048;

/// Sequences besides those of the slots, in which state is kept for requests to come.
const SPARE_SEQUENCES: u32 = 8;

/// Text up to this size is tokenised by the thread that submits it: it takes less time than to hand it over twice.
const INLINE_TEXT_BYTES: usize = 8 * 1024;

/// Stack of the threads that compile nothing.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// How to run a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineOptions {
    /// Positions in all slots together; each request may use `context / slots`. `None` = the trained context, at most 4096, per slot.
    pub context: Option<u32>,
    /// Requests computed side by side; fewer if the plugin holds fewer ([`ModelFacts::slots`] says).
    pub slots: u32,
    /// Tokens per batch at most; `None` = 2048, or less if the plugin takes less.
    pub batch: Option<u32>,
    /// CPU threads; `None` = as the model was opened.
    pub threads: Option<u32>,
    /// State of requests that have ended is kept for those that begin alike.
    pub prefix_cache: bool,
    /// Settings of the plugin for its session, from the manifest.
    pub options: Vec<(String, String)>,
    /// Id of the plugin, for [`ModelFacts`].
    pub plugin: String,
    /// Its version, for [`ModelFacts`].
    pub plugin_version: String,
    /// Id of the device, for [`ModelFacts`].
    pub device: String,
}

/// What an engine computes with. At least one of `session`, `embed` and `rerank` must be there.
pub struct Backend {
    /// Generates.
    pub session: Option<Box<dyn Forward>>,
    /// Text to tokens and back.
    pub vocabulary: Arc<dyn Vocabulary>,
    /// Embeds.
    pub embed: Option<Arc<dyn Embed>>,
    /// Ranks.
    pub rerank: Option<Arc<dyn Rerank>>,
    /// State of requests that have ended is kept for those that begin alike.
    pub keeps: bool,
}

/// How busy an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineLoad {
    /// Requests that hold a slot.
    pub active: u32,
    /// Requests that wait for one.
    pub waiting: u32,
}

/// Whether an engine can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It serves.
    Serving,
    /// It does not and never will again; every request is answered with this.
    Failed(EngineError),
}

/// What a watchdog looks at: an engine hangs when `busy` is long and `steps` does not rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Steps finished since the start. Only rises.
    pub steps: u64,
    /// How long the oldest step that still runs has been running; `None` = idle.
    pub busy: Option<Duration>,
}

/// Looks at an engine without keeping it alive, from any thread.
#[derive(Debug, Clone)]
pub struct Gauge(Arc<Shared>);

impl Gauge {
    /// How busy it is now.
    pub fn load(&self) -> EngineLoad {
        self.0.load()
    }

    /// Whether it can go on.
    pub fn health(&self) -> Health {
        self.0.failure().map_or(Health::Serving, Health::Failed)
    }

    /// For a watchdog.
    pub fn progress(&self) -> Progress {
        self.0.watch.progress()
    }
}

/// A model that answers. Dropping it cancels what runs and waits for the step that is being computed.
pub struct Engine {
    shared: Arc<Shared>,
    tokens: Arc<Tokens>,
    embed: Option<Arc<dyn Embed>>,
    rerank: Option<Arc<dyn Rerank>>,
    generation: Option<Generation>,
}

/// The parts of an engine that generates.
struct Generation {
    preparer: Preparer,
    commands: Sender<Command>,
    helpers: Option<Helpers>,
    threads: Vec<JoinHandle<()>>,
}

/// Where drafts go that take long to prepare.
struct Helpers {
    texts: Sender<Draft>,
    grammars: Sender<Draft>,
}

impl Engine {
    /// Opens a session on `model` and starts to serve.
    ///
    /// # Errors
    /// The plugin's, and [`EngineError::Unsupported`] for a model that does nothing the engine knows, or has no tokenizer.
    pub fn start(model: onebit_loader::Model, options: EngineOptions) -> Result<(Self, ModelFacts), EngineError> {
        let tokenizer = model.tokenizer().ok_or_else(|| {
            EngineError::Unsupported("the plugin gives no tokenizer for this model; text cannot be generated, embedded or ranked".into())
        })?;
        let (embedder, reranker) = (model.embedder(), model.reranker());
        let pair = reranker.as_ref().map_or(0, |reranker| reranker.limits().max_tokens.saturating_add(reranker.limits().joints));
        let mut context_trained = embedder.as_ref().map_or(pair, |embedder| embedder.limits().max_tokens);
        let mut state_bytes = 0;
        let session = match model.forward() {
            None => None,
            Some(forward) => {
                let size = SessionSize::choose(forward.limits(), &options)?;
                let session = forward
                    .open_session(&onebit_loader::SessionArgs {
                        context: size.context,
                        sequences: size.sequences,
                        batch: size.batch,
                        threads_decode: options.threads,
                        threads_prefill: options.threads,
                        options: &options.options,
                    })
                    .map_err(crate::backend::Fault::from)?;
                let allocated = session.allocated();
                context_trained = forward.limits().context_trained;
                state_bytes = allocated.state_bytes + allocated.scratch_bytes;
                Some(Box::new(LoadedSession::new(session, size.context, size.slots, size.sequences, size.batch)) as Box<dyn Forward>)
            }
        };
        let description = model.description().clone();
        let backend = Backend {
            session,
            vocabulary: Arc::new(tokenizer),
            embed: embedder.map(|embedder| Arc::new(embedder) as Arc<dyn Embed>),
            rerank: reranker.map(|reranker| Arc::new(reranker) as Arc<dyn Rerank>),
            keeps: options.prefix_cache,
        };
        let (engine, facts) = Self::start_on(backend)?;
        let facts = ModelFacts {
            plugin: options.plugin,
            plugin_version: options.plugin_version,
            device: options.device,
            computes_on: description.computes_on,
            architecture: description.architecture,
            quantisation: description.quantisation,
            context_trained,
            state_bytes,
            ..facts
        };
        Ok((engine, facts))
    }

    /// Starts to serve on parts that are open already. What only the loader knows is left empty in the facts.
    ///
    /// # Errors
    /// The plugin's, and [`EngineError::Unsupported`] for parts that can do nothing.
    pub fn start_on(backend: Backend) -> Result<(Self, ModelFacts), EngineError> {
        let Backend { session, vocabulary, embed, rerank, keeps } = backend;
        if session.is_none() && embed.is_none() && rerank.is_none() {
            return Err(EngineError::Unsupported("the plugin neither generates text nor embeds nor ranks with this model".into()));
        }
        let tokens = Arc::new(Tokens::read(vocabulary)?);
        let limits = session.as_ref().map(|session| session.limits());
        let facts =
            facts::facts(&tokens, limits, embed.as_ref().map(|embed| embed.limits()), rerank.as_ref().map(|rerank| rerank.limits()));
        let shared = Arc::new(Shared::default());
        let generation = match session {
            None => None,
            Some(session) => Some(Generation::start(session, Arc::clone(&shared), Arc::clone(&tokens), keeps)?),
        };
        Ok((Self { shared, tokens, embed, rerank, generation }, facts))
    }

    /// Starts a generation. `sink` hears its events, mostly on the engine's thread, where every stream waits for it: it must be quick.
    /// It hears exactly one last event, also when the request is refused.
    pub fn submit(&self, id: RequestId, request: GenerateRequest, sink: Box<dyn FnMut(Event) + Send>) {
        let arrived = Instant::now();
        let Some(reply) = self.shared.register(id, sink) else { return };
        let Some(generation) = &self.generation else {
            reply.end(Event::Failed(EngineError::Unsupported(format!(
                "this model {}; it does not generate text",
                if self.embed.is_some() { "gives embeddings" } else { "ranks documents" }
            ))));
            return;
        };
        generation.submit(Draft { request, reply, arrived });
    }

    /// Calls `flush` whenever the engine's own threads may have said something and turn to work that takes time. For a receiver that
    /// gathers what it hears, to pass on the tokens of all streams at once. Set once; it must be quick and must not call the engine's
    /// blocking functions.
    pub fn flush_with(&self, flush: Box<dyn Fn() + Send + Sync>) {
        self.shared.flush_with(flush);
    }

    /// Ends a generation early; its last event is [`EngineError::Cancelled`], unless it was over anyway. Unknown ids are ignored.
    pub fn cancel(&self, id: RequestId) {
        if self.shared.cancel(id) {
            self.wake();
        }
    }

    /// Embeds texts; blocks until done. `cancel` is seen between and, as far as the plugin looks, within the computing of texts.
    ///
    /// # Errors
    /// [`EngineError`]: no vector is given unless all are.
    pub fn embed(&self, request: &EmbedRequest, cancel: &CancelFlag) -> Result<Embeddings, EngineError> {
        let Some(embed) = &self.embed else {
            return Err(EngineError::Unsupported("this model does not give embeddings; use a model made for them".into()));
        };
        embed::embed(embed.as_ref(), &self.tokens, &self.shared, request, cancel)
    }

    /// Ranks documents; blocks until done. `cancel` as in [`embed`](Self::embed).
    ///
    /// # Errors
    /// [`EngineError`]: no score is given unless all are.
    pub fn rerank(&self, request: &RerankRequest, cancel: &CancelFlag) -> Result<Ranking, EngineError> {
        let Some(rerank) = &self.rerank else {
            return Err(EngineError::Unsupported("this model does not rank documents; use a model made for that".into()));
        };
        rerank::rerank(rerank.as_ref(), &self.tokens, &self.shared, request, cancel)
    }

    /// The tokens a prompt would have.
    ///
    /// # Errors
    /// As for a generation with this prompt; its length is not limited.
    pub fn encode(&self, prompt: &Prompt, add_special: bool) -> Result<Vec<TokenId>, EngineError> {
        prompt::tokens(self.tokens.vocabulary(), self.tokens.facts(), prompt, Purpose::Continue { add_special })
    }

    /// The bytes of tokens, which need not be whole characters; control tokens as their text.
    ///
    /// # Errors
    /// [`EngineError::InvalidRequest`] for ids outside the vocabulary; the plugin's.
    pub fn decode(&self, tokens: &[TokenId]) -> Result<Vec<u8>, EngineError> {
        let size = self.tokens.facts().size;
        if let Some(token) = tokens.iter().find(|token| **token >= size) {
            return Err(EngineError::InvalidRequest {
                message: format!("token {token} does not exist; this model has the tokens 0 to {}", size.saturating_sub(1)),
                param: Some("tokens".into()),
            });
        }
        Ok(self.tokens.vocabulary().decode(tokens, true)?)
    }

    /// For whoever watches it.
    pub fn gauge(&self) -> Gauge {
        Gauge(Arc::clone(&self.shared))
    }

    fn wake(&self) {
        if let Some(generation) = &self.generation {
            // The engine's thread lives until `drop`; without it there is nobody to wake.
            let _ = generation.commands.send(Command::Wake);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.abort.set();
        self.wake();
        if let Some(mut generation) = self.generation.take() {
            generation.helpers = None;
            for thread in generation.threads.drain(..) {
                if thread.join().is_err() {
                    tracing::error!("a thread of the engine panicked");
                }
            }
        }
    }
}

impl Generation {
    fn start(session: Box<dyn Forward>, shared: Arc<Shared>, tokens: Arc<Tokens>, keeps: bool) -> Result<Self, EngineError> {
        let limits = session.limits();
        let preparer = Preparer::new(Arc::clone(&shared), Arc::clone(&tokens), limits);
        let (commands, inbox) = unbounded();
        let desk = Desk::open(limits.slots as usize)?;
        let helper = |name: &str, stack: usize| {
            let (drafts, inbox) = unbounded::<Draft>();
            let (preparer, commands, shared) = (preparer.clone(), commands.clone(), Arc::clone(&shared));
            let body = move || {
                for draft in inbox {
                    if catch_unwind(AssertUnwindSafe(|| preparer.hand_over(draft, &commands))).is_err() {
                        shared.fail(&EngineError::Internal("a panic while a request was prepared".into()));
                    }
                    shared.flush();
                }
            };
            spawn(name, stack, body).map(|thread| (drafts, thread))
        };
        let (texts, text_thread) = helper("onebit-tokenise", STACK_BYTES)?;
        let (grammars, grammar_thread) = helper("onebit-grammar", guide::STACK_BYTES)?;
        let scheduler = Scheduler::new(session, shared, tokens, desk, inbox, keeps);
        let engine = spawn("onebit-engine", STACK_BYTES, move || scheduler.run())?;
        // The helpers are joined first: after them nobody can send the engine a request.
        let threads = vec![text_thread, grammar_thread, engine];
        Ok(Self { preparer, commands, helpers: Some(Helpers { texts, grammars }), threads })
    }

    fn submit(&self, draft: Draft) {
        let constrained = draft.request.constraint.is_some();
        if !constrained && prompt::text_bytes(&draft.request.prompt) <= INLINE_TEXT_BYTES {
            self.preparer.hand_over(draft, &self.commands);
        } else if let Some(helpers) = &self.helpers
            && let Err(lost) = if constrained { &helpers.grammars } else { &helpers.texts }.send(draft)
        {
            lost.into_inner().reply.end(Event::Failed(EngineError::Internal("the thread that prepares requests has ended".into())));
        }
    }
}

fn spawn(name: &str, stack: usize, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, EngineError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(stack)
        .spawn(body)
        .map_err(|error| EngineError::Internal(format!("the thread {name} could not be started: {error}")))
}

/// How large a session is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SessionSize {
    context: u32,
    slots: u32,
    sequences: u32,
    batch: u32,
}

impl SessionSize {
    fn choose(model: &onebit_loader::ForwardLimits, options: &EngineOptions) -> Result<Self, EngineError> {
        let batch = options.batch.unwrap_or(DEFAULT_BATCH).clamp(1, model.max_batch);
        // A step must have room for one token of every sequence.
        let slots = options.slots.clamp(1, model.max_sequences).min(batch);
        if slots < options.slots {
            tracing::warn!(asked = options.slots, slots, "the plugin holds fewer sequences than were asked for");
        }
        let per_slot = match options.context {
            Some(context) => context / slots,
            None if model.context_trained == 0 => DEFAULT_CONTEXT,
            None => model.context_trained.min(DEFAULT_CONTEXT),
        };
        if per_slot == 0 {
            return Err(EngineError::InvalidRequest {
                message: format!(
                    "a context of {:?} positions is too small for {slots} slots; give at least one position per slot",
                    options.context
                ),
                param: Some("context".into()),
            });
        }
        if model.context_trained != 0 && per_slot > model.context_trained {
            tracing::warn!(
                context = per_slot,
                trained = model.context_trained,
                "requests may be longer than what the model was trained for"
            );
        }
        let context = per_slot.saturating_mul(slots);
        // A batch larger than everything there is room for has no meaning, and a plugin may refuse it.
        // Where every sequence costs memory, or cannot be copied in parts, what is kept stays in the slots' own.
        let spare = if options.prefix_cache && model.cut && model.state_per_sequence == 0 {
            SPARE_SEQUENCES.min(model.max_sequences - slots)
        } else {
            0
        };
        Ok(Self { context, slots, sequences: slots + spare, batch: batch.min(context) })
    }
}

#[cfg(test)]
mod tests;
