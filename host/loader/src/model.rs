//! A loaded model, and the first look at each of its capabilities: when there is a [`Model`], its tables and limits are checked.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use onebit_plugin_api as abi;

use crate::door::{capability, extension};
use crate::embedder::EmbedderParts;
use crate::plugin::{PluginInner, absent, call};
use crate::reranker::RerankerParts;
use crate::tokenizer::TokenizerParts;
use crate::{Embedder, ForwardLimits, ModelDescription, PluginError, Reranker, Session, SessionArgs, Tokenizer, raw};

/// A loaded model. Clones share it; it is closed when the last clone and everything made from it is gone.
#[derive(Clone)]
pub struct Model(pub(crate) Arc<ModelInner>);

pub(crate) struct ModelInner {
    pub(crate) raw: NonNull<abi::OnebitModel>,
    pub(crate) plugin: Arc<PluginInner>,
    description: ModelDescription,
    pub(crate) forward: Option<Arc<ForwardParts>>,
    tokenizer: Option<Arc<TokenizerParts>>,
    embedder: Option<Arc<EmbedderParts>>,
    reranker: Option<Arc<RerankerParts>>,
    /// `session_open`: one call at a time per model.
    pub(crate) opening: Mutex<()>,
}

// SAFETY: the ABI allows a model on every thread: calls that are not free to overlap are held apart by the locks in here.
unsafe impl Send for ModelInner {}
// SAFETY: as above.
unsafe impl Sync for ModelInner {}

pub(crate) struct ForwardParts {
    pub(crate) table: abi::OnebitForward,
    pub(crate) limits: ForwardLimits,
}

impl ModelInner {
    /// Takes over what `open` gave. Whatever is wrong with it, it is closed.
    pub(crate) fn take(plugin: Arc<PluginInner>, out: &abi::OnebitOpenOut) -> Result<Self, PluginError> {
        let raw = NonNull::new(out.model).ok_or_else(|| PluginError::broken("open succeeded without a model"))?;
        let mut model = Self {
            raw,
            plugin,
            description: ModelDescription::default(),
            forward: None,
            tokenizer: None,
            embedder: None,
            reranker: None,
            opening: Mutex::new(()),
        };
        // SAFETY: the texts live until `close`.
        model.description = unsafe {
            ModelDescription {
                computes_on: raw::text(out.computes_on, "open.computes_on")?,
                architecture: raw::text(out.architecture, "open.architecture")?,
                quantisation: raw::text(out.quantisation, "open.quantisation")?,
            }
        };
        let offered = |id: &str| model.plugin.capabilities.iter().any(|listed| listed == id);
        let table = |id: &str| {
            if offered(id) { extension(&model.plugin.table, raw.as_ptr(), id) } else { core::ptr::null() }
        };
        let (forward, tokenize) = (table(abi::ONEBIT_FORWARD_1), table(abi::ONEBIT_TOKENIZE_1));
        let (embed, rerank) = (table(abi::ONEBIT_EMBED_1), table(abi::ONEBIT_RERANK_1));
        // SAFETY: tables of the types that belong to their ids, or null.
        unsafe {
            if !forward.is_null() {
                model.forward = Some(Arc::new(ForwardParts::read(capability(forward), raw)?));
            }
            if !tokenize.is_null() {
                model.tokenizer = Some(Arc::new(TokenizerParts::read(capability(tokenize), raw)?));
            }
            if !embed.is_null() {
                model.embedder = Some(Arc::new(EmbedderParts::read(capability(embed), raw)?));
            }
            if !rerank.is_null() {
                model.reranker = Some(Arc::new(RerankerParts::read(capability(rerank), raw)?));
            }
        }
        Ok(model)
    }
}

impl Drop for ModelInner {
    fn drop(&mut self) {
        if let Some(close) = self.plugin.table.close {
            // SAFETY: a live model; everything made from it holds an `Arc` of this, so it is gone.
            unsafe { close(self.raw.as_ptr()) }
        }
    }
}

impl ForwardParts {
    fn read(table: Option<abi::OnebitForward>, model: NonNull<abi::OnebitModel>) -> Result<Self, PluginError> {
        let table = table.ok_or_else(|| PluginError::broken("the table of onebit.forward/1 lies about its size"))?;
        let required = [
            ("limits", table.limits.is_some()),
            ("session_open", table.session_open.is_some()),
            ("session_close", table.session_close.is_some()),
            ("forward", table.forward.is_some()),
            ("seq_copy", table.seq_copy.is_some()),
            ("seq_remove", table.seq_remove.is_some()),
        ];
        if let Some((name, _)) = required.iter().find(|(_, there)| !there) {
            return Err(absent(name));
        }
        let limits = table.limits.ok_or_else(|| absent("limits"))?;
        let mut out: abi::OnebitForwardLimits = raw::out();
        // SAFETY: a function of the table, a live model.
        call(|| unsafe { limits(model.as_ptr(), &raw mut out) })?;
        let has = |bit| out.flags & bit != 0;
        let limits = ForwardLimits {
            vocabulary: out.vocabulary,
            embedding: out.embedding,
            context_trained: out.context_trained,
            max_batch: out.max_batch,
            max_sequences: out.max_sequences,
            cut: has(abi::ONEBIT_STATE_CUT),
            snapshot: has(abi::ONEBIT_STATE_SNAPSHOT),
            shift: has(abi::ONEBIT_STATE_SHIFT),
            embeddings: has(abi::ONEBIT_FORWARD_EMBEDDINGS),
            state_per_token: out.state_per_token,
            state_per_sequence: out.state_per_sequence,
        };
        for (name, value) in [("vocabulary", out.vocabulary), ("max_batch", out.max_batch), ("max_sequences", out.max_sequences)] {
            if value == 0 {
                return Err(PluginError::broken(format!("limits.{name} is 0")));
            }
        }
        if limits.snapshot && (table.state_size.is_none() || table.state_save.is_none() || table.state_load.is_none()) {
            return Err(PluginError::broken("it says that state can be saved, and a function for it is null"));
        }
        if limits.shift && table.seq_shift.is_none() {
            return Err(PluginError::broken("it says that positions can be shifted, and seq_shift is null"));
        }
        if limits.embeddings && limits.embedding == 0 {
            return Err(PluginError::broken("it takes embedding rows of 0 values"));
        }
        Ok(Self { table, limits })
    }
}

impl Model {
    /// What it is and what it really computes on.
    pub fn description(&self) -> &ModelDescription {
        &self.0.description
    }

    /// `onebit.forward/1`, if the model has it.
    pub fn forward(&self) -> Option<ForwardModel> {
        self.0.forward.as_ref().map(|parts| ForwardModel { model: Arc::clone(&self.0), parts: Arc::clone(parts) })
    }

    /// `onebit.tokenize/1`, if the model has it.
    pub fn tokenizer(&self) -> Option<Tokenizer> {
        self.0.tokenizer.as_ref().map(|parts| Tokenizer { model: Arc::clone(&self.0), parts: Arc::clone(parts) })
    }

    /// `onebit.embed/1`, if the model has it.
    pub fn embedder(&self) -> Option<Embedder> {
        self.0.embedder.as_ref().map(|parts| Embedder { model: Arc::clone(&self.0), parts: Arc::clone(parts) })
    }

    /// `onebit.rerank/1`, if the model has it.
    pub fn reranker(&self) -> Option<Reranker> {
        self.0.reranker.as_ref().map(|parts| Reranker { model: Arc::clone(&self.0), parts: Arc::clone(parts) })
    }
}

/// A model at token level. Keeps its model alive.
#[derive(Clone)]
pub struct ForwardModel {
    pub(crate) model: Arc<ModelInner>,
    pub(crate) parts: Arc<ForwardParts>,
}

impl ForwardModel {
    /// What it can do.
    pub fn limits(&self) -> &ForwardLimits {
        &self.parts.limits
    }

    /// Makes a session with empty sequences.
    pub fn open_session(&self, args: &SessionArgs<'_>) -> Result<Session, PluginError> {
        let _lock = self.model.opening.lock().unwrap_or_else(PoisonError::into_inner);
        Session::open(Arc::clone(&self.model), &self.parts, args)
    }
}
