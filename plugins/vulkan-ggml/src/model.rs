//! A loaded model with what it offers.

use std::sync::Arc;

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Embedder, Error, Forward, ForwardLimits, Model, ModelDescription, Reranker, Session, SessionArgs, Tokenizer};

use crate::embedder::GgmlEmbedder;
use crate::load::Files;
use crate::reranker::GgmlReranker;
use crate::session::GgmlSession;
use crate::tokenizer::GgmlTokenizer;
use crate::weights::Weights;

/// Largest batch a session is opened for.
const MAX_BATCH: u32 = 8192;

/// A loaded model.
pub struct GgmlModel {
    description: ModelDescription,
    forward: Option<GgmlForward>,
    tokenizer: Option<GgmlTokenizer>,
    embedder: Option<GgmlEmbedder>,
    reranker: Option<GgmlReranker>,
}

impl GgmlModel {
    /// Puts together what `weights` and the header of its first file offer.
    pub fn new(weights: &Arc<Weights>, files: &Files, computes_on: String) -> Result<Self, Error> {
        let file = files.first()?;
        // SAFETY: the model is alive.
        let generates = unsafe { sys::llama_model_has_decoder(weights.as_ptr()) && !sys::llama_model_has_encoder(weights.as_ptr()) };
        let causal =
            file.boolean(&format!("{}.attention.causal", weights.facts.architecture)).map_err(|error| Error::corrupt(error.to_string()))?;
        // SAFETY: as above.
        let diffuses = unsafe { sys::llama_model_is_diffusion(weights.as_ptr()) };
        let generates = generates && causal != Some(false) && !diffuses;
        let tokenizer = GgmlTokenizer::new(weights, file)?;
        let reranker = GgmlReranker::new(weights, files.first_path()?, file, tokenizer.as_ref())?;
        Ok(Self {
            description: ModelDescription {
                computes_on,
                architecture: weights.facts.architecture.clone(),
                quantisation: weights.facts.quantisation.clone(),
            },
            forward: generates.then(|| GgmlForward { weights: Arc::clone(weights) }),
            tokenizer,
            embedder: GgmlEmbedder::new(weights, file)?,
            reranker,
        })
    }
}

impl Model for GgmlModel {
    fn description(&self) -> &ModelDescription {
        &self.description
    }

    fn forward(&self) -> Option<&dyn Forward> {
        self.forward.as_ref().map(|forward| forward as &dyn Forward)
    }

    fn tokenizer(&self) -> Option<&dyn Tokenizer> {
        self.tokenizer.as_ref().map(|tokenizer| tokenizer as &dyn Tokenizer)
    }

    fn embedder(&self) -> Option<&dyn Embedder> {
        self.embedder.as_ref().map(|embedder| embedder as &dyn Embedder)
    }

    fn reranker(&self) -> Option<&dyn Reranker> {
        self.reranker.as_ref().map(|reranker| reranker as &dyn Reranker)
    }
}

struct GgmlForward {
    weights: Arc<Weights>,
}

impl Forward for GgmlForward {
    fn limits(&self) -> ForwardLimits {
        let weights = &self.weights;
        let facts = &weights.facts;
        // SAFETY: asks for constants of a model that is alive.
        let (most, rope) = unsafe { (sys::llama_max_parallel_sequences(), sys::llama_model_rope_type(weights.as_ptr())) };
        ForwardLimits {
            vocabulary: weights.n_vocab(),
            embedding: u32::try_from(weights.embedding_width()).unwrap_or(0),
            context_trained: u32::try_from(facts.context_trained).unwrap_or(u32::MAX),
            max_batch: MAX_BATCH,
            max_sequences: u32::try_from(most).unwrap_or(u32::MAX),
            cut: weights.can_cut(&weights.settings),
            snapshot: true,
            // llama.cpp turns the keys in their stored precision, which rounds them once more: near, not exact.
            shift: false,
            // Several positions per row are needed there, for which a batch has no place.
            embeddings: rope != sys::LLAMA_ROPE_TYPE_MROPE && rope != sys::LLAMA_ROPE_TYPE_IMROPE,
            state_per_token: weights.settings.kv_type.scaled(facts.kv_bytes_per_token_f16),
            state_per_sequence: facts.state_bytes_per_sequence,
        }
    }

    fn open_session(&self, args: &SessionArgs<'_>) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(GgmlSession::open(&self.weights, args)?))
    }
}
