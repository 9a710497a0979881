//! Files that are no models, for those who judge and those who load.

use std::io::Read;
use std::path::PathBuf;

use crate::bench::Bench;
use crate::case::Stop;

/// A file that is no model, or not all of one.
pub(super) struct Bad {
    /// For people.
    pub(super) what: &'static str,
    pub(super) path: PathBuf,
    /// It was made of the model. A format without lengths cannot tell, so that taking it is only worth a warning.
    pub(super) of_model: bool,
    /// The model is a file of weights, not a toy.
    pub(super) large: bool,
}

/// Bytes of a model that are copied at most, to make a shorter one.
const MOST: u64 = 64 << 20;

/// All of them; those that are made of a model only if there is one.
pub(super) fn bad(bench: &Bench) -> Result<Vec<Bad>, Stop> {
    let mut random = bench.random(77);
    let noise: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(64 << 10).collect();
    let nothing = bench.scratch("folder", b"")?.with_file_name("there-is-no-such-file");
    let folder = nothing.parent().map(PathBuf::from).unwrap_or_default();
    let file = |what, path| Bad { what, path, of_model: false, large: false };
    let mut all = vec![
        file("a file that does not exist", nothing),
        file("a folder without a model", folder),
        file("an empty file", bench.scratch("empty", b"")?),
        file("a file of one byte", bench.scratch("byte", b"G")?),
        file("a file of noise", bench.scratch("noise", &noise)?),
        file("a file of zeros", bench.scratch("zeros", &vec![0; 64 << 10])?),
        file("a text", bench.scratch("text", "This is a letter, not a model.\n".repeat(100).as_bytes())?),
    ];
    let Some(model) = &bench.setup.model else { return Ok(all) };
    let size = std::fs::metadata(model).map_or(0, |metadata| if metadata.is_file() { metadata.len() } else { 0 });
    let mut head = Vec::new();
    let read = std::fs::File::open(model).and_then(|file| file.take((size / 2).min(MOST)).read_to_end(&mut head));
    if read.is_err() || size < 64 {
        return Ok(all);
    }
    let mut torn = |what, bytes: &[u8]| {
        all.push(Bad { what, path: bench.scratch("torn", bytes)?, of_model: true, large: size > 1 << 20 });
        Ok::<(), Stop>(())
    };
    torn("the first 5 bytes of the model", &head[..5])?;
    torn("the first 24 bytes of the model", &head[..24])?;
    torn("the first half of the model", &head)?;
    head[8..24].fill(0xff);
    torn("the first half of the model with a damaged header", &head)?;
    Ok(all)
}
