//! Clients in JavaScript.

use std::process::Command;

use onebit_tests::MODEL;
use onebit_tests::server::Home;

use super::{attest, checked, packages, pinned, run};

fn holds(script: &str, client: &str, package: &str) {
    let folder = packages("node");
    let server = Home::with_model().env("ONEBIT_API_KEY", "key-of-the-test").serve();
    let said = run(Command::new("node")
        .arg(folder.join(script))
        .env("BASE", server.client().base())
        .env("KEY", "key-of-the-test")
        .env("MODEL", MODEL)
        .env("AI_SDK_LOG_WARNINGS", "false")
        .env("NO_PROXY", "127.0.0.1"));
    attest(client, &pinned("node/package.json", package), &checked(&said));
}

#[test]
fn the_official_openai_client() {
    holds("openai.mjs", "openai (JavaScript)", "openai");
}

#[test]
fn the_official_anthropic_client() {
    holds("anthropic.mjs", "@anthropic-ai/sdk", "@anthropic-ai/sdk");
}

#[test]
fn the_official_ollama_client() {
    holds("ollama.mjs", "ollama (JavaScript)", "ollama");
}

#[test]
fn the_ai_sdk_over_its_provider_for_compatible_servers() {
    holds("ai_sdk.mjs", "@ai-sdk/openai-compatible", "@ai-sdk/openai-compatible");
}
