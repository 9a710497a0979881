//! The static note of a plugin: `key=value` lines in its file, read before anything of it runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the note says. Keys that this host does not know are ignored; a key that is missing or wrong is an error that names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// ABI major it was built for.
    pub abi_major: u32,
    /// Lowest host minor it can live with.
    pub abi_min_minor: u32,
    /// Minor it was built for.
    pub abi_built_minor: u32,
    /// Plugin id.
    pub id: String,
    /// Semantic version.
    pub version: String,
    /// Capability ids.
    pub capabilities: Vec<String>,
    /// Target triple it was built for.
    pub target: String,
    /// `unwind` or `none`.
    pub panic: String,
    /// SPDX expression.
    pub licence: String,
    /// `c`, `rust`.
    pub doors: Vec<String>,
}

/// Why a note cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoteError {
    /// Not text.
    #[error("the note is not UTF-8 text")]
    NotText,
    /// A line without `=`.
    #[error("the note has the line {0:?}, which is not key=value")]
    NotALine(String),
    /// A line that no terminal should be shown.
    #[error("the note has the line {0:?}, which holds a control character")]
    Control(String),
    /// Given twice.
    #[error("the note gives {0} twice")]
    Twice(String),
    /// Not given.
    #[error("the note does not give {0}")]
    Missing(&'static str),
    /// Not a number, or not one of the words allowed.
    #[error("the note's {key} is {value:?}; allowed is {allowed}")]
    Wrong {
        /// Which key.
        key: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        allowed: &'static str,
    },
    /// A note of a later layout.
    #[error("the note is of version {0:?}, this host reads version 1")]
    Version(String),
}

impl Note {
    /// Reads the note's text.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoteError> {
        let text = core::str::from_utf8(bytes).map_err(|_| NoteError::NotText)?.trim_end_matches('\0');
        let mut pairs = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            // What a note says is printed: in refusals, in lists of plugins.
            if line.chars().any(char::is_control) {
                return Err(NoteError::Control(line.chars().take(80).collect()));
            }
            let (key, value) = line.split_once('=').ok_or_else(|| NoteError::NotALine(line.chars().take(80).collect()))?;
            if pairs.insert(key, value).is_some() {
                return Err(NoteError::Twice(key.chars().take(80).collect()));
            }
        }
        let get = |key: &'static str| pairs.get(key).copied().ok_or(NoteError::Missing(key));
        let number = |key| {
            let value = get(key)?;
            value.parse().map_err(|_| NoteError::Wrong { key, value: value.into(), allowed: "a whole number" })
        };
        let list = |key| -> Result<Vec<String>, NoteError> {
            Ok(get(key)?.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
        };
        match get("note")? {
            "1" => {}
            other => return Err(NoteError::Version(other.into())),
        }
        let panic = get("panic")?;
        if !["unwind", "none"].contains(&panic) {
            return Err(NoteError::Wrong { key: "panic", value: panic.into(), allowed: "unwind or none" });
        }
        let doors = list("doors")?;
        if !doors.iter().any(|door| door == "c" || door == "rust") {
            return Err(NoteError::Wrong { key: "doors", value: doors.join(","), allowed: "c, rust, or both with a comma" });
        }
        Ok(Self {
            abi_major: number("abi_major")?,
            abi_min_minor: number("abi_min_minor")?,
            abi_built_minor: number("abi_built_minor")?,
            id: get("id")?.into(),
            version: get("version")?.into(),
            capabilities: list("capabilities")?,
            target: get("target")?.into(),
            panic: panic.into(),
            licence: get("licence")?.into(),
            doors,
        })
    }

    /// Whether it offers the abi_stable root module.
    pub fn has_rust_door(&self) -> bool {
        self.doors.iter().any(|door| door == "rust")
    }

    /// Whether it offers the C function.
    pub fn has_c_door(&self) -> bool {
        self.doors.iter().any(|door| door == "c")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "note=1\nabi_major=1\nabi_min_minor=0\nabi_built_minor=0\nid=x\nversion=1.0.0\ncapabilities=onebit.forward/1\n\
        target=x86_64-unknown-linux-gnu\npanic=none\nlicence=MIT\ndoors=c\n";

    #[test]
    fn a_note_may_end_with_nul_bytes_and_hold_unknown_keys() {
        let note = Note::parse(format!("{GOOD}colour=blue\n\0\0").as_bytes()).expect("good");
        assert_eq!((note.id.as_str(), note.has_c_door(), note.has_rust_door()), ("x", true, false));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let broken = |from: &str, to: &str| Note::parse(GOOD.replace(from, to).as_bytes()).expect_err("broken").to_string();
        assert_eq!(broken("id=x\n", ""), "the note does not give id");
        assert_eq!(broken("abi_major=1", "abi_major=one"), "the note's abi_major is \"one\"; allowed is a whole number");
        assert_eq!(broken("note=1", "note=2"), "the note is of version \"2\", this host reads version 1");
        assert_eq!(broken("panic=none", "panic=maybe"), "the note's panic is \"maybe\"; allowed is unwind or none");
        assert_eq!(broken("id=x", "id=x\nid=y"), "the note gives id twice");
        assert_eq!(
            broken("licence=MIT", "licence=\u{1b}[2J"),
            "the note has the line \"licence=\\u{1b}[2J\", which holds a control character"
        );
        assert!(Note::parse(&[0xff, 0xfe]).is_err());
    }
}
