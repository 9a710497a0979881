//! The header of a model file.

use std::io::{self, Read};

use onebit_weights::{Gguf, GgufError};

use crate::law;

/// A file whose end is far away: a header may claim what the file's length would allow.
const SPARSE: u64 = 1 << 40;

/// The portions in which a file is read change nothing; no tensor lies outside the file; facts are found or refused in a sentence.
pub fn run(bytes: &[u8]) {
    let length = bytes.len() as u64;
    let whole = Gguf::read(bytes, length);
    let slowly = Gguf::read(Slowly(bytes), length);
    assert_eq!(shown(&whole), shown(&slowly), "portions mean something else");
    check(whole, length);
    // The bytes end before the file does, as when it is cut while it is read.
    check(Gguf::read(bytes, length + SPARSE), length + SPARSE);
}

/// Everything that was read, in the file's order.
fn shown(read: &Result<Gguf, GgufError>) -> String {
    match read {
        Ok(file) => {
            let values: Vec<_> = file.values().collect();
            format!("{} {} {} {values:?} {:?}", file.version(), file.alignment(), file.data_offset(), file.tensors())
        }
        Err(error) => error.to_string(),
    }
}

fn check(read: Result<Gguf, GgufError>, length: u64) {
    let file = match read {
        Ok(file) => file,
        Err(error) => return law::is_a_sentence(&error.to_string()),
    };
    for tensor in file.tensors() {
        assert!(tensor.offset >= file.data_offset() && tensor.offset.is_multiple_of(file.alignment()), "{tensor:?}");
        assert!(tensor.offset.checked_add(tensor.bytes).is_some_and(|end| end <= length), "{tensor:?} in {length} bytes");
        assert!(tensor.elements() > 0 && file.tensor(&tensor.name) == Some(tensor));
    }
    assert!(file.weights_bytes() <= length, "tensors overlap");
    for (key, value) in file.values() {
        assert_eq!(format!("{:?}", file.meta(key)), format!("{:?}", Some(value)));
    }
    for refusal in [file.facts().err(), file.split().err()].into_iter().flatten() {
        law::is_a_sentence(&refusal.to_string());
    }
}

/// Gives three bytes at a time.
struct Slowly<'a>(&'a [u8]);

impl Read for Slowly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(3);
        self.0.read(&mut buffer[..most])
    }
}
