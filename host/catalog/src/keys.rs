//! Every key that a manifest may have: one table, from which files are checked, mistakes are explained and the documentation is tested.
//!
//! Adding a key is adding a row here, a field in [`crate::manifest`] and a paragraph in `manifests/README.md`; a test holds them together.

use crate::document::{Node, Value};
use crate::problem::Problem;

/// What a key's value may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A text with at least one character.
    Text,
    /// A text that may be empty.
    AnyText,
    /// One text or a list of texts.
    Texts,
    /// One text or a list of texts of at least one character each, be it white space.
    Stops,
    /// A whole number within the two bounds, both included.
    Integer(i64, i64),
    /// A number within the two bounds, both included.
    Number(f64, f64),
    /// `true` or `false`.
    Boolean,
    /// 64 hexadecimal digits.
    Sha256,
    /// A model's name: no white space, no control characters, at most 200 bytes.
    Name,
    /// A list of [`Kind::Name`]s.
    Names,
    /// `"5m"`, `"90s"`, `"forever"`, a number of seconds, −1 for ever.
    KeepAlive,
    /// A semver range such as `^0.1`.
    Range,
    /// `any`, `cpu`, `vulkan`, `vulkan:<uuid>`, …
    Device,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A table whose keys belong to somebody else; values are texts, numbers or booleans.
    Settings,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Dotted path; `serve` stands for each entry of the list of that name.
    pub path: &'static str,
    /// What it may hold.
    pub kind: Kind,
}

const fn key(path: &'static str, kind: Kind) -> Key {
    Key { path, kind }
}

const POSITIONS: Kind = Kind::Integer(1, 1 << 26);

/// The table. Order is the order of the documentation.
pub const KEYS: &[Key] = &[
    key("schema", Kind::Integer(1, 1)),
    key("name", Kind::Name),
    key("aliases", Kind::Names),
    key("description", Kind::AnyText),
    key("model.file", Kind::Text),
    key("model.sha256", Kind::Sha256),
    key("model.bytes", Kind::Integer(1, i64::MAX)),
    key("model.source", Kind::Texts),
    key("model.format", Kind::Text),
    key("model.architecture", Kind::Text),
    key("model.licence", Kind::Text),
    key("chat.template", Kind::Text),
    key("chat.template_file", Kind::Text),
    key("chat.system", Kind::AnyText),
    key("chat.tool_format", Kind::Text),
    key("chat.reasoning_format", Kind::Text),
    key("defaults.temperature", Kind::Number(0.0, 100.0)),
    key("defaults.top_k", Kind::Integer(0, u32::MAX as i64)),
    key("defaults.top_p", Kind::Number(0.0, 1.0)),
    key("defaults.min_p", Kind::Number(0.0, 1.0)),
    key("defaults.typical_p", Kind::Number(0.0, 1.0)),
    key("defaults.repetition_penalty", Kind::Number(0.01, 100.0)),
    key("defaults.penalty_window", Kind::Integer(0, u32::MAX as i64)),
    key("defaults.presence_penalty", Kind::Number(-100.0, 100.0)),
    key("defaults.frequency_penalty", Kind::Number(-100.0, 100.0)),
    key("defaults.seed", Kind::Integer(0, i64::MAX)),
    key("defaults.stop", Kind::Stops),
    key("defaults.max_tokens", POSITIONS),
    key("defaults.context", POSITIONS),
    key("defaults.slots", Kind::Integer(1, 4096)),
    key("defaults.threads", Kind::Integer(1, 4096)),
    key("defaults.keep_alive", Kind::KeepAlive),
    key("serve.plugin", Kind::Text),
    key("serve.version", Kind::Range),
    key("serve.device", Kind::Device),
    key("serve.isolation", Kind::OneOf(&["worker", "in-process"])),
    key("serve.fallback", Kind::Boolean),
    key("serve.options", Kind::Settings),
];

/// The one list of tables in a manifest.
pub(crate) const SERVE: &str = "serve";

/// Everything that is wrong with a tree, in the order of the lines.
pub(crate) fn check(root: &Node) -> Vec<Problem> {
    let mut problems = Vec::new();
    check_table(root, "", &mut problems);
    problems.sort_by_key(|problem| problem.line);
    problems
}

fn check_table(node: &Node, prefix: &str, problems: &mut Vec<Problem>) {
    let Value::Table(table) = &node.value else {
        problems.push(node.origin.problem(format!("`{}` must be a table, this is {}", prefix.trim_end_matches('.'), node.value.kind())));
        return;
    };
    for (name, child) in table {
        let path = format!("{prefix}{name}");
        if let Some(key) = KEYS.iter().find(|key| key.path == path) {
            if let Err(message) = check_value(key.kind, &child.value) {
                problems.push(child.origin.problem(format!("`{path}` {message}")));
            }
        } else if path == SERVE {
            match &child.value {
                Value::List(entries) => entries.iter().for_each(|entry| check_table(entry, "serve.", problems)),
                _ => problems.push(child.origin.problem("`serve` must be a list of tables: write [[serve]] with two brackets")),
            }
        } else if KEYS.iter().any(|key| key.path.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.'))) {
            check_table(child, &format!("{path}."), problems);
        } else {
            problems.push(child.origin.problem(format!("unknown key `{path}`{}", suggestion(prefix, name))));
        }
    }
}

/// What the author may have meant: the same name in another table, or the nearest name.
fn suggestion(prefix: &str, name: &str) -> String {
    let last = |path: &'static str| path.rsplit('.').next().unwrap_or(path);
    if let Some(key) = KEYS.iter().find(|key| last(key.path) == name) {
        return match key.path.rsplit_once('.') {
            Some((SERVE, _)) => format!("; `{name}` belongs into [[serve]]"),
            Some((table, _)) => format!("; `{name}` belongs into [{table}]"),
            None => format!("; `{name}` belongs to the top of the file, before the first [table]"),
        };
    }
    let wanted = format!("{prefix}{name}");
    let tables = KEYS.iter().filter_map(|key| key.path.split_once('.').map(|(table, _)| table));
    KEYS.iter()
        .map(|key| key.path)
        .chain(tables)
        .map(|path| (path, strsim::damerau_levenshtein(path, &wanted)))
        .filter(|(_, distance)| *distance <= 3.max(name.len() / 3) && *distance < name.len())
        .min_by_key(|(_, distance)| *distance)
        .map_or_else(String::new, |(path, _)| format!("; did you mean `{path}`?"))
}

fn check_value(kind: Kind, value: &Value) -> Result<(), String> {
    let not = |what: &str| Err(format!("must be {what}, this is {}", value.kind()));
    match (kind, value) {
        (Kind::Text, Value::Text(text)) if text.trim().is_empty() => Err("must not be empty; leave the key out instead".into()),
        (Kind::Stops, Value::Text(text)) if text.is_empty() => Err("must not be empty; leave the key out instead".into()),
        (Kind::Text | Kind::AnyText | Kind::Texts | Kind::Stops, Value::Text(_)) => Ok(()),
        (Kind::Text | Kind::AnyText, _) => not("a text"),
        (Kind::Texts | Kind::Stops | Kind::Names, Value::List(list)) => list.iter().try_for_each(|item| {
            let kind = match (kind, &item.value) {
                (Kind::Names, _) => Kind::Name,
                (Kind::Stops, Value::Text(_)) => Kind::Stops,
                _ => Kind::Text,
            };
            check_value(kind, &item.value).map_err(|message| format!("has an entry that {message}"))
        }),
        (Kind::Texts | Kind::Stops, _) => not("a text or a list of texts"),
        (Kind::Names, _) => not("a list of texts"),
        (Kind::Integer(low, high), Value::Integer(number)) => match (low..=high).contains(number) {
            true => Ok(()),
            false if low == high => Err(format!("is {number}; this host reads {low} only")),
            false => Err(format!("is {number}; allowed are {low} to {high}")),
        },
        (Kind::Integer(..), _) => not("a whole number"),
        (Kind::Number(low, high), Value::Integer(_) | Value::Float(_)) => {
            let number = number(value).unwrap_or(f64::NAN);
            if (low..=high).contains(&number) { Ok(()) } else { Err(format!("is {number}; allowed are {low} to {high}")) }
        }
        (Kind::Number(..), _) => not("a number"),
        (Kind::Boolean, Value::Boolean(_)) => Ok(()),
        (Kind::Boolean, _) => not("true or false"),
        (Kind::Sha256, Value::Text(text)) => match text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => Ok(()),
            false => Err(format!("must be the 64 hexadecimal digits of a SHA-256; this has {} characters", text.chars().count())),
        },
        (Kind::Name, Value::Text(text)) => crate::names::check(text),
        (Kind::KeepAlive, Value::Text(text)) => crate::keep_alive::KeepAlive::parse(text).map(drop),
        (Kind::KeepAlive, Value::Integer(seconds)) => crate::keep_alive::KeepAlive::from_seconds(*seconds).map(drop),
        (Kind::KeepAlive, _) => not("a time such as \"5m\", a number of seconds, or \"forever\""),
        (Kind::Range, Value::Text(text)) => {
            semver::VersionReq::parse(text).map(drop).map_err(|error| format!("is not a version range such as \"^0.1\": {error}"))
        }
        (Kind::Device, Value::Text(text)) => text.parse::<crate::device::Selector>().map(drop).map_err(|error| error.to_string()),
        (Kind::OneOf(allowed), Value::Text(text)) if allowed.contains(&text.as_str()) => Ok(()),
        (Kind::OneOf(allowed), _) => Err(format!("must be one of {allowed:?}")),
        (Kind::Settings, Value::Table(table)) => {
            match table.iter().find(|(_, node)| matches!(node.value, Value::List(_) | Value::Table(_))) {
                Some((name, node)) => {
                    Err(format!("has `{name}`, which must be a text, a number or true/false, and is {}", node.value.kind()))
                }
                None => Ok(()),
            }
        }
        (Kind::Settings, _) => not("a table"),
        (Kind::Sha256 | Kind::Name | Kind::Range | Kind::Device, _) => not("a text"),
    }
}

pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        // Settings are small numbers; a whole number beyond 2^53 is out of every range above.
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn problems(text: &str) -> Vec<String> {
        check(&crate::document::parse(Path::new("m.toml"), text).unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn mistakes_are_named_with_file_and_line_and_a_way_out() {
        for (text, expected) in [
            ("nmae = \"x\"", "m.toml:1: unknown key `nmae`; did you mean `name`?"),
            ("[model]\nfiel = \"x\"", "m.toml:2: unknown key `model.fiel`; did you mean `model.file`?"),
            ("sha256 = \"x\"", "m.toml:1: unknown key `sha256`; `sha256` belongs into [model]"),
            (
                "[model]\nname = \"x\"",
                "m.toml:2: unknown key `model.name`; `name` belongs to the top of the file, before the first [table]",
            ),
            ("[modle]\nfile = \"x\"", "m.toml:1: unknown key `modle`; did you mean `model`?"),
            ("zzzzzzzz = 1", "m.toml:1: unknown key `zzzzzzzz`"),
            ("schema = 2", "m.toml:1: `schema` is 2; this host reads 1 only"),
            ("[serve]\nplugin = \"x\"", "m.toml:1: `serve` must be a list of tables: write [[serve]] with two brackets"),
            ("[[serve]]\nplugn = \"x\"", "m.toml:2: unknown key `serve.plugn`; did you mean `serve.plugin`?"),
            ("[[serve]]\nversion = \"0..1\"", "m.toml:2: `serve.version` is not a version range such as \"^0.1\""),
            ("[[serve]]\nisolation = \"none\"", "m.toml:2: `serve.isolation` must be one of [\"worker\", \"in-process\"]"),
            (
                "[[serve]]\noptions = { a = [1] }",
                "m.toml:2: `serve.options` has `a`, which must be a text, a number or true/false, and is a list",
            ),
            ("model = 3", "m.toml:1: `model` must be a table, this is a whole number"),
            ("[defaults]\ntop_p = 1.5", "m.toml:2: `defaults.top_p` is 1.5; allowed are 0 to 1"),
            ("[defaults]\ntemperature = nan", "m.toml:2: `defaults.temperature` is NaN; allowed are 0 to 100"),
            ("[defaults]\ntop_k = 1.5", "m.toml:2: `defaults.top_k` must be a whole number, this is a number"),
            ("[defaults]\nkeep_alive = \"soon\"", "m.toml:2: `defaults.keep_alive` "),
            ("[model]\nsha256 = \"abc\"", "m.toml:2: `model.sha256` must be the 64 hexadecimal digits of a SHA-256; this has 3 characters"),
            ("aliases = [\"a b\"]", "m.toml:1: `aliases` has an entry that "),
            ("[defaults]\nstop = [\"\"]", "m.toml:2: `defaults.stop` has an entry that must not be empty; leave the key out instead"),
            ("[defaults]\nstop = [[\"a\"]]", "m.toml:2: `defaults.stop` has an entry that must be a text, this is a list"),
            ("[model]\nfile = \"\"", "m.toml:2: `model.file` must not be empty; leave the key out instead"),
        ] {
            let found = problems(text);
            assert_eq!(found.len(), 1, "{text:?}: {found:?}");
            assert!(found[0].starts_with(expected), "{text:?}: {}", found[0]);
        }
    }

    #[test]
    fn all_mistakes_of_a_file_are_said_at_once() {
        assert_eq!(problems("nmae = 1\nshcema = 1\n[model]\nbytes = -1\n").len(), 3);
    }

    #[test]
    fn the_documentation_names_every_key() {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/README.md")).unwrap();
        for key in KEYS {
            let name = key.path.strip_prefix("serve.").unwrap_or(key.path);
            assert!(text.contains(&format!("`{name}`")), "manifests/README.md does not explain `{name}`");
        }
    }
}
