//! Installing plugins: from a folder or an archive of a stranger to a plugin that a host may use, or to a sentence why not.
//!
//! ```text
//! plugins/                     what hosts look through
//!   NAME/                      the plugin: changed only by one rename
//!   .previous/NAME/            what NAME was before; rollback exchanges the two
//!   .installed/NAME.json       where it came from: only what has such a record is ever removed
//!   .previous/NAME.json
//!   .staging-…/                what is not checked yet, on the same disk; gone when an install ends
//!   .lock                      one install at a time
//! ```
//!
//! The order never changes: unpack within bounds, inspect, check the trust and every hash, then swap in with one system call. Whatever goes wrong
//! before leaves nothing behind and changes nothing. Files are never written in place: a process that has mapped the previous version keeps
//! it. What it must never do: run anything of a plugin, follow a link, write outside its folder, or update by itself.

mod error;
mod limits;
mod record;
mod seal;
mod source;
mod store;
mod unpack;

pub use error::InstallError;
pub use record::{Record, Times};
pub use seal::{Sealed, seal};
pub use store::{Done, Installed, Removed, RolledBack, Store, previous_version};
