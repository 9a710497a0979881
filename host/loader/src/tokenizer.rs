//! A model's vocabulary.

use std::ptr::NonNull;
use std::sync::Arc;

use onebit_plugin_api as abi;

use crate::model::ModelInner;
use crate::plugin::{absent, call};
use crate::{Encode, PluginError, Status, TokenInfo, Vocabulary, raw};

/// A model's vocabulary. Usable from any thread, also while sessions compute; keeps its model alive.
#[derive(Clone)]
pub struct Tokenizer {
    pub(crate) model: Arc<ModelInner>,
    pub(crate) parts: Arc<TokenizerParts>,
}

pub(crate) struct TokenizerParts {
    token_info: unsafe extern "C" fn(*mut abi::OnebitModel, u32, *mut abi::OnebitTokenInfo) -> abi::OnebitStatus,
    encode: unsafe extern "C" fn(*mut abi::OnebitModel, *const abi::OnebitEncodeArgs, *mut u32) -> abi::OnebitStatus,
    decode: unsafe extern "C" fn(*mut abi::OnebitModel, *const abi::OnebitDecodeArgs, *mut usize) -> abi::OnebitStatus,
    pub(crate) table: abi::OnebitTokenize,
    vocabulary: Vocabulary,
}

impl TokenizerParts {
    pub(crate) fn read(table: Option<abi::OnebitTokenize>, model: NonNull<abi::OnebitModel>) -> Result<Self, PluginError> {
        let table = table.ok_or_else(|| PluginError::broken("the table of onebit.tokenize/1 lies about its size"))?;
        let vocabulary = table.vocabulary.ok_or_else(|| absent("vocabulary"))?;
        let mut out: abi::OnebitVocabulary = raw::out();
        // SAFETY: a function of the table, a live model.
        call(|| unsafe { vocabulary(model.as_ptr(), &raw mut out) })?;
        if out.size == 0 {
            return Err(PluginError::broken("a vocabulary of 0 tokens"));
        }
        let token = |id: u32, name: &str| match id {
            abi::ONEBIT_NO_TOKEN => Ok(None),
            id if id < out.size => Ok(Some(id)),
            id => Err(PluginError::broken(format!("{name} is token {id} of a vocabulary of {}", out.size))),
        };
        // SAFETY: texts live until `close`.
        let (chat_template, kind) =
            unsafe { (raw::text(out.chat_template, "vocabulary.chat_template")?, raw::text(out.kind, "vocabulary.kind")?) };
        Ok(Self {
            token_info: table.token_info.ok_or_else(|| absent("token_info"))?,
            encode: table.encode.ok_or_else(|| absent("encode"))?,
            decode: table.decode.ok_or_else(|| absent("decode"))?,
            table,
            vocabulary: Vocabulary {
                size: out.size,
                bos: token(out.bos, "bos")?,
                eos: token(out.eos, "eos")?,
                eot: token(out.eot, "eot")?,
                adds_bos: out.adds_bos != 0,
                adds_eos: out.adds_eos != 0,
                chat_template: (!chat_template.is_empty()).then_some(chat_template),
                kind,
            },
        })
    }
}

impl Tokenizer {
    /// Facts.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.parts.vocabulary
    }

    /// Facts about a token.
    pub fn token(&self, id: u32) -> Result<TokenInfo, PluginError> {
        let parts = &*self.parts;
        if id >= parts.vocabulary.size {
            return Err(PluginError::new(Status::INVALID_ARGUMENT, format!("token {id} of a vocabulary of {}", parts.vocabulary.size)));
        }
        let mut out: abi::OnebitTokenInfo = raw::out();
        // SAFETY: a function of the table, a live model.
        call(|| unsafe { (parts.token_info)(self.model.raw.as_ptr(), id, &raw mut out) })?;
        let has = |bit| out.flags & bit != 0;
        Ok(TokenInfo {
            // SAFETY: lives until `close`.
            text: unsafe { raw::text(out.text, "a token's text") }?,
            score: out.score,
            control: has(abi::ONEBIT_TOKEN_CONTROL),
            end: has(abi::ONEBIT_TOKEN_END),
            byte: has(abi::ONEBIT_TOKEN_BYTE),
            added: has(abi::ONEBIT_TOKEN_ADDED),
            unused: has(abi::ONEBIT_TOKEN_UNUSED),
        })
    }

    /// Text to tokens.
    pub fn encode(&self, text: &str, how: Encode) -> Result<Vec<u32>, PluginError> {
        let parts = &*self.parts;
        if i32::try_from(text.len()).is_err() {
            return Err(PluginError::new(
                Status::INVALID_ARGUMENT,
                format!("a text of {} bytes; at most 2^31-1 can be encoded", text.len()),
            ));
        }
        let flags = [(how.parse_control, abi::ONEBIT_ENCODE_PARSE_CONTROL), (how.add_special, abi::ONEBIT_ENCODE_ADD_SPECIAL)];
        let flags = flags.iter().filter(|(there, _)| *there).map(|(_, bit)| bit).sum();
        // A token is at least a byte of text, but for the few that the model adds.
        let guess = text.len() + 16;
        let tokens = deliver(guess, text.len() * 4 + 1024, |buffer: &mut [u32]| {
            let args = abi::OnebitEncodeArgs {
                text: abi::OnebitStr::new(text),
                flags,
                capacity: u32::try_from(buffer.len()).unwrap_or(u32::MAX),
                tokens: buffer.as_mut_ptr(),
                ..raw::out()
            };
            let mut n = 0;
            // SAFETY: a function of the table, a live model, a buffer of `capacity` values.
            let result = call(|| unsafe { (parts.encode)(self.model.raw.as_ptr(), &raw const args, &raw mut n) });
            (result, n as usize)
        })?;
        match tokens.iter().find(|token| **token >= parts.vocabulary.size) {
            Some(token) => Err(PluginError::broken(format!("encode gave token {token} of a vocabulary of {}", parts.vocabulary.size))),
            None => Ok(tokens),
        }
    }

    /// Tokens to bytes. `control`: control tokens are written as their text, else left out.
    pub fn decode(&self, tokens: &[u32], control: bool) -> Result<Vec<u8>, PluginError> {
        let parts = &*self.parts;
        if let Some(token) = tokens.iter().find(|token| **token >= parts.vocabulary.size) {
            return Err(PluginError::new(Status::INVALID_ARGUMENT, format!("token {token} of a vocabulary of {}", parts.vocabulary.size)));
        }
        let n = u32::try_from(tokens.len()).map_err(|_| PluginError::new(Status::INVALID_ARGUMENT, "too many tokens"))?;
        deliver(tokens.len() * 16 + 64, tokens.len() * 4096 + 4096, |buffer: &mut [u8]| {
            let args = abi::OnebitDecodeArgs {
                tokens: tokens.as_ptr(),
                n,
                control: control.into(),
                capacity: buffer.len(),
                bytes: buffer.as_mut_ptr().cast(),
                ..raw::out()
            };
            let mut written = 0;
            // SAFETY: a function of the table, a live model, a buffer of `capacity` bytes.
            let result = call(|| unsafe { (parts.decode)(self.model.raw.as_ptr(), &raw const args, &raw mut written) });
            (result, written)
        })
    }
}

/// Calls with a buffer of `guess`, and once more with what the plugin says it needs, up to `most`.
fn deliver<T: Copy + Default>(
    guess: usize,
    most: usize,
    mut ask: impl FnMut(&mut [T]) -> (Result<(), PluginError>, usize),
) -> Result<Vec<T>, PluginError> {
    let mut size = guess;
    for last in [false, true] {
        let mut buffer = vec![T::default(); size];
        match ask(&mut buffer) {
            (Ok(()), n) if n <= size => {
                buffer.truncate(n);
                return Ok(buffer);
            }
            (Ok(()), n) => return Err(PluginError::broken(format!("{n} values were written into {size}"))),
            (Err(error), n) if error.status == Status::BUFFER_TOO_SMALL && !last => {
                if n <= size || n > most {
                    return Err(PluginError::broken(format!("a buffer of {size} was too small, and {n} are said to be needed")));
                }
                size = n;
            }
            (Err(error), _) => return Err(error),
        }
    }
    Err(PluginError::broken("a buffer of the size it asked for was too small"))
}
