//! Worker and probe without the rest of the program: what the tests of the whole host start in place of `onebit-host`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(command) if command == "probe" => onebit_worker::probe::probe_main(arguments),
        _ => onebit_worker::child::worker_main(),
    }
}
