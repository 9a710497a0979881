//! What goes into the engine and what comes out: the types that also cross the worker's socket.
//!
//! They are plain data (serde), know nothing of any HTTP dialect, and carry no behaviour besides small constructors. A dialect fills
//! [`GenerateRequest`]; the engine answers with [`Event`]s, of which exactly one is last ([`Event::Finished`] or [`Event::Failed`]).

use serde::{Deserialize, Serialize};

/// Index into a model's vocabulary.
pub type TokenId = u32;

/// Names a generation while it runs. Chosen by whoever submits; free again once the last event is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// What to continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prompt {
    /// Text in parts, so that what a user typed can never become a control token.
    Parts(Vec<PromptPart>),
    /// Token ids, as given.
    Tokens(Vec<TokenId>),
}

/// A piece of prompt text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptPart {
    /// UTF-8.
    pub text: String,
    /// Texts of control tokens in here become those tokens (template text: yes; a user's text: no).
    pub control: bool,
}

/// One generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// What to continue.
    pub prompt: Prompt,
    /// Adds the model's own start token to a [`Prompt::Parts`] if its vocabulary asks for one and the text does not begin with it.
    pub add_special: bool,
    /// Tokens to make at most; `None` = until the context is full; `Some(0)` = only compute the prompt.
    pub max_tokens: Option<u32>,
    /// How to choose tokens.
    pub sampling: Sampling,
    /// The answer ends before the first of these. Empty strings are not allowed.
    pub stop: Vec<String>,
    /// `Some(k)`: log-probability of each token and of the `k` best alternatives (of the distribution before sampling filters).
    pub logprobs: Option<u32>,
    /// Go on after an end-of-generation token. Not together with a constraint.
    pub ignore_eos: bool,
    /// What the answer must look like; `None` = anything.
    pub constraint: Option<Constraint>,
    /// The answer begins with reasoning; `None` = it does not, or nobody cares.
    pub reasoning: Option<Reasoning>,
    /// Texts of control tokens are part of the answer's text (formats of tool calls are made of them). The token that ends the answer
    /// never is.
    pub control_text: bool,
    /// `Some(k)`: [`Event::Prompt`] tells the log-probability of each token of the prompt and the `k` best alternatives there.
    pub prompt_logprobs: Option<u32>,
    /// Who goes first where requests wait.
    pub priority: Priority,
    /// With whom it may share what was computed for the same beginning: who could measure that would learn what others have asked. `None` =
    /// with all that have none.
    pub scope: Option<String>,
}

/// Before whom a request goes while it waits for its turn. What is computed already is not interrupted, and who waits longer rises.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// After the others: work that nobody watches.
    Low,
    /// In the order of arrival.
    #[default]
    Normal,
    /// Before the others.
    High,
}

impl GenerateRequest {
    /// Continues `prompt` greedily until the model ends it, and asks for nothing else.
    pub fn new(prompt: Prompt) -> Self {
        Self {
            prompt,
            add_special: false,
            max_tokens: None,
            sampling: Sampling::default(),
            stop: Vec::new(),
            logprobs: None,
            ignore_eos: false,
            constraint: None,
            reasoning: None,
            control_text: false,
            prompt_logprobs: None,
            priority: Priority::Normal,
            scope: None,
        }
    }
}

/// What an answer must look like. Every token that would leave it is forbidden, and the answer can end only where it is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Constraint {
    /// JSON that a JSON schema accepts (its text; draft 2020-12). A keyword that cannot be carried out is an error that names it. Properties
    /// come in the schema's order, others after them; `format` is followed where a regular expression can, and an error elsewhere.
    JsonSchema(String),
    /// A text that this regular expression matches as a whole.
    Regex(String),
    /// A grammar in llguidance's Lark.
    Lark(String),
    /// A grammar in llguidance's Lark around the marks of a model's family and JSON schemas. The engine writes the rules for these: `mark_N` is
    /// the N-th mark, as its control token where the vocabulary has one with this text, else as text; `until_N` is any text up to and with it;
    /// `schema_N` is JSON that the N-th schema accepts, as with [`Constraint::JsonSchema`].
    Marked {
        /// The other rules; the first is `start`.
        lark: String,
        /// Texts of the marks; none is empty.
        marks: Vec<String>,
        /// Texts of the schemas.
        schemas: Vec<String>,
    },
    /// A grammar in llama.cpp's notation.
    Gbnf(String),
}

/// How an answer's reasoning is told from the rest of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reasoning {
    /// Text that begins it, at the very start of the answer (whitespace before it allowed); `None` = the prompt has begun it.
    pub start: Option<String>,
    /// Text that ends it, for example `</think>`.
    pub end: String,
    /// Tokens it may have; then `end` is written in its place. `None` = as many as it wants.
    pub budget: Option<u32>,
}

/// How to choose the next token. `Default` is greedy without penalties.
///
/// Order: logit bias → penalties → constraint → (log-probabilities are taken here) → temperature 0 ⇒ argmax, else top-k → typical → top-p →
/// min-p → temperature → draw. So with a constraint the log-probabilities are those of the tokens it allows, and only such are named as
/// alternatives. A token that is written by force (the end of a reasoning whose budget is spent) has the log-probability it would have had.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// 0 = greedy.
    pub temperature: f32,
    /// Keep the k most likely; 0 = all.
    pub top_k: u32,
    /// Keep the smallest set with at least this probability; 1 = all.
    pub top_p: f32,
    /// Drop what is less likely than this times the most likely; 0 = off.
    pub min_p: f32,
    /// Locally typical sampling; 1 = off.
    pub typical_p: f32,
    /// Divides (positive) or multiplies (negative) logits of seen tokens; 1 = off.
    pub repetition_penalty: f32,
    /// Tokens back (prompt and answer) that `repetition_penalty` looks at; 0 = the whole sequence.
    pub penalty_window: u32,
    /// Subtracted once from tokens seen in the answer; 0 = off.
    pub presence_penalty: f32,
    /// Subtracted per occurrence in the answer; 0 = off.
    pub frequency_penalty: f32,
    /// Same seed, same request, same device: same answer. `None` = fresh.
    pub seed: Option<u64>,
    /// Added to logits; values in −100 ..= 100.
    pub logit_bias: Vec<(TokenId, f32)>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            repetition_penalty: 1.0,
            penalty_window: 64,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: None,
            logit_bias: Vec::new(),
        }
    }
}

/// What a generation says while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// It has a sequence; the prompt is tokens now.
    Started {
        /// Tokens of the prompt.
        prompt_tokens: u32,
        /// Of these, how many had been computed before, for other requests.
        cached_tokens: u32,
    },
    /// The prompt is being computed (sent between chunks, not for short prompts).
    Prefill {
        /// Tokens computed so far.
        done: u32,
    },
    /// The prompt with its log-probabilities, of the model's own distribution: neither bias nor penalties touch it. Only with
    /// `prompt_logprobs`; once, when the prompt is computed and before the first `Delta`.
    Prompt {
        /// All tokens of the prompt; the first has no log-probability.
        tokens: Vec<TokenOut>,
    },
    /// More of the answer. `text` is whole characters; it may be empty while a stop string or a character is still open.
    Delta {
        /// What may be shown now.
        text: String,
        /// The tokens that this text completes. A token waits here as long as its text does; tokens that only made a stop string, and
        /// the token that ends a generation, never come out (both are counted in [`Usage`]).
        tokens: Vec<TokenOut>,
    },
    /// The end, good.
    Finished(Finished),
    /// The end, bad.
    Failed(EngineError),
}

/// A token that was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenOut {
    /// Which.
    pub id: TokenId,
    /// Only with `logprobs`; in a prompt only with `prompt_logprobs`.
    pub logprob: Option<TokenLogprob>,
}

/// Log-probabilities at one position, natural logarithm, finite (−9999 for "never").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// Bytes of the chosen token. Those of a control token are its text in a prompt and with `control_text`, otherwise it has none.
    pub bytes: Vec<u8>,
    /// Of the chosen token.
    pub logprob: f32,
    /// The best alternatives, best first: id, bytes, log-probability.
    pub top: Vec<(TokenId, Vec<u8>, f32)>,
}

/// How a good end came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Why it ended.
    pub reason: FinishReason,
    /// What it cost.
    pub usage: Usage,
    /// How long it took.
    pub timings: Timings,
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FinishReason {
    /// The model ended it.
    EndOfGeneration,
    /// A stop string; which one.
    StopString(String),
    /// `max_tokens`, or the context is full. A character that was still open is not part of the answer.
    Length,
}

/// Tokens, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Of the prompt.
    pub prompt_tokens: u32,
    /// Of these, how many had been computed before, for other requests.
    pub cached_tokens: u32,
    /// Of the answer, the end token included if the model chose one.
    pub completion_tokens: u32,
}

/// Microseconds, by the worker's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timings {
    /// From arrival in the worker to the first batch.
    pub queue_us: u64,
    /// From there to the first token.
    pub prefill_us: u64,
    /// From the first token to the last.
    pub decode_us: u64,
}

/// Texts or tokens to embed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedRequest {
    /// One vector per entry.
    pub inputs: Vec<Prompt>,
}

/// Vectors of length 1, in the order asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Embeddings {
    /// One per input.
    pub vectors: Vec<Vec<f32>>,
    /// Of all inputs.
    pub prompt_tokens: u32,
}

/// A query and documents to rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RerankRequest {
    /// What is asked.
    pub query: String,
    /// What may answer it.
    pub documents: Vec<String>,
    /// A document that is too long is read as far as the model reads; otherwise it is an error.
    pub truncate: bool,
}

/// How well documents answer a query, in the order asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// One per document, 0 ..= 1.
    pub scores: Vec<f32>,
    /// Of all pairs: the query is read once with each document.
    pub prompt_tokens: u32,
}

/// What the front must know of a loaded model. Comes from the worker, so it is true.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// Id of the plugin that computes.
    pub plugin: String,
    /// Its version.
    pub plugin_version: String,
    /// Device id: `cpu`, `vulkan:…`.
    pub device: String,
    /// What it really computes on, for people.
    pub computes_on: String,
    /// `llama`, `mamba`, …
    pub architecture: String,
    /// `Q4_1`, …
    pub quantisation: String,
    /// Positions one request may use.
    pub context: u32,
    /// Positions the model was trained for.
    pub context_trained: u32,
    /// Requests computed side by side.
    pub slots: u32,
    /// Tokens there are.
    pub vocabulary: u32,
    /// The chat template of the model file.
    pub chat_template: Option<String>,
    /// Text of the start token, for templates.
    pub bos: Option<String>,
    /// Text of the end token, for templates.
    pub eos: Option<String>,
    /// Texts of all control tokens, so that the front can keep users from writing them.
    pub control_tokens: Vec<String>,
    /// How it embeds; `None` = it does not.
    pub embedding: Option<EmbeddingFacts>,
    /// It ranks documents.
    pub ranks: bool,
    /// Bytes of state and scratch the plugin allocated.
    pub state_bytes: u64,
}

/// How a model embeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingFacts {
    /// Values per vector.
    pub dimension: u32,
    /// Tokens one text may have.
    pub tokens: u32,
}

/// Why the engine refused or gave up. One row each in `http::errors`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EngineError {
    /// The prompt does not fit. Never cut silently. It begins as Anthropic's does, which makes agents shorten the conversation.
    #[error(
        "prompt is too long: {need} tokens > {have} maximum, the context of this model; shorten it, or serve the model with a larger context"
    )]
    ContextOverflow {
        /// Positions one request may use.
        have: u32,
        /// Positions the prompt needs.
        need: u32,
    },
    /// The text does not fit into what the plugin embeds at once, however large the context is.
    #[error("the text is too long: {need} tokens > {have} maximum, what this model embeds at once; shorten it, or embed it in parts")]
    TextTooLong {
        /// Tokens one text may have.
        have: u32,
        /// Tokens the text has.
        need: u32,
    },
    /// The query leaves no room for a document.
    #[error("the query is too long: {need} tokens, and this model reads at most {have} of a query and a document together; shorten it")]
    QueryTooLong {
        /// Tokens both may have together.
        have: u32,
        /// Tokens the query has.
        need: u32,
    },
    /// The document does not fit beside the query into what the plugin reads at once.
    #[error(
        "document {index} is too long: {need} tokens with the query > {have} maximum, what this model reads at once; shorten it, or send \"truncate\": true to have only its beginning read"
    )]
    DocumentTooLong {
        /// Which, counted from 0.
        index: u32,
        /// Tokens both may have together.
        have: u32,
        /// Tokens both have together.
        need: u32,
    },
    /// The request cannot be carried out as it stands.
    #[error("{message}")]
    InvalidRequest {
        /// What is wrong and what is allowed.
        message: String,
        /// Name of the setting, as in [`GenerateRequest`].
        param: Option<String>,
    },
    /// The model has no such job (embeddings, …).
    #[error("{0}")]
    Unsupported(String),
    /// The client or the host asked for the end.
    #[error("the request was cancelled")]
    Cancelled,
    /// No memory for this request; the others go on.
    #[error("out of memory: {want} bytes wanted, {free} free")]
    OutOfMemory {
        /// Bytes wanted.
        want: u64,
        /// Bytes free.
        free: u64,
    },
    /// The plugin failed; its status and words.
    #[error("the plugin failed ({status}): {message}")]
    Plugin {
        /// Name of the status, as in the ABI.
        status: String,
        /// The plugin's sentence.
        message: String,
    },
    /// The constraint cannot be followed any further: a limit was reached, or no token of this model continues it. The others go on.
    #[error("the constraint cannot be followed any further: {0}")]
    Constraint(String),
    /// A fault of the engine itself. It stops serving; the process must be replaced.
    #[error("the engine failed: {0}; this is a bug in the host, please report it")]
    Internal(String),
}
