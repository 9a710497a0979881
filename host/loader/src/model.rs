//! A loaded model and its capabilities.

use crate::{CancelFlag, EmbedLimits, Encode, ForwardLimits, ModelDescription, PluginError, Session, SessionArgs, TokenInfo, Vocabulary};

/// A loaded model. Clones share it; it is closed when the last clone and everything made from it is gone.
#[derive(Clone)]
pub struct Model {}

impl Model {
    /// What it is.
    pub fn description(&self) -> &ModelDescription {
        todo!()
    }
    /// `onebit.forward/1`, if the model has it.
    pub fn forward(&self) -> Option<ForwardModel> {
        todo!()
    }
    /// `onebit.tokenize/1`, if the model has it.
    pub fn tokenizer(&self) -> Option<Tokenizer> {
        todo!()
    }
    /// `onebit.embed/1`, if the model has it.
    pub fn embedder(&self) -> Option<Embedder> {
        todo!()
    }
}

/// A model at token level.
#[derive(Clone)]
pub struct ForwardModel {}

impl ForwardModel {
    /// What it can do.
    pub fn limits(&self) -> &ForwardLimits {
        todo!()
    }
    /// Makes a session with empty sequences.
    pub fn open_session(&self, args: &SessionArgs<'_>) -> Result<Session, PluginError> {
        let _ = args;
        todo!()
    }
}

/// A model's vocabulary. From any thread.
#[derive(Clone)]
pub struct Tokenizer {}

impl Tokenizer {
    /// Facts.
    pub fn vocabulary(&self) -> &Vocabulary {
        todo!()
    }
    /// Facts about a token.
    pub fn token(&self, id: u32) -> Result<TokenInfo, PluginError> {
        let _ = id;
        todo!()
    }
    /// Text to tokens.
    pub fn encode(&self, text: &str, how: Encode) -> Result<Vec<u32>, PluginError> {
        let _ = (text, how);
        todo!()
    }
    /// Tokens to bytes.
    pub fn decode(&self, tokens: &[u32], control: bool) -> Result<Vec<u8>, PluginError> {
        let _ = (tokens, control);
        todo!()
    }
}

/// A model that embeds. From any thread; calls wait for each other.
#[derive(Clone)]
pub struct Embedder {}

impl Embedder {
    /// What it gives.
    pub fn limits(&self) -> &EmbedLimits {
        todo!()
    }
    /// One vector per text.
    pub fn embed(&self, texts: &[&[u32]], normalise: bool, cancel: Option<&CancelFlag>) -> Result<Vec<Vec<f32>>, PluginError> {
        let _ = (texts, normalise, cancel);
        todo!()
    }
}
