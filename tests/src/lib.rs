//! What the tests from outside stand on: a real server process with folders of its own, a client, a way to look at processes.
//!
//! Nothing here knows the host's insides. A missing tree or model is a failure with a sentence, never a skip.

pub mod client;
pub mod processes;
pub mod raw;
pub mod server;

use std::path::PathBuf;

/// The demo model's file.
pub const MODEL_FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// What its manifest calls it.
pub const MODEL: &str = "smollm2:135m";

fn folder(variable: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => panic!("{variable} is not set: run `cargo xtask test`, which stages the tree, fetches the model and sets it"),
    }
}

/// The staged tree.
pub fn dist() -> PathBuf {
    folder("ONEBIT_DIST")
}

/// The program under test.
pub fn program() -> PathBuf {
    let program = dist().join("bin/onebit-host");
    assert!(program.exists(), "{} does not exist: run `cargo xtask stage`", program.display());
    program
}

/// The demo model.
pub fn model_file() -> PathBuf {
    let file = folder("ONEBIT_TEST_MODELS").join(MODEL_FILE);
    assert!(file.exists(), "{} does not exist: run `cargo xtask fetch-model`", file.display());
    file
}
