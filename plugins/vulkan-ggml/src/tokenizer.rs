//! The vocabulary of a model file, through llama.cpp's tokenizers.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::Arc;

use llama_cpp_sys_2 as sys;
use onebit_sdk::{Encode, Error, TokenInfo, Tokenizer, Vocabulary};
use onebit_weights::Gguf;

use crate::border;
use crate::runs;
use crate::weights::Weights;

/// Longest text that is encoded, bytes: far beyond any context, and far below what llama.cpp's 32-bit lengths hold.
const LONGEST_TEXT: usize = 256 << 20;

/// A vocabulary.
pub struct GgmlTokenizer {
    weights: Arc<Weights>,
    vocabulary: Vocabulary,
    /// Cuts long runs: only for the kind of vocabulary that is split with regular expressions.
    cuts: bool,
    /// Texts that are no UTF-8 in the file, as people can read them.
    readable: HashMap<u32, String>,
}

impl GgmlTokenizer {
    /// The vocabulary of `weights`; `None` for a file without one.
    pub fn new(weights: &Arc<Weights>, file: &Gguf) -> Result<Option<Self>, Error> {
        let vocab = weights.vocab();
        // SAFETY: the vocabulary is alive as long as the model.
        let kind = unsafe { sys::llama_vocab_type(vocab) };
        if kind == sys::LLAMA_VOCAB_TYPE_NONE {
            return Ok(None);
        }
        let text = |key: &str| file.text(key).map_err(|error| Error::corrupt(error.to_string()));
        let mut name = text("tokenizer.ggml.model")?.unwrap_or("unnamed").to_owned();
        if let Some(pre) = text("tokenizer.ggml.pre")? {
            name = format!("{name}/{pre}");
        }
        // SAFETY: as above, for all of them.
        let (bos, eos, eot, adds_bos, adds_eos) = unsafe {
            (
                sys::llama_vocab_bos(vocab),
                sys::llama_vocab_eos(vocab),
                sys::llama_vocab_eot(vocab),
                sys::llama_vocab_get_add_bos(vocab),
                sys::llama_vocab_get_add_eos(vocab),
            )
        };
        let (eos, adds_eos) = match kind {
            // BERT's family ends every text with what separates two, and its files name no end of their own.
            // SAFETY: as above.
            sys::LLAMA_VOCAB_TYPE_WPM => (unsafe { sys::llama_vocab_sep(vocab) }, true),
            _ => (eos, adds_eos),
        };
        let mut tokenizer = Self {
            vocabulary: Vocabulary {
                size: weights.n_vocab(),
                bos: u32::try_from(bos).ok(),
                eos: u32::try_from(eos).ok(),
                eot: u32::try_from(eot).ok(),
                adds_bos,
                adds_eos,
                chat_template: text("tokenizer.chat_template")?.map(str::to_owned),
                kind: name,
            },
            cuts: kind == sys::LLAMA_VOCAB_TYPE_BPE,
            readable: HashMap::new(),
            weights: Arc::clone(weights),
        };
        for id in 0..tokenizer.vocabulary.size {
            let bytes = tokenizer.raw_text(id);
            if core::str::from_utf8(bytes).is_err() {
                let text = String::from_utf8_lossy(bytes).into_owned();
                tokenizer.readable.insert(id, text);
            }
        }
        Ok(Some(tokenizer))
    }

    /// What stands between two texts besides the end of the first: RoBERTa's family has a second one.
    pub fn second_separator(&self) -> Option<u32> {
        let vocab = self.weights.vocab();
        // SAFETY: the vocabulary is alive as long as the model.
        let (kind, adds, separator) =
            unsafe { (sys::llama_vocab_type(vocab), sys::llama_vocab_get_add_sep(vocab), sys::llama_vocab_sep(vocab)) };
        u32::try_from(separator).ok().filter(|_| adds && kind != sys::LLAMA_VOCAB_TYPE_WPM)
    }

    fn raw_text(&self, id: u32) -> &[u8] {
        // SAFETY: the vocabulary is alive, and the token within it.
        let text = unsafe { sys::llama_vocab_get_text(self.weights.vocab(), signed(id)) };
        // SAFETY: the model's own text, which ends with zero and lives as long as the model; null is excluded.
        if text.is_null() { &[] } else { unsafe { CStr::from_ptr(text) }.to_bytes() }
    }

    fn encode_piece(&self, text: &str, tokens: &mut Vec<u32>, add_special: bool, parse_special: bool) -> Result<(), Error> {
        // SAFETY: the vocabulary is alive.
        unsafe { border::tokenize(self.weights.vocab(), text, tokens, add_special, parse_special) }
            .map_err(|thrown| Error::internal(format!("the text cannot be encoded: {thrown}")))
    }
}

impl Tokenizer for GgmlTokenizer {
    fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    fn token(&self, id: u32) -> Option<TokenInfo<'_>> {
        if id >= self.vocabulary.size {
            return None;
        }
        let vocab = self.weights.vocab();
        // SAFETY: the vocabulary is alive, and the token within it.
        let (attributes, score, end) = unsafe {
            (
                sys::llama_vocab_get_attr(vocab, signed(id)),
                sys::llama_vocab_get_score(vocab, signed(id)),
                sys::llama_vocab_is_eog(vocab, signed(id)),
            )
        };
        let text = match self.readable.get(&id) {
            Some(text) => text,
            None => core::str::from_utf8(self.raw_text(id)).unwrap_or_default(),
        };
        Some(TokenInfo {
            text,
            score,
            control: attributes & sys::LLAMA_TOKEN_ATTR_CONTROL != 0,
            end,
            byte: attributes & sys::LLAMA_TOKEN_ATTR_BYTE != 0,
            added: attributes & sys::LLAMA_TOKEN_ATTR_USER_DEFINED != 0,
            unused: attributes & sys::LLAMA_TOKEN_ATTR_UNUSED != 0,
        })
    }

    fn encode(&self, text: &str, how: Encode) -> Result<Vec<u32>, Error> {
        if text.len() > LONGEST_TEXT {
            return Err(Error::invalid_argument(format!("a text of {} bytes; at most {LONGEST_TEXT} are encoded", text.len())));
        }
        let mut tokens = Vec::new();
        let pieces = if self.cuts { runs::pieces(text) } else { vec![text] };
        if let [whole] = pieces[..] {
            self.encode_piece(whole, &mut tokens, how.add_special, how.parse_control)?;
            return Ok(tokens);
        }
        // What belongs to the text as a whole is added here, not once per piece.
        let vocabulary = &self.vocabulary;
        if how.add_special && vocabulary.adds_bos {
            tokens.extend(vocabulary.bos);
        }
        for piece in pieces {
            self.encode_piece(piece, &mut tokens, false, how.parse_control)?;
        }
        if how.add_special && vocabulary.adds_eos {
            tokens.extend(vocabulary.eos);
        }
        Ok(tokens)
    }

    fn decode(&self, tokens: &[u32], control: bool) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(4 * tokens.len());
        for &token in tokens {
            if token >= self.vocabulary.size {
                return Err(Error::invalid_argument(format!("token {token}: the vocabulary has {}", self.vocabulary.size)));
            }
            let mut room = 32;
            // The second round has the exact number.
            for _ in 0..2 {
                let start = bytes.len();
                bytes.resize(start + room, 0);
                let capacity = i32::try_from(room).unwrap_or(i32::MAX);
                // SAFETY: the vocabulary is alive, the token within it, and the room is what is said.
                let n = unsafe {
                    let to = bytes.as_mut_ptr().add(start).cast::<c_char>();
                    sys::llama_token_to_piece(self.weights.vocab(), signed(token), to, capacity, 0, control)
                };
                bytes.truncate(start + usize::try_from(n).unwrap_or(0));
                if n >= 0 {
                    break;
                }
                room = n.unsigned_abs() as usize;
            }
        }
        Ok(bytes)
    }
}

/// Tokens are below the size of the vocabulary, which llama.cpp counts in 32 bits with a sign.
fn signed(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(-1)
}
