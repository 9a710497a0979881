//! Calls that a well-behaved host never makes, for the conformance kit.
//!
//! The rest of this crate checks every argument and tells the truth about every size, so nothing above it could find out whether a plugin
//! looks for itself. Here a host lies about `struct_size`, is older or newer than this one, leaves functions out, and sends numbers that are
//! out of range. All memory that is handed over is the host's own and as long as it says, with pages behind it that nobody may touch: a
//! plugin that reads or writes too far ends the process there and then.
//!
//! What these must never do: serve anything but a test in a process of its own.

mod guarded;
mod host;
mod lies;
mod process;
mod unchecked;

pub use host::HostShape;
pub use lies::{CALLS, Call, Lie, Part, Stage, Subject, Told, lie};
pub use process::{SignalHandler, allocated, locale, signal_handlers};
pub use unchecked::SeqCall;
