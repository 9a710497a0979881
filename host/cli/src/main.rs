//! `onebit-host`: the commands of a host for local AI whose engine is its plugins.
//!
//! This crate is thin: it turns words into calls and results into words. Choosing, supervising, computing and serving are in the crates below.
//! The child roles (`worker`, `probe`, `kit-case`, `render`) are taken before anything else is looked at, so that no configuration file and no variable can
//! change how a child speaks to its parent.

mod chat;
mod commands;
mod doctor;
mod exit;
mod log;
mod output;
mod places;
mod pull;
mod service;
mod settings;
mod tls;
mod version;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The child roles; see above.
    match std::env::args_os().nth(1).as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("worker") => return onebit_worker::child::worker_main(),
        Some("probe") => return onebit_worker::probe::probe_main(std::env::args_os().skip(2)),
        Some(onebit_kit::ROLE) => return onebit_kit::kit_case_main(),
        Some(onebit_http::template::ROLE) => return onebit_http::template::render_main(),
        _ => {}
    }
    let mut verbose = false;
    match commands::run(&mut verbose) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(verbose),
    }
}
