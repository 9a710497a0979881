//! `key list`: whose keys there are, and what they may do. What opens is not in the file, so it cannot be shown.

use clap::ArgMatches;
use onebit_http::keys::KeyEntry;
use serde_json::json;

use super::Sub;
use super::file::KeyFile;
use crate::exit::Failure;
use crate::output::{self, note};

pub(super) static SUB: Sub =
    Sub { name: "list", about: "List the keys of the file", arguments: |command| command.arg(super::super::json_flag()), run };

fn run(file: KeyFile, matches: &ArgMatches) -> Result<(), Failure> {
    let entries = file.entries()?;
    if matches.get_flag("json") {
        return output::json(&json!({"keys": entries.iter().map(as_json).collect::<Vec<_>>()}));
    }
    if entries.is_empty() {
        note(format!("{} has no keys. Make one with: onebit-host key new NAME", file.path().display()));
        return Ok(());
    }
    let rows = entries.iter().map(|entry| {
        let limits = entry.limits();
        let limit = |limit: Option<std::num::NonZeroU32>| limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        vec![
            entry.name.clone(),
            entry.scope.to_string(),
            limit(limits.requests_per_minute),
            limit(limits.tokens_per_minute),
            limit(limits.concurrent),
            shown(entry.priority),
        ]
    });
    output::line(output::table(&["name", "scope", "requests/min", "tokens/min", "at a time", "priority"], rows))
}

/// As the file has it.
fn shown(priority: impl serde::Serialize) -> String {
    json!(priority).as_str().unwrap_or_default().to_owned()
}

fn as_json(entry: &KeyEntry) -> serde_json::Value {
    let limits = entry.limits();
    json!({
        "name": entry.name,
        "scope": entry.scope,
        "requests_per_minute": limits.requests_per_minute,
        "tokens_per_minute": limits.tokens_per_minute,
        "concurrent": limits.concurrent,
        "priority": entry.priority,
    })
}
