//! What a host wants to know about a model before it loads it: read from the header, never guessed.

use super::error::GgufError;
use super::header::Gguf;
use super::value::{Array, Value};

/// Facts of a model file. A number that the file does not state is 0, a text is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufFacts {
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`.
    pub name: Option<String>,
    /// Positions the model was trained for.
    pub context_trained: u64,
    /// Columns of an embedding row.
    pub embedding: u64,
    /// Blocks.
    pub layers: u64,
    /// Attention heads; the most of any layer.
    pub heads: u64,
    /// Key/value heads; the most of any layer.
    pub kv_heads: u64,
    /// Tokens of the vocabulary.
    pub vocabulary: u64,
    /// Weights counted, not bytes.
    pub parameters: u64,
    /// The type most weights have, as people write it: `Q4_1`. Empty without tensors.
    pub quantisation: String,
    /// Bytes of all weights in this file.
    pub weights_bytes: u64,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
    /// What it was made for.
    pub purpose: Purpose,
    /// Bytes that one position of an f16 attention cache costs over all layers; 0 when the state does not grow.
    pub kv_bytes_per_token_f16: u64,
    /// Bytes of recurrent state (f32) that one sequence costs whatever its length; an upper bound for hybrids.
    pub state_bytes_per_sequence: u64,
}

/// What a model was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To write text.
    Write,
    /// To turn texts into vectors.
    Embed,
    /// To say how well documents answer a query.
    Rank,
}

impl Purpose {
    /// llama.cpp's number for the pooling of models that rank.
    const RANK: u64 = 4;

    fn read(file: &Gguf, arch: &str) -> Result<Self, GgufError> {
        let pooling = file.unsigned(&format!("{arch}.pooling_type"))?;
        let causal = file.boolean(&format!("{arch}.attention.causal"))?;
        Ok(match (pooling, causal) {
            (Some(Self::RANK), _) => Self::Rank,
            (_, Some(false)) => Self::Embed,
            _ => Self::Write,
        })
    }
}

impl Gguf {
    /// The facts. Fails when the file states no architecture, or a fact has the wrong kind.
    pub fn facts(&self) -> Result<GgufFacts, GgufError> {
        let arch = self.architecture()?;
        let number = |name: &str| self.unsigned(&format!("{arch}.{name}")).map(|found| found.unwrap_or(0));
        let layers = number("block_count")?;
        let heads = Heads::read(self, &format!("{arch}.attention.head_count"))?;
        let kv_heads = match self.meta(&format!("{arch}.attention.head_count_kv")) {
            Some(_) => Heads::read(self, &format!("{arch}.attention.head_count_kv"))?,
            None => heads.clone(),
        };
        let embedding = number("embedding_length")?;
        let head_size = embedding.checked_div(heads.most()).unwrap_or(0);
        let or_head_size = |name: &str| self.unsigned(&format!("{arch}.attention.{name}")).map(|found| found.unwrap_or(head_size));
        let (key, value) = (or_head_size("key_length")?, or_head_size("value_length")?);
        let kv_bytes_per_token_f16 = kv_heads.sum(layers).saturating_mul(key.saturating_add(value)).saturating_mul(2);
        Ok(GgufFacts {
            architecture: arch.to_owned(),
            name: self.text("general.name")?.map(str::to_owned),
            context_trained: number("context_length")?,
            embedding,
            layers,
            heads: heads.most(),
            kv_heads: kv_heads.most(),
            vocabulary: match self.meta("tokenizer.ggml.tokens") {
                Some(Value::Array(tokens)) => tokens.len() as u64,
                _ => number("vocab_size")?,
            },
            parameters: self.parameters(),
            quantisation: self.dominant_type().map_or_else(String::new, |kind| kind.name.to_owned()),
            weights_bytes: self.weights_bytes(),
            chat_template: self.text("tokenizer.chat_template")?.map(str::to_owned),
            purpose: Purpose::read(self, arch)?,
            kv_bytes_per_token_f16,
            state_bytes_per_sequence: recurrent_state(&number, embedding, &kv_heads, layers)?,
        })
    }
}

/// A head count: one for all layers, or one per layer (hybrids state 0 where a layer has no attention).
#[derive(Clone)]
enum Heads<'a> {
    Same(u64),
    PerLayer(&'a Array),
}

impl<'a> Heads<'a> {
    fn read(file: &'a Gguf, key: &str) -> Result<Self, GgufError> {
        match file.meta(key) {
            Some(Value::Array(array)) => Ok(Self::PerLayer(array)),
            _ => Ok(Self::Same(file.unsigned(key)?.unwrap_or(0))),
        }
    }

    fn each(&self) -> impl Iterator<Item = u64> + '_ {
        let array = match self {
            Self::Same(_) => None,
            Self::PerLayer(array) => Some(*array),
        };
        array.into_iter().flat_map(|array| (0..array.len()).map(|i| array.unsigned(i).unwrap_or(0)))
    }

    fn most(&self) -> u64 {
        match self {
            Self::Same(n) => *n,
            Self::PerLayer(_) => self.each().max().unwrap_or(0),
        }
    }

    fn sum(&self, layers: u64) -> u64 {
        match self {
            Self::Same(n) => n.saturating_mul(layers),
            Self::PerLayer(_) => self.each().fold(0, u64::saturating_add),
        }
    }

    /// Layers without attention, where a file says so.
    fn without(&self) -> u64 {
        match self {
            Self::Same(_) => 0,
            Self::PerLayer(_) => self.each().filter(|&n| n == 0).count() as u64,
        }
    }
}

/// Convolution and scan state of state-space layers, token shift and matrix state of RWKV layers.
fn recurrent_state(
    number: &impl Fn(&str) -> Result<u64, GgufError>,
    embedding: u64,
    kv_heads: &Heads<'_>,
    layers: u64,
) -> Result<u64, GgufError> {
    let (inner, state) = (number("ssm.inner_size")?, number("ssm.state_size")?);
    let kernel = number("ssm.conv_kernel")?;
    let groups = number("ssm.group_count")?;
    let conv = kernel.saturating_sub(1).saturating_mul(inner.saturating_add(groups.saturating_mul(state).saturating_mul(2)));
    let scan = inner.saturating_mul(state);
    let wkv_head = number("wkv.head_size")?;
    let wkv = if wkv_head == 0 { 0 } else { embedding.saturating_mul(wkv_head.saturating_add(2)) };
    let per_layer = conv.saturating_add(scan).saturating_add(wkv).saturating_mul(4);
    let recurrent = match kv_heads.without() {
        0 => layers,
        n => n,
    };
    Ok(per_layer.saturating_mul(recurrent))
}
