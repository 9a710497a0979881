//! `config`: every setting that holds, and who said so.

use serde_json::{Map, Value, json};

use super::{Command, Invocation};
use crate::exit::Failure;
use crate::output;
use crate::settings::Shape;
use crate::settings::table::TABLE;

pub(super) static COMMAND: Command = Command {
    arguments: |command| command.arg(super::json_flag()),
    ..Command::new("config", "Show all settings and where each value comes from", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let shown = |texts: &[String], secret: bool| match (secret, texts) {
        (_, []) => None,
        (true, _) => Some(vec!["(set, not shown)".to_owned()]),
        (false, texts) => Some(texts.to_vec()),
    };
    if invocation.matches.get_flag("json") {
        let mut all = Map::new();
        for &row in TABLE {
            let raw = invocation.settings.raw(row);
            let value = match (shown(&raw.texts, row.secret()), row.shape()) {
                (Some(texts), Shape::List(_)) => json!(texts),
                (None, Shape::List(_)) => json!([]),
                (Some(texts), Shape::Switch) => json!(texts.first().is_some_and(|text| text == "true")),
                (Some(texts), Shape::One) => json!(texts.first()),
                (None, _) => Value::Null,
            };
            all.insert(row.key().to_owned(), json!({ "value": value, "origin": raw.origin.to_string() }));
        }
        return output::json(&all);
    }
    if let Some(service) = invocation.places.service {
        output::note(format!("Folders of a user are not used: {service}."));
    }
    let rows = TABLE.iter().map(|&row| {
        let raw = invocation.settings.raw(row);
        let value = shown(&raw.texts, row.secret()).map_or_else(|| "(not set)".to_owned(), |texts| texts.join(", "));
        vec![row.key().to_owned(), value, raw.origin.to_string()]
    });
    output::line(output::table(&["setting", "value", "origin"], rows))
}
