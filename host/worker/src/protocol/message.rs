//! The messages. Plain data; the engine's own border types travel unchanged inside them.
//!
//! Every request has a number that the front chose and that is never used twice on one connection. A generation ends with exactly one last
//! event ([`Event::Finished`] or [`Event::Failed`]), a call with exactly one reply, also after a [`ToWorker::Cancel`].

use std::path::PathBuf;

use onebit_engine::{EmbedRequest, Embeddings, EngineError, Event, GenerateRequest, ModelFacts, Prompt, Ranking, RerankRequest, TokenId};
use onebit_loader::devices::Device;
use onebit_loader::trust::{Seen, Trust};
use onebit_sandbox::Confinement;
use serde::{Deserialize, Serialize};

use super::{PROTOCOL_VERSION, build_id};
use onebit_confine::SandboxConfig;

/// First frame in both directions. Its layout never changes: a string and a number are all that an older or newer build can rely on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`Hello::MAGIC`].
    pub magic: String,
    /// [`PROTOCOL_VERSION`] of the sender.
    pub protocol: u32,
    /// [`build_id`] of the sender.
    pub build: String,
}

impl Hello {
    /// Says that this is a worker connection at all.
    pub const MAGIC: &str = "onebit-worker";

    /// This build's.
    #[must_use]
    pub fn ours() -> Self {
        Self { magic: Self::MAGIC.to_owned(), protocol: PROTOCOL_VERSION, build: build_id().to_owned() }
    }

    /// Whether the two sides are the same program.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        self == other
    }
}

/// What a worker must know to load its one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadOrder {
    /// Name of the model, for logs.
    pub model: String,
    /// File or folder of the weights.
    pub model_path: PathBuf,
    /// Folder with `plugin.toml` and the library.
    pub plugin_dir: PathBuf,
    /// How much proof of its origin it must bring.
    pub trust: Trust,
    /// Files of the plugin that the host has hashed before.
    pub seen: Vec<Seen>,
    /// Which plugin must be found there.
    pub plugin_id: String,
    /// Which version must be found there. Another one means that the plugin was replaced since the choice was made.
    pub plugin_version: String,
    /// The device that was chosen.
    pub device: Device,
    /// Settings of the plugin.
    pub options: Vec<(String, String)>,
    /// Positions one request may use; `None` = what the model was trained for, as far as the engine's own bound allows.
    pub context: Option<u32>,
    /// Requests computed side by side.
    pub slots: u32,
    /// CPU threads; `None` = the plugin's choice.
    pub threads: Option<u32>,
    /// State of requests that have ended is kept for those that begin alike.
    pub prefix_cache: bool,
    /// Takes the place of the chat template in the model file.
    pub chat_template: Option<String>,
}

/// From the front to the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// The first message after the greeting, once.
    Load {
        /// What to load.
        order: Box<LoadOrder>,
        /// What the process may still do once the plugin runs in it.
        sandbox: Box<SandboxConfig>,
    },
    /// Start a generation.
    Generate {
        /// Number of the request on this connection.
        id: u64,
        /// Name of the request in the logs of both processes.
        request_id: String,
        /// What to do.
        request: Box<GenerateRequest>,
    },
    /// Turn texts into vectors.
    Embed {
        /// Number of the request on this connection.
        id: u64,
        /// Name of the request in the logs of both processes.
        request_id: String,
        /// What to do.
        request: EmbedRequest,
    },
    /// Say how well documents answer a query.
    Rerank {
        /// Number of the request on this connection.
        id: u64,
        /// Name of the request in the logs of both processes.
        request_id: String,
        /// What to do.
        request: RerankRequest,
    },
    /// Turn text into tokens.
    Encode {
        /// Number of the request on this connection.
        id: u64,
        /// The text.
        prompt: Prompt,
        /// Adds the start token if the vocabulary asks for one.
        add_special: bool,
    },
    /// Turn tokens into text.
    Decode {
        /// Number of the request on this connection.
        id: u64,
        /// The tokens.
        tokens: Vec<TokenId>,
    },
    /// Stop this request; its last event or reply still comes.
    Cancel {
        /// Number of the request on this connection.
        id: u64,
    },
    /// Stop everything and end the process.
    Shutdown,
}

/// From the worker to the front.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromWorker {
    /// The load moves on.
    LoadProgress {
        /// 0 ..= 1.
        fraction: f32,
    },
    /// The model is loaded.
    Ready {
        /// What it is.
        facts: Box<ModelFacts>,
        /// First measurement.
        stats: Stats,
        /// What confines the process; `None` = the configuration exempts its plugin.
        confinement: Option<Confinement>,
    },
    /// The model cannot be loaded; the process ends by itself.
    LoadFailed(LoadFailure),
    /// Something a generation says.
    Event {
        /// Of which request.
        id: u64,
        /// What.
        event: Event,
    },
    /// Answer to [`ToWorker::Embed`].
    Embedded {
        /// Of which request.
        id: u64,
        /// The vectors.
        result: Result<Embeddings, EngineError>,
    },
    /// Answer to [`ToWorker::Rerank`].
    Ranked {
        /// Of which request.
        id: u64,
        /// The scores.
        result: Result<Ranking, EngineError>,
    },
    /// Answer to [`ToWorker::Encode`].
    Encoded {
        /// Of which request.
        id: u64,
        /// The tokens.
        result: Result<Vec<TokenId>, EngineError>,
    },
    /// Answer to [`ToWorker::Decode`].
    Decoded {
        /// Of which request.
        id: u64,
        /// The bytes; not always whole characters.
        result: Result<Vec<u8>, EngineError>,
    },
    /// How the worker is, about twice a second.
    Stats(Stats),
    /// The engine cannot go on (a lost device, a fault of its own): the process is to be replaced. All its requests were answered with it.
    Failed(EngineError),
}

/// The worker, measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Bytes of the process in memory.
    pub rss_bytes: u64,
    /// Of these, bytes that are pages of files (mapped weights): the kernel calls them available although the worker needs them.
    pub rss_file_bytes: u64,
    /// Requests being computed.
    pub active: u32,
    /// Requests waiting for a slot.
    pub waiting: u32,
    /// Steps the engine has finished; rises as long as a busy engine does not hang.
    pub progress: u64,
    /// System calls that the sandbox refused.
    pub refused_calls: u64,
}

/// Which step of a load failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LoadStage {
    /// The plugin's files were refused before any of its code ran.
    Refused,
    /// The process could not be confined.
    Sandbox,
    /// The plugin's library could not be loaded.
    Library,
    /// The plugin could not open the model.
    Model,
    /// The engine could not start over the model.
    Engine,
}

/// Why a model could not be loaded, with the plugin's own status and numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({status})")]
pub struct LoadFailure {
    /// How far it came.
    pub stage: LoadStage,
    /// Name of the ABI's status (`CORRUPT_MODEL`, `OUT_OF_DEVICE_MEMORY`, …), or the name of the host's own check.
    pub status: String,
    /// One sentence for a person.
    pub message: String,
    /// What there is; the unit depends on the status. 0 = not said.
    pub have: u64,
    /// What was needed; the unit depends on the status. 0 = not said.
    pub need: u64,
    /// Bytes asked for. 0 = not said.
    pub want: u64,
    /// Bytes free. 0 = not said.
    pub free: u64,
    /// When to try again, for `BUSY`. 0 = not said.
    pub retry_ms: u64,
}
