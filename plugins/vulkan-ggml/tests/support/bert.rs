//! A small model of BERT's family with random weights: its GGUF file, and what it computes, in double precision and in the plainest way.
//!
//! The arithmetic is that of the paper (Devlin et al. 2018) as transformers has it: post-norm layers, full attention, a pooler with tanh, a
//! head of one label. All weights are multiples of 1/512, so that the file may hold them as 16-bit floats without rounding.

use std::f64::consts::PI;

/// What a token is, for the vocabulary.
const WORDS: &[&str] = &[
    "a", "cat", "sat", "on", "the", "mat", "moon", "is", "far", "away", "what", "where", "panda", "bear", "car", "eats", "bamboo", "wheels",
];

const EMBEDDING: usize = 32;
const HEADS: usize = 4;
const INNER: usize = 64;
const LAYERS: usize = 2;
/// Positions there are.
pub const CONTEXT: usize = 64;
const NORM_EPSILON: f64 = 1e-12;

/// llama.cpp's number of a pooling.
pub const MEAN: u32 = 1;
/// As above.
pub const CLS: u32 = 2;
/// As above.
pub const RANK: u32 = 4;

/// Whose tokens and pairs it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `[CLS] a [SEP] b [SEP]`, two kinds of tokens.
    Bert,
    /// `<s> a </s></s> b </s>`, one kind.
    XlmRoberta,
}

/// The model.
pub struct Bert {
    family: Family,
    pooling: u32,
    half: bool,
    tensors: Vec<Tensor>,
}

struct Tensor {
    name: String,
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// Numbers that look random and are always the same: multiples of 1/512 between -1 and 1.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % 1025) as f64 / 512.0 - 1.0
    }
}

/// The nearest multiple of 1/512.
fn step(value: f64) -> f64 {
    (value * 512.0).round() / 512.0
}

impl Bert {
    /// With the input embeddings as 16-bit floats, or all as 32-bit ones.
    pub fn new(family: Family, pooling: u32, half: bool) -> Self {
        let (n, kinds) = (WORDS.len() + 5, if family == Family::Bert { 2 } else { 1 });
        let mut shapes: Vec<(String, Vec<usize>, f64, f64)> = vec![
            ("token_embd.weight".into(), vec![EMBEDDING, n], 0.0, 1.0),
            ("position_embd.weight".into(), vec![EMBEDDING, CONTEXT], 0.0, 0.5),
            ("token_types.weight".into(), vec![EMBEDDING, kinds], 0.0, 1.0),
            ("token_embd_norm.weight".into(), vec![EMBEDDING], 1.0, 0.2),
            ("token_embd_norm.bias".into(), vec![EMBEDDING], 0.0, 0.2),
        ];
        for layer in 0..LAYERS {
            for (name, shape, spread) in [
                ("attn_q", vec![EMBEDDING, EMBEDDING], 0.4),
                ("attn_k", vec![EMBEDDING, EMBEDDING], 0.4),
                ("attn_v", vec![EMBEDDING, EMBEDDING], 0.4),
                ("attn_output", vec![EMBEDDING, EMBEDDING], 0.4),
                ("ffn_up", vec![EMBEDDING, INNER], 0.3),
                ("ffn_down", vec![INNER, EMBEDDING], 0.3),
            ] {
                shapes.push((format!("blk.{layer}.{name}.bias"), vec![shape[1]], 0.0, 0.2));
                shapes.push((format!("blk.{layer}.{name}.weight"), shape, 0.0, spread));
            }
            for name in ["attn_output_norm", "layer_output_norm"] {
                shapes.push((format!("blk.{layer}.{name}.weight"), vec![EMBEDDING], 1.0, 0.2));
                shapes.push((format!("blk.{layer}.{name}.bias"), vec![EMBEDDING], 0.0, 0.2));
            }
        }
        if pooling == RANK {
            shapes.push(("cls.weight".into(), vec![EMBEDDING, EMBEDDING], 0.0, 0.4));
            shapes.push(("cls.bias".into(), vec![EMBEDDING], 0.0, 0.2));
            shapes.push(("cls.output.weight".into(), vec![EMBEDDING, 1], 0.0, 0.6));
            shapes.push(("cls.output.bias".into(), vec![1], 0.0, 0.2));
        }
        let mut noise = Noise(11);
        let tensors = shapes
            .into_iter()
            .map(|(name, shape, middle, spread)| {
                let values = (0..shape.iter().product()).map(|_| step(middle + spread * noise.next())).collect();
                Tensor { name, shape, values }
            })
            .collect();
        Self { family, pooling, half, tensors }
    }

    fn tensor(&self, name: &str) -> &Tensor {
        self.tensors.iter().find(|tensor| tensor.name == name).unwrap_or_else(|| panic!("{name}"))
    }

    /// `(start, middle, end)` around a query and a document.
    pub fn joints(&self) -> (&'static [u32], &'static [u32], &'static [u32]) {
        match self.family {
            Family::Bert => (&[1], &[2], &[2]),
            Family::XlmRoberta => (&[1], &[2, 2], &[2]),
        }
    }

    /// The score of a pair.
    pub fn score(&self, query: &[u32], document: &[u32]) -> f64 {
        let (start, middle, end) = self.joints();
        let first = [start, query, middle].concat();
        let rows = self.rows(&[&first, document, end].concat(), first.len());
        let pooled: Vec<f64> = self.product("cls", &rows[0]).into_iter().map(f64::tanh).collect();
        1.0 / (1.0 + (-self.product("cls.output", &pooled)[0]).exp())
    }

    /// The vector of a text with its start and end, of length 1.
    pub fn vector(&self, text: &[u32]) -> Vec<f64> {
        let (start, _, end) = self.joints();
        let rows = self.rows(&[start, text, end].concat(), usize::MAX);
        let mut vector = match self.pooling {
            MEAN => (0..EMBEDDING).map(|i| rows.iter().map(|row| row[i]).sum::<f64>() / rows.len() as f64).collect(),
            _ => rows[0].clone(),
        };
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
        vector
    }

    /// The last layer's rows; from `second` on the tokens are of the second kind.
    fn rows(&self, tokens: &[u32], second: usize) -> Vec<Vec<f64>> {
        let row = |name: &str, index: usize| &self.tensor(name).values[index * EMBEDDING..(index + 1) * EMBEDDING];
        let last_kind = self.tensor("token_types.weight").shape[1] - 1;
        let input = |(position, &token): (usize, &u32)| {
            let kind = if position < second { 0 } else { last_kind };
            let parts = [row("token_embd.weight", token as usize), row("token_types.weight", kind), row("position_embd.weight", position)];
            self.norm("token_embd_norm", &(0..EMBEDDING).map(|i| parts.iter().map(|part| part[i]).sum()).collect::<Vec<f64>>())
        };
        let mut rows: Vec<Vec<f64>> = tokens.iter().enumerate().map(input).collect();
        for layer in 0..LAYERS {
            let named = |name: &str| format!("blk.{layer}.{name}");
            let attended = self.attention(layer, &rows);
            for (row, attended) in rows.iter_mut().zip(attended) {
                let attended = self.norm(&named("attn_output_norm"), &add(row, &attended));
                let inner: Vec<f64> = self.product(&named("ffn_up"), &attended).into_iter().map(gelu).collect();
                *row = self.norm(&named("layer_output_norm"), &add(&attended, &self.product(&named("ffn_down"), &inner)));
            }
        }
        rows
    }

    fn attention(&self, layer: usize, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let all = |name: &str| -> Vec<Vec<f64>> { rows.iter().map(|row| self.product(&format!("blk.{layer}.{name}"), row)).collect() };
        let (queries, keys, values) = (all("attn_q"), all("attn_k"), all("attn_v"));
        let width = EMBEDDING / HEADS;
        let attend = |query: &Vec<f64>| {
            let mut mixed = vec![0.0; EMBEDDING];
            for head in 0..HEADS {
                let part = head * width..(head + 1) * width;
                let scale = (width as f64).sqrt();
                let likeness = |key: &Vec<f64>| query[part.clone()].iter().zip(&key[part.clone()]).map(|(a, b)| a * b).sum::<f64>() / scale;
                let weights: Vec<f64> = keys.iter().map(|key| likeness(key).exp()).collect();
                let total: f64 = weights.iter().sum();
                for (weight, value) in weights.iter().zip(&values) {
                    for i in part.clone() {
                        mixed[i] += weight / total * value[i];
                    }
                }
            }
            self.product(&format!("blk.{layer}.attn_output"), &mixed)
        };
        queries.iter().map(attend).collect()
    }

    fn product(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let (weight, bias) = (self.tensor(&format!("{name}.weight")), self.tensor(&format!("{name}.bias")));
        let row = |(row, bias): (&[f64], &f64)| row.iter().zip(input).map(|(a, b)| a * b).sum::<f64>() + bias;
        weight.values.chunks(input.len()).zip(&bias.values).map(row).collect()
    }

    fn norm(&self, name: &str, input: &[f64]) -> Vec<f64> {
        let (weight, bias) = (self.tensor(&format!("{name}.weight")), self.tensor(&format!("{name}.bias")));
        let mean = input.iter().sum::<f64>() / input.len() as f64;
        let spread = (input.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / input.len() as f64 + NORM_EPSILON).sqrt();
        input.iter().zip(weight.values.iter().zip(&bias.values)).map(|(x, (w, b))| (x - mean) / spread * w + b).collect()
    }

    /// The file.
    pub fn gguf(&self) -> Vec<u8> {
        let (name, start, end) = match self.family {
            Family::Bert => ("bert", "[CLS]", "[SEP]"),
            Family::XlmRoberta => ("t5", "<s>", "</s>"),
        };
        // "▁" before a word: how GGUF writes both kinds of vocabularies.
        let words = WORDS.iter().map(|word| format!("\u{2581}{word}"));
        let tokens: Vec<String> = ["[PAD]", start, end, "[UNK]", "[MASK]"].map(str::to_owned).into_iter().chain(words).collect();
        let n = tokens.len() as u64;
        let list = |kind: u32, values: Vec<u8>| [kind.to_le_bytes().as_slice(), &n.to_le_bytes(), &values].concat();
        let kinds = (0..n).flat_map(|id| if id < 5 { 3_i32 } else { 1 }.to_le_bytes()).collect();
        let scores = (0..n).flat_map(|id| (-(id as f32)).to_le_bytes()).collect();
        let number = |value: u32| (4, value.to_le_bytes().to_vec());
        let yes = |value: bool| (7, vec![u8::from(value)]);
        let mut keys: Vec<(&str, (u32, Vec<u8>))> = vec![
            ("general.architecture", (8, text("bert"))),
            ("bert.context_length", number(CONTEXT as u32)),
            ("bert.embedding_length", number(EMBEDDING as u32)),
            ("bert.feed_forward_length", number(INNER as u32)),
            ("bert.block_count", number(LAYERS as u32)),
            ("bert.attention.head_count", number(HEADS as u32)),
            ("bert.attention.layer_norm_epsilon", (6, (NORM_EPSILON as f32).to_le_bytes().to_vec())),
            ("bert.attention.causal", yes(false)),
            ("bert.pooling_type", number(self.pooling)),
            ("tokenizer.ggml.model", (8, text(name))),
            ("tokenizer.ggml.tokens", (9, list(8, tokens.iter().flat_map(|token| text(token)).collect()))),
            ("tokenizer.ggml.token_type", (9, list(5, kinds))),
            ("tokenizer.ggml.scores", (9, list(6, scores))),
            ("tokenizer.ggml.token_type_count", number(self.tensor("token_types.weight").shape[1] as u32)),
            ("tokenizer.ggml.padding_token_id", number(0)),
            ("tokenizer.ggml.bos_token_id", number(1)),
            ("tokenizer.ggml.seperator_token_id", number(2)),
            ("tokenizer.ggml.unknown_token_id", number(3)),
            ("tokenizer.ggml.mask_token_id", number(4)),
        ];
        if self.family == Family::XlmRoberta {
            keys.push(("tokenizer.ggml.eos_token_id", number(2)));
            for key in ["tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_sep_token"] {
                keys.push((key, yes(true)));
            }
        }
        let mut bytes =
            [b"GGUF".as_slice(), &3_u32.to_le_bytes(), &(self.tensors.len() as u64).to_le_bytes(), &(keys.len() as u64).to_le_bytes()]
                .concat();
        for (key, (kind, value)) in keys {
            bytes.extend([text(key), kind.to_le_bytes().to_vec(), value].concat());
        }
        let mut data: Vec<u8> = Vec::new();
        for Tensor { name, shape, values } in &self.tensors {
            let half = self.half && name == "token_embd.weight";
            data.resize(data.len().next_multiple_of(32), 0);
            bytes.extend(text(name));
            bytes.extend((shape.len() as u32).to_le_bytes());
            bytes.extend(shape.iter().flat_map(|n| (*n as u64).to_le_bytes()));
            bytes.extend(u32::from(half).to_le_bytes());
            bytes.extend((data.len() as u64).to_le_bytes());
            match half {
                true => data.extend(values.iter().flat_map(|value| half_bits(*value as f32).to_le_bytes())),
                false => data.extend(values.iter().flat_map(|value| (*value as f32).to_le_bytes())),
            }
        }
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(data);
        bytes
    }
}

fn text(text: &str) -> Vec<u8> {
    [(text.len() as u64).to_le_bytes().as_slice(), text.as_bytes()].concat()
}

/// A number that a 16-bit float can hold, as one.
fn half_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value == 0.0 {
        return 0;
    }
    let exponent = ((bits >> 23) & 0xFF) as i32 - 127 + 15;
    assert!((1..31).contains(&exponent) && bits & 0x1FFF == 0, "{value} is no 16-bit float");
    ((bits >> 16) & 0x8000) as u16 | (exponent as u16) << 10 | ((bits >> 13) & 0x3FF) as u16
}

fn add(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(a, b)| a + b).collect()
}

/// The approximation with tanh, which is ggml's.
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
}
