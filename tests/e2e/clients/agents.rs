//! Coding agents, whole: each is given a task, runs the command that the model asks for, and says what the model makes of its output.
//!
//! No model that a test can load works so, so one that follows a script does (`tests/faults/scripted`). All the rest is real: the agent with
//! its own prompt and tools, the dialect, the notation of calls, the stream.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use onebit_faults::Which;
use onebit_tests::server::{Home, Server};
use serde_json::json;

use super::{attest, packages, pinned, run};

const TASK: &str = "Please count the files";
const ANSWER: &str = "There are 42 files.";
/// What the command prints, and what nobody says before it has run.
const PRINTED: &str = "counted-42";
const COMMAND: &str = "echo counted-$((40+2))";

/// A server whose model calls `tool` with the command, and answers what the command prints.
fn server(tool: &str, argument: &str) -> Server {
    let home = Home::new();
    let (plugins, manifests) = (home.path().join("plugins"), home.path().join("manifests"));
    onebit_faults::install(Which::Scripted, &plugins).unwrap();
    let call = json!({"name": tool, "arguments": {argument: COMMAND, "description": "Counts"}});
    let say = format!("I look.\n<tool_call>\n{call}\n</tool_call>");
    onebit_faults::script(&home.models(), "agent", &[(TASK, &say), (PRINTED, ANSWER)]).unwrap();
    std::fs::create_dir_all(&manifests).unwrap();
    let manifest = "schema = 1\nname = \"agent\"\n[model]\nfile = \"agent.script\"\nformat = \"script\"\narchitecture = \"scripted\"\n\
                    [chat]\ntool_format = \"hermes\"\n[[serve]]\nplugin = \"scripted\"\n";
    std::fs::write(manifests.join("agent.toml"), manifest).unwrap();
    home.env("ONEBIT_PLUGIN_DIR", plugins)
        .env("ONEBIT_MANIFEST_DIR", manifests)
        .env("ONEBIT_NO_DEFAULT_DIRS", "true")
        // Agents write prompts of 20000 tokens, and here a byte is one.
        .env("ONEBIT_CONTEXT", "500000")
        .serve()
}

/// Gives an agent the task; `prepare` writes its configuration into its home and returns what is to be run in its folder.
fn works(client: &str, package: &str, tool: (&str, &str), prepare: impl FnOnce(&Path, &Path, &str) -> Command) {
    let agents = packages("agents");
    let server = server(tool.0, tool.1);
    let (home, work) = (server.home.path().join("agent"), server.home.path().join("work"));
    std::fs::create_dir_all(&home).unwrap();
    std::fs::create_dir_all(&work).unwrap();
    let mut command = prepare(&agents.join("node_modules"), &home, server.client().base());
    command.current_dir(&work).env("HOME", &home).stdin(Stdio::null());
    // They would ask elsewhere for news of themselves; nobody listens at that port.
    command.env("HTTPS_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "127.0.0.1");
    let said = run(&mut command);
    assert!(said.contains(ANSWER), "{said}");
    attest(client, &pinned("agents/package.json", package), "a task with a command to run and its output to answer");
}

fn program(packages: &Path, path: &str) -> Command {
    Command::new(packages.join(path))
}

fn write(path: PathBuf, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
#[ignore = "fetches 1.4 GB of agents; run before a release, or after a change of a dialect"]
fn claude_code_works() {
    works("Claude Code", "@anthropic-ai/claude-code", ("Bash", "command"), |packages, _, base| {
        let mut claude = program(packages, "@anthropic-ai/claude-code-linux-x64/claude");
        claude.args(["-p", TASK, "--model", "agent", "--allowedTools", "Bash"]);
        claude.env("ANTHROPIC_BASE_URL", base).env("ANTHROPIC_API_KEY", "none");
        claude.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        claude
    });
}

#[test]
#[ignore = "fetches 1.4 GB of agents; run before a release, or after a change of a dialect"]
fn codex_works() {
    works("Codex", "@openai/codex", ("exec_command", "cmd"), |packages, home, base| {
        let provider = format!("[model_providers.onebit]\nname = \"onebit-host\"\nbase_url = \"{base}/v1\"\nwire_api = \"responses\"\n");
        let codex_home = home.join("codex");
        write(codex_home.join("config.toml"), &format!("model = \"agent\"\nmodel_provider = \"onebit\"\n{provider}"));
        let mut codex = program(packages, ".bin/codex");
        codex.args(["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", TASK]).env("CODEX_HOME", codex_home);
        codex
    });
}

#[test]
#[ignore = "fetches 1.4 GB of agents; run before a release, or after a change of a dialect"]
fn opencode_works() {
    works("opencode", "opencode-ai", ("bash", "command"), |packages, home, base| {
        let provider = json!({"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": format!("{base}/v1")}, "models": {"agent": {}}});
        let config = json!({"provider": {"onebit": provider}, "autoupdate": false, "share": "disabled"});
        write(home.join(".config/opencode/opencode.json"), &config.to_string());
        let mut opencode = program(packages, "opencode-linux-x64/bin/opencode");
        opencode.args(["run", "--model", "onebit/agent", TASK]);
        opencode
    });
}

#[test]
#[ignore = "fetches 1.4 GB of agents; run before a release, or after a change of a dialect"]
fn continues_terminal_works() {
    works("Continue", "@continuedev/cli", ("Bash", "command"), |packages, home, base| {
        let model = format!(
            "  - name: agent\n    provider: openai\n    model: agent\n    apiBase: {base}/v1\n    apiKey: none\n    roles: [chat]\n"
        );
        let config = home.join("config.yaml");
        write(config.clone(), &format!("name: onebit\nversion: 1.0.0\nschema: v1\nmodels:\n{model}"));
        let mut cn = program(packages, ".bin/cn");
        cn.args(["-p", "--auto", "--config"]).arg(config).arg(TASK);
        cn
    });
}
