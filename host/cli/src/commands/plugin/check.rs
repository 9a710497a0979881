//! `plugin check`: what the host thinks of a plugin, without running any of it.

use std::path::PathBuf;

use clap::{Arg, ArgMatches};
use onebit_loader::Inspection;
use serde_json::json;

use super::{Sub, folder_of, indented, refusal_table};
use crate::commands::json_flag;
use crate::exit::{Exit, Failure};
use crate::output;

pub(super) static SUB: Sub = Sub {
    name: "check",
    about: "Check a plugin without running its code: its files, its note, the libraries it needs",
    arguments: |command| {
        let file = Arg::new("file")
            .value_name("FILE")
            .required(true)
            .value_parser(clap::value_parser!(PathBuf))
            .help("Folder of a plugin, or its library or plugin.toml");
        command.arg(file).arg(json_flag())
    },
    run: |_, own| check(own),
};

fn check(own: &ArgMatches) -> Result<(), Failure> {
    let given = own.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    let dir = folder_of(&given)?;
    let inspected = onebit_loader::inspect(&dir);
    if own.get_flag("json") {
        match &inspected {
            Ok(inspection) => output::json(&json!({ "usable": true, "inspection": inspection }))?,
            Err(refusal) => output::json(&json!({ "usable": false, "refusal": refusal }))?,
        }
    } else {
        match &inspected {
            Ok(inspection) => output::write(accepted(inspection))?,
            Err(refusal) => {
                let version = refusal.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
                output::line(format!("{}{version} cannot be used by this host\n{}", refusal.plugin, refusal_table(refusal)))?;
            }
        }
    }
    // The table is the answer; a refused plugin is a check that found something.
    inspected.map(|_| ()).map_err(|_| Failure::silent(Exit::Other))
}

fn accepted(inspection: &Inspection) -> String {
    let file = &inspection.file;
    let mut text = format!("{} {} can be loaded by this host\n", file.toml.id, file.toml.version);
    let mut rows = vec![
        vec!["library".to_owned(), file.library.display().to_string()],
        vec!["abi".to_owned(), file.toml.abi.clone()],
        vec!["capabilities".to_owned(), file.toml.capabilities.join(", ")],
        vec!["formats".to_owned(), file.toml.formats.join(", ")],
        vec!["licence".to_owned(), file.toml.licence.clone()],
    ];
    rows.extend(inspection.needed.iter().map(|(name, path)| vec![format!("needs {name}"), path.display().to_string()]));
    text.push_str(&indented(&output::table(&["field", "value"], rows)));
    for warning in &inspection.warnings {
        text.push_str(&format!("  note: {warning}\n"));
    }
    text.push_str("  None of its code has run. `onebit-host plugin list --why` shows what it says of the devices here.\n");
    text
}
