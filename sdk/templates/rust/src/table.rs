//! The model: what follows what in a text, and logits from it. Your library goes here.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use onebit_sdk::Error;

/// 256 bytes and the end.
pub(crate) const VOCABULARY: u32 = 257;
/// The token after the last of an answer.
pub(crate) const END: u32 = 256;

const MAGIC: &[u8] = b"ngram1\n";
/// An example needs a few hundred bytes. A limit is needed all the same: the file comes from somebody else.
const MAX_FILE: u64 = 1 << 20;

/// Counts.
pub(crate) struct Table {
    /// `pairs[last * VOCABULARY + token]`: how often `token` follows `last`.
    pairs: Vec<u32>,
    /// How often a token follows `before`, `last`.
    triples: HashMap<(u32, u32), HashMap<u32, u32>>,
}

/// Bytes of text behind the magic; reads no more than that.
pub(crate) fn check_header(path: &Path) -> Result<u64, Error> {
    let say = |error: io::Error| Error::io(format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(say)?;
    let size = file.metadata().map_err(say)?.len();
    let mut magic = [0; MAGIC.len()];
    match file.read_exact(&mut magic) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(Error::corrupt(format!("{} has {size} bytes, less than a header", path.display())));
        }
        other => other.map_err(say)?,
    }
    if magic != MAGIC {
        return Err(Error::corrupt(format!("{} does not begin with the line ngram1", path.display())));
    }
    if size > MAX_FILE {
        return Err(Error::corrupt(format!("{} has {size} bytes, at most {MAX_FILE} are read", path.display())));
    }
    match size - MAGIC.len() as u64 {
        0 => Err(Error::corrupt(format!("{} holds no text", path.display()))),
        bytes => Ok(bytes),
    }
}

impl Table {
    /// Reads a model file.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let size = check_header(path)?;
        let mut text = Vec::new();
        let file = File::open(path).map_err(|error| Error::io(format!("{}: {error}", path.display())))?;
        file.take(size + MAGIC.len() as u64).read_to_end(&mut text)?;
        // A file that was cut off while it was copied is noticed here, not by its answers.
        if !text.ends_with(b"\n\n") {
            return Err(Error::corrupt(format!("{} does not end with an empty line: it was cut off", path.display())));
        }
        let mut table = Self { pairs: vec![0; (VOCABULARY * VOCABULARY) as usize], triples: HashMap::new() };
        table.count(text.get(MAGIC.len()..).unwrap_or_default());
        Ok(table)
    }

    fn count(&mut self, text: &[u8]) {
        let (mut before, mut last) = (END, END);
        let mut rest = text;
        while let [byte, tail @ ..] = rest {
            let (token, tail) = if rest.starts_with(b"\n\n") { (END, &rest[2..]) } else { (u32::from(*byte), tail) };
            rest = tail;
            self.pairs[(last * VOCABULARY + token) as usize] += 1;
            *self.triples.entry((before, last)).or_default().entry(token).or_default() += 1;
            (before, last) = if token == END { (END, END) } else { (last, token) };
        }
    }

    /// Logits of what follows `before`, `last`, appended to `out`.
    pub(crate) fn logits(&self, before: u32, last: u32, out: &mut Vec<f32>) {
        let triples = self.triples.get(&(before, last));
        out.extend((0..VOCABULARY).map(|token| {
            let pair = self.pairs[(last * VOCABULARY + token) as usize];
            let triple = triples.and_then(|counts| counts.get(&token)).copied().unwrap_or(0);
            // Counts are whole numbers and exact in an f32, so the result depends on neither batches nor threads; the host relies on it.
            ((1 + 4 * pair + 64 * triple) as f32).ln()
        }));
    }
}
