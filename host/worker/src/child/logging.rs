//! The worker's log: one JSON object a line on stderr, which the host reads and passes on at the same level.

use tracing_subscriber::EnvFilter;

/// Names the levels, as the host's own setting does: `info`, `warn,onebit_worker=debug`.
const LEVEL_VARIABLE: &str = "ONEBIT_LOG";

/// Installs the log. A second call in one process changes nothing.
pub(super) fn install() {
    let wanted = std::env::var(LEVEL_VARIABLE).unwrap_or_default();
    let filter = EnvFilter::try_new(if wanted.is_empty() { "info" } else { &wanted });
    let (filter, problem) = match filter {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let installed = tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    if let (Ok(()), Some(error)) = (installed, problem) {
        tracing::warn!("{LEVEL_VARIABLE}={wanted:?} is not understood ({error}); it takes levels such as info or warn,onebit_worker=debug");
    }
}
