//! The kit on plugins that are known: what is honest passes, and each broken law is found by the case that is there for it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so with a panic")]

mod faults;
mod fuzz;
mod honest;
mod sandbox;
mod support;
