//! Random operations on sequences, valid and invalid, against a simple oracle; what fails is made small.
//!
//! The lists are generated in the kit and run in processes of their own, so that a crash belongs to a list, and shrinking goes on after it.

mod drive;
mod ops;
mod oracle;
mod subject;

pub use drive::{Found, FuzzReport, chance, fuzz, replay};
pub use ops::Op;
pub(crate) use subject::attempt;
