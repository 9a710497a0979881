//! `onebit.tokenize/1`: the vocabulary that comes with the model file. May be called from any thread, also while a session computes.

use core::ffi::c_char;

use crate::basic::OnebitStr;
use crate::plugin::OnebitModel;
use crate::status::OnebitStatus;

/// Capability id.
pub const ONEBIT_TOKENIZE_1: &str = "onebit.tokenize/1";

/// A control token: never produced from a user's text.
pub const ONEBIT_TOKEN_CONTROL: u32 = 1;
/// Ends a generation.
pub const ONEBIT_TOKEN_END: u32 = 2;
/// Stands for a single byte.
pub const ONEBIT_TOKEN_BYTE: u32 = 4;
/// Added by the model's author; matched as text before the tokenizer proper.
pub const ONEBIT_TOKEN_ADDED: u32 = 8;
/// Stands for nothing.
pub const ONEBIT_TOKEN_UNUSED: u32 = 16;

/// Texts of control tokens become those tokens.
pub const ONEBIT_ENCODE_PARSE_CONTROL: u32 = 1;
/// Adds what the model wants at the start (and end) of a text.
pub const ONEBIT_ENCODE_ADD_SPECIAL: u32 = 2;

/// No token: for `bos`, `eos` and their like.
pub const ONEBIT_NO_TOKEN: u32 = u32::MAX;

/// Facts about a vocabulary. Texts live until `close`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitVocabulary {
    /// `sizeof(OnebitVocabulary)` of the host.
    pub struct_size: usize,
    /// Tokens are `0 ..< size`.
    pub size: u32,
    /// Beginning of a text, or `ONEBIT_NO_TOKEN`.
    pub bos: u32,
    /// End of a text, or `ONEBIT_NO_TOKEN`.
    pub eos: u32,
    /// End of a turn, or `ONEBIT_NO_TOKEN`.
    pub eot: u32,
    /// 1 = `ONEBIT_ENCODE_ADD_SPECIAL` puts `bos` first.
    pub adds_bos: u32,
    /// 1 = `ONEBIT_ENCODE_ADD_SPECIAL` puts `eos` last.
    pub adds_eos: u32,
    /// The chat template (Jinja) of the file, or empty.
    pub chat_template: OnebitStr,
    /// Kind of tokenizer, for people: `gpt2/smollm`.
    pub kind: OnebitStr,
}

/// Facts about one token. Texts live until `close`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitTokenInfo {
    /// `sizeof(OnebitTokenInfo)` of the host.
    pub struct_size: usize,
    /// Bits `ONEBIT_TOKEN_*`.
    pub flags: u32,
    /// Score or merge rank, as in the file.
    pub score: f32,
    /// The token's text as the vocabulary writes it: for control tokens what a template writes.
    pub text: OnebitStr,
}

/// Input and output of `encode`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitEncodeArgs {
    /// `sizeof(OnebitEncodeArgs)` of the host.
    pub struct_size: usize,
    /// UTF-8, at most 2^31-1 bytes.
    pub text: OnebitStr,
    /// Bits `ONEBIT_ENCODE_*`.
    pub flags: u32,
    /// Tokens that fit into `tokens`.
    pub capacity: u32,
    /// Written; may be null when `capacity` is 0.
    pub tokens: *mut u32,
}

/// Input of `decode`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitDecodeArgs {
    /// `sizeof(OnebitDecodeArgs)` of the host.
    pub struct_size: usize,
    /// `n` tokens.
    pub tokens: *const u32,
    /// Tokens.
    pub n: u32,
    /// 1 = control tokens are written as their text; 0 = left out.
    pub control: u32,
    /// Bytes that fit into `bytes`.
    pub capacity: usize,
    /// Written. Bytes, not text: a token may end inside a UTF-8 character. The bytes of tokens simply follow each other.
    pub bytes: *mut c_char,
}

/// The table of `onebit.tokenize/1`. All functions must be there.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OnebitTokenize {
    /// `sizeof(OnebitTokenize)` of the plugin.
    pub struct_size: usize,
    /// Fills `out`.
    pub vocabulary: Option<unsafe extern "C" fn(model: *mut OnebitModel, out: *mut OnebitVocabulary) -> OnebitStatus>,
    /// Facts about `token`.
    pub token_info: Option<unsafe extern "C" fn(model: *mut OnebitModel, token: u32, out: *mut OnebitTokenInfo) -> OnebitStatus>,
    /// Text to tokens; `*out_n` = tokens written, or with `ONEBIT_BUFFER_TOO_SMALL` the tokens there are.
    pub encode: Option<unsafe extern "C" fn(model: *mut OnebitModel, args: *const OnebitEncodeArgs, out_n: *mut u32) -> OnebitStatus>,
    /// Tokens to bytes; `*out_n` = bytes written, or with `ONEBIT_BUFFER_TOO_SMALL` the bytes there are.
    pub decode: Option<unsafe extern "C" fn(model: *mut OnebitModel, args: *const OnebitDecodeArgs, out_n: *mut usize) -> OnebitStatus>,
}
