//! Plugin, model, engine: the steps of a load, each with its own kind of failure.
//!
//! The plugin's folder is checked again here although somebody chose it a moment ago: files may have been replaced since, and these are the bytes
//! that will run. What does not agree with the order is refused, never adapted to.

use std::path::Path;

use onebit_engine::{Engine, EngineError, EngineOptions, ModelFacts};
use onebit_loader::{CancelFlag, HostSink, Inspection, LoadError, OpenRequest, Plugin, PluginError, PluginFile};

use crate::protocol::{LoadFailure, LoadOrder, LoadStage};
use onebit_confine::ConfineError;

/// A model with an engine over it.
pub(crate) struct Loaded {
    pub(crate) engine: Engine,
    pub(crate) facts: ModelFacts,
}

/// Checks and loads, in a process that is not confined. `progress` hears 0 ..= 1.
pub(crate) fn load(order: &LoadOrder, progress: &mut dyn FnMut(f32), cancel: &CancelFlag) -> Result<Loaded, LoadFailure> {
    open(&inspect(order)?.file, order, progress, cancel)
}

/// Loads. From here on the plugin's code runs.
pub(super) fn open(
    file: &PluginFile,
    order: &LoadOrder,
    progress: &mut dyn FnMut(f32),
    cancel: &CancelFlag,
) -> Result<Loaded, LoadFailure> {
    let plugin = map(file)?;
    let model = plugin
        .open(OpenRequest {
            path: &order.model_path,
            device: &order.device,
            threads: order.threads,
            options: &order.options,
            cancel,
            progress,
        })
        .map_err(|error| plugin_failure(LoadStage::Model, error))?;
    // `slots` requests of `context` positions each.
    let context = order.context.map(|context| {
        context.checked_mul(order.slots).ok_or_else(|| {
            let message =
                format!("{} slots of {context} positions are more than can be counted; choose fewer or a smaller context", order.slots);
            engine_failure("invalid_argument", message)
        })
    });
    let options = EngineOptions {
        context: context.transpose()?,
        slots: order.slots,
        batch: None,
        threads: order.threads,
        prefix_cache: order.prefix_cache,
        options: order.options.clone(),
        plugin: order.plugin_id.clone(),
        plugin_version: order.plugin_version.clone(),
        device: order.device.id.clone(),
    };
    let (engine, mut facts) = Engine::start(model, options).map_err(engine_error)?;
    if order.chat_template.is_some() {
        facts.chat_template.clone_from(&order.chat_template);
    }
    Ok(Loaded { engine, facts })
}

/// Checks the plugin's folder. Nothing of it runs.
pub(super) fn inspect(order: &LoadOrder) -> Result<Inspection, LoadFailure> {
    let mut inspection = onebit_loader::inspect_under(&order.plugin_dir, &order.trust).map_err(|refusal| refused(refusal.to_string()))?;
    inspection.file.seen.clone_from(&order.seen);
    let toml = &inspection.file.toml;
    for (what, found, wanted) in [("id", &toml.id, &order.plugin_id), ("version", &toml.version, &order.plugin_version)] {
        if found != wanted {
            let dir = Path::display(&order.plugin_dir);
            return Err(refused(format!(
                "the plugin in {dir} has {what} {found:?}, {wanted:?} was chosen: it was replaced meanwhile; run `onebit-host plugin rescan`"
            )));
        }
    }
    Ok(inspection)
}

fn map(file: &PluginFile) -> Result<Plugin, LoadFailure> {
    Plugin::load(file, HostSink::tracing()).map_err(|error| match error {
        LoadError::Entry { error, .. } => plugin_failure(LoadStage::Library, error),
        LoadError::Refused(refusal) => refused(refusal.to_string()),
        other => failure(LoadStage::Library, "library", other.to_string()),
    })
}

/// The process cannot be confined, so the plugin does not run.
pub(super) fn unconfined(error: &ConfineError) -> LoadFailure {
    failure(LoadStage::Sandbox, "sandbox", error.to_string())
}

fn failure(stage: LoadStage, status: &str, message: String) -> LoadFailure {
    LoadFailure { stage, status: status.to_owned(), message, have: 0, need: 0, want: 0, free: 0, retry_ms: 0 }
}

fn refused(message: String) -> LoadFailure {
    failure(LoadStage::Refused, "refused", message)
}

fn plugin_failure(stage: LoadStage, error: PluginError) -> LoadFailure {
    let PluginError { status, have, need, want, free, retry_ms, message } = error;
    LoadFailure { stage, status: status.name().to_owned(), message, have, need, want, free, retry_ms }
}

pub(super) fn engine_failure(status: &str, message: String) -> LoadFailure {
    failure(LoadStage::Engine, status, message)
}

/// The engine speaks of requests; at its start the same errors speak of the model.
fn engine_error(error: EngineError) -> LoadFailure {
    let text = error.to_string();
    match error {
        EngineError::ContextOverflow { have, need } => {
            LoadFailure { have: have.into(), need: need.into(), ..engine_failure("context_overflow", text) }
        }
        EngineError::OutOfMemory { want, free } => LoadFailure { want, free, ..engine_failure("out_of_memory", text) },
        EngineError::Plugin { status, message } => engine_failure(&status, message),
        EngineError::InvalidRequest { .. } => engine_failure("invalid_argument", text),
        EngineError::Unsupported(_) => engine_failure("unsupported", text),
        EngineError::Cancelled => engine_failure("cancelled", text),
        _ => engine_failure("internal", text),
    }
}
