//! A file of this machine becomes a model: copied under its name, or, if it lies in the models folder already, only checked.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::destination::{CHUNK, Destination, Expected};
use super::part::Part;
use super::progress::Progress;
use crate::exit::{Exit, Failure};

/// Copies. Returns the sha256.
pub fn copy(from: &Path, destination: &Destination, expected: &Expected, progress: &mut Progress) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::io(format!("read {}", from.display()), &error);
    let mut file = File::open(from).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Failure::new(Exit::Usage, format!("{} is not a file", from.display())).next("Give the model file itself."));
    }
    destination.check_space(metadata.len())?;
    // A copy is quick and its source may have changed: it always begins anew.
    let mut part = Part::open(destination, &from.display().to_string(), expected)?;
    let stamp = part.stamp().clone();
    part.restart(stamp)?;
    progress.total(Some(metadata.len()), 0);
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            count => part.append(&buffer[..count])?,
        }
        progress.at(part.length());
    }
    part.finish(expected)
}
