//! `doctor`: looks at everything, says how each thing stands and what to do.

use serde_json::json;

use super::{Command, Invocation, catalog_paths, open};
use crate::doctor::finding::{Finding, Level};
use crate::doctor::{cpu, devices, folders, memory, plugins, sandbox};
use crate::exit::{Exit, Failure, use_colour};
use crate::output;
use crate::settings::table;
use crate::version;

pub(super) static COMMAND: Command = Command {
    arguments: |command| command.arg(super::json_flag()),
    log: "error",
    ..Command::new("doctor", "Look at this machine: what works, what does not, what to do", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let (runtime, host) = open::asking(invocation)?;
    let mut findings = cpu::look();
    findings.extend(memory::look(devices::has_accel()));
    let listed = runtime.block_on(host.devices())?;
    findings.extend(devices::listed(&listed));
    findings.extend(devices::nodes());
    findings.push(devices::groups());
    let settings = &invocation.settings;
    findings.extend(sandbox::look(settings.get(&table::SANDBOX_REQUIRE)?, &settings.get(&table::SANDBOX_EXEMPT)?, &host.misnamed()));
    findings.extend(plugins::look(&runtime.block_on(host.plugins())?));
    findings.extend(folders::look(&catalog_paths(invocation)?, &invocation.settings.get(&table::CACHE_DIR)?, &host.problems()));
    if let Some(service) = invocation.places.service {
        findings.push(Finding::ok("folders", format!("folders of a user are not used: {service}")));
    }
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    if invocation.matches.get_flag("json") {
        output::json(&json!({
            "version": version::VERSION,
            "source": version::SOURCE,
            "target": version::TARGET,
            "abi": format!("{}.{}", onebit_loader::ABI_MAJOR, onebit_loader::ABI_MINOR),
            "kernel": kernel(),
            "worst": worst,
            "devices": listed.devices,
            "findings": findings,
        }))?;
    } else {
        print(&findings)?;
    }
    if worst == Level::Fail { Err(Failure::silent(Exit::Other)) } else { Ok(()) }
}

fn kernel() -> String {
    let name = rustix::system::uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy())
}

fn print(findings: &[Finding]) -> Result<(), Failure> {
    output::line(format!("onebit-host {} on {}", version::LONG.lines().next().unwrap_or(version::VERSION), kernel()))?;
    let colour = use_colour(&std::io::stdout());
    let mut area = "";
    for finding in findings {
        if finding.area != area {
            area = finding.area;
            output::line(format!("\n{area}"))?;
        }
        let (word, code) = match finding.level {
            Level::Ok => ("ok  ", "32"),
            Level::Warn => ("warn", "33"),
            Level::Fail => ("FAIL", "31"),
        };
        let word = if colour { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() };
        // A refusal is a table of several lines.
        output::line(format!("  {word}  {}", finding.text.trim_end().replace('\n', "\n        ")))?;
        for line in finding.next.iter().flat_map(|next| next.lines()) {
            output::line(format!("        → {line}"))?;
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    output::line(format!("\n{} ok, {} warnings, {} failures", count(Level::Ok), count(Level::Warn), count(Level::Fail)))
}
