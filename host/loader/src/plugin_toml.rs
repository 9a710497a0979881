//! `plugin.toml`: what a plugin's folder says of itself to people and to the host.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::devices::DeviceKind;

/// A setting that a manifest may give to the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionSpec {
    /// Name.
    pub name: String,
    /// Kind of value, for people and checks: `string`, `integer`, `number`, `boolean`.
    pub kind: OptionKind,
    /// Value when it is not given; absent = the plugin decides.
    #[serde(default)]
    pub default: Option<String>,
    /// One line for a person.
    pub help: String,
}

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

/// The file, schema 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginToml {
    /// 1.
    pub schema: u32,
    /// Same as in the note.
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
    /// Environment variables set when its process is spawned.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Settings that a manifest may give.
    #[serde(default, rename = "option")]
    pub options: Vec<OptionSpec>,
}
