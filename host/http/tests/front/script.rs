//! A host that answers from a script and remembers what it was asked.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use onebit_engine::{
    EmbedRequest, Embeddings, Event, FinishReason, Finished, GenerateRequest, ModelFacts, Prompt, Ranking, RerankRequest, Timings,
    TokenLogprob, TokenOut, Usage,
};
use onebit_http::errors::{ApiError, Kind, unknown_model};
use onebit_http::models::{Defaults, Details, Events, Leased, ModelCard, Said, WorkerPhase, WorkerState};
use onebit_http::{Arrivals, HttpConfig, Listen, Models, Server};
use onebit_worker::{Confinement, KeepAlive, Lifecycle, Purpose, Recipe, UnloadReason};

/// ChatML, as the demo model has it.
pub const TEMPLATE: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// A piece of a generation.
#[derive(Clone)]
pub enum Step {
    Event(Event),
    Wait(Duration),
    /// Never goes on.
    Hang,
    Error(ApiError),
}

type Play = dyn Fn(&GenerateRequest) -> Vec<Step> + Send + Sync;

/// The host. Clones share it.
#[derive(Clone)]
pub struct Script {
    inner: Arc<Inner>,
}

struct Inner {
    facts: ModelFacts,
    defaults: Defaults,
    play: Box<Play>,
    asked: Mutex<Vec<GenerateRequest>>,
    kept: Mutex<Vec<Option<KeepAlive>>>,
    unloaded: Mutex<Vec<String>>,
    embedded: Mutex<Vec<Prompt>>,
    ranked: Mutex<Vec<RerankRequest>>,
    made: Mutex<Vec<Recipe>>,
    /// What else was done to the models, in words.
    changed: Mutex<Vec<String>>,
    refuse_change: Option<ApiError>,
    /// Generations that were started and not dropped.
    running: AtomicUsize,
    most_running: AtomicUsize,
    refuse_lease: Option<ApiError>,
    sandbox: Confinement,
    queue_position: Option<u32>,
}

/// What a script says unless told otherwise.
pub fn facts() -> ModelFacts {
    serde_json::from_value(serde_json::json!({
        "plugin": "scripted", "plugin_version": "1.2.3", "device": "cpu", "computes_on": "paper", "architecture": "llama", "quantisation": "Q4_1",
        "context": 2048, "context_trained": 2048, "slots": 2, "vocabulary": 49152, "chat_template": TEMPLATE, "bos": "<|im_start|>",
        "eos": "<|im_end|>", "control_tokens": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "embedding": {"dimension": 3, "tokens": 512}, "ranks": true,
        "state_bytes": 1
    }))
    .unwrap()
}

fn confinement(landlock: u32) -> Confinement {
    let missing = if landlock == 0 { vec!["files are not restricted".to_owned()] } else { Vec::new() };
    Confinement { landlock, seccomp: true, missing }
}

fn details() -> Details {
    Details {
        bytes: 98_362_432,
        sha256: Some("ab".repeat(32)),
        format: Some("gguf".into()),
        architecture: Some("llama".into()),
        parameters: Some(134_515_008),
        quantisation: Some("Q4_1".into()),
        context_trained: Some(8192),
        licence: Some("Apache-2.0".into()),
        description: None,
        chats: true,
        purpose: Some(Purpose::Write),
    }
}

/// Ends well.
pub fn finished(prompt_tokens: u32, completion_tokens: u32, reason: FinishReason) -> Step {
    let usage = Usage { prompt_tokens, cached_tokens: 0, completion_tokens };
    let timings = Timings { queue_us: 1_000, prefill_us: 2_000, decode_us: 10_000 };
    Step::Event(Event::Finished(Finished { reason, usage, timings }))
}

/// Tokens to say.
pub const PIECES: [&str; 4] = ["Hello", " é", "漢", " 😀"];

/// Says [`PIECES`], as many as `max_tokens` allows.
pub fn greeting(request: &GenerateRequest) -> Vec<Step> {
    let most = request.max_tokens.map_or(usize::MAX, |most| most as usize);
    let said = PIECES.len().min(most);
    let mut steps = vec![Step::Event(Event::Started { prompt_tokens: 7, cached_tokens: 0 })];
    for piece in &PIECES[..said] {
        let logprob = request.logprobs.map(|k| {
            let top = (0..k).map(|i| (i, format!("alt{i}").into_bytes(), -0.5 - i as f32)).collect();
            TokenLogprob { bytes: piece.as_bytes().to_vec(), logprob: -0.25, top }
        });
        steps.push(Step::Event(Event::Delta { text: (*piece).to_owned(), tokens: vec![TokenOut { id: 1, logprob }] }));
    }
    let reason = if said < PIECES.len() { FinishReason::Length } else { FinishReason::EndOfGeneration };
    steps.push(finished(7, u32::try_from(said).unwrap(), reason));
    steps
}

/// Says these texts, one token each, and ends.
pub fn says(texts: &[&str], reason: FinishReason) -> Vec<Step> {
    let mut steps = vec![Step::Event(Event::Started { prompt_tokens: 7, cached_tokens: 0 })];
    for text in texts {
        steps.push(Step::Event(Event::Delta { text: (*text).to_owned(), tokens: vec![TokenOut { id: 1, logprob: None }] }));
    }
    steps.push(finished(7, u32::try_from(texts.len()).unwrap(), reason));
    steps
}

/// A script that says these texts, of a model that thinks between `<think>` and `</think>`.
pub fn thinker(texts: &'static [&'static str]) -> Script {
    let defaults = Defaults { reasoning_format: Some("think".into()), ..Defaults::default() };
    Script::with(facts(), defaults, None, |_: &GenerateRequest| says(texts, FinishReason::EndOfGeneration))
}

impl Script {
    pub fn new(play: impl Fn(&GenerateRequest) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::with(facts(), Defaults::default(), None, play)
    }

    pub fn with(
        facts: ModelFacts,
        defaults: Defaults,
        refuse_lease: Option<ApiError>,
        play: impl Fn(&GenerateRequest) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let (running, most_running) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self {
            inner: Arc::new(Inner {
                facts,
                defaults,
                play: Box::new(play),
                asked: Mutex::default(),
                kept: Mutex::default(),
                unloaded: Mutex::default(),
                embedded: Mutex::default(),
                ranked: Mutex::default(),
                made: Mutex::default(),
                changed: Mutex::default(),
                refuse_change: None,
                running,
                most_running,
                refuse_lease,
                sandbox: confinement(7),
                queue_position: None,
            }),
        }
    }

    pub fn asked(&self) -> Vec<GenerateRequest> {
        self.inner.asked.lock().unwrap().clone()
    }

    /// What the requests said of how long the model stays.
    pub fn kept(&self) -> Vec<Option<KeepAlive>> {
        self.inner.kept.lock().unwrap().clone()
    }

    /// What was ranked.
    pub fn ranked(&self) -> Vec<RerankRequest> {
        self.inner.ranked.lock().unwrap().clone()
    }

    /// What was embedded.
    pub fn embedded(&self) -> Vec<Prompt> {
        self.inner.embedded.lock().unwrap().clone()
    }

    /// Models that were made.
    pub fn made(&self) -> Vec<Recipe> {
        self.inner.made.lock().unwrap().clone()
    }

    /// What else was done to the models, in words.
    pub fn changed(&self) -> Vec<String> {
        self.inner.changed.lock().unwrap().clone()
    }

    /// Takes no change of its models.
    pub fn refusing(mut self, error: ApiError) -> Self {
        Arc::get_mut(&mut self.inner).expect("not shared yet").refuse_change = Some(error);
        self
    }

    fn change(&self, word: String) -> BoxFuture<'_, Result<(), ApiError>> {
        self.inner.changed.lock().unwrap().push(word);
        let refused = self.inner.refuse_change.clone();
        async move { refused.map_or(Ok(()), Err) }.boxed()
    }

    /// Models that were sent away.
    pub fn unloaded(&self) -> Vec<String> {
        self.inner.unloaded.lock().unwrap().clone()
    }

    /// The text of the last prompt, and whether each part may hold control tokens.
    pub fn last_parts(&self) -> Vec<(String, bool)> {
        match self.asked().pop().unwrap().prompt {
            Prompt::Parts(parts) => parts.into_iter().map(|part| (part.text, part.control)).collect(),
            Prompt::Tokens(_) => panic!("tokens"),
        }
    }

    /// On a kernel with this version of Landlock.
    pub fn on_landlock(mut self, version: u32) -> Self {
        Arc::get_mut(&mut self.inner).expect("not shared yet").sandbox = confinement(version);
        self
    }

    /// Every request finds so many before it.
    pub fn behind(mut self, others: u32) -> Self {
        Arc::get_mut(&mut self.inner).expect("not shared yet").queue_position = Some(others);
        self
    }

    pub fn running(&self) -> usize {
        self.inner.running.load(Ordering::SeqCst)
    }

    pub fn most_running(&self) -> usize {
        self.inner.most_running.load(Ordering::SeqCst)
    }

    /// Waits until so many generations run.
    pub async fn until_running(&self, wanted: usize) {
        let within = tokio::time::timeout(Duration::from_secs(10), async {
            while self.running() != wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        within.await.unwrap_or_else(|_| panic!("{} generations run, not {wanted}", self.running()));
    }
}

impl Models for Script {
    fn cards(&self) -> Vec<ModelCard> {
        vec![ModelCard { id: "org/demo:1b".into(), aliases: vec!["demo".into()], created: 1_700_000_000, details: details() }]
    }

    fn observe(&self, observer: Box<dyn Fn(&Lifecycle) + Send + Sync>) {
        // As if it had happened before anybody asked.
        observer(&Lifecycle::Unloaded { model: "org/demo:1b".into(), reason: UnloadReason::Evicted });
    }

    fn workers(&self) -> Vec<WorkerState> {
        vec![WorkerState {
            model: "org/demo:1b".into(),
            phase: WorkerPhase::Ready,
            detail: None,
            plugin: "scripted".into(),
            device: "cpu".into(),
            restarts: 2,
            memory_estimated: 1000,
            memory_measured: 900,
            sandbox: Some("landlock 7, seccomp".into()),
            refused_calls: 3,
            active: 1,
            waiting: 0,
            expires_at: None,
        }]
    }

    fn sandbox(&self) -> (Confinement, bool) {
        (self.inner.sandbox.clone(), true)
    }

    fn lease<'a>(&'a self, model: &'a str, _: &'a str, keep_alive: Option<KeepAlive>) -> BoxFuture<'a, Result<Arc<dyn Leased>, ApiError>> {
        async move {
            self.inner.kept.lock().unwrap().push(keep_alive);
            if !["org/demo:1b", "demo"].contains(&model) {
                return Err(self.unknown(model));
            }
            match &self.inner.refuse_lease {
                Some(error) => Err(error.clone()),
                None => Ok(Arc::new(self.clone()) as Arc<dyn Leased>),
            }
        }
        .boxed()
    }

    fn unload<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<bool, ApiError>> {
        self.inner.unloaded.lock().unwrap().push(model.to_owned());
        async move { Ok(true) }.boxed()
    }

    fn make(&self, recipe: Recipe) -> BoxFuture<'_, Result<(), ApiError>> {
        let word = format!("make {}", recipe.name);
        self.inner.made.lock().unwrap().push(recipe);
        self.change(word)
    }

    fn copy<'a>(&'a self, source: &'a str, name: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        if source.contains("nobody") {
            return async move { Err(self.unknown(source)) }.boxed();
        }
        self.change(format!("copy {source} {name}"))
    }

    fn remove<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        if model.contains("nobody") {
            return async move { Err(self.unknown(model)) }.boxed();
        }
        self.change(format!("remove {model}"))
    }

    fn look_again(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        self.change("look again".to_owned())
    }

    fn said(&self, model: &str) -> Result<Said, ApiError> {
        match model {
            "org/demo:1b" | "demo" => Ok(Said::default()),
            other => Err(self.unknown(other)),
        }
    }

    fn unknown(&self, model: &str) -> ApiError {
        unknown_model(model, &["org/demo:1b".to_owned()])
    }
}

struct Running(Script);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.inner.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Leased for Script {
    fn model(&self) -> &str {
        "org/demo:1b"
    }

    fn facts(&self) -> &ModelFacts {
        &self.inner.facts
    }

    fn defaults(&self) -> &Defaults {
        &self.inner.defaults
    }

    fn queue_position(&self) -> Option<u32> {
        self.inner.queue_position
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Events, ApiError>> {
        let steps = (self.inner.play)(&request);
        self.inner.asked.lock().unwrap().push(request);
        let now = self.inner.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.inner.most_running.fetch_max(now, Ordering::SeqCst);
        let state = (steps.into_iter(), Running(self.clone()));
        let events = stream::unfold(state, |(mut steps, running)| async move {
            loop {
                match steps.next()? {
                    Step::Event(event) => return Some((Ok(event), (steps, running))),
                    Step::Error(error) => return Some((Err(error), (steps, running))),
                    Step::Wait(time) => tokio::time::sleep(time).await,
                    Step::Hang => std::future::pending().await,
                }
            }
        });
        async move { Ok(events.boxed()) }.boxed()
    }

    fn encode(&self, prompt: Prompt, _: bool) -> BoxFuture<'_, Result<Vec<u32>, ApiError>> {
        // A token a word.
        let tokens = match prompt {
            Prompt::Tokens(tokens) => tokens,
            Prompt::Parts(parts) => (0..parts.iter().flat_map(|part| part.text.split_whitespace()).count() as u32).collect(),
        };
        async move { Ok(tokens) }.boxed()
    }

    fn decode(&self, tokens: Vec<u32>) -> BoxFuture<'_, Result<Vec<u8>, ApiError>> {
        let words: Vec<String> = tokens.iter().map(|token| format!("w{token}")).collect();
        async move { Ok(words.join(" ").into_bytes()) }.boxed()
    }

    fn embed(&self, request: EmbedRequest) -> BoxFuture<'_, Result<Embeddings, ApiError>> {
        self.inner.embedded.lock().unwrap().extend(request.inputs.iter().cloned());
        let vectors = (0..request.inputs.len()).map(|i| vec![1.0, 0.5, i as f32]).collect();
        async move { Ok(Embeddings { vectors, prompt_tokens: 5 }) }.boxed()
    }

    /// The more words, the better.
    fn rerank(&self, request: RerankRequest) -> BoxFuture<'_, Result<Ranking, ApiError>> {
        let scores = request.documents.iter().map(|document| document.split_whitespace().count().min(8) as f32 / 8.0).collect();
        self.inner.ranked.lock().unwrap().push(request);
        async move { Ok(Ranking { scores, prompt_tokens: 9 }) }.boxed()
    }
}

/// A running server; it stops when this is dropped.
pub struct ServerHandle {
    pub address: Listen,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    done: Option<tokio::task::JoinHandle<()>>,
}

impl ServerHandle {
    pub fn port(&self) -> u16 {
        match &self.address {
            Listen::Tcp(address) => address.port(),
            Listen::Unix(_) => panic!("a socket file"),
        }
    }

    /// Begins the shutdown and returns what ends with it.
    pub fn stop(mut self) -> tokio::task::JoinHandle<()> {
        drop(self.stop.take());
        self.done.take().unwrap()
    }
}

/// What a pull says that finds what it is to get.
pub const PULLED: &str = r#"
case "$2" in *nobody*) echo '{"status":"failed","exit":3,"message":"there is no model nobody"}'; exit 3;; esac
echo '{"status":"found"}'
echo '{"status":"pulling","file":"demo.gguf","sha256":"abababababababab","total":10,"completed":4}'
echo '{"status":"done","path":"/m/demo.gguf","sha256":"abababababababab","bytes":10,"was_there":false}'
"#;

/// Files come into this folder, by this shell script: `$2` is the model.
pub fn arrivals(models_dir: impl Into<PathBuf>, script: &str) -> Option<Arrivals> {
    Some(Arrivals { models_dir: models_dir.into(), pull: ["/bin/sh", "-c", script, "pull"].map(OsString::from).into() })
}

/// Loopback, a free port, short limits.
pub fn config() -> HttpConfig {
    let renderer = Some(env!("CARGO_BIN_EXE_onebit-http-render").into());
    let arrivals = arrivals(concat!(env!("CARGO_TARGET_TMPDIR"), "/front-models"), PULLED);
    HttpConfig { listen: vec!["127.0.0.1:0".parse().unwrap()], renderer, arrivals, ..HttpConfig::default() }
}

pub async fn serve(script: &Script) -> ServerHandle {
    serve_with(script, config()).await
}

pub async fn serve_with(script: &Script, config: HttpConfig) -> ServerHandle {
    let server = Server::bind(Arc::new(script.clone()), &config).await.unwrap();
    let address = server.addresses().remove(0);
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let done = tokio::spawn(async move {
        server
            .run(async {
                let _ = stopped.await;
            })
            .await;
    });
    ServerHandle { address, stop: Some(stop), done: Some(done) }
}

/// A failure for scripts.
pub fn full() -> ApiError {
    ApiError::new(Kind::QueueFull, "the queue is full").retry_after(Some(Duration::from_secs(3)))
}
