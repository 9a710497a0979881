//! Client libraries as people use them, each in an environment of its own with pinned versions.

use std::path::{Path, PathBuf};
use std::process::Command;

use onebit_tests::server::Home;
use onebit_tests::{MODEL, MODEL_FILE};

pub fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// A Python environment with what `requirements` names, made once per user and list.
pub fn environment(requirements: &str) -> PathBuf {
    let list = clients().join(requirements);
    let text = std::fs::read_to_string(&list).unwrap();
    // A changed list gets another folder, so that nobody tests against yesterday's versions.
    let key = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let folder = kept().join(format!("{requirements}-{key:016x}"));
    let python = folder.join("bin/python");
    std::fs::create_dir_all(kept()).unwrap();
    // Two tests may want the same one at the same time; the second waits, and finds it complete.
    let lock = std::fs::File::create(kept().join(format!("{requirements}.lock"))).unwrap();
    lock.lock().unwrap();
    if folder.join("complete").exists() {
        return python;
    }
    let _ = std::fs::remove_dir_all(&folder);
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(&list));
    std::fs::write(folder.join("complete"), "").unwrap();
    python
}

/// Where what was fetched for tests is kept between runs.
pub fn kept() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"))).expect("HOME is set");
    cache.join("onebit/clients")
}

pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn the_official_openai_client_chats_streams_embeds_and_sees_errors() {
    let python = environment("openai.txt");
    let server = Home::with_model().env("ONEBIT_API_KEY", "key-of-the-test").serve();
    let said = run(Command::new(python)
        .arg(clients().join("openai_client.py"))
        .env("OPENAI_BASE_URL", format!("{}/v1", server.client().base()))
        .env("OPENAI_API_KEY", "key-of-the-test")
        .env("MODEL", MODEL)
        .env("NO_PROXY", "127.0.0.1"));
    assert!(said.contains("all checks passed"), "{said}");
}

#[test]
fn the_official_ollama_client_chats_generates_embeds_and_sees_errors() {
    let python = environment("langchain.txt");
    let server = Home::with_model().env("ONEBIT_API_KEY", "key-of-the-test").serve();
    let said = run(Command::new(python)
        .arg(clients().join("ollama_client.py"))
        .env("BASE", server.client().base())
        .env("KEY", "key-of-the-test")
        .env("MODEL", MODEL)
        .env("NO_PROXY", "127.0.0.1"));
    assert!(said.contains("all checks passed"), "{said}");
}

/// At temperature 0 a small model repeats itself without an end, unless its manifest says otherwise.
const TESTED: &str = "[defaults]\nfrequency_penalty = 0.6\n[[serve]]\nplugin = \"vulkan-ggml\"\ndevice = \"cpu\"\n";

/// As many as `docs/clients.md` tells: a test that is skipped because something broke would change it.
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
    let told = std::fs::read_to_string(clients().parent().unwrap().parent().unwrap().join("docs/clients.md")).unwrap();
    for (class, package) in
        [("TestOpenAI", "langchain-openai"), ("TestOllama", "langchain-ollama"), ("TestAnthropic", "langchain-anthropic")]
    {
        let count = |word: &str| said.lines().filter(|line| line.contains(&format!("::{class}::")) && line.contains(word)).count();
        let found = format!("{} pass, {} do not apply", count(" PASSED"), count(" SKIPPED"));
        let row = told.lines().find(|line| line.starts_with(&format!("| {package} |"))).unwrap();
        assert!(row.contains(&found), "{found}: {row}\n{said}");
    }
}
