//! `/openapi.json` thrown back at the server: schemathesis makes requests that fit the document and requests that do not, and looks whether the
//! answers are documented ones. None may be a server error.

use std::process::Command;

use onebit_tests::MODEL;
use onebit_tests::server::Home;

use crate::clients::{clients, environment, run};

/// Answers that the document does not have, and those by which the server says that it failed.
const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance";

/// Runs it side by side, so that requests meet: phases, and cases of each route where a phase makes them by chance. Says how many cases there were.
///
/// Not in threads of one process: they make some versions of Python fail by themselves.
fn cases(runs: &[(&str, u32)]) -> u64 {
    let python = environment("schemathesis.txt");
    // Whatever is pulled, no request leaves this machine.
    let server = Home::with_model().env("HF_ENDPOINT", "http://127.0.0.1:1").env("ONEBIT_PYTHON", "/bin/false").serve();
    let one = &|(seed, (phases, each)): (usize, &(&str, u32))| {
        let said = run(Command::new(python.with_file_name("schemathesis"))
            .arg("run")
            .arg(format!("{}/openapi.json", server.client().base()))
            .args(["--phases", phases, "--checks", CHECKS, "--max-examples", &each.to_string(), "--seed", &seed.to_string()])
            .args(["--no-shrink", "--request-timeout", "60", "--no-color"])
            .current_dir(server.home.path())
            .env("SCHEMATHESIS_HOOKS", "schemathesis_hooks")
            .env("PYTHONPATH", clients())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("MODEL", MODEL)
            .env("NO_PROXY", "127.0.0.1"));
        println!("{said}");
        made(&said).unwrap_or_else(|| panic!("it does not say how many cases it made:\n{said}"))
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = runs.iter().enumerate().map(|run| scope.spawn(move || one(run))).collect();
        started.into_iter().map(|run| run.join().expect("schemathesis is content")).sum()
    })
}

/// `1,234 generated, …` of its closing lines.
fn made(said: &str) -> Option<u64> {
    let (before, _) = said.rsplit_once(" generated")?;
    before.rsplit(char::is_whitespace).next()?.replace(',', "").parse().ok()
}

#[test]
fn no_request_that_follows_or_breaks_the_document_is_a_server_error() {
    let made = cases(&[("examples,fuzzing", 6), ("fuzzing", 6)]);
    assert!(made > 150, "only {made} cases");
}

#[test]
#[ignore = "takes half an hour; run before a release, or after a change of the document"]
fn ten_thousand_such_requests_are_no_server_error() {
    let made = cases(&[("examples,coverage", 1), ("fuzzing", 450)]);
    assert!(made >= 10_000, "only {made} cases");
}
