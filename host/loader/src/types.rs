//! What goes into a plugin and what comes out, as checked, plain data.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use onebit_plugin_api as abi;
use serde::{Deserialize, Serialize};

use crate::devices::Device;

/// A wish that a call into a plugin ends early. Clones share one flag.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicU32>);

impl CancelFlag {
    /// Not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the work to stop.
    pub fn set(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Takes the wish back, so that the flag can be used again.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether the work is to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn as_ptr(&self) -> *const u32 {
        self.0.as_ptr()
    }
}

/// Who a plugin is, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// Same as in note and `plugin.toml`.
    pub id: String,
    /// Semantic version.
    pub version: String,
    /// What it computes with, one line.
    pub computes_with: String,
    /// Build facts.
    pub facts: Vec<(String, String)>,
}

/// Why a device or a model cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Nothing is wrong.
    None,
    /// The plugin has nothing for that kind of device.
    WrongKind,
    /// A library, driver or firmware is missing.
    MissingDriver,
    /// A driver or firmware is too old.
    OldDriver,
    /// The device lacks a feature.
    MissingFeature,
    /// Permissions, limits, a cgroup.
    NotPermitted,
    /// The model file is damaged.
    CorruptModel,
    /// The architecture or quantisation is not known.
    UnsupportedModel,
    /// The device was tried and failed.
    Failed,
    /// A number that this host does not know.
    Other(u32),
}

impl Reason {
    pub(crate) fn from_abi(code: u32) -> Self {
        match code {
            abi::ONEBIT_REASON_NONE => Self::None,
            abi::ONEBIT_REASON_WRONG_KIND => Self::WrongKind,
            abi::ONEBIT_REASON_MISSING_DRIVER => Self::MissingDriver,
            abi::ONEBIT_REASON_OLD_DRIVER => Self::OldDriver,
            abi::ONEBIT_REASON_MISSING_FEATURE => Self::MissingFeature,
            abi::ONEBIT_REASON_NOT_PERMITTED => Self::NotPermitted,
            abi::ONEBIT_REASON_CORRUPT_MODEL => Self::CorruptModel,
            abi::ONEBIT_REASON_UNSUPPORTED_MODEL => Self::UnsupportedModel,
            abi::ONEBIT_REASON_FAILED => Self::Failed,
            other => Self::Other(other),
        }
    }
}

/// A plugin's word about one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Can be used.
    pub usable: bool,
    /// Higher is better, among the devices of one plugin; 100 = what it was made for.
    pub score: u32,
    /// Why not.
    pub reason: Reason,
    /// One sentence; for a usable device a remark, or empty.
    pub text: String,
    /// Only one process at a time may use the device through this plugin.
    pub exclusive: bool,
    /// Models lie in host memory.
    pub memory_host: bool,
    /// Models lie in device memory.
    pub memory_device: bool,
}

/// Input of [`Plugin::fit`](crate::Plugin::fit).
#[derive(Debug, Clone, Copy)]
pub struct FitRequest<'a> {
    /// The model file or folder. Must be UTF-8.
    pub path: &'a Path,
    /// The device it would run on.
    pub device: &'a Device,
    /// Positions in all sequences together; `None` = the trained context.
    pub context: Option<u32>,
    /// Sequences at a time.
    pub sequences: u32,
    /// Settings of the plugin, from the manifest.
    pub options: &'a [(String, String)],
}

/// A plugin's word about a model file on a device: an estimate. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fit {
    /// Can serve.
    pub usable: bool,
    /// Why not.
    pub reason: Reason,
    /// One sentence.
    pub text: String,
    /// `general.architecture` or its like.
    pub architecture: String,
    /// The most used weight type.
    pub quantisation: String,
    /// Weights in host memory.
    pub weights_host: u64,
    /// Weights in device memory.
    pub weights_device: u64,
    /// State for the context and sequences asked for, where the model computes.
    pub state: u64,
    /// Of `state`, what one position costs; 0 for recurrent models.
    pub state_per_token: u64,
    /// Compute buffers in host memory.
    pub scratch_host: u64,
    /// Compute buffers in device memory.
    pub scratch_device: u64,
    /// Positions the model was trained for.
    pub context_trained: u64,
    /// Weights counted, not bytes.
    pub parameters: u64,
}

/// Input of [`Plugin::open`](crate::Plugin::open).
pub struct OpenRequest<'a> {
    /// The model file or folder. Must be UTF-8.
    pub path: &'a Path,
    /// The device that was chosen.
    pub device: &'a Device,
    /// CPU threads the plugin may use; `None` = its own choice.
    pub threads: Option<u32>,
    /// Settings of the plugin, from the manifest.
    pub options: &'a [(String, String)],
    /// Ends the load early.
    pub cancel: &'a CancelFlag,
    /// Hears how far the load is, 0.0 ..= 1.0, on the calling thread.
    pub progress: &'a mut dyn FnMut(f32),
}

/// What a loaded model is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelDescription {
    /// What it really computes on.
    pub computes_on: String,
    /// `general.architecture` or its like.
    pub architecture: String,
    /// The most used weight type.
    pub quantisation: String,
}

/// What a model can do at token level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardLimits {
    /// Columns of the logits; at least 1.
    pub vocabulary: u32,
    /// Columns of an embedding row; 0 if none are taken.
    pub embedding: u32,
    /// Positions the model was trained for.
    pub context_trained: u32,
    /// Tokens one batch may have at most; at least 1.
    pub max_batch: u32,
    /// Sequences one session may hold at most; at least 1.
    pub max_sequences: u32,
    /// State can be cut at any position.
    pub cut: bool,
    /// A sequence's state can be saved and loaded.
    pub snapshot: bool,
    /// `seq_shift` is exact.
    pub shift: bool,
    /// Batches of embedding rows are taken.
    pub embeddings: bool,
    /// Bytes of state one position costs; 0 when the state does not grow.
    pub state_per_token: u64,
    /// Bytes of state one sequence costs whatever its length.
    pub state_per_sequence: u64,
}

/// Input of [`ForwardModel::open_session`](crate::ForwardModel::open_session).
#[derive(Debug, Clone, Copy)]
pub struct SessionArgs<'a> {
    /// Positions in all sequences together.
    pub context: u32,
    /// Sequences, numbered from 0.
    pub sequences: u32,
    /// Largest batch that will be asked for.
    pub batch: u32,
    /// CPU threads for one-token batches; `None` = as given to `open`.
    pub threads_decode: Option<u32>,
    /// CPU threads for larger batches; `None` = as given to `open`.
    pub threads_prefill: Option<u32>,
    /// Settings of the plugin, from the manifest.
    pub options: &'a [(String, String)],
}

/// What a session allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Positions in all sequences together.
    pub context: u32,
    /// Bytes of state.
    pub state_bytes: u64,
    /// Bytes of compute buffers.
    pub scratch_bytes: u64,
}

/// The rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Input<'a> {
    /// Token ids.
    Tokens(&'a [u32]),
    /// Rows of [`ForwardLimits::embedding`] values, one after the other.
    Embeddings(&'a [f32]),
}

/// One batch. Row i is input i at `positions[i]` of sequence `sequences[i]`; all slices have one length. The positions of one sequence
/// follow its state without a gap, in rising order.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Tokens or embedding rows.
    pub input: Input<'a>,
    /// Positions.
    pub positions: &'a [u32],
    /// Sequence numbers.
    pub sequences: &'a [u32],
    /// Rows whose logits are wanted.
    pub wants_logits: &'a [bool],
    /// After a cancelled batch its rows may or may not be in the state: remove them.
    pub cancel: Option<&'a CancelFlag>,
}

/// Facts about a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vocabulary {
    /// Tokens are `0 ..< size`.
    pub size: u32,
    /// Beginning of a text.
    pub bos: Option<u32>,
    /// End of a text.
    pub eos: Option<u32>,
    /// End of a turn.
    pub eot: Option<u32>,
    /// [`Encode::add_special`] puts `bos` first.
    pub adds_bos: bool,
    /// [`Encode::add_special`] puts `eos` last.
    pub adds_eos: bool,
    /// The chat template of the file.
    pub chat_template: Option<String>,
    /// Kind of tokenizer, for people.
    pub kind: String,
}

/// Facts about one token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenInfo {
    /// The token's text as the vocabulary writes it.
    pub text: String,
    /// Score or merge rank, as in the file.
    pub score: f32,
    /// Never produced from a user's text.
    pub control: bool,
    /// Ends a generation.
    pub end: bool,
    /// Stands for a single byte.
    pub byte: bool,
    /// Added by the model's author.
    pub added: bool,
    /// Stands for nothing.
    pub unused: bool,
}

/// How to encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Encode {
    /// Texts of control tokens become those tokens.
    pub parse_control: bool,
    /// Adds what the model wants at the start (and end) of a text.
    pub add_special: bool,
}

/// What a model gives as embeddings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedLimits {
    /// Values per vector; at least 1.
    pub dimension: u32,
    /// Tokens one text may have at most.
    pub max_tokens: u32,
    /// How a text's vector is made.
    pub pooling: String,
}

/// How long a query and a document may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RerankLimits {
    /// Tokens that both may have together at most; at least 1.
    pub max_tokens: u32,
    /// Tokens that the plugin puts around them; for counting.
    pub joints: u32,
}
