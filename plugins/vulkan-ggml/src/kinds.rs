//! Two kinds of tokens. A model of BERT's family that was trained on pairs adds another vector to the tokens of the first text than to those
//! of the second. llama.cpp adds the first kind's to all of them; the model of the tests then has scores like 0.57 where 0.68 is right.
//!
//! So for such models the rows of input embeddings are looked up here, with the difference of the two kinds added where it is due, and
//! handed over instead of tokens. What llama.cpp adds to a row afterwards is what it would add to a token.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use llama_cpp_sys_2 as sys;
use onebit_sdk::Error;
use onebit_weights::Gguf;
use onebit_weights::gguf::TensorInfo;

use crate::pooled::Text;

/// The table of input embeddings, and what the second kind adds to the first.
pub struct Kinds {
    table: Table,
    difference: Vec<f32>,
}

impl Kinds {
    /// Of the model file at `path`; `None` where all tokens are of one kind, or both kinds are alike.
    pub fn open(path: &Path, header: &Gguf) -> Result<Option<Self>, Error> {
        let Some(kinds) = header.tensor("token_types.weight").filter(|tensor| tensor.shape.get(1).is_some_and(|&kinds| kinds > 1)) else {
            return Ok(None);
        };
        let Some(tokens) = header.tensor("token_embd.weight") else {
            return Err(Error::corrupt("it has kinds of tokens and no token_embd.weight in its first file"));
        };
        let kinds = Table::open(path, kinds)?;
        let (mut first, mut second) = (vec![0.0; kinds.width], vec![0.0; kinds.width]);
        kinds.row(0, &mut first)?;
        kinds.row(1, &mut second)?;
        let difference: Vec<f32> = second.iter().zip(&first).map(|(second, first)| second - first).collect();
        if difference.iter().all(|&value| value == 0.0) {
            return Ok(None);
        }
        let table = Table::open(path, tokens)?;
        if table.width != difference.len() {
            return Err(Error::corrupt("token_types.weight and token_embd.weight have rows of different lengths"));
        }
        Ok(Some(Self { table, difference }))
    }

    /// One row for each token of `texts`.
    pub fn rows(&self, texts: &[Text]) -> Result<Vec<f32>, Error> {
        let tokens = texts.iter().map(|text| text.tokens.len()).sum::<usize>();
        let mut rows = vec![0.0; tokens * self.table.width];
        let mut free = rows.chunks_exact_mut(self.table.width);
        for text in texts {
            for ((index, &token), row) in text.tokens.iter().enumerate().zip(&mut free) {
                self.table.row(token.into(), row)?;
                if index >= text.second {
                    row.iter_mut().zip(&self.difference).for_each(|(value, more)| *value += more);
                }
            }
        }
        Ok(rows)
    }
}

/// A matrix in a model file, read row by row.
struct Table {
    file: File,
    offset: u64,
    rows: u64,
    width: usize,
    row_bytes: usize,
    kind: sys::ggml_type,
}

impl Table {
    fn open(path: &Path, tensor: &TensorInfo) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| Error::io(format!("{}: {error}", path.display())))?;
        let &[width, rows] = &tensor.shape[..] else {
            return Err(Error::corrupt(format!("{} is no matrix", tensor.name)));
        };
        let row_bytes = tensor.kind.size_of(width).and_then(|bytes| usize::try_from(bytes).ok());
        let (Some(row_bytes), Ok(width)) = (row_bytes, usize::try_from(width)) else {
            return Err(Error::corrupt(format!("{} has rows of {width} values", tensor.name)));
        };
        // The reader has checked that the tensor lies within the file.
        Ok(Self { file, offset: tensor.offset, rows, width, row_bytes, kind: tensor.kind.id as sys::ggml_type })
    }

    fn row(&self, index: u64, out: &mut [f32]) -> Result<(), Error> {
        if index >= self.rows || out.len() != self.width {
            return Err(Error::invalid_argument(format!("row {index} of {}", self.rows)));
        }
        let mut bytes = vec![0_u8; self.row_bytes];
        let offset = self.offset + index * self.row_bytes as u64;
        self.file.read_exact_at(&mut bytes, offset).map_err(|error| Error::io(format!("the table of input embeddings: {error}")))?;
        if self.kind == sys::GGML_TYPE_F32 {
            out.iter_mut()
                .zip(bytes.chunks_exact(4))
                .for_each(|(value, four)| *value = f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
            return Ok(());
        }
        // SAFETY: a type that ggml knows: llama.cpp has loaded the file. The traits live for ever.
        let traits = unsafe { sys::ggml_get_type_traits(self.kind).as_ref() };
        let to_float =
            traits.and_then(|traits| traits.to_float).ok_or_else(|| Error::unsupported("input embeddings of a type without rows"))?;
        // SAFETY: a whole row of bytes, and room for its values.
        unsafe { to_float(bytes.as_ptr().cast(), out.as_mut_ptr(), self.width as i64) };
        Ok(())
    }
}
