//! `plugin list | check | rescan`: what is installed, whether a file would do, and asking everything anew.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches};
use onebit_loader::{Inspection, Refusal};
use onebit_worker::{PluginOutcome, PluginReport};
use serde_json::json;

use super::{Command, Invocation, open};
use crate::exit::{Exit, Failure};
use crate::output::{self, note};

pub(super) static COMMAND: Command = Command {
    arguments: |command| {
        let list = clap::Command::new("list")
            .about("List the plugins and the devices each can compute on")
            .arg(
                Arg::new("why")
                    .long("why")
                    .action(ArgAction::SetTrue)
                    .help("Say for each device why or why not, and show refusals in full"),
            )
            .arg(super::json_flag());
        let check = clap::Command::new("check")
            .about("Check a plugin without running its code: its files, its note, the libraries it needs")
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .required(true)
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Folder of a plugin, or its library or plugin.toml"),
            )
            .arg(super::json_flag());
        let rescan = clap::Command::new("rescan").about("Forget what plugins answered before, and ask all of them again");
        command.subcommand_required(true).arg_required_else_help(true).subcommand(list).subcommand(check).subcommand(rescan)
    },
    ..Command::new("plugin", "List, check and rescan plugins", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    match invocation.matches.subcommand() {
        Some(("check", own)) => check(own),
        Some(("rescan", _)) => {
            let (runtime, host) = open::asking(invocation)?;
            runtime.block_on(host.rescan())?;
            show(&runtime.block_on(host.plugins())?, true, false)
        }
        Some((_, own)) => {
            let (runtime, host) = open::asking(invocation)?;
            show(&runtime.block_on(host.plugins())?, own.get_flag("why"), own.get_flag("json"))
        }
        None => Err(Failure::new(Exit::Usage, "plugin list, plugin check or plugin rescan")),
    }
}

/// `vulkan-ggml 0.1.0`.
pub fn name(report: &PluginReport) -> String {
    match &report.version {
        Some(version) => format!("{} {version}", report.id),
        None => report.id.clone(),
    }
}

fn show(reports: &[PluginReport], why: bool, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::json(&json!({ "plugins": reports }));
    }
    if reports.is_empty() {
        note("No plugins. `onebit-host config` shows where they are looked for.");
        return Ok(());
    }
    let rows = reports.iter().map(|report| {
        let version = report.version.clone().unwrap_or_else(|| "-".to_owned());
        vec![report.id.clone(), version, outcome(&report.outcome), report.dir.display().to_string()]
    });
    output::line(output::table(&["plugin", "version", "computes on", "folder"], rows))?;
    if why {
        for report in reports {
            output::write(format_args!("\n{}", reasons(report)))?;
        }
    }
    Ok(())
}

fn outcome(outcome: &PluginOutcome) -> String {
    match outcome {
        PluginOutcome::Refused(_) => "refused".to_owned(),
        PluginOutcome::Shadowed(_) => "not used (there twice)".to_owned(),
        PluginOutcome::Failed { .. } => "failed".to_owned(),
        PluginOutcome::Usable { devices, .. } => {
            let ids: Vec<&str> = devices.iter().filter(|(_, report)| report.usable).map(|(device, _)| device.id.as_str()).collect();
            if ids.is_empty() { "nothing here".to_owned() } else { ids.join(", ") }
        }
    }
}

fn reasons(report: &PluginReport) -> String {
    let mut text = format!("{}\n", name(report));
    if let Some(description) = &report.description {
        text.push_str(&format!("  {description}\n"));
    }
    match &report.outcome {
        PluginOutcome::Refused(refusal) => text.push_str(&indented(&refusal_table(refusal))),
        PluginOutcome::Shadowed(by) => text.push_str(&format!("  the same version lies in {}, which comes first\n", by.display())),
        PluginOutcome::Failed { reason, .. } => {
            text.push_str(&format!("  failed when it was asked: {reason}\n  after a repair: onebit-host plugin rescan\n"))
        }
        PluginOutcome::Usable { info, devices, warnings, .. } => {
            text.push_str(&format!("  computes with {}\n", info.computes_with));
            for (device, said) in devices {
                let verdict = if said.usable { format!("yes, score {}", said.score) } else { "no".to_owned() };
                let why = if said.text.is_empty() { String::new() } else { format!(": {}", said.text) };
                text.push_str(&format!("  {} ({}): {verdict}{why}\n", device.id, device.name));
            }
            for warning in warnings {
                text.push_str(&format!("  note: {warning}\n"));
            }
        }
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

fn refusal_table(refusal: &Refusal) -> String {
    let rows = refusal.rows.iter().map(|row| vec![row.field.clone(), row.host.clone(), row.plugin.clone(), row.remedy.clone()]);
    output::table(&["field", "host", "plugin", "what to do"], rows)
}

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

/// The plugin's folder, from any file of it.
fn folder_of(given: &Path) -> Result<PathBuf, Failure> {
    let metadata = std::fs::metadata(given).map_err(|error| {
        Failure::io(format!("look at {}", given.display()), &error).next("Give a plugin's folder, its library or its plugin.toml.")
    })?;
    if metadata.is_dir() {
        return Ok(given.to_owned());
    }
    let real = given.canonicalize().map_err(|error| Failure::io(format!("look at {}", given.display()), &error))?;
    match real.parent() {
        Some(dir) if dir.join("plugin.toml").exists() => Ok(dir.to_owned()),
        _ => Err(Failure::new(Exit::NotFound, format!("there is no plugin.toml beside {}", given.display()))
            .next("A plugin is a folder with a library and a plugin.toml; without it the host does not look at the library.")),
    }
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
