//! `plugin check`: everything that can be said of a plugin without running any of it.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches};
use onebit_loader::Inspection;
use onebit_loader::check::{Report, Severity, check};
use serde_json::json;

use super::{Sub, folder_of, indented};
use crate::commands::{Invocation, json_flag, trust};
use crate::exit::{Exit, Failure};
use crate::output;

pub(super) static SUB: Sub = Sub {
    name: "check",
    about: "Check a plugin without running its code: its files, its note, the libraries it needs, how it was linked",
    arguments: |command| {
        let file = Arg::new("file")
            .value_name("FILE")
            .required(true)
            .value_parser(clap::value_parser!(PathBuf))
            .help("Folder of a plugin, or its library or plugin.toml");
        let strict = Arg::new("strict").long("strict").action(ArgAction::SetTrue).help("End with code 1 for warnings, too");
        command.arg(file).arg(strict).arg(json_flag())
    },
    run,
};

fn run(invocation: &Invocation<'_>, own: &ArgMatches) -> Result<(), Failure> {
    let given = own.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    let report = check(&folder_of(&given)?, &trust(&invocation.settings)?);
    if own.get_flag("json") {
        let (inspection, refusal) = (report.inspected.as_ref().ok(), report.inspected.as_ref().err());
        output::json(&json!({
            "usable": inspection.is_some(),
            "plugin": report.plugin,
            "version": report.version,
            "findings": report.findings,
            "inspection": inspection,
            "refusal": refusal,
        }))?;
    } else {
        output::write(shown(&report))?;
    }
    let limit = if own.get_flag("strict") { Severity::Warning } else { Severity::Error };
    // The report is the answer; what it found ends in a code and without a word more.
    if report.worst().is_some_and(|worst| worst >= limit) { Err(Failure::silent(Exit::Other)) } else { Ok(()) }
}

fn shown(report: &Report) -> String {
    let version = report.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
    let verdict = if report.inspected.is_ok() { "can be loaded by this host" } else { "cannot be used by this host" };
    let mut text = format!("{}{version} {verdict}\n", report.plugin);
    if let Ok(inspection) = &report.inspected {
        text.push_str(&facts(inspection));
    }
    for finding in &report.findings {
        let (code, id, severity) = (finding.code, finding.id, finding.severity.word());
        text.push_str(&format!("\n  {severity} {code} {id}: {}\n      what to do: {}\n", finding.sentence, finding.remedy));
    }
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    let counts = [(Severity::Error, "errors"), (Severity::Warning, "warnings"), (Severity::Note, "notes")];
    let counts: Vec<String> = counts.iter().map(|(severity, word)| format!("{} {word}", count(*severity))).collect();
    text.push_str(&format!("\n  {}. None of its code has run.\n", counts.join(", ")));
    text
}

fn facts(inspection: &Inspection) -> String {
    let file = &inspection.file;
    let mut rows = vec![
        vec!["library".to_owned(), file.library.display().to_string()],
        vec!["abi".to_owned(), file.toml.abi.clone()],
        vec!["capabilities".to_owned(), file.toml.capabilities.join(", ")],
        vec!["formats".to_owned(), file.toml.formats.join(", ")],
        vec!["licence".to_owned(), file.toml.licence.clone()],
    ];
    rows.extend(inspection.needed.iter().map(|(name, path)| vec![format!("needs {name}"), path.display().to_string()]));
    indented(&output::table(&["field", "value"], rows))
}
