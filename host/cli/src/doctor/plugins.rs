//! Plugins: which can be used, on which devices, and why others cannot.

use onebit_worker::{PluginOutcome, PluginReport};
use serde_json::json;

use super::finding::Finding;
use crate::output;

const AREA: &str = "plugins";

/// One finding for each plugin.
pub fn look(reports: &[PluginReport]) -> Vec<Finding> {
    if reports.is_empty() {
        return vec![Finding::fail(
            AREA,
            "no plugin is installed, so no model can be computed",
            "Install one, or name its folder with --plugin-dir DIR.",
        )];
    }
    let mut findings: Vec<Finding> = reports.iter().map(plugin).collect();
    if !reports.iter().any(usable) {
        findings.push(Finding::fail(
            AREA,
            "no plugin can compute on any device of this machine",
            "The lines above say why; `onebit-host plugin list --why` says it in full.",
        ));
    }
    findings
}

fn usable(report: &PluginReport) -> bool {
    matches!(&report.outcome, PluginOutcome::Usable { devices, .. } if devices.iter().any(|(_, report)| report.usable))
}

fn plugin(report: &PluginReport) -> Finding {
    let name = crate::commands::plugin_name(report);
    let facts = json!(report);
    match &report.outcome {
        PluginOutcome::Refused(_) => {
            Finding::fail(AREA, format!("{name} is refused"), format!("onebit-host plugin check {}", report.dir.display())).with(facts)
        }
        PluginOutcome::Shadowed(by) => Finding::warn(
            AREA,
            format!("{name} in {} is not used: the same version lies in {}", report.dir.display(), by.display()),
            "Remove one of the two.",
        )
        .with(facts),
        PluginOutcome::Failed { failure, at } => Finding::fail(
            AREA,
            format!("{name} failed {} ago when it was asked: {failure}", output::ago(*at)),
            if failure.remembered { "This is remembered. After a repair: onebit-host plugin rescan" } else { "Try again." },
        )
        .with(facts),
        PluginOutcome::Usable { devices, warnings, .. } => {
            let on: Vec<&str> = devices.iter().filter(|(_, report)| report.usable).map(|(device, _)| device.id.as_str()).collect();
            let text = if on.is_empty() {
                format!("{name} can compute on no device of this machine")
            } else {
                format!("{name} computes on {}", on.join(", "))
            };
            match (on.is_empty(), warnings.as_slice()) {
                (true, _) => Finding::warn(AREA, text, "`onebit-host plugin list --why` says why, device by device.").with(facts),
                (false, []) => Finding::ok(AREA, text).with(facts),
                (false, warnings) => Finding::warn(AREA, text, warnings.join("\n")).with(facts),
            }
        }
    }
}
