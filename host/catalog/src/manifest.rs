//! A manifest: one model, where its file comes from, how it likes to be sampled, and which plugins may serve it.
//!
//! It is read from a merged tree (see [`crate::document`]) whose keys have been checked against [`crate::keys`], so reading here cannot
//! meet a wrong type; what is left to check is what depends on more than one key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::device::Selector;
use crate::document::{Node, Value};
use crate::keep_alive::KeepAlive;
use crate::keys::{self, number};
use crate::problem::Problem;
use crate::settings::{self, Setting, write};

/// Where a worker's work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// In a process of its own.
    #[default]
    Worker,
    /// In a thread of the host: a crash of the plugin is a crash of the host.
    InProcess,
}

/// How answers are made when the request does not say. `None` = the host's own default.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Defaults {
    /// 0 = greedy.
    pub temperature: Option<f32>,
    /// Keep the k most likely; 0 = all.
    pub top_k: Option<u32>,
    /// Keep the smallest set with this probability.
    pub top_p: Option<f32>,
    /// Drop what is less likely than this times the most likely.
    pub min_p: Option<f32>,
    /// Locally typical sampling.
    pub typical_p: Option<f32>,
    /// 1 = off.
    pub repetition_penalty: Option<f32>,
    /// Tokens back that penalties look at.
    pub penalty_window: Option<u32>,
    /// 0 = off.
    pub presence_penalty: Option<f32>,
    /// 0 = off.
    pub frequency_penalty: Option<f32>,
    /// Same seed, same answer.
    pub seed: Option<u64>,
    /// Texts that end an answer.
    pub stop: Vec<String>,
    /// Longest answer, tokens.
    pub max_tokens: Option<u32>,
    /// Positions one request may use.
    pub context: Option<u32>,
    /// Requests computed side by side.
    pub slots: Option<u32>,
    /// CPU threads.
    pub threads: Option<u32>,
    /// How long it stays loaded without work.
    pub keep_alive: Option<KeepAlive>,
}

impl Defaults {
    /// These, and where they say nothing those.
    pub fn over(self, those: Self) -> Self {
        Self {
            temperature: self.temperature.or(those.temperature),
            top_k: self.top_k.or(those.top_k),
            top_p: self.top_p.or(those.top_p),
            min_p: self.min_p.or(those.min_p),
            typical_p: self.typical_p.or(those.typical_p),
            repetition_penalty: self.repetition_penalty.or(those.repetition_penalty),
            penalty_window: self.penalty_window.or(those.penalty_window),
            presence_penalty: self.presence_penalty.or(those.presence_penalty),
            frequency_penalty: self.frequency_penalty.or(those.frequency_penalty),
            seed: self.seed.or(those.seed),
            stop: if self.stop.is_empty() { those.stop } else { self.stop },
            max_tokens: self.max_tokens.or(those.max_tokens),
            context: self.context.or(those.context),
            slots: self.slots.or(those.slots),
            threads: self.threads.or(those.threads),
            keep_alive: self.keep_alive.or(those.keep_alive),
        }
    }
}

/// How messages become a prompt, where the model file's own word is not wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Chat {
    /// A Jinja template instead of the one in the model file.
    pub template: Option<String>,
    /// System message for chats that have none.
    pub system: Option<String>,
    /// How the model calls functions (`hermes`, `kimi-k2`, …); otherwise as its template gives away.
    pub tool_format: Option<String>,
    /// How it marks reasoning (`think`, …, `none`); otherwise as its template gives away.
    pub reasoning_format: Option<String>,
}

/// One way to serve the model. Tried in the order of the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Serve {
    /// Id of the plugin.
    pub plugin: String,
    /// Versions of it that will do.
    pub version: semver::VersionReq,
    /// Devices that will do.
    pub device: Selector,
    /// Settings of the plugin, in the order of their names.
    pub options: BTreeMap<String, String>,
    /// Where the work is done.
    pub isolation: Isolation,
    /// May take over when an earlier choice fails while it loads. (What an earlier choice refuses before loading needs no permission.)
    pub fallback: bool,
    /// `file:line`.
    pub origin: String,
}

/// A model as its manifest describes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Manifest {
    /// The name to ask for.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// One or two sentences for people.
    pub description: Option<String>,
    /// File name, looked for in the models folders, or an absolute path.
    pub file: PathBuf,
    /// What the file must hash to, lower case hexadecimal.
    pub sha256: Option<String>,
    /// Size of the file, bytes.
    pub bytes: Option<u64>,
    /// Where `pull` gets it, in order.
    pub source: Vec<String>,
    /// `gguf`, …
    pub format: Option<String>,
    /// What the file is said to hold; the file's own header decides.
    pub architecture: Option<String>,
    /// SPDX expression or a name.
    pub licence: Option<String>,
    /// Templates.
    pub chat: Chat,
    /// Sampling and limits.
    pub defaults: Defaults,
    /// The choices; empty = any plugin that reads the format.
    pub serve: Vec<Serve>,
    /// Where each value was written, in the order of the keys.
    pub settings: Vec<Setting>,
}

impl Manifest {
    /// Reads a merged tree. `folder` is where relative template files are looked for: the folder of the file that named them.
    pub fn from_tree(path: &Path, root: &Node) -> Result<Self, Vec<Problem>> {
        let mut problems = keys::check(root);
        for required in ["schema", "name", "model.file"] {
            if root.get(required).is_none() {
                problems.push(Problem::error(path, None, format!("has no `{required}`; every manifest needs it")));
            }
        }
        let chat = chat(root).unwrap_or_else(|problem| {
            problems.push(problem);
            Chat::default()
        });
        let serve = serve(root, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        let read = Reader(root);
        Ok(Self {
            name: read.text("name").unwrap_or_default(),
            aliases: read.texts("aliases"),
            description: read.text("description"),
            file: read.text("model.file").unwrap_or_default().into(),
            sha256: read.text("model.sha256").map(|text| text.to_ascii_lowercase()),
            bytes: read.integer("model.bytes"),
            source: read.texts("model.source"),
            format: read.text("model.format").map(|text| text.to_ascii_lowercase()),
            architecture: read.text("model.architecture"),
            licence: read.text("model.licence"),
            chat,
            defaults: Defaults {
                temperature: read.float("defaults.temperature"),
                top_k: read.integer("defaults.top_k"),
                top_p: read.float("defaults.top_p"),
                min_p: read.float("defaults.min_p"),
                typical_p: read.float("defaults.typical_p"),
                repetition_penalty: read.float("defaults.repetition_penalty"),
                penalty_window: read.integer("defaults.penalty_window"),
                presence_penalty: read.float("defaults.presence_penalty"),
                frequency_penalty: read.float("defaults.frequency_penalty"),
                seed: read.integer("defaults.seed"),
                stop: read.texts("defaults.stop"),
                max_tokens: read.integer("defaults.max_tokens"),
                context: read.integer("defaults.context"),
                slots: read.integer("defaults.slots"),
                threads: read.integer("defaults.threads"),
                keep_alive: root.get("defaults.keep_alive").and_then(|node| match &node.value {
                    Value::Text(text) => KeepAlive::parse(text).ok(),
                    Value::Integer(seconds) => KeepAlive::from_seconds(*seconds).ok(),
                    _ => None,
                }),
            },
            serve,
            settings: settings::of(root),
        })
    }
}

/// The tree's values by path. Types were checked; a missing key is `None`.
struct Reader<'a>(&'a Node);

impl Reader<'_> {
    fn text(&self, path: &str) -> Option<String> {
        match &self.0.get(path)?.value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn texts(&self, path: &str) -> Vec<String> {
        match self.0.get(path).map(|node| &node.value) {
            Some(Value::Text(text)) => vec![text.clone()],
            Some(Value::List(list)) => {
                list.iter().filter_map(|node| if let Value::Text(text) = &node.value { Some(text.clone()) } else { None }).collect()
            }
            _ => Vec::new(),
        }
    }

    fn integer<T: TryFrom<i64>>(&self, path: &str) -> Option<T> {
        match &self.0.get(path)?.value {
            Value::Integer(number) => T::try_from(*number).ok(),
            _ => None,
        }
    }

    fn float(&self, path: &str) -> Option<f32> {
        number(&self.0.get(path)?.value).map(|number| number as f32)
    }
}

/// Largest template file, bytes.
const TEMPLATE_MAX: u64 = 1 << 20;

fn chat(root: &Node) -> Result<Chat, Problem> {
    let read = Reader(root);
    let mut chat = Chat {
        template: read.text("chat.template"),
        system: read.text("chat.system"),
        tool_format: read.text("chat.tool_format"),
        reasoning_format: read.text("chat.reasoning_format"),
    };
    let Some((node, name)) = root.get("chat.template_file").zip(read.text("chat.template_file")) else {
        return Ok(chat);
    };
    if chat.template.is_some() {
        return Err(node.origin.problem("`chat.template` and `chat.template_file` exclude each other; keep one"));
    }
    let path = node.origin.file.parent().unwrap_or(Path::new(".")).join(&name);
    let problem = |what: String| node.origin.problem(format!("`chat.template_file` {} {what}", path.display()));
    let metadata = std::fs::metadata(&path).map_err(|error| problem(format!("cannot be read: {error}")))?;
    if !metadata.is_file() || metadata.len() > TEMPLATE_MAX {
        return Err(problem(format!("must be a regular file of at most {TEMPLATE_MAX} bytes")));
    }
    chat.template = Some(std::fs::read_to_string(&path).map_err(|error| problem(format!("cannot be read: {error}")))?);
    Ok(chat)
}

fn serve(root: &Node, problems: &mut Vec<Problem>) -> Vec<Serve> {
    let Some(Value::List(entries)) = root.get(keys::SERVE).map(|node| &node.value) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let read = Reader(entry);
        let Some(plugin) = read.text("plugin") else {
            problems.push(entry.origin.problem("this [[serve]] has no `plugin`; every choice names one"));
            continue;
        };
        let fallback = matches!(entry.get("fallback").map(|node| &node.value), Some(Value::Boolean(true)));
        if fallback && index == 0 {
            problems.push(entry.origin.problem("the first [[serve]] cannot be a fallback; there is nothing before it"));
        }
        out.push(Serve {
            plugin,
            // A version or device that does not parse has been reported by the check of the keys; the manifest is refused then.
            version: read.text("version").and_then(|text| semver::VersionReq::parse(&text).ok()).unwrap_or(semver::VersionReq::STAR),
            device: read.text("device").and_then(|text| text.parse().ok()).unwrap_or(Selector::Any),
            options: options(entry),
            isolation: if read.text("isolation").as_deref() == Some("in-process") { Isolation::InProcess } else { Isolation::Worker },
            fallback,
            origin: entry.origin.display(),
        });
    }
    out
}

fn options(entry: &Node) -> BTreeMap<String, String> {
    let Some(Value::Table(table)) = entry.get("options").map(|node| &node.value) else {
        return BTreeMap::new();
    };
    table
        .iter()
        .map(|(name, node)| (name.clone(), if let Value::Text(text) = &node.value { text.clone() } else { write(&node.value) }))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn manifest(text: &str) -> Result<Manifest, Vec<String>> {
        let path = Path::new("m.toml");
        let root = crate::document::parse(path, text).unwrap();
        Manifest::from_tree(path, &root).map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_full_manifest_is_read() {
        let manifest = manifest(
            r#"
            schema = 1
            name = "smol:1"
            aliases = ["smol"]
            [model]
            file = "smol.gguf"
            sha256 = "B179C9523D0E6A0F98A330C7562B682750A6F8C8C15E5BC70EA373728110DB53"
            bytes = 98362432
            source = "hf:owner/repo/file"
            [chat]
            system = ""
            [defaults]
            temperature = 1
            keep_alive = "5m"
            [[serve]]
            plugin = "vulkan-ggml"
            version = "^0.1"
            device = "vulkan"
            options = { flash_attention = true, layers = 12, cache = "f16" }
            [[serve]]
            plugin = "vulkan-ggml"
            device = "cpu"
            fallback = true
            "#,
        )
        .unwrap();
        assert_eq!(manifest.name, "smol:1");
        assert_eq!(manifest.source, ["hf:owner/repo/file"]);
        assert!(manifest.sha256.unwrap().starts_with("b179c952"));
        assert_eq!(manifest.chat.system.as_deref(), Some(""));
        assert_eq!(manifest.defaults.temperature, Some(1.0));
        assert_eq!(manifest.defaults.keep_alive, Some(KeepAlive::For(Duration::from_secs(300))));
        let options: Vec<_> = manifest.serve[0].options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(options, [("cache", "f16"), ("flash_attention", "true"), ("layers", "12")]);
        assert!(manifest.serve[1].fallback && !manifest.serve[0].fallback);
        assert_eq!(manifest.settings[1], Setting { key: "name".into(), value: "\"smol:1\"".into(), origin: "m.toml:3".into() });
    }

    #[test]
    fn what_a_manifest_must_have_is_said() {
        let problems = manifest("schema = 1\n[[serve]]\nfallback = true\n").unwrap_err();
        assert_eq!(problems.len(), 3, "{problems:?}");
        let problems =
            manifest("schema = 1\nname = \"x\"\n[model]\nfile = \"f\"\n[[serve]]\nplugin = \"p\"\nfallback = true\n").unwrap_err();
        assert!(problems[0].contains("cannot be a fallback"), "{problems:?}");
    }

    #[test]
    fn a_template_file_lies_beside_the_file_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("t.jinja"), "{{ messages }}").unwrap();
        let path = dir.path().join("m.toml");
        let text = |file: &str| format!("schema = 1\nname = \"x\"\n[model]\nfile = \"f\"\n[chat]\ntemplate_file = {file:?}\n");
        let read = |file: &str| Manifest::from_tree(&path, &crate::document::parse(&path, &text(file)).unwrap());
        assert_eq!(read("t.jinja").unwrap().chat.template.as_deref(), Some("{{ messages }}"));
        assert_eq!(read("missing.jinja").unwrap_err()[0].line, Some(6));
    }
}
