//! Log lines: to standard error, as text or JSON, as much as asked for.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::exit::{Exit, Failure, use_colour};
use crate::settings::{LogFormat, Settings, table};

/// Begins to log. `usual` is what the command logs if nobody says otherwise.
pub fn start(settings: &Settings, usual: &str) -> Result<(), Failure> {
    let levels = settings.get(&table::LOG)?.unwrap_or_else(|| usual.to_owned());
    // A plain set of targets instead of the full filter language: that one brings a regex engine into every process.
    let targets: Targets = levels.parse().map_err(|error| Failure::new(Exit::Usage, format!("log levels {levels:?}: {error}")))?;
    let layer = match settings.get(&table::LOG_FORMAT)? {
        LogFormat::Text => fmt::layer().with_writer(std::io::stderr).with_ansi(use_colour(&std::io::stderr())).with_target(false).boxed(),
        LogFormat::Json => fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed(),
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(targets))
        .try_init()
        .map_err(|error| Failure::new(Exit::Other, format!("cannot start the log: {error}")))
}
