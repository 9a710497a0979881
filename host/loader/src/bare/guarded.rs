//! Memory that ends exactly where a struct ends: the next byte belongs to a page that nobody may read or write.

use core::ptr::NonNull;

/// Bytes in front of a struct that must stay as they are.
const FRONT: usize = 64;
/// What stands where nothing was handed over.
pub(super) const GARBAGE: u8 = 0xa5;

/// One piece of memory, its end at a page that is closed.
pub(super) struct Guarded {
    map: NonNull<u8>,
    map_len: usize,
    /// From the start of the mapping to the first byte handed out.
    start: usize,
    len: usize,
}

impl Guarded {
    /// `len` bytes of garbage, at most 4096 and a multiple of 8, so that what is aligned at their end is aligned at their start.
    pub(super) fn new(len: usize) -> std::io::Result<Self> {
        assert!(len <= 4096 && len.is_multiple_of(8), "a struct of {len} bytes");
        // SAFETY: asks for a constant.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let open = (FRONT + len).next_multiple_of(page);
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at no address in particular.
        let map = unsafe { libc::mmap(core::ptr::null_mut(), open + page, access, kind, -1, 0) };
        let map = NonNull::new(map.cast::<u8>()).filter(|_| map != libc::MAP_FAILED).ok_or_else(std::io::Error::last_os_error)?;
        let guarded = Self { map, map_len: open + page, start: open - len, len };
        // SAFETY: the last page of the mapping, which nothing uses.
        if unsafe { libc::mprotect(map.as_ptr().add(open).cast(), page, libc::PROT_NONE) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: `open` bytes are readable and writable.
        unsafe { core::ptr::write_bytes(map.as_ptr(), GARBAGE, open) };
        Ok(guarded)
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.map.as_ptr().add(self.start) }
    }

    /// What stands there now.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: within the mapping, which lives as long as `self`; nobody writes while a call is not in progress.
        unsafe { core::slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    pub(super) fn fill(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len, "more bytes than there is room for");
        // SAFETY: within the mapping.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.as_ptr(), bytes.len()) }
    }

    /// Whether nothing was written in front of it.
    pub(super) fn front_is_intact(&self) -> bool {
        // SAFETY: `FRONT` bytes lie in front, within the mapping.
        let front = unsafe { core::slice::from_raw_parts(self.as_ptr().sub(FRONT), FRONT) };
        front.iter().all(|byte| *byte == GARBAGE)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: a mapping of this value's own.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_garbage_and_aligned_and_notices_a_write_in_front() {
        for len in [8, 40, 4096] {
            let piece = Guarded::new(len).expect("memory");
            assert!(piece.as_ptr().addr().is_multiple_of(8) && piece.bytes().iter().all(|byte| *byte == GARBAGE));
            piece.fill(&[1; 8]);
            assert_eq!(piece.bytes()[..8], [1; 8]);
            assert!(piece.front_is_intact());
            // SAFETY: the byte in front of the piece is part of its mapping.
            unsafe { piece.as_ptr().sub(1).write(0) };
            assert!(!piece.front_is_intact());
        }
    }
}
