//! API keys: from the setting and from a file.

use std::io::Read;
use std::os::unix::fs::MetadataExt;

use crate::exit::{Exit, Failure};
use crate::settings::{Settings, table};

/// Largest key file, bytes.
const FILE_MAX: u64 = 64 << 10;

/// All keys; empty = none are set.
pub fn from(settings: &Settings) -> Result<Vec<String>, Failure> {
    let mut keys: Vec<String> = settings.get(&table::API_KEY)?.into_iter().collect();
    let Some(path) = settings.get(&table::API_KEY_FILE)? else { return Ok(keys) };
    let failed = |error: std::io::Error| {
        Failure::io(format!("read the key file {}", path.display()), &error)
            .next("Nothing was started: a server whose keys are unknown would be open.")
    };
    let mut file = std::fs::File::open(&path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_file() && metadata.mode() & 0o004 != 0 {
        tracing::warn!(file = %path.display(), "everybody on this machine can read the key file; chmod 600 it");
    }
    let mut text = String::new();
    file.by_ref().take(FILE_MAX).read_to_string(&mut text).map_err(failed)?;
    let before = keys.len();
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    keys.extend(lines.map(str::to_owned));
    if keys.len() == before {
        return Err(Failure::new(Exit::Usage, format!("the key file {} has no key in it", path.display()))
            .next("Put one key on each line, for example the output of: openssl rand -hex 32"));
    }
    Ok(keys)
}
