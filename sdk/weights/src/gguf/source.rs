//! Bytes of a header in order, with the two numbers that every check needs: where we are and how much there can be.
//!
//! Invariant: memory is taken as the bytes that fill it come, at most [`STEP`] ahead of them, and never more than [`Source::limit`] in all.

use std::io::{ErrorKind, Read};

use super::error::GgufError;

/// Memory that is taken before the bytes for it have come.
const STEP: usize = 1 << 20;

pub(super) struct Source<R> {
    inner: R,
    offset: u64,
    file: u64,
    limit: u64,
}

impl<R: Read> Source<R> {
    /// `file` = bytes of the whole file, `limit` = bytes the header may have.
    pub(super) fn new(inner: R, file: u64, limit: u64) -> Self {
        Self { inner, offset: 0, file, limit }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes between here and the end of the file.
    pub(super) fn left(&self) -> u64 {
        self.file.saturating_sub(self.offset)
    }

    /// Refuses `count` entries of at least `each` bytes when they cannot fit into the rest of the file.
    pub(super) fn count(&self, count: u64, each: u64, what: &str) -> Result<usize, GgufError> {
        let most = self.left() / each.max(1);
        if count > most {
            return Err(GgufError::Count { what: what.to_owned(), count, most, offset: self.offset });
        }
        self.need(count.saturating_mul(each), what)?;
        // Within the header limit, so it fits any usize that this crate runs on.
        usize::try_from(count).map_err(|_| GgufError::Count { what: what.to_owned(), count, most, offset: self.offset })
    }

    fn need(&self, bytes: u64, what: &str) -> Result<(), GgufError> {
        if bytes > self.left() {
            return Err(GgufError::Truncated { what: what.to_owned(), offset: self.offset, need: bytes, have: self.left() });
        }
        if self.offset.saturating_add(bytes) > self.limit {
            return Err(GgufError::TooLong { what: what.to_owned(), offset: self.offset, bytes, limit: self.limit });
        }
        Ok(())
    }

    fn fill(&mut self, buffer: &mut [u8], what: &str) -> Result<(), GgufError> {
        self.inner.read_exact(buffer).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => {
                GgufError::Truncated { what: what.to_owned(), offset: self.offset, need: buffer.len() as u64, have: 0 }
            }
            _ => GgufError::Read { what: what.to_owned(), offset: self.offset, source },
        })?;
        self.offset += buffer.len() as u64;
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], GgufError> {
        self.need(N as u64, what)?;
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Appends `bytes` bytes to `out`, which grows as they come: a file may be cut while it is read, and its length says nothing of holes.
    pub(super) fn append(&mut self, out: &mut Vec<u8>, bytes: u64, what: &str) -> Result<(), GgufError> {
        self.need(bytes, what)?;
        let mut left = usize::try_from(bytes).map_err(|_| GgufError::TooLong {
            what: what.to_owned(),
            offset: self.offset,
            bytes,
            limit: self.limit,
        })?;
        while left > 0 {
            let start = out.len();
            out.resize(start + left.min(STEP), 0);
            self.fill(&mut out[start..], what)?;
            left -= out.len() - start;
        }
        Ok(())
    }

    /// A length and that many bytes, which must be UTF-8 and at most `limit` bytes.
    pub(super) fn text(&mut self, limit: u64, what: &str) -> Result<String, GgufError> {
        let offset = self.offset;
        let bytes = self.u64(what)?;
        if bytes > limit {
            return Err(GgufError::TooLong { what: what.to_owned(), offset, bytes, limit });
        }
        let mut out = Vec::new();
        self.append(&mut out, bytes, what)?;
        String::from_utf8(out).map_err(|_| GgufError::NotUtf8 { what: what.to_owned(), offset })
    }
}
