//! What the fuzz targets in `tests/fuzz` need of the probe. Not an interface: it may change with any commit.

use super::ask;

/// Understands the line of a probe process, and writes what was understood as that process would have.
///
/// # Errors
/// What a person reads of a line that is no answer.
pub fn probe_answer(line: &[u8]) -> Result<Vec<u8>, String> {
    let answer = ask::understand(line).map_err(|silence| silence.to_string())?;
    serde_json::to_vec(&answer).map_err(|error| error.to_string())
}
