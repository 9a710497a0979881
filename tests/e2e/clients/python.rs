//! Clients in Python.

use std::process::Command;

use onebit_tests::server::{Home, free_port};
use onebit_tests::{MODEL, MODEL_FILE, model_file};

use super::{attest, checked, clients, environment, pinned, run};

/// Runs a script with an environment against a server of its own and holds the README's row of `package` against what it checked.
fn holds(script: &str, requirements: &str, package: &str) {
    let python = environment(requirements);
    // Where a script plays the hub that models come from.
    let hub = free_port();
    let home = Home::with_model().env("ONEBIT_API_KEY", "key-of-the-test").env("HF_ENDPOINT", format!("http://127.0.0.1:{hub}"));
    let server = home.serve();
    let said = run(Command::new(python)
        .arg(clients().join(script))
        .env("BASE", server.client().base())
        .env("KEY", "key-of-the-test")
        .env("MODEL", MODEL)
        .env("FILE", model_file())
        .env("MODELS", server.home.models())
        .env("HUB_PORT", hub.to_string())
        .env("NO_PROXY", "127.0.0.1"));
    attest(&format!("{package} (Python)"), &pinned(requirements, package), &checked(&said));
}

#[test]
fn the_official_openai_client() {
    holds("openai_client.py", "langchain.txt", "openai");
}

#[test]
fn the_official_anthropic_client() {
    holds("anthropic_client.py", "langchain.txt", "anthropic");
}

#[test]
fn the_official_ollama_client() {
    holds("ollama_client.py", "langchain.txt", "ollama");
}

/// At temperature 0 a small model repeats itself without an end, unless its manifest says otherwise.
const TESTED: &str = "[defaults]\nfrequency_penalty = 0.6\n[[serve]]\nplugin = \"vulkan-ggml\"\ndevice = \"cpu\"\n";

/// A test that is skipped because something broke would change the counts.
#[test]
fn langchains_own_suite_passes_over_three_dialects() {
    let python = environment("langchain.txt");
    let home = Home::with_model().env("ONEBIT_API_KEY", "key-of-the-test");
    let folder = home.path().join("config/onebit/models.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("tested.toml"), format!("schema = 1\nname = \"tested\"\n[model]\nfile = \"{MODEL_FILE}\"\n{TESTED}"))
        .unwrap();
    let server = home.serve();
    let said = run(Command::new(python)
        .args(["-m", "pytest", "-v", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-o", "asyncio_default_test_loop_scope=session"])
        .arg(clients().join("langchain_chat.py"))
        .env("BASE", server.client().base())
        .env("KEY", "key-of-the-test")
        .env("MODEL", "tested")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("NO_PROXY", "127.0.0.1"));
    let suite = format!("`langchain-tests` {}", pinned("langchain.txt", "langchain-tests"));
    for (class, package) in
        [("TestOpenAI", "langchain-openai"), ("TestOllama", "langchain-ollama"), ("TestAnthropic", "langchain-anthropic")]
    {
        let count = |word: &str| said.lines().filter(|line| line.contains(&format!("::{class}::")) && line.contains(word)).count();
        let found = format!("{suite}: {} pass, {} do not apply", count(" PASSED"), count(" SKIPPED"));
        attest(package, &pinned("langchain.txt", package), &found);
    }
}
