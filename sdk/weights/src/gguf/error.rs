//! Why a file is not a GGUF file that can be used. Each message says what, where and what was expected instead.

use std::path::PathBuf;

/// A refusal. Offsets and sizes are bytes from the start of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file cannot be opened or read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// A folder, a pipe or a device.
    #[error("{path} is not a regular file", path = path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// Reading failed in the middle of the header.
    #[error("reading {what} at offset {offset} failed: {source}")]
    Read {
        /// What was being read.
        what: String,
        /// Where.
        offset: u64,
        /// The system's word.
        source: std::io::Error,
    },
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it begins with {found:02x?} instead of \"GGUF\"")]
    Magic {
        /// The first bytes.
        found: [u8; 4],
    },
    /// A version this reader does not know.
    #[error("GGUF version {found} is not known (2 and 3 are)")]
    Version {
        /// The version the file states.
        found: u32,
    },
    /// The file was written for a big-endian machine.
    #[error("the file is a big-endian GGUF; convert it to little-endian")]
    BigEndian,
    /// The file ends too early.
    #[error("the file ends inside {what}: {need} bytes are needed at offset {offset}, {have} are there")]
    Truncated {
        /// What is cut off.
        what: String,
        /// Where it begins.
        offset: u64,
        /// Bytes it needs.
        need: u64,
        /// Bytes left in the file.
        have: u64,
    },
    /// A count that the file cannot hold.
    #[error("{what} claims {count} entries at offset {offset}; at most {most} fit into the rest of the file")]
    Count {
        /// What is counted.
        what: String,
        /// The number the file states.
        count: u64,
        /// The most that could be.
        most: u64,
        /// Where the count stands.
        offset: u64,
    },
    /// A text or the header as a whole is longer than this reader allows.
    #[error("{what} at offset {offset} is {bytes} bytes long, more than the {limit} allowed")]
    TooLong {
        /// What is too long.
        what: String,
        /// Where it begins.
        offset: u64,
        /// Its bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A text is not UTF-8.
    #[error("{what} at offset {offset} is not UTF-8")]
    NotUtf8 {
        /// Which text.
        what: String,
        /// Where it begins.
        offset: u64,
    },
    /// The same key twice.
    #[error("key {key:?} appears twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// The same tensor twice.
    #[error("tensor {name:?} appears twice")]
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// A value kind this reader does not know, or arrays of arrays.
    #[error("key {key:?}: value kind {kind} at offset {offset} is not known")]
    ValueKind {
        /// The key.
        key: String,
        /// The number the file states.
        kind: u32,
        /// Where it stands.
        offset: u64,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("key {key:?}: boolean at offset {offset} is {found}")]
    Boolean {
        /// The key.
        key: String,
        /// The byte.
        found: u8,
        /// Where it stands.
        offset: u64,
    },
    /// A value is there and is of another kind.
    #[error("key {key:?} is {found}, expected {wanted}")]
    WrongKind {
        /// The key.
        key: String,
        /// What was asked for.
        wanted: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A key that must be there is not.
    #[error("key {key:?} is missing")]
    Missing {
        /// The key.
        key: String,
    },
    /// `general.alignment` is not a power of two that fits.
    #[error("general.alignment is {found}, not a power of two up to 1 MiB")]
    Alignment {
        /// The value.
        found: u64,
    },
    /// A tensor of a type this reader does not know.
    #[error("tensor {name:?} has type {kind}, which is not known")]
    TensorType {
        /// The tensor.
        name: String,
        /// The number the file states.
        kind: u32,
    },
    /// Too many dimensions, none, one that is zero, or a product that overflows.
    #[error("tensor {name:?} has the impossible shape {shape:?}")]
    Shape {
        /// The tensor.
        name: String,
        /// Dimensions as read.
        shape: Vec<u64>,
    },
    /// A row that is not made of whole blocks.
    #[error("tensor {name:?}: rows of {row} values are not whole blocks of {block}")]
    Blocks {
        /// The tensor.
        name: String,
        /// Values per row.
        row: u64,
        /// Values per block.
        block: u64,
    },
    /// A tensor's data lies where the alignment forbids.
    #[error("tensor {name:?} begins at offset {offset} of the data, which is not a multiple of {alignment}")]
    Misaligned {
        /// The tensor.
        name: String,
        /// Offset from the start of the data.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor's data goes past the end of the file.
    #[error("tensor {name:?} needs {bytes} bytes at offset {offset}; the file has {file} bytes: it was cut off or is damaged")]
    OutsideFile {
        /// The tensor.
        name: String,
        /// Offset from the start of the file.
        offset: u64,
        /// Bytes of the tensor.
        bytes: u64,
        /// Bytes of the file.
        file: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors {first:?} and {second:?} overlap")]
    Overlap {
        /// The one that begins first.
        first: String,
        /// The one that begins inside it.
        second: String,
    },
    /// The file is one part of several and cannot be used as given.
    #[error("{path}: {problem}", path = path.display())]
    Parts {
        /// The file.
        path: PathBuf,
        /// What is wrong with the set.
        problem: String,
    },
}
