//! The worker alone, without the rest of the host: what the tests of this crate start in place of `onebit-host worker`.

use std::process::ExitCode;

fn main() -> ExitCode {
    onebit_worker::child::worker_main()
}
