//! The file of API keys: who may call, what for, and how much. `onebit-host key` writes it, the server reads it.
//!
//! A key is 32 random bytes, so its SHA-256 says nothing about it: there are too many to try. A slow, salted hash is for passwords, which
//! people choose. The file is still nobody else's to read, because it says who calls here, nor to write, because a line in it is a right.
//!
//! Nothing in the file is guessed at. A field nobody knows, a name twice and a limit of 0 are errors with their line, and an error message
//! never quotes the file.

use std::collections::HashSet;
use std::fmt;
use std::io::Read;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use onebit_engine::Priority;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use crate::serve::ServeError;

/// Largest file of keys, bytes.
const MAX_FILE: u64 = 1 << 20;
/// Longest name of a key.
const MAX_NAME: usize = 64;
/// The name of the key that the setting `api_key` gives, which no entry of a file may have.
pub(crate) const OF_THE_SETTING: &str = "api_key";
/// What no file of keys may allow: anything to others, writing to the group.
const FORBIDDEN_MODE: u32 = 0o027;

/// What a key is for. The later one includes the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Asking models.
    Inference,
    /// Also what concerns others: their requests, the models that are loaded, the numbers of the server.
    Admin,
}

impl Scope {
    /// As the file has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much a key may ask for; what is `None` has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests begun in a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens read and made in a minute. What an answer took is known when it ends; then it is charged.
    pub tokens_per_minute: Option<NonZeroU32>,
    /// Requests at one time.
    pub concurrent: Option<NonZeroU32>,
}

/// The SHA-256 of a key.
pub type Hash = [u8; 32];

/// The hash of a secret, as it is compared.
pub fn hash(secret: &[u8]) -> Hash {
    Sha256::digest(secret).into()
}

/// The hash of a secret, as a file has it.
pub fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One `[[key]]`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// Whose it is; shown in lists and logs.
    pub name: String,
    #[serde(deserialize_with = "from_hex")]
    /// See [`hash`].
    pub sha256: Hash,
    /// What it is for.
    pub scope: Scope,
    requests_per_minute: Option<NonZeroU32>,
    tokens_per_minute: Option<NonZeroU32>,
    concurrent: Option<NonZeroU32>,
    /// Whose requests go first where requests wait.
    #[serde(default)]
    pub priority: Priority,
}

impl KeyEntry {
    /// How much it may ask for.
    pub fn limits(&self) -> Limits {
        Limits { requests_per_minute: self.requests_per_minute, tokens_per_minute: self.tokens_per_minute, concurrent: self.concurrent }
    }
}

impl fmt::Debug for KeyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.scope)
    }
}

/// All of a file.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    key: Vec<KeyEntry>,
}

/// Reads a file that only its owner, and perhaps its group, may read.
pub fn read(path: &Path) -> Result<Vec<KeyEntry>, ServeError> {
    let failed = |error| ServeError::File { what: "file of API keys", path: path.to_owned(), error };
    let wrong = |reason| ServeError::Keys { path: path.to_owned(), reason };
    let file = std::fs::File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(wrong("is not a file".to_owned()));
    }
    if metadata.mode() & FORBIDDEN_MODE != 0 {
        let mode = metadata.mode() & 0o777;
        return Err(wrong(format!("has mode {mode:03o}, so others may read or change it; run: chmod 600 {}", path.display())));
    }
    let mut text = String::new();
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE {
        return Err(wrong(format!("is larger than {MAX_FILE} bytes")));
    }
    parse(&text).map_err(wrong)
}

/// The entries of a file's text; an error is the end of a sentence that begins with the file.
pub fn parse(text: &str) -> Result<Vec<KeyEntry>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let File { key: entries } = toml::from_str(text).map_err(|error| {
        // Its own `Display` shows the line it stopped at, and with it what may be a secret.
        let line = error.span().map_or(1, |span| 1 + text.as_bytes()[..span.start.min(text.len())].iter().filter(|b| **b == b'\n').count());
        format!("cannot be used, line {line}: {}", error.message().trim_end())
    })?;
    let (mut names, mut hashes) = (HashSet::new(), HashSet::new());
    for entry in &entries {
        check_name(&entry.name)?;
        if !names.insert(entry.name.as_str()) {
            return Err(format!("has two keys named {:?}", entry.name));
        }
        if !hashes.insert(entry.sha256) {
            return Err(format!("has the key of {:?} under another name, too", entry.name));
        }
    }
    Ok(entries)
}

/// Names appear in headers, lists and labels, so they are plain.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte));
    if !plain {
        let shown: String = name.chars().take(MAX_NAME).collect();
        return Err(format!("names a key {shown:?}; a name has 1 to {MAX_NAME} letters, digits, or -_.@"));
    }
    if name == OF_THE_SETTING {
        return Err(format!("names a key {OF_THE_SETTING:?}, which is the name of the key that the setting gives; choose another"));
    }
    Ok(())
}

fn from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| serde::de::Error::custom("sha256 is not 64 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn entry(name: &str, secret: &str, rest: &str) -> String {
        format!("[[key]]\nname = \"{name}\"\nsha256 = \"{}\"\n{rest}\n", hex(&hash(secret.as_bytes())))
    }

    #[test]
    fn entries_are_read_with_their_limits() {
        let text = entry("a", "1", "scope = \"admin\"")
            + &entry("b", "2", "scope = \"inference\"\nrequests_per_minute = 3\nconcurrent = 1\npriority = \"low\"");
        let entries = parse(&text).unwrap();
        assert_eq!(entries[0].scope, Scope::Admin);
        assert_eq!(entries[0].limits(), Limits::default());
        assert_eq!(entries[1].sha256, hash(b"2"));
        assert_eq!((entries[1].limits().requests_per_minute, entries[1].limits().concurrent), (NonZeroU32::new(3), NonZeroU32::new(1)));
        assert_eq!((entries[0].priority, entries[1].priority), (Priority::Normal, Priority::Low));
        assert!(parse("").unwrap().is_empty());
        assert_eq!(parse(&format!("\u{feff}{}", text.replace('\n', "\r\n"))).unwrap().len(), 2);
    }

    #[test]
    fn what_cannot_be_meant_is_an_error_with_its_line_and_without_the_text() {
        let secret = "ob-0123456789abcdef";
        for (text, part) in [
            (entry("a", "1", "scope = \"root\""), "line 4"),
            (entry("a", "1", "scope = \"admin\"\nconcurrent = 0"), "line 5"),
            (entry("a", "1", "scope = \"admin\"\npriority = 1"), "line 5"),
            (entry("a", "1", ""), "scope"),
            (entry("a b", "1", "scope = \"admin\""), "letters, digits"),
            (entry("", "1", "scope = \"admin\""), "letters, digits"),
            (entry("api_key", "1", "scope = \"admin\""), "the setting"),
            (entry("a", "1", "scope = \"admin\"") + &entry("a", "2", "scope = \"admin\""), "two keys"),
            (entry("a", "1", "scope = \"admin\"") + &entry("b", "1", "scope = \"admin\""), "another name"),
            (format!("[[key]]\nname = \"a\"\nsha256 = \"{secret}\"\nscope = \"admin\"\n"), "64 hexadecimal"),
            (format!("[[key]]\nname = \"a\"\nsha256 = \"{}\"\nscope = \"admin\"\n", "é".repeat(32)), "64 hexadecimal"),
            (format!("# keys\n{secret}\n"), "line 2"),
            ("keys = []\n".to_owned(), "line 1"),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(error.contains(part), "{part}: {error}");
            assert!(!error.contains(secret), "{error}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_or_change_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.toml");
        std::fs::write(&path, entry("a", "1", "scope = \"admin\"")).unwrap();
        for (mode, fine) in [(0o600, true), (0o640, true), (0o400, true), (0o644, false), (0o660, false), (0o602, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            match read(&path) {
                Ok(entries) => assert!(fine && entries.len() == 1, "{mode:o}"),
                Err(error) => assert!(!fine && error.to_string().contains("chmod 600"), "{mode:o}: {error}"),
            }
        }
        assert!(matches!(read(dir.path()), Err(ServeError::Keys { .. })), "a folder");
        assert!(matches!(read(&dir.path().join("none")), Err(ServeError::File { .. })));
    }

    #[test]
    fn a_giant_file_is_not_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.toml");
        std::fs::write(&path, "#".repeat(2 << 20)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("larger"));
    }
}
