//! Log-probabilities in OpenAI's two shapes: a list of tokens for chat, four parallel arrays for completions.

use onebit_engine::{TokenLogprob, TokenOut};
use serde::Serialize;
use serde_json::{Map, Value};

/// `choices[].logprobs` of chat.
#[derive(Debug, Default, Serialize)]
pub struct ChatLogprobs {
    content: Vec<ChatToken>,
    refusal: Option<()>,
}

/// A token with its alternatives.
#[derive(Debug, Clone, Serialize)]
pub struct ChatToken {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
    top_logprobs: Vec<ChatAlternative>,
}

#[derive(Debug, Clone, Serialize)]
struct ChatAlternative {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
}

impl ChatLogprobs {
    /// Of these tokens.
    pub fn of(tokens: &[TokenOut]) -> Self {
        let mut all = Self::default();
        all.extend(tokens);
        all
    }

    /// The tokens alone, for a dialect that has them without their frame.
    pub fn into_list(self) -> Value {
        serde_json::to_value(self.content).unwrap_or_default()
    }

    /// The list alone.
    pub fn into_tokens(self) -> Vec<ChatToken> {
        self.content
    }

    /// Adds tokens.
    pub fn extend(&mut self, tokens: &[TokenOut]) {
        let entries = tokens.iter().filter_map(|token| token.logprob.as_ref()).map(|TokenLogprob { bytes, logprob, top }| ChatToken {
            token: shown(bytes),
            logprob: finite(*logprob),
            bytes: bytes.clone(),
            top_logprobs: top
                .iter()
                .map(|(_, bytes, logprob)| ChatAlternative { token: shown(bytes), logprob: finite(*logprob), bytes: bytes.clone() })
                .collect(),
        });
        self.content.extend(entries);
    }
}

/// `choices[].logprobs` of completions. `text_offset` counts characters of the answer.
#[derive(Debug, Default, Serialize)]
pub struct LegacyLogprobs {
    tokens: Vec<String>,
    /// `null` for the first token of a prompt, before which there is nothing.
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<Map<String, Value>>>,
    text_offset: Vec<usize>,
}

/// Where the next token begins, kept over the chunks of one answer.
#[derive(Debug, Default, Clone, Copy)]
pub struct Offset(usize);

impl Offset {
    /// Passes over text that has no tokens in the list.
    pub fn skip(&mut self, text: &str) {
        self.0 += text.chars().count();
    }
}

impl LegacyLogprobs {
    /// Of these tokens, which continue at `offset`.
    pub fn of(tokens: &[TokenOut], offset: &mut Offset) -> Self {
        let mut all = Self::default();
        all.extend(tokens, offset);
        all
    }

    /// Adds the first token of a prompt, whose bytes are these.
    pub fn begin(&mut self, bytes: &[u8], offset: &mut Offset) {
        self.tokens.push(spelled(bytes));
        self.token_logprobs.push(None);
        self.top_logprobs.push(None);
        self.text_offset.push(offset.0);
        offset.0 += characters(bytes);
    }

    /// Adds tokens.
    pub fn extend(&mut self, tokens: &[TokenOut], offset: &mut Offset) {
        for TokenLogprob { bytes, logprob, top } in tokens.iter().filter_map(|token| token.logprob.as_ref()) {
            let mut best: Map<String, Value> = top.iter().map(|(_, bytes, logprob)| (spelled(bytes), number(*logprob))).collect();
            // The chosen token is always among them, as OpenAI documents.
            best.entry(spelled(bytes)).or_insert_with(|| number(*logprob));
            self.tokens.push(spelled(bytes));
            self.token_logprobs.push(Some(finite(*logprob)));
            self.top_logprobs.push(Some(best));
            self.text_offset.push(offset.0);
            offset.0 += characters(bytes);
        }
    }
}

/// A character is counted where its first byte is.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| (**byte & 0xC0) != 0x80).count()
}

/// JSON knows no infinity; the engine already gives −9999 for "never", and this keeps a plugin's slip from breaking the body.
fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob.min(0.0) } else { -9999.0 }
}

fn number(logprob: f32) -> Value {
    Value::from(finite(logprob))
}

/// A part of a character is shown as replacement marks; its bytes are beside it.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A part of a character as `bytes:\xe2`, because the old shape has no bytes and its keys must differ.
fn spelled(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold("bytes:".to_owned(), |text, byte| format!("{text}\\x{byte:02x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(bytes: &[u8], logprob: f32, top: &[(&[u8], f32)]) -> TokenOut {
        let top = top.iter().map(|(bytes, logprob)| (1, bytes.to_vec(), *logprob)).collect();
        TokenOut { id: 1, logprob: Some(TokenLogprob { bytes: bytes.to_vec(), logprob, top }) }
    }

    #[test]
    fn infinity_never_reaches_the_wire() {
        let tokens = [token(b"a", f32::NEG_INFINITY, &[(b"b", f32::NAN)])];
        let text = serde_json::to_string(&ChatLogprobs::of(&tokens)).expect("serialises");
        assert!(text.matches("\"logprob\":-9999.0").count() == 2 && !text.contains("\"logprob\":null"), "{text}");
        let legacy = serde_json::to_string(&LegacyLogprobs::of(&tokens, &mut Offset::default())).expect("serialises");
        assert!(legacy.contains("-9999.0"), "{legacy}");
    }

    #[test]
    fn a_character_split_over_tokens_is_one_offset_and_keeps_its_bytes() {
        let tokens =
            [token("é".as_bytes().split_at(1).0, -1.0, &[]), token("é".as_bytes().split_at(1).1, -1.0, &[]), token(b"x", -1.0, &[])];
        let legacy = LegacyLogprobs::of(&tokens, &mut Offset::default());
        assert_eq!(legacy.text_offset, [0, 1, 1]);
        assert_eq!(legacy.tokens, ["bytes:\\xc3", "bytes:\\xa9", "x"]);
        let joined: Vec<u8> = ChatLogprobs::of(&tokens).content.into_iter().flat_map(|token| token.bytes).collect();
        assert_eq!(joined, "éx".as_bytes());
    }
}
