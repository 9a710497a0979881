//! The header as a whole: reading, the checks between its parts, and looking things up.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::error::GgufError;
use super::source::Source;
use super::types::GgmlType;
use super::value::{self, Value};

/// Bytes a header may have. The largest vocabularies in use need about 20 MiB.
pub const HEADER_LIMIT: u64 = 256 << 20;

/// Longest key, as the format says.
const KEY_LIMIT: u64 = 65_535;
/// Longest tensor name; readers in C keep names in 64 bytes with a zero at the end.
const NAME_LIMIT: u64 = 63;
/// Most dimensions a tensor has.
const DIMENSIONS: u32 = 4;
/// Largest `general.alignment`.
const ALIGNMENT_LIMIT: u64 = 1 << 20;

/// What the header says about one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Unique in the file.
    pub name: String,
    /// Values per dimension, the innermost first; 1 to 4 dimensions, none zero.
    pub shape: Vec<u64>,
    /// How values are packed.
    pub kind: &'static GgmlType,
    /// Where the data begins, from the start of the file.
    pub offset: u64,
    /// Bytes of data.
    pub bytes: u64,
}

impl TensorInfo {
    /// Values in the tensor.
    pub fn elements(&self) -> u64 {
        // The product was checked when the header was read.
        self.shape.iter().product()
    }
}

/// A GGUF file's header, checked.
#[derive(Debug)]
pub struct Gguf {
    version: u32,
    file_bytes: u64,
    alignment: u64,
    data_offset: u64,
    values: Vec<(String, Value)>,
    index: HashMap<String, usize>,
    tensors: Vec<TensorInfo>,
}

impl Gguf {
    /// Reads and checks the header of the file at `path`. Memory and time are in proportion to the header.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let io = |source| GgufError::Io { path: path.to_owned(), source };
        // Before opening: opening a pipe would wait for its writer.
        let metadata = std::fs::metadata(path).map_err(io)?;
        if !metadata.is_file() {
            return Err(GgufError::NotAFile { path: path.to_owned() });
        }
        let file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        Self::read(BufReader::with_capacity(1 << 16, file), bytes)
    }

    /// Reads and checks a header from `reader`, whose whole length is `file_bytes`.
    pub fn read(reader: impl Read, file_bytes: u64) -> Result<Self, GgufError> {
        let mut source = Source::new(reader, file_bytes, HEADER_LIMIT);
        let version = version(&mut source)?;
        let n_tensors = source.u64("the number of tensors")?;
        let n_values = source.u64("the number of keys")?;
        // A key costs at least 8 + 1 + 4 + 1 bytes, a tensor 8 + 1 + 4 + 8 + 4 + 8.
        let n_tensors = source.count(n_tensors, 33, "the list of tensors")?;
        let n_values = source.count(n_values, 14, "the list of keys")?;
        let (values, index) = read_values(&mut source, n_values)?;
        let alignment = alignment(&values, &index)?;
        let mut tensors = read_tensors(&mut source, n_tensors, alignment)?;
        let data_offset = source.offset().next_multiple_of(alignment);
        place(&mut tensors, data_offset, file_bytes)?;
        Ok(Self { version, file_bytes, alignment, data_offset, values, index, tensors })
    }

    /// Version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Alignment of tensor data.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Where tensor data begins, from the start of the file.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// All keys and values, in the file's order.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The value of `key`.
    pub fn meta(&self, key: &str) -> Option<&Value> {
        self.index.get(key).and_then(|&at| self.values.get(at)).map(|(_, value)| value)
    }

    /// The text of `key`; an error when it is something else.
    pub fn text(&self, key: &str) -> Result<Option<&str>, GgufError> {
        match self.meta(key) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(key, "a text", other)),
        }
    }

    /// The number of `key`, from any integer kind; an error when it is something else or negative.
    pub fn unsigned(&self, key: &str) -> Result<Option<u64>, GgufError> {
        match self.meta(key) {
            None => Ok(None),
            Some(value) => value.unsigned().map(Some).ok_or_else(|| wrong(key, "a number that is not negative", value)),
        }
    }

    /// The fraction of `key`; an error when it is something else.
    pub fn float(&self, key: &str) -> Result<Option<f64>, GgufError> {
        match self.meta(key) {
            None => Ok(None),
            Some(Value::F32(x)) => Ok(Some(f64::from(*x))),
            Some(Value::F64(x)) => Ok(Some(*x)),
            Some(other) => Err(wrong(key, "a fraction", other)),
        }
    }

    /// The boolean of `key`; an error when it is something else.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, GgufError> {
        match self.meta(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(wrong(key, "a boolean", other)),
        }
    }

    /// All tensors, in the file's order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// `general.architecture`, without which a file cannot be a model.
    pub fn architecture(&self) -> Result<&str, GgufError> {
        self.text("general.architecture")?.ok_or_else(|| GgufError::Missing { key: "general.architecture".to_owned() })
    }

    /// Values in all tensors.
    pub fn parameters(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, tensor| sum.saturating_add(tensor.elements()))
    }

    /// Bytes of all tensors.
    pub fn weights_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }

    /// The type most values have; `None` without tensors.
    pub fn dominant_type(&self) -> Option<&'static GgmlType> {
        let mut totals: HashMap<u32, u64> = HashMap::new();
        for tensor in &self.tensors {
            let total = totals.entry(tensor.kind.id).or_default();
            *total = total.saturating_add(tensor.elements());
        }
        let (&id, _) = totals.iter().max_by_key(|&(&id, &total)| (total, id))?;
        GgmlType::by_id(id)
    }
}

fn wrong(key: &str, wanted: &'static str, found: &Value) -> GgufError {
    GgufError::WrongKind { key: key.to_owned(), wanted, found: found.kind() }
}

fn version<R: Read>(source: &mut Source<R>) -> Result<u32, GgufError> {
    let magic: [u8; 4] = source.array("the magic")?;
    if &magic != b"GGUF" {
        return Err(GgufError::Magic { found: magic });
    }
    match source.u32("the version")? {
        version @ (2 | 3) => Ok(version),
        version if matches!(version.swap_bytes(), 2 | 3) => Err(GgufError::BigEndian),
        found => Err(GgufError::Version { found }),
    }
}

type Values = (Vec<(String, Value)>, HashMap<String, usize>);

fn read_values<R: Read>(source: &mut Source<R>, count: usize) -> Result<Values, GgufError> {
    let mut values = Vec::new();
    let mut index = HashMap::new();
    for i in 0..count {
        let key = source.text(KEY_LIMIT, &format!("key {i}"))?;
        let kind = source.u32(&format!("key {key:?}"))?;
        let value = value::read(source, &key, kind)?;
        if index.insert(key.clone(), i).is_some() {
            return Err(GgufError::DuplicateKey { key });
        }
        values.push((key, value));
    }
    Ok((values, index))
}

fn alignment(values: &[(String, Value)], index: &HashMap<String, usize>) -> Result<u64, GgufError> {
    let Some((key, value)) = index.get("general.alignment").and_then(|&at| values.get(at)) else {
        return Ok(32);
    };
    let found = value.unsigned().ok_or_else(|| wrong(key, "a number that is not negative", value))?;
    if found.is_power_of_two() && found <= ALIGNMENT_LIMIT { Ok(found) } else { Err(GgufError::Alignment { found }) }
}

/// Tensor infos with offsets still relative to the start of the data.
fn read_tensors<R: Read>(source: &mut Source<R>, count: usize, alignment: u64) -> Result<Vec<TensorInfo>, GgufError> {
    let mut tensors: Vec<TensorInfo> = Vec::new();
    let mut names = HashSet::new();
    for i in 0..count {
        let name = source.text(NAME_LIMIT, &format!("the name of tensor {i}"))?;
        let what = format!("tensor {name:?}");
        let n = source.u32(&what)?;
        if n == 0 || n > DIMENSIONS {
            // The number stands in for the shape that cannot be read.
            return Err(GgufError::Shape { name, shape: vec![0; n.min(DIMENSIONS + 1) as usize] });
        }
        let shape = (0..n).map(|_| source.u64(&what)).collect::<Result<Vec<_>, _>>()?;
        let kind_id = source.u32(&what)?;
        let offset = source.u64(&what)?;
        let kind = GgmlType::by_id(kind_id).ok_or_else(|| GgufError::TensorType { name: name.clone(), kind: kind_id })?;
        let bytes = tensor_bytes(&name, &shape, kind)?;
        if !offset.is_multiple_of(alignment) {
            return Err(GgufError::Misaligned { name, offset, alignment });
        }
        if !names.insert(name.clone()) {
            return Err(GgufError::DuplicateTensor { name });
        }
        tensors.push(TensorInfo { name, shape, kind, offset, bytes });
    }
    Ok(tensors)
}

fn tensor_bytes(name: &str, shape: &[u64], kind: &'static GgmlType) -> Result<u64, GgufError> {
    let impossible = || GgufError::Shape { name: name.to_owned(), shape: shape.to_vec() };
    let row = shape[0];
    // Readers in C keep counts in signed 64 bits.
    let elements = shape.iter().try_fold(1_u64, |product, &n| product.checked_mul(n)).filter(|&n| n > 0 && n <= i64::MAX as u64);
    let elements = elements.ok_or_else(impossible)?;
    if !row.is_multiple_of(kind.block) {
        return Err(GgufError::Blocks { name: name.to_owned(), row, block: kind.block });
    }
    kind.size_of(elements).ok_or_else(impossible)
}

/// Makes offsets absolute and checks that every tensor lies inside the file and alone.
fn place(tensors: &mut [TensorInfo], data_offset: u64, file_bytes: u64) -> Result<(), GgufError> {
    for tensor in tensors.iter_mut() {
        let start = data_offset.checked_add(tensor.offset);
        let end = start.and_then(|start| start.checked_add(tensor.bytes));
        match (start, end) {
            (Some(start), Some(end)) if end <= file_bytes => tensor.offset = start,
            _ => {
                let offset = data_offset.saturating_add(tensor.offset);
                return Err(GgufError::OutsideFile { name: tensor.name.clone(), offset, bytes: tensor.bytes, file: file_bytes });
            }
        }
    }
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_by_key(|tensor| tensor.offset);
    for pair in order.windows(2) {
        if let [first, second] = pair
            && first.offset + first.bytes > second.offset
        {
            return Err(GgufError::Overlap { first: first.name.clone(), second: second.name.clone() });
        }
    }
    Ok(())
}
