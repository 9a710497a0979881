//! `onebit.tokenize/1`: the vocabulary that comes with the model file.

use crate::Error;

/// Facts about a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vocabulary {
    /// Tokens are `0 ..< size`.
    pub size: u32,
    /// Beginning of a text.
    pub bos: Option<u32>,
    /// End of a text.
    pub eos: Option<u32>,
    /// End of a turn.
    pub eot: Option<u32>,
    /// [`Encode::add_special`] puts `bos` first.
    pub adds_bos: bool,
    /// [`Encode::add_special`] puts `eos` last.
    pub adds_eos: bool,
    /// The chat template (Jinja) of the file.
    pub chat_template: Option<String>,
    /// Kind of tokenizer, for people: `gpt2/smollm`.
    pub kind: String,
}

/// Facts about one token.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TokenInfo<'a> {
    /// The token's text as the vocabulary writes it.
    pub text: &'a str,
    /// Score or merge rank, as in the file.
    pub score: f32,
    /// Never produced from a user's text.
    pub control: bool,
    /// Ends a generation.
    pub end: bool,
    /// Stands for a single byte.
    pub byte: bool,
    /// Added by the model's author; matched as text before the tokenizer proper.
    pub added: bool,
    /// Stands for nothing.
    pub unused: bool,
}

/// How to encode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encode {
    /// Texts of control tokens become those tokens.
    pub parse_control: bool,
    /// Adds what the model wants at the start (and end) of a text.
    pub add_special: bool,
}

/// A vocabulary. Called from any thread, also while a session computes.
pub trait Tokenizer: Sync {
    /// Facts. Constant during the model's life.
    fn vocabulary(&self) -> &Vocabulary;

    /// Facts about a token; `None` beyond the vocabulary.
    fn token(&self, id: u32) -> Option<TokenInfo<'_>>;

    /// Text to tokens.
    fn encode(&self, text: &str, how: Encode) -> Result<Vec<u32>, Error>;

    /// Tokens to bytes (not text: a token may end inside a character). `control`: control tokens are written as their text, else left out.
    fn decode(&self, tokens: &[u32], control: bool) -> Result<Vec<u8>, Error>;
}
