//! Frames: a little-endian `u32` length, then that many bytes of postcard.
//!
//! The reader never believes a length: a frame above [`MAX_FRAME_BYTES`] ends the connection before any buffer grows, and the buffer grows
//! with the bytes that really arrived, not with the bytes that were announced.

use std::io::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest payload of one frame. A prompt or a batch of embeddings beyond it is refused by the sender.
pub const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 4;

/// Why a frame could not be written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The sender's message is larger than a frame may be.
    #[error("a message of {bytes} bytes does not fit into a frame of at most {MAX_FRAME_BYTES} bytes")]
    TooLarge {
        /// Size of the payload.
        bytes: usize,
    },
    /// The other side announced more than a frame may hold.
    #[error("the other side announced a frame of {bytes} bytes, at most {MAX_FRAME_BYTES} are allowed")]
    AnnouncedTooLarge {
        /// What was announced.
        bytes: usize,
    },
    /// The payload is not the message it should be.
    #[error("a frame of {bytes} bytes cannot be read: {reason}")]
    Malformed {
        /// Size of the payload.
        bytes: usize,
        /// The decoder's word.
        reason: String,
    },
    /// The message could not be written as bytes.
    #[error("a message cannot be written: {0}")]
    Unwritable(String),
}

/// Appends one frame to `buffer`. On failure the buffer is as it was before.
///
/// # Errors
/// [`FrameError::TooLarge`] when the message exceeds [`MAX_FRAME_BYTES`].
pub fn encode_into<M: Serialize>(message: &M, buffer: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; HEADER_BYTES]);
    let mut body = Bounded { buffer, written: 0 };
    let outcome = postcard::to_io(message, &mut body).map(|_| ());
    let bytes = body.written;
    let length = u32::try_from(bytes).ok().filter(|_| bytes <= MAX_FRAME_BYTES);
    match (outcome, length) {
        (Ok(()), Some(length)) => {
            buffer[start..start + HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
            Ok(())
        }
        (outcome, length) => {
            buffer.truncate(start);
            Err(match (outcome, length) {
                (Err(error), Some(_)) => FrameError::Unwritable(error.to_string()),
                _ => FrameError::TooLarge { bytes },
            })
        }
    }
}

/// One message as one frame.
///
/// # Errors
/// As [`encode_into`].
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut buffer = Vec::with_capacity(256);
    encode_into(message, &mut buffer)?;
    Ok(buffer)
}

/// Stops copying a message that is too large, but still counts it, so that the error can say how large it is.
struct Bounded<'a> {
    buffer: &'a mut Vec<u8>,
    written: usize,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.written += bytes.len();
        if self.written <= MAX_FRAME_BYTES {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were handed out already.
    taken: usize,
}

impl Decoder {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the next bytes from the socket go: append, then [`take`](Self::take) until it has none.
    pub fn space(&mut self) -> &mut Vec<u8> {
        if self.taken > 0 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        // A rare large message must not keep its buffer for the life of the connection.
        if self.buffer.is_empty() && self.buffer.capacity() > 1024 * 1024 {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(16 * 1024);
        &mut self.buffer
    }

    /// The next complete frame, if there is one.
    ///
    /// # Errors
    /// A malformed frame. The stream cannot be trusted after that; close it.
    pub fn take<M: DeserializeOwned>(&mut self) -> Result<Option<M>, FrameError> {
        let rest = &self.buffer[self.taken..];
        let Some((header, rest)) = rest.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        // u32 → usize: this code runs on 64-bit Linux; on a 32-bit system the comparison below still holds.
        let bytes = u32::from_le_bytes(*header) as usize;
        if bytes > MAX_FRAME_BYTES {
            return Err(FrameError::AnnouncedTooLarge { bytes });
        }
        let Some(payload) = rest.get(..bytes) else { return Ok(None) };
        let (message, left) =
            postcard::take_from_bytes(payload).map_err(|error| FrameError::Malformed { bytes, reason: error.to_string() })?;
        if !left.is_empty() {
            return Err(FrameError::Malformed { bytes, reason: format!("{} bytes are left over", left.len()) });
        }
        self.taken += HEADER_BYTES + bytes;
        Ok(Some(message))
    }
}
