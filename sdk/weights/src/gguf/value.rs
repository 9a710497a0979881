//! Metadata values, as the file states them.

use std::io::Read;

use super::error::GgufError;
use super::source::Source;

/// A text value may be this long: chat templates are the longest that exist.
const TEXT_LIMIT: u64 = 16 << 20;

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variants are the format's own kinds")]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(String),
    U64(u64),
    I64(i64),
    F64(f64),
    Array(Array),
}

/// An array of one kind. Arrays of arrays are not part of the format as it is used, and are refused.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variants are the format's own kinds")]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    Text(Texts),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

/// Many texts in one piece of memory. Entries are bytes: vocabularies exist whose tokens are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// Entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Entry `index`.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.bytes.get(start..end)
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl Array {
    /// Entries.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(v) => v.len(),
            Self::I8(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Text(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::F64(v) => v.len(),
        }
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entry `index` as a number that is not negative; `None` for other kinds, signs or past the end.
    pub fn unsigned(&self, index: usize) -> Option<u64> {
        match self {
            Self::U8(v) => v.get(index).map(|&x| u64::from(x)),
            Self::U16(v) => v.get(index).map(|&x| u64::from(x)),
            Self::U32(v) => v.get(index).map(|&x| u64::from(x)),
            Self::U64(v) => v.get(index).copied(),
            Self::I8(v) => v.get(index).and_then(|&x| u64::try_from(x).ok()),
            Self::I16(v) => v.get(index).and_then(|&x| u64::try_from(x).ok()),
            Self::I32(v) => v.get(index).and_then(|&x| u64::try_from(x).ok()),
            Self::I64(v) => v.get(index).and_then(|&x| u64::try_from(x).ok()),
            Self::F32(_) | Self::F64(_) | Self::Bool(_) | Self::Text(_) => None,
        }
    }
}

impl Value {
    /// The kind, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::F32(_) => "f32",
            Self::Bool(_) => "a boolean",
            Self::Text(_) => "a text",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F64(_) => "f64",
            Self::Array(_) => "an array",
        }
    }

    /// The value as a number that is not negative, from any integer kind.
    pub fn unsigned(&self) -> Option<u64> {
        match *self {
            Self::U8(x) => Some(x.into()),
            Self::U16(x) => Some(x.into()),
            Self::U32(x) => Some(x.into()),
            Self::U64(x) => Some(x),
            Self::I8(x) => u64::try_from(x).ok(),
            Self::I16(x) => u64::try_from(x).ok(),
            Self::I32(x) => u64::try_from(x).ok(),
            Self::I64(x) => u64::try_from(x).ok(),
            _ => None,
        }
    }
}

/// Reads a value of `kind` that belongs to `key`.
pub(super) fn read<R: Read>(source: &mut Source<R>, key: &str, kind: u32) -> Result<Value, GgufError> {
    let offset = source.offset();
    let what = format!("key {key:?}");
    Ok(match kind {
        0 => Value::U8(u8::from_le_bytes(source.array(&what)?)),
        1 => Value::I8(i8::from_le_bytes(source.array(&what)?)),
        2 => Value::U16(u16::from_le_bytes(source.array(&what)?)),
        3 => Value::I16(i16::from_le_bytes(source.array(&what)?)),
        4 => Value::U32(u32::from_le_bytes(source.array(&what)?)),
        5 => Value::I32(i32::from_le_bytes(source.array(&what)?)),
        6 => Value::F32(f32::from_le_bytes(source.array(&what)?)),
        7 => {
            let [byte] = source.array(&what)?;
            Value::Bool(boolean(byte, key, offset)?)
        }
        8 => Value::Text(source.text(TEXT_LIMIT, &format!("the text of key {key:?}"))?),
        9 => Value::Array(array(source, key)?),
        10 => Value::U64(u64::from_le_bytes(source.array(&what)?)),
        11 => Value::I64(i64::from_le_bytes(source.array(&what)?)),
        12 => Value::F64(f64::from_le_bytes(source.array(&what)?)),
        _ => {
            return Err(GgufError::ValueKind { key: key.to_owned(), kind, offset });
        }
    })
}

fn boolean(byte: u8, key: &str, offset: u64) -> Result<bool, GgufError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(GgufError::Boolean { key: key.to_owned(), found, offset }),
    }
}

fn array<R: Read>(source: &mut Source<R>, key: &str) -> Result<Array, GgufError> {
    let what = format!("the array of key {key:?}");
    let offset = source.offset();
    let kind = source.u32(&what)?;
    let count = source.u64(&what)?;
    // Fixed-size kinds are read in one piece.
    macro_rules! fixed {
        ($variant:ident, $type:ty) => {{
            const EACH: usize = size_of::<$type>();
            let count = source.count(count, EACH as u64, &what)?;
            let mut bytes = Vec::new();
            source.append(&mut bytes, (count * EACH) as u64, &what)?;
            let (chunks, _) = bytes.as_chunks::<EACH>();
            Array::$variant(chunks.iter().map(|chunk| <$type>::from_le_bytes(*chunk)).collect())
        }};
    }
    Ok(match kind {
        0 => fixed!(U8, u8),
        1 => fixed!(I8, i8),
        2 => fixed!(U16, u16),
        3 => fixed!(I16, i16),
        4 => fixed!(U32, u32),
        5 => fixed!(I32, i32),
        6 => fixed!(F32, f32),
        7 => {
            let count = source.count(count, 1, &what)?;
            let start = source.offset();
            let mut bytes = Vec::new();
            source.append(&mut bytes, count as u64, &what)?;
            let flags = bytes.iter().zip(start..).map(|(&byte, at)| boolean(byte, key, at)).collect::<Result<_, _>>()?;
            Array::Bool(flags)
        }
        8 => {
            let count = source.count(count, 8, &what)?;
            let mut texts = Texts { bytes: Vec::new(), ends: Vec::new() };
            for _ in 0..count {
                let bytes = source.u64(&what)?;
                if bytes > TEXT_LIMIT {
                    return Err(GgufError::TooLong { what, offset: source.offset(), bytes, limit: TEXT_LIMIT });
                }
                source.append(&mut texts.bytes, bytes, &what)?;
                texts.ends.push(texts.bytes.len());
            }
            Array::Text(texts)
        }
        10 => fixed!(U64, u64),
        11 => fixed!(I64, i64),
        12 => fixed!(F64, f64),
        _ => {
            return Err(GgufError::ValueKind { key: key.to_owned(), kind, offset });
        }
    })
}
