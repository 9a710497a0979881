//! The processes in which the kept plugins run: a worker, or one case of the conformance kit.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(onebit_kit::ROLE) => onebit_kit::kit_case_main(),
        _ => onebit_worker::child::worker_main(),
    }
}
