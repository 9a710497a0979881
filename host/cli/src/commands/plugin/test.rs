//! `plugin test`: runs the conformance kit on a plugin, and shows what came of each case.
//!
//! What is tested and how is `onebit-kit`'s business; here words become a plan and results become lines. No plugin is loaded in this process,
//! unless `--in-process` asks for that.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use onebit_kit::{Plan, Program, Setup, State, Way};
use onebit_loader::PluginFile;
use onebit_loader::devices::DeviceKind;
use serde_json::json;

use super::{Sub, folder_of, refusal_table, test_report as report};
use crate::commands::{Invocation, json_flag, open};
use crate::exit::{Exit, Failure};
use crate::output;

pub(super) static SUB: Sub =
    Sub { name: "test", about: "Test a plugin against the contract, each case in a process of its own", arguments, run: test };

fn arguments(command: clap::Command) -> clap::Command {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let value = |name: &'static str, of: &'static str, help: &'static str| Arg::new(name).long(name).value_name(of).help(help);
    let file = Arg::new("file")
        .value_name("FILE")
        .required_unless_present("list")
        .value_parser(value_parser!(PathBuf))
        .help("Folder of a plugin, or its library or plugin.toml");
    let model = "Model file to test with; without it the plugin's folder is looked at for one, and else cases that need one are skipped";
    let several = |arg: Arg| arg.action(ArgAction::Append);
    command
        .arg(file)
        .arg(value("model", "FILE", model).value_parser(value_parser!(PathBuf)))
        .arg(value("door", "DOOR", "Ways into the library that are tested").value_parser(["rust", "c", "both"]).default_value("both"))
        .arg(value("device", "ID", "Device to compute on, as `onebit-host doctor` names it [default: cpu, if the plugin takes it]"))
        .arg(several(value("option", "NAME=VALUE", "Setting of the plugin; may be given several times")))
        .arg(several(value("include", "PATTERN", "Only cases whose id has this in it (* for anything); may be given several times")))
        .arg(several(value("exclude", "PATTERN", "No cases whose id has this in it; may be given several times")))
        .arg(flag("only-failed", "Show only what failed or was warned of"))
        .arg(flag("list", "List the cases and end"))
        .arg(value("seed", "N", "Start of all that is random [default: 1; with --fuzz: by chance]").value_parser(value_parser!(u64)))
        .arg(tolerance())
        .arg(value("jobs", "N", "Cases at a time").value_parser(value_parser!(u16).range(1..=64)).default_value("1"))
        .arg(flag("in-process", "Run one case in this very process, for a debugger").conflicts_with_all(["fuzz", "replay", "list"]))
        .arg(fuzz())
        .arg(value("replay", "JSON", "Run this list of operations, as --fuzz printed it").conflicts_with("fuzz"))
        .arg(json_flag())
}

fn tolerance() -> Arg {
    Arg::new("tolerance").long("tolerance").value_name("NATS").value_parser(value_parser!(f64)).help(format!(
        "How far two distributions may be apart and count as the same, in nats of relative entropy [default: {}]",
        onebit_kit::TOLERANCE
    ))
}

fn fuzz() -> Arg {
    Arg::new("fuzz")
        .long("fuzz")
        .value_name("SECONDS")
        .num_args(0..=1)
        .default_missing_value("30")
        .value_parser(value_parser!(u64).range(1..))
        .help("Instead of the cases: random operations on sequences, for this long [default: 30]")
}

fn test(invocation: &Invocation<'_>, own: &ArgMatches) -> Result<(), Failure> {
    let cases = onebit_kit::select(&several(own, "include"), &several(own, "exclude"));
    if own.get_flag("list") {
        return report::list(&cases, own.get_flag("json"));
    }
    if cases.is_empty() {
        return Err(Failure::new(Exit::Usage, "no case has an id like that").next("`onebit-host plugin test --list` shows all."));
    }
    let given = own.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    let file = match onebit_loader::inspect(&folder_of(&given)?) {
        Ok(inspection) => inspection.file,
        Err(refusal) => {
            output::line(format!("{} cannot be used by this host\n{}", refusal.plugin, refusal_table(&refusal)))?;
            return Err(Failure::silent(Exit::Other));
        }
    };
    let plan = plan(invocation, own, &file)?;
    if let Some(seconds) = own.get_one::<u64>("fuzz") {
        return report::fuzz(&plan, &file, Duration::from_secs(*seconds));
    }
    if let Some(list) = own.get_one::<String>("replay") {
        return report::replay(&plan, list);
    }
    let as_json = own.get_flag("json");
    if !as_json {
        output::line(report::heading(&plan, &file))?;
    }
    let begin = Instant::now();
    let show = report::Show::new(own.get_flag("only-failed"), plan.setups.len() > 1);
    let results = if own.get_flag("in-process") {
        vec![in_process(&plan, &cases)?]
    } else {
        let hear = |result: &onebit_kit::CaseResult| {
            // A closed pipe is met again when the summary is written.
            let _ = if as_json { Ok(()) } else { show.case(result) };
        };
        onebit_kit::run(&plan, &cases, &hear).map_err(|error| Failure::new(Exit::Other, error))?
    };
    let summary = report::Summary::of(&results, begin.elapsed());
    if as_json {
        let first = plan.setups.first();
        output::json(&json!({
            "plugin": file.toml.id,
            "version": file.toml.version,
            "device": first.map(|setup| &setup.device),
            "model": first.and_then(|setup| setup.model.as_ref()),
            "seed": first.map(|setup| setup.seed),
            "tolerance": first.map(|setup| setup.tolerance),
            "summary": summary,
            "cases": results,
        }))?;
    } else {
        if own.get_flag("in-process") {
            results.iter().try_for_each(|result| show.case(result))?;
        }
        output::line(summary.text(&plan))?;
    }
    // The lines are the answer; a plugin that breaks a law is a check that found something.
    if results.iter().any(|result| result.verdict.state == State::Failed) { Err(Failure::silent(Exit::Other)) } else { Ok(()) }
}

fn in_process(plan: &Plan, cases: &[&'static onebit_kit::Case]) -> Result<onebit_kit::CaseResult, Failure> {
    let ([case], [setup]) = (cases, plan.setups.as_slice()) else {
        return Err(Failure::new(Exit::Usage, "--in-process runs one case through one door")
            .next("Give --include with the id of one case, and --door rust or --door c."));
    };
    Ok(onebit_kit::run_here(setup, case))
}

fn several(own: &ArgMatches, name: &str) -> Vec<String> {
    own.get_many::<String>(name).into_iter().flatten().cloned().collect()
}

fn plan(invocation: &Invocation<'_>, own: &ArgMatches, file: &PluginFile) -> Result<Plan, Failure> {
    let by_chance = own.contains_id("fuzz") && own.get_one::<u64>("fuzz").is_some();
    let seed = own.get_one::<u64>("seed").copied().unwrap_or_else(|| if by_chance { onebit_kit::fuzz::chance() } else { 1 });
    let model = match own.get_one::<PathBuf>("model") {
        Some(path) => Some(path.canonicalize().map_err(|error| Failure::io(format!("look at {}", path.display()), &error))?),
        None => own_model(file),
    };
    let (device, options) = (device(own, file)?, options(own, file)?);
    let tolerance = own.get_one::<f64>("tolerance").copied().unwrap_or(onebit_kit::TOLERANCE);
    let sandbox = open::sandbox(invocation)?;
    let own_variables: Vec<_> = file.toml.environment.clone().into_iter().collect();
    let program = Program { exe: None, environment: sandbox.environment(&file.toml.id, &own_variables) };
    let setup = |way| Setup {
        dir: file.dir.clone(),
        way,
        model: model.clone(),
        device: device.clone(),
        sandbox: sandbox.clone(),
        options: options.clone(),
        seed,
        tolerance,
    };
    Ok(Plan {
        program,
        setups: ways(own, file)?.into_iter().map(setup).collect(),
        capabilities: file.note.capabilities.clone(),
        jobs: own.get_one::<u16>("jobs").copied().unwrap_or(1).into(),
    })
}

fn ways(own: &ArgMatches, file: &PluginFile) -> Result<Vec<Way>, Failure> {
    let wanted = own.get_one::<String>("door").map_or("both", String::as_str);
    let offered = [(file.note.has_rust_door(), Way::Rust), (file.note.has_c_door(), Way::C)];
    let ways: Vec<Way> =
        offered.into_iter().filter(|(there, way)| *there && (wanted == "both" || wanted == way.name())).map(|(_, way)| way).collect();
    if ways.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("the note of {} offers no door {wanted}", file.toml.id)));
    }
    Ok(ways)
}

/// A model that lies in the plugin's own folder, if there is exactly one file of its formats.
fn own_model(file: &PluginFile) -> Option<PathBuf> {
    let of_format =
        |path: &Path| path.extension().is_some_and(|extension| file.toml.formats.iter().any(|format| extension == format.as_str()));
    let mut models: Vec<PathBuf> =
        std::fs::read_dir(&file.dir).ok()?.flatten().map(|entry| entry.path()).filter(|path| path.is_file() && of_format(path)).collect();
    if models.len() == 1 { models.pop() } else { None }
}

fn device(own: &ArgMatches, file: &PluginFile) -> Result<String, Failure> {
    match own.get_one::<String>("device") {
        Some(id) => Ok(id.clone()),
        None if file.toml.device_kinds.contains(&DeviceKind::Cpu) => Ok("cpu".to_owned()),
        None => Err(Failure::new(Exit::Usage, format!("{} does not compute on the CPU", file.toml.id))
            .next("Name a device with --device; `onebit-host doctor` shows them.")),
    }
}

fn options(own: &ArgMatches, file: &PluginFile) -> Result<Vec<(String, String)>, Failure> {
    let known = || file.toml.options.iter().map(|option| option.name.as_str()).collect::<Vec<_>>().join(", ");
    let read = |text: String| {
        let (name, value) = text.split_once('=').ok_or_else(|| Failure::new(Exit::Usage, format!("--option {text} is not NAME=VALUE")))?;
        match file.toml.options.iter().find(|option| option.name == name) {
            Some(option) if option.accepts(value) => Ok((name.to_owned(), value.to_owned())),
            Some(option) => Err(Failure::new(Exit::Usage, format!("--option {text}: {name} is of kind {:?}", option.kind))),
            None => Err(Failure::new(Exit::Usage, format!("{} has no option {name:?}", file.toml.id)).next(format!("It has: {}", known()))),
        }
    };
    several(own, "option").into_iter().map(read).collect()
}
