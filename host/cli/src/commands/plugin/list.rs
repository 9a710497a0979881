//! `plugin list`: what is installed, and what each can compute on here, or why not.

use std::path::Path;

use clap::{Arg, ArgAction};
use onebit_install::previous_version;
use onebit_loader::trust::Examination;
use onebit_worker::{PluginOutcome, PluginReport};
use serde_json::json;

use super::{Sub, indented, name, refusal_table};
use crate::commands::{json_flag, open};
use crate::exit::Failure;
use crate::output::{self, note};

pub(super) static SUB: Sub = Sub {
    name: "list",
    about: "List the plugins and the devices each can compute on",
    arguments: |command| {
        let why = "Say for each device why or why not, and show refusals in full";
        command.arg(Arg::new("why").long("why").action(ArgAction::SetTrue).help(why)).arg(json_flag())
    },
    run: |invocation, own| {
        let (runtime, host) = open::asking(invocation)?;
        show(&runtime.block_on(host.plugins())?, own.get_flag("why"), own.get_flag("json"))
    },
};

/// The table; `why` adds each plugin's reasons.
pub(super) fn show(reports: &[PluginReport], why: bool, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let plugins: Vec<_> = reports
            .iter()
            .map(|report| {
                let mut report = json!(report);
                report["previous"] = json!(previous_version(Path::new(report["dir"].as_str().unwrap_or_default())));
                report
            })
            .collect();
        return output::json(&json!({ "plugins": plugins }));
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
    if let Some(previous) = previous_version(&report.dir) {
        text.push_str(&format!("  version {previous} is kept (onebit-host plugin rollback {})\n", report.id));
    }
    match &report.outcome {
        PluginOutcome::Refused(refusal) => text.push_str(&indented(&refusal_table(refusal))),
        PluginOutcome::Shadowed(by) => text.push_str(&format!("  the same version lies in {}, which comes first\n", by.display())),
        PluginOutcome::Failed { failure, at } => {
            let how = match &failure.signal {
                Some(signal) => format!("crashed {} ago with {signal}", output::ago(*at)),
                None => format!("failed {} ago", output::ago(*at)),
            };
            text.push_str(&format!("  {how}: {failure}\n"));
            if failure.remembered {
                text.push_str("  remembered until the plugin, a driver or the host changes, or `onebit-host plugin rescan`\n");
            }
        }
        PluginOutcome::Usable { info, devices, warnings, trust, .. } => {
            text.push_str(&format!("  computes with {}\n", info.computes_with));
            text.push_str(&origin(trust));
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

/// Who made it, and everything that nobody has proven.
fn origin(trust: &Examination) -> String {
    let mut text = match &trust.signer {
        Some(signer) => format!("  signed by {} ({})\n", signer.key, signer.comment),
        None => String::new(),
    };
    for problem in &trust.problems {
        text.push_str(&format!("  trust: {problem}\n"));
    }
    text
}
