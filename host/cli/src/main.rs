//! `onebit-host`: the commands of a host for local AI whose engine is its plugins.
//!
//! This crate is thin: it turns words into calls and results into words. Choosing, supervising, computing and serving are in the crates below.
//! The two child roles (`worker`, `probe`) are taken before anything else is looked at, so that no configuration file and no variable can
//! change how a child speaks to its parent.

mod commands;
mod exit;
mod log;
mod output;
mod places;
mod pull;
mod settings;
mod tls;
mod version;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut verbose = false;
    match commands::run(&mut verbose) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(verbose),
    }
}
