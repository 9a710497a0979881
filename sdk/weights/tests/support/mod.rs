//! Writes GGUF headers byte by byte, so that tests can also write what no honest tool would.

/// Bytes of a file in the making.
#[derive(Clone, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn new(version: u32, tensors: u64, values: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(version).u64(tensors).u64(values)
    }

    pub fn u8(mut self, x: u8) -> Self {
        self.0.push(x);
        self
    }

    pub fn u32(mut self, x: u32) -> Self {
        self.0.extend(x.to_le_bytes());
        self
    }

    pub fn u64(mut self, x: u64) -> Self {
        self.0.extend(x.to_le_bytes());
        self
    }

    pub fn text(mut self, text: &str) -> Self {
        self = self.u64(text.len() as u64);
        self.0.extend(text.as_bytes());
        self
    }

    pub fn key_text(self, key: &str, value: &str) -> Self {
        self.text(key).u32(8).text(value)
    }

    pub fn key_u32(self, key: &str, value: u32) -> Self {
        self.text(key).u32(4).u32(value)
    }

    pub fn tensor(mut self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        self = self.text(name).u32(shape.len() as u32);
        for &n in shape {
            self = self.u64(n);
        }
        self.u32(kind).u64(offset)
    }

    /// Pads to the default alignment and appends `n` bytes of data.
    pub fn data(mut self, n: usize) -> Self {
        let start = self.0.len().next_multiple_of(32);
        self.0.resize(start + n, 0);
        self
    }
}

/// A small file with every kind of value and two tensors, 64 × 2 of Q4_1 and 8 of F32.
pub fn honest() -> Bytes {
    let mut file = Bytes::new(3, 2, 19)
        .key_text("general.architecture", "llama")
        .key_text("general.name", "Tiny")
        .key_u32("llama.context_length", 2048)
        .key_u32("llama.embedding_length", 64)
        .key_u32("llama.block_count", 3)
        .key_u32("llama.attention.head_count", 4)
        .key_u32("llama.attention.head_count_kv", 2);
    // Scalars of each remaining kind: number of the kind, then its bytes.
    for (kind, bytes) in [(0, 1), (1, 1), (2, 2), (3, 2), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8)] {
        file = file.text(&format!("kind.{kind}")).u32(kind);
        file.0.resize(file.0.len() + bytes, 0);
    }
    file = file.text("tokenizer.ggml.tokens").u32(9).u32(8).u64(3).text("a").text("").text("漢");
    file = file.text("numbers").u32(9).u32(5).u64(2).u32(7).u32(u32::MAX);
    file.tensor("blk.0.weight", &[64, 2], 3, 0).tensor("norm", &[8], 0, 96).data(96 + 32)
}
