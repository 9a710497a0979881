//! `plugin.toml`: what a plugin's folder says of itself to people and to the host.
//!
//! An unknown key is an error with a suggestion: a misspelt key that is ignored is a setting that silently does not hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::devices::DeviceKind;
use crate::text::one_line;

/// Kind of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionKind {
    /// Any text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// A setting that a manifest may give to the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionSpec {
    /// Name.
    pub name: String,
    /// Kind of value.
    pub kind: OptionKind,
    /// Value when it is not given; absent = the plugin decides.
    #[serde(default)]
    pub default: Option<String>,
    /// One line for a person.
    pub help: String,
}

impl OptionSpec {
    /// Whether `value` is of this option's kind.
    pub fn accepts(&self, value: &str) -> bool {
        match self.kind {
            OptionKind::String => true,
            OptionKind::Integer => value.parse::<i64>().is_ok(),
            OptionKind::Number => value.parse::<f64>().is_ok_and(f64::is_finite),
            OptionKind::Boolean => matches!(value, "true" | "false"),
        }
    }
}

/// What a plugin's process needs beyond its own folder, the model, and the nodes of its kinds of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// Sockets to other machines. Given only if the configuration names the plugin.
    #[serde(default)]
    pub network: bool,
    /// MiB that it may keep on disk between runs, compiled shaders for example, in a folder of its own that may be emptied at any time. 0 = it writes nothing.
    #[serde(default)]
    pub cache_mib: u32,
}

/// The file, schema 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginToml {
    /// 1.
    pub schema: u32,
    /// Same as in the note: lower-case letters, digits, `-`.
    pub id: String,
    /// Semantic version, same as in the note.
    pub version: String,
    /// File name of the library, in this folder.
    pub library: String,
    /// ABI the plugin was built for: `1.0`.
    pub abi: String,
    /// Capability ids, same as in the note.
    pub capabilities: Vec<String>,
    /// One line for a person.
    pub description: String,
    /// SPDX expression.
    pub licence: String,
    /// Where to read more.
    #[serde(default)]
    pub homepage: Option<String>,
    /// Kinds of devices it may compute on.
    pub device_kinds: Vec<DeviceKind>,
    /// Model file formats it reads: `gguf`.
    #[serde(default)]
    pub formats: Vec<String>,
    /// What its process may do beyond computing. Asking is not getting: the configuration must grant it.
    #[serde(default)]
    pub needs: Needs,
    /// Environment variables set when its process is spawned.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// SHA-256 of the files in this folder, lower case hexadecimal, by their paths from here. All of them, except this file and its signature,
    /// or none.
    #[serde(default)]
    pub sha256: BTreeMap<String, String>,
    /// Settings that a manifest may give.
    #[serde(default, rename = "option")]
    pub options: Vec<OptionSpec>,
}

const KEYS: &[&str] = &[
    "schema",
    "id",
    "version",
    "library",
    "abi",
    "capabilities",
    "description",
    "licence",
    "homepage",
    "device_kinds",
    "formats",
    "needs",
    "environment",
    "sha256",
    "option",
];
const NEEDS_KEYS: &[&str] = &["network", "cache_mib"];
const OPTION_KEYS: &[&str] = &["name", "kind", "default", "help"];

/// MiB of cache that a plugin may ask for.
const MAX_CACHE_MIB: u32 = 4096;

/// Bytes of a `plugin.toml` that are read at most.
pub(crate) const MAX_TOML: u64 = 64 << 10;

impl PluginToml {
    /// Reads the file's text; the error is one line for a person.
    pub fn parse(text: &str) -> Result<Self, String> {
        let one_line = |error: toml::de::Error| {
            let line = error.span().map(|span| text.get(..span.start).unwrap_or_default().lines().count().max(1));
            let message = one_line(error.message());
            match line {
                Some(line) => format!("line {line}: {message}"),
                None => message,
            }
        };
        let table: toml::Table = toml::from_str(text).map_err(one_line)?;
        check_keys(table.keys(), KEYS, "")?;
        if let Some(needs) = table.get("needs").and_then(toml::Value::as_table) {
            check_keys(needs.keys(), NEEDS_KEYS, " in [needs]")?;
        }
        for option in table.get("option").and_then(toml::Value::as_array).into_iter().flatten() {
            if let Some(option) = option.as_table() {
                check_keys(option.keys(), OPTION_KEYS, " in [[option]]")?;
            }
        }
        let mut parsed: Self = toml::from_str(text).map_err(one_line)?;
        parsed.check()?;
        parsed.sha256.values_mut().for_each(|hash| hash.make_ascii_lowercase());
        Ok(parsed)
    }

    fn check(&self) -> Result<(), String> {
        if self.schema != 1 {
            return Err(format!("schema is {}, this host reads schema 1", self.schema));
        }
        if !is_plugin_id(&self.id) {
            return Err(format!("id {:?} is not made of 1 to 64 lower-case letters, digits and '-'", self.id));
        }
        if let Err(error) = semver::Version::parse(&self.version) {
            return Err(format!("version {:?} is no semantic version: {error}", self.version));
        }
        if self.library.is_empty() || self.library.contains(['/', '\0']) || self.library.starts_with('.') {
            return Err(format!("library {:?} is not a file name in the plugin's folder", self.library));
        }
        if self.abi().is_none() {
            return Err(format!("abi {:?} is not MAJOR.MINOR", self.abi));
        }
        if let Some(text) = self.shown_texts().find(|text| text.chars().any(char::is_control)) {
            return Err(format!("the text {text:?} holds a control character; it is shown in terminals"));
        }
        for (name, value) in &self.environment {
            let word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            if name.is_empty() || !name.chars().all(word) || value.contains('\0') {
                return Err(format!("[environment] {name:?} is not made of capitals, digits and '_'"));
            }
            if name.starts_with("LD_") {
                return Err(format!(
                    "[environment] {name}: the dynamic linker's variables are not allowed; give the library a RUNPATH of $ORIGIN"
                ));
            }
        }
        if self.needs.cache_mib > MAX_CACHE_MIB {
            return Err(format!("[needs] cache_mib is {}, at most {MAX_CACHE_MIB} are given", self.needs.cache_mib));
        }
        for (name, hash) in &self.sha256 {
            let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
            if !name.split('/').all(plain) || name.contains('\0') {
                return Err(format!("[sha256] {name:?} is not the path of a file in the plugin's folder"));
            }
            if name == "plugin.toml" || name == crate::trust::SIGNATURE {
                return Err(format!("[sha256] {name:?}: this file cannot hold its own hash or that of its signature"));
            }
            if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(format!("[sha256] {name:?}: {hash:?} is not 64 hexadecimal digits"));
            }
        }
        for option in &self.options {
            if let Some(default) = option.default.as_deref().filter(|default| !option.accepts(default)) {
                return Err(format!("[[option]] {}: the default {default:?} is not of kind {:?}", option.name, option.kind));
            }
        }
        Ok(())
    }

    /// What people are shown.
    fn shown_texts(&self) -> impl Iterator<Item = &str> {
        let options = self.options.iter().flat_map(|option| [Some(&option.name), Some(&option.help), option.default.as_ref()]);
        [Some(&self.library), Some(&self.description), Some(&self.licence), self.homepage.as_ref()]
            .into_iter()
            .chain(options)
            .flatten()
            .chain(&self.capabilities)
            .chain(&self.formats)
            .map(String::as_str)
    }

    /// ABI major and minor.
    pub fn abi(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.abi.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

/// Whether a plugin may have this id: 1 to 64 lower-case letters, digits and '-'.
pub fn is_plugin_id(id: &str) -> bool {
    let id_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&id.len()) && id.chars().all(id_char)
}

fn check_keys<'a>(keys: impl Iterator<Item = &'a String>, known: &[&str], place: &str) -> Result<(), String> {
    for key in keys {
        if known.contains(&key.as_str()) {
            continue;
        }
        let nearest = known.iter().map(|known| (strsim::jaro_winkler(key, known), known)).max_by(|a, b| a.0.total_cmp(&b.0));
        return Err(match nearest {
            Some((likeness, nearest)) if likeness > 0.75 => format!("unknown key {key:?}{place}; did you mean {nearest:?}?"),
            _ => format!("unknown key {key:?}{place}; known are {}", known.join(", ")),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
schema = 1
id = "x"
version = "1.0.0"
library = "libx.so"
abi = "1.0"
capabilities = ["onebit.forward/1"]
description = "A test"
licence = "MIT"
device_kinds = ["cpu"]

[[option]]
name = "speed"
kind = "integer"
default = "3"
help = "How fast"
"#;

    #[test]
    fn a_good_file_is_read() {
        let toml = PluginToml::parse(GOOD).expect("good");
        assert_eq!((toml.abi(), toml.options.len()), (Some((1, 0)), 1));
    }

    #[test]
    fn each_mistake_is_one_line_that_says_what_is_allowed() {
        let wrong = |from: &str, to: &str| PluginToml::parse(&GOOD.replace(from, to)).expect_err("wrong");
        assert_eq!(wrong("licence", "license"), r#"unknown key "license"; did you mean "licence"?"#);
        assert_eq!(wrong("help =", "halp ="), r#"unknown key "halp" in [[option]]; did you mean "help"?"#);
        assert_eq!(wrong("\"libx.so\"", "\"../libx.so\""), r#"library "../libx.so" is not a file name in the plugin's folder"#);
        assert_eq!(wrong("schema = 1", "schema = 2"), "schema is 2, this host reads schema 1");
        assert!(wrong("\"1.0.0\"", "\"1\"").starts_with("version \"1\" is no semantic version"));
        assert_eq!(
            wrong("[[option]]", "[needs]\nnetwrok = true\n[[option]]"),
            r#"unknown key "netwrok" in [needs]; did you mean "network"?"#
        );
        assert!(wrong("[[option]]", "[needs]\ncache_mib = 5000\n[[option]]").contains("at most 4096"));
        assert!(wrong("[\"cpu\"]", "[\"gpu\"]").contains("unknown variant"));
        assert!(wrong("\"A test\"", "\"\\u001b[2J\"").contains("holds a control character"));
        assert!(wrong("default = \"3\"", "default = \"fast\"").contains("is not of kind Integer"));
        let hashes = |line: &str| PluginToml::parse(&format!("{GOOD}\n[sha256]\n{line}\n")).expect_err("wrong");
        assert_eq!(hashes("\"../x\" = \"00\""), r#"[sha256] "../x" is not the path of a file in the plugin's folder"#);
        assert!(hashes("\"/x\" = \"00\"").contains("is not the path of a file"));
        assert!(hashes("\"plugin.toml\" = \"00\"").contains("cannot hold its own hash"));
        assert_eq!(hashes("\"libx.so\" = \"00\""), r#"[sha256] "libx.so": "00" is not 64 hexadecimal digits"#);
        assert!(PluginToml::parse(&format!("{GOOD}\n[environment]\nLD_PRELOAD = \"x\"\n")).expect_err("wrong").contains("LD_PRELOAD"));
    }
}
