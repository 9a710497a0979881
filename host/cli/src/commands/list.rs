//! `list`: every model of the catalog, and what keeps one from being served.

use onebit_worker::{Host, ModelState, ModelSummary};
use serde_json::{Value, json};

use super::{Command, Invocation, open};
use crate::exit::Failure;
use crate::output::{self, bytes, note};

pub(super) static COMMAND: Command = Command {
    arguments: |command| command.arg(super::json_flag()),
    ..Command::new("list", "List the models: size, kind, and what serves each", run)
};

/// A model with what serves it.
struct Line {
    model: ModelSummary,
    /// What serves it, or why nothing does.
    served: Result<String, String>,
}

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let (runtime, host) = open::asking(invocation)?;
    let lines: Vec<Line> = host.models().into_iter().map(|model| Line { served: runtime.block_on(served(&host, &model)), model }).collect();
    if invocation.matches.get_flag("json") {
        return output::json(&json!({ "models": lines.iter().map(object).collect::<Vec<_>>() }));
    }
    if lines.is_empty() {
        note("No models yet. `onebit-host pull MODEL` gets one; a GGUF file in a models folder is found by itself.");
        return Ok(());
    }
    let rows = lines.iter().map(|line| {
        let facts = line.model.facts.as_ref();
        let dash = || "-".to_owned();
        vec![
            line.model.name.clone(),
            line.model.bytes.map_or_else(dash, bytes),
            facts.map_or_else(dash, |facts| facts.architecture.clone()),
            facts.map_or_else(dash, |facts| facts.quantisation.clone()),
            facts.filter(|facts| facts.context_trained > 0).map_or_else(dash, |facts| facts.context_trained.to_string()),
            line.served.clone().unwrap_or_else(|reason| short(&line.model, &reason)),
        ]
    });
    output::line(output::table(&["model", "size", "kind", "weights", "context", "served by"], rows))?;
    for line in &lines {
        if let Err(reason) = &line.served {
            note(format!("{}: {reason}", line.model.name));
        }
    }
    Ok(())
}

fn short(model: &ModelSummary, _reason: &str) -> String {
    match &model.state {
        ModelState::NotDownloaded(_) => "not downloaded",
        ModelState::Broken(_) => "broken",
        ModelState::Here => "nothing",
    }
    .to_owned()
}

async fn served(host: &Host, model: &ModelSummary) -> Result<String, String> {
    match &model.state {
        ModelState::NotDownloaded(why) => return Err(why.clone()),
        ModelState::Broken(problems) => return Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
        ModelState::Here => {}
    }
    let explanation = host.explain(&model.name).await.map_err(|error| error.to_string())?;
    match &explanation.choice {
        Some(choice) => Ok(format!("{} {} on {}", choice.plugin, choice.version, choice.device.id)),
        None => Err(explanation.refusal().unwrap_or_default()),
    }
}

fn object(line: &Line) -> Value {
    let mut object = json!(line.model);
    object["served_by"] = json!(line.served.as_ref().ok());
    object["problem"] = json!(line.served.as_ref().err());
    object
}
