//! Ranking: a query and a document read together, one score out. For models of BERT's architecture (BERT, XLM-RoBERTa) with a head of one
//! label, converted with `pooling_type` rank; the score is the sigmoid of what that head says, as it was trained.
//!
//! A pair is put together as transformers' tokenizers do it for these families: `start query end [end] document end`, the second `end`
//! for RoBERTa's family only. In BERT's family everything behind the query's `end` is of the second kind.

use std::path::Path;
use std::sync::Arc;

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Cancel, Error, RerankLimits, Reranker, Tokenizer};
use onebit_weights::{Gguf, GgufFacts, Purpose};

use crate::kinds::Kinds;
use crate::pooled::{Pooled, Text};
use crate::tokenizer::GgmlTokenizer;
use crate::weights::Weights;

/// The architecture whose pairs are known here; others are refused, not guessed at.
const ARCHITECTURE: &str = "bert";

/// Ranks with a model.
pub struct GgmlReranker {
    pooled: Pooled,
    joints: Joints,
    limits: RerankLimits,
}

/// What stands around a query and a document.
struct Joints {
    start: Vec<u32>,
    middle: Vec<u32>,
    end: Vec<u32>,
}

/// Why a model that ranks would be ranked with wrongly; `None` = it would not. Read from the header, before llama.cpp sees the file.
pub fn refusal(file: &Gguf, facts: &GgufFacts) -> Option<String> {
    if facts.purpose != Purpose::Rank {
        return None;
    }
    let architecture = facts.architecture.as_str();
    let labels = match file.meta(&format!("{architecture}.classifier.output_labels")) {
        Some(onebit_weights::gguf::Value::Array(labels)) => labels.len() as u64,
        _ => 1,
    };
    let head = file.tensor("cls.output.weight").map(|tensor| tensor.shape.get(1).copied().unwrap_or(1));
    match head {
        _ if architecture != ARCHITECTURE => {
            Some(format!("this plugin ranks with models of the architecture {ARCHITECTURE}, not {architecture}"))
        }
        None => Some("this model ranks without the tensor cls.output.weight, which this plugin needs".to_owned()),
        Some(1) if labels == 1 => None,
        Some(n) => Some(format!("this model has a head of {} labels; this plugin ranks with heads of one", n.max(labels))),
    }
}

impl GgmlReranker {
    /// For `weights`; `None` for a model that does not rank, or has no vocabulary.
    pub fn new(weights: &Arc<Weights>, path: &Path, file: &Gguf, tokenizer: Option<&GgmlTokenizer>) -> Result<Option<Self>, Error> {
        let Some(tokenizer) = tokenizer.filter(|_| weights.facts.purpose == Purpose::Rank) else { return Ok(None) };
        let vocabulary = tokenizer.vocabulary();
        let start: Vec<u32> = vocabulary.bos.filter(|_| vocabulary.adds_bos).into_iter().collect();
        let end: Vec<u32> = vocabulary.eos.filter(|_| vocabulary.adds_eos).into_iter().collect();
        if start.is_empty() || end.is_empty() {
            return Err(Error::unsupported("the vocabulary of this model does not say what stands around a pair of texts"));
        }
        let mut middle = end.clone();
        middle.extend(tokenizer.second_separator());
        let joints = (start.len() + middle.len() + end.len()) as u32;
        let most = Pooled::most_tokens(weights);
        let max_tokens = most.checked_sub(joints).filter(|&most| most > 0);
        let max_tokens =
            max_tokens.ok_or_else(|| Error::unsupported(format!("a pair may have {most} tokens, which leaves none for texts")))?;
        Ok(Some(Self {
            pooled: Pooled::new(weights, sys::LLAMA_POOLING_TYPE_RANK, 1, Kinds::open(path, file)?),
            joints: Joints { start, middle, end },
            limits: RerankLimits { max_tokens, joints },
        }))
    }
}

impl Reranker for GgmlReranker {
    fn limits(&self) -> RerankLimits {
        self.limits
    }

    fn rerank(&self, query: &[u32], documents: &[&[u32]], cancel: Cancel<'_>, out: &mut [f32]) -> Result<(), Error> {
        let Joints { start, middle, end } = &self.joints;
        let pair = |document: &&[u32]| {
            let first = [start, query, middle].concat();
            Text { second: first.len(), tokens: [&first, *document, end].concat() }
        };
        let pairs: Vec<Text> = documents.iter().map(pair).collect();
        self.pooled.compute(&pairs, cancel, out)?;
        for score in out {
            *score = (1.0 / (1.0 + (-f64::from(*score)).exp())) as f32;
        }
        Ok(())
    }
}
