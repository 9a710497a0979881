//! What the front process and a worker say to each other, and how it lies on the wire.
//!
//! One socket pair per worker, nothing else: a plugin's stdout and stderr are logs, never protocol. A message is a postcard value in a
//! length-prefixed [`frame`]. The first frame each way is a [`Hello`], whose layout is frozen, so that a worker of another build is
//! recognised before anything else is parsed. Both sides read with bounds and treat a malformed frame as the end of the connection:
//! the worker maps foreign code, so what it sends is checked like any other input.

mod frame;
mod message;

pub use frame::{Decoder, FrameError, HEADER_BYTES, MAX_FRAME_BYTES, encode, encode_into};
pub use message::{FromWorker, Hello, LoadFailure, LoadOrder, LoadStage, Stats, ToWorker};

/// Version of the messages. Raised whenever a message changes; the two sides must agree exactly, because they are one program.
pub const PROTOCOL_VERSION: u32 = 3;

/// The build this code belongs to. A packager may set `ONEBIT_BUILD_ID` when compiling to tell builds of one version apart.
#[must_use]
pub fn build_id() -> &'static str {
    match option_env!("ONEBIT_BUILD_ID") {
        Some(id) => id,
        None => env!("CARGO_PKG_VERSION"),
    }
}
