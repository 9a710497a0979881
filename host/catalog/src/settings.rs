//! The values of a manifest, each with the file and line where it was written.

use serde::Serialize;

use crate::document::{Node, Value};
use crate::keys;

/// A value and where it was written, for `explain` and `config cat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Dotted path.
    pub key: String,
    /// As TOML would write it.
    pub value: String,
    /// `file:line`.
    pub origin: String,
}

/// Every value of the tree with its origin; tables are opened, lists are not.
pub(crate) fn of(root: &Node) -> Vec<Setting> {
    fn walk(node: &Node, path: &str, out: &mut Vec<Setting>) {
        match &node.value {
            Value::Table(table) => {
                for (name, child) in table {
                    walk(child, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, out);
                }
            }
            Value::List(list) if path == keys::SERVE => {
                list.iter().enumerate().for_each(|(index, entry)| walk(entry, &format!("{path}[{index}]"), out));
            }
            value => out.push(Setting { key: path.to_owned(), value: write(value), origin: node.origin.display() }),
        }
    }
    let mut out = Vec::new();
    walk(root, "", &mut out);
    // In the order of the key table, so that `name` comes before `model.file`; entries of one table stay in their own order.
    let rank = |key: &str| keys::KEYS.iter().position(|row| key == row.path).unwrap_or(usize::MAX);
    out.sort_by_key(|setting| rank(&setting.key));
    out
}

/// As TOML would write it.
pub(crate) fn write(value: &Value) -> String {
    match value {
        Value::Text(text) => toml::Value::String(text.clone()).to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::List(list) => format!("[{}]", list.iter().map(|node| write(&node.value)).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            format!("{{ {} }}", table.iter().map(|(name, node)| format!("{name} = {}", write(&node.value))).collect::<Vec<_>>().join(", "))
        }
    }
}
