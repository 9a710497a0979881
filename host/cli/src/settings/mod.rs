//! Settings: one table, from which flags, environment, configuration files and `docs/settings.md` are made.
//!
//! A setting is a row of [`table`]. Adding one is adding a row; nothing else has to know it. The order of precedence is the same for all:
//! flag, environment, `--config` file, the user's file, the system's file, default. A value that cannot be read is an error that names where
//! it was written; it is never replaced by a default.

pub mod docs;
mod file;
mod resolve;
mod row;
pub mod table;
#[cfg(test)]
mod table_tests;
mod value;

pub use resolve::{Settings, arguments};
#[cfg(test)]
pub use row::Commands;
pub use value::{Bytes, LogFormat, PrefixCache, Shape, Span, TrustMode};
