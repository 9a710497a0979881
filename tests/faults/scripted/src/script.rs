//! What is said, and when.

use std::path::Path;

use onebit_sdk::Error;

/// Ends an answer.
pub(crate) const END: u32 = 256;
/// Stands where an answer begins: what is behind the last one has been said.
pub(crate) const BEGIN: u32 = 257;
pub(crate) const VOCABULARY: u32 = 258;

/// `after`, `say`.
pub(crate) struct Script(Vec<(Vec<u8>, Vec<u8>)>);

impl Script {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io(error.to_string()))?;
        let line = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            let member = |name: &str| Some(value[name].as_str()?.as_bytes().to_vec());
            Some((member("after")?, member("say")?))
        };
        let lines: Option<Vec<_>> = text.lines().map(line).collect();
        lines.map(Self).ok_or_else(|| Error::corrupt("a line is no object with the texts \"after\" and \"say\""))
    }

    /// The token that follows these.
    pub(crate) fn next(&self, tokens: &[u32]) -> u32 {
        let begin = tokens.iter().rposition(|token| *token == BEGIN).unwrap_or(tokens.len());
        let said = tokens.len().saturating_sub(begin + 1);
        let prompt: Vec<u8> = tokens[..begin].iter().filter_map(|token| u8::try_from(*token).ok()).collect();
        let last = |(after, say): &(Vec<u8>, Vec<u8>)| {
            Some((prompt.windows(after.len().max(1)).rposition(|window| window == after)?, say.clone()))
        };
        let say =
            self.0.iter().filter_map(last).max_by_key(|(at, _)| *at).map_or_else(|| b"There is no line for this.".to_vec(), |(_, say)| say);
        say.get(said).map_or(END, |byte| u32::from(*byte))
    }
}
