//! The table of settings. Data only: each row says everything about its setting. Those that have a section of their own in the file are in
//! [`sections`].

mod sections;

use std::path::PathBuf;

use onebit_http::Listen;

pub use sections::*;

use super::row::{Commands, Fallback, Row, Setting};
use super::value::{Bytes, LogFormat, PrefixCache, Span};

const FOLDERS: &str = "Folders";
const GENERAL: &str = "General";
const SERVER: &str = "Server";
const ACCESS: &str = "Access";
const LIMITS: &str = "Limits";
const MODELS: &str = "Models";
const ANSWERS: &str = "Answers";

/// Commands that compute.
const COMPUTING: Commands = Commands::Only(&["serve", "run"]);
const SERVE: Commands = Commands::Only(&["serve"]);

fn paths(list: Vec<PathBuf>) -> Vec<String> {
    list.into_iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// `models_dir`
pub static MODELS_DIR: Setting<Vec<PathBuf>> = Setting {
    placeholder: "DIR",
    group: FOLDERS,
    fallback: Fallback::Computed(|places| paths(places.models_dirs()), "$XDG_DATA_HOME/onebit/models, /var/lib/onebit/models"),
    help: "Folder of model files; repeats, replaces the default. `pull` puts files into the first.",
    sensible: |dirs| if dirs.is_empty() { Err("names no folder".into()) } else { Ok(()) },
    ..Setting::named("models_dir", "models-dir", &["ONEBIT_MODELS_DIR"])
};
/// `manifest_dir`
pub static MANIFEST_DIR: Setting<Vec<PathBuf>> = Setting {
    placeholder: "DIR",
    group: FOLDERS,
    help: "Folder of model manifests that override the installed ones; repeats, the last is the strongest.",
    ..Setting::named("manifest_dir", "manifest-dir", &["ONEBIT_MANIFEST_DIR"])
};
/// `plugin_dir`
pub static PLUGIN_DIR: Setting<Vec<PathBuf>> = Setting {
    placeholder: "DIR",
    group: FOLDERS,
    help: "Folder of plugins, searched before the installed ones; repeats.",
    ..Setting::named("plugin_dir", "plugin-dir", &["ONEBIT_PLUGIN_DIR"])
};
/// `no_default_dirs`
pub static NO_DEFAULT_DIRS: Setting<bool> = Setting {
    group: FOLDERS,
    help: "Use only the manifest and plugin folders that are given, not the installed ones.",
    ..Setting::named("no_default_dirs", "no-default-dirs", &["ONEBIT_NO_DEFAULT_DIRS"])
};
/// `cache_dir`
pub static CACHE_DIR: Setting<PathBuf> = Setting {
    placeholder: "DIR",
    group: FOLDERS,
    fallback: Fallback::Computed(|places| paths(vec![places.cache_dir()]), "$XDG_CACHE_HOME/onebit"),
    help: "Folder for what may be thrown away: what plugins answered about devices.",
    ..Setting::named("cache_dir", "cache-dir", &["ONEBIT_CACHE_DIR"])
};
/// The configuration file itself; a file cannot name it.
pub static CONFIG: Setting<Option<PathBuf>> = Setting {
    placeholder: "FILE",
    group: GENERAL,
    in_file: false,
    help: "Configuration file, read after /etc/onebit/config.toml and $XDG_CONFIG_HOME/onebit/config.toml.",
    ..Setting::named("config", "config", &["ONEBIT_CONFIG"])
};
/// `verbose`
pub static VERBOSE: Setting<bool> = Setting {
    short: Some('v'),
    group: GENERAL,
    help: "Say more: the causes of an error, the speed of an answer, the plugin and device that computed it.",
    ..Setting::named("verbose", "verbose", &["ONEBIT_VERBOSE"])
};
/// `log`
pub static LOG: Setting<Option<String>> = Setting {
    placeholder: "LEVELS",
    group: GENERAL,
    help: "What is logged to standard error: off, error, warn, info, debug, trace, also by part (warn,onebit_worker=debug). `serve` logs info, `run` nothing, `doctor` error, all else warn.",
    sensible: |levels| match levels {
        Some(levels) => levels
            .parse::<tracing_subscriber::filter::Targets>()
            .map(|_| ())
            .map_err(|_| format!("is {levels:?}; it takes levels such as info or warn,onebit_worker=debug")),
        None => Ok(()),
    },
    ..Setting::named("log", "log", &["ONEBIT_LOG"])
};
/// `log_format`
pub static LOG_FORMAT: Setting<LogFormat> = Setting {
    placeholder: "text|json",
    group: GENERAL,
    fallback: Fallback::Text("text"),
    help: "How log lines look.",
    ..Setting::named("log_format", "log-format", &["ONEBIT_LOG_FORMAT"])
};

/// `listen`
pub static LISTEN: Setting<Vec<Listen>> = Setting {
    placeholder: "ADDR:PORT",
    commands: Commands::Only(&["serve", "ps"]),
    group: SERVER,
    fallback: Fallback::Text("127.0.0.1:8090"),
    help: "Where the server listens: 127.0.0.1:8090, [::1]:8090, unix:/path/to/socket; repeats. Anything but this machine itself needs an API key or --insecure.",
    sensible: |list| if list.is_empty() { Err("names no address".into()) } else { Ok(()) },
    ..Setting::named("listen", "listen", &["ONEBIT_LISTEN"])
};
/// `drain_timeout`
pub static DRAIN_TIMEOUT: Setting<Span> = Setting {
    placeholder: "TIME",
    commands: SERVE,
    group: SERVER,
    fallback: Fallback::Text("30s"),
    help: "How long running answers may go on after SIGTERM or Ctrl-C. A second signal ends at once.",
    ..Setting::named("drain_timeout", "drain-timeout", &["ONEBIT_DRAIN_TIMEOUT"])
};
/// `responses_db`
pub static RESPONSES_DB: Setting<PathBuf> = Setting {
    placeholder: "FILE",
    commands: SERVE,
    group: SERVER,
    fallback: Fallback::Computed(|places| paths(vec![places.state_dir().join("responses.db")]), "$XDG_STATE_HOME/onebit/responses.db"),
    help: "File that keeps the responses of /v1/responses; a service has it in /var/lib/onebit. Only its user may read it.",
    ..Setting::named("responses_db", "responses-db", &["ONEBIT_RESPONSES_DB"])
};
/// `responses_retention`
pub static RESPONSES_RETENTION: Setting<Span> = Setting {
    placeholder: "TIME",
    commands: SERVE,
    group: SERVER,
    fallback: Fallback::Text("30d"),
    help: "How long responses are kept, such as 30d or forever; of more than 1 GiB the oldest go first. 0 = none is kept, and none can be gone on from or made in the background.",
    ..Setting::named("responses_retention", "responses-retention", &["ONEBIT_RESPONSES_RETENTION"])
};
/// `api_key`
pub static API_KEY: Setting<Option<String>> = Setting {
    placeholder: "KEY",
    commands: Commands::Only(&["serve", "ps"]),
    group: ACCESS,
    secret: true,
    help: "Key that opens everything (Authorization: Bearer KEY). For one person; for several use api_keys_file. On a shared machine use the variable: others can read a command line.",
    sensible: |key| match key {
        Some(key) if key.trim().is_empty() || key.chars().any(char::is_whitespace) => Err("is empty or has spaces".into()),
        _ => Ok(()),
    },
    ..Setting::named("api_key", "api-key", &["ONEBIT_API_KEY"])
};
/// `api_keys_file`
pub static API_KEYS_FILE: Setting<Option<PathBuf>> = Setting {
    placeholder: "FILE",
    commands: Commands::Only(&["serve", "key"]),
    group: ACCESS,
    help: "File of keys with scopes and limits, which `onebit-host key` writes (docs/keys.md). Read again when it changes. Others must not be able to read it.",
    ..Setting::named("api_keys_file", "api-keys-file", &["ONEBIT_API_KEYS_FILE"])
};
/// `tls_cert`
pub static TLS_CERT: Setting<Option<PathBuf>> = Setting {
    placeholder: "FILE",
    commands: Commands::Only(&["serve", "ps"]),
    group: ACCESS,
    help: "Certificate (PEM, with the ones between it and its root) for https on all addresses but sockets in files; needs tls_key. Read again when it changes.",
    ..Setting::named("tls_cert", "tls-cert", &["ONEBIT_TLS_CERT"])
};
/// `tls_key`
pub static TLS_KEY: Setting<Option<PathBuf>> = Setting {
    placeholder: "FILE",
    commands: SERVE,
    group: ACCESS,
    help: "Private key (PEM) of tls_cert.",
    ..Setting::named("tls_key", "tls-key", &["ONEBIT_TLS_KEY"])
};
/// `insecure`
pub static INSECURE: Setting<bool> = Setting {
    commands: SERVE,
    group: ACCESS,
    help: "Listen beyond this machine without an API key: everyone who reaches the port may use the models.",
    ..Setting::named("insecure", "insecure", &["ONEBIT_INSECURE"])
};
/// `allow_origin`
pub static ALLOW_ORIGIN: Setting<Vec<String>> = Setting {
    placeholder: "ORIGIN",
    commands: SERVE,
    group: ACCESS,
    help: "Web page that may call the server from a browser, such as https://chat.example; repeats. Pages of this machine may always.",
    ..Setting::named("allow_origin", "allow-origin", &["ONEBIT_ALLOW_ORIGIN"])
};
/// `allow_host`
pub static ALLOW_HOST: Setting<Vec<String>> = Setting {
    placeholder: "NAME",
    commands: SERVE,
    group: ACCESS,
    help: "Name under which clients may reach the server (Host header), such as ai.example; repeats. localhost and the address it listens on always work.",
    ..Setting::named("allow_host", "allow-host", &["ONEBIT_ALLOW_HOST"])
};
/// `slots`
pub static SLOTS: Setting<u32> = Setting {
    fallback: Fallback::Text("0"),
    placeholder: "N",
    commands: COMPUTING,
    group: MODELS,
    help: "Requests that one model computes side by side, each with its own context, where its manifest does not say. 0 = the host's number (4 when serving, 1 in a terminal).",
    sensible: |slots| if *slots <= 256 { Ok(()) } else { Err("must be at most 256".into()) },
    ..Setting::named("slots", "slots", &["ONEBIT_SLOTS"])
};
/// `context`
pub static CONTEXT: Setting<Option<u32>> = Setting {
    placeholder: "TOKENS",
    commands: COMPUTING,
    group: MODELS,
    help: "Positions (prompt and answer) that one request may use, where its manifest does not say. Otherwise what the model was trained for, at most 8192, as far as memory allows.",
    sensible: |context| if context.unwrap_or(1) > 0 { Ok(()) } else { Err("must be at least 1".into()) },
    ..Setting::named("context", "context", &["ONEBIT_CONTEXT"])
};
/// `threads`
pub static THREADS: Setting<Option<u32>> = Setting {
    placeholder: "N",
    commands: COMPUTING,
    group: MODELS,
    help: "CPU threads of one model, where its manifest does not say. Otherwise the plugin chooses.",
    sensible: |threads| if (1..=1024).contains(&threads.unwrap_or(1)) { Ok(()) } else { Err("must be from 1 to 1024".into()) },
    ..Setting::named("threads", "threads", &["ONEBIT_THREADS"])
};
/// `device`
pub static DEVICE: Setting<onebit_catalog::Selector> = Setting {
    placeholder: "DEVICE",
    commands: Commands::Only(&["serve", "run", "explain", "list"]),
    group: MODELS,
    fallback: Fallback::Text("any"),
    help: "Only devices of this kind: any, cpu, vulkan, vulkan:UUID, vulkan-software, accel, accel:PCI. `onebit-host doctor` lists them.",
    ..Setting::named("device", "device", &["ONEBIT_DEVICE"])
};
/// `keep_alive`
pub static KEEP_ALIVE: Setting<Span> = Setting {
    fallback: Fallback::Text("5m"),
    placeholder: "TIME",
    commands: SERVE,
    group: MODELS,
    help: "How long a model without requests stays loaded, where its manifest does not say: 30s, 5m, forever.",
    ..Setting::named("keep_alive", "keep-alive", &["ONEBIT_KEEP_ALIVE"])
};
/// `max_loaded`
pub static MAX_LOADED: Setting<Option<u32>> = Setting {
    placeholder: "N",
    commands: SERVE,
    group: LIMITS,
    help: "Models loaded at a time; the one unused longest goes. Otherwise as many as memory holds.",
    sensible: |count| if count.unwrap_or(1) > 0 { Ok(()) } else { Err("must be at least 1".into()) },
    ..Setting::named("max_loaded", "max-loaded", &["ONEBIT_MAX_LOADED"])
};
/// `memory_budget`
pub static MEMORY_BUDGET: Setting<Option<Bytes>> = Setting {
    placeholder: "SIZE",
    commands: SERVE,
    group: LIMITS,
    help: "Memory that all loaded models together may use, such as 12GiB. Otherwise what the machine has.",
    ..Setting::named("memory_budget", "memory-budget", &["ONEBIT_MEMORY_BUDGET"])
};
/// `max_queue`
pub static MAX_QUEUE: Setting<u32> = Setting {
    placeholder: "N",
    commands: SERVE,
    group: LIMITS,
    fallback: Fallback::Text("512"),
    help: "Requests that may wait for one model; more are told to come back later (503, Retry-After).",
    ..Setting::named("max_queue", "max-queue", &["ONEBIT_MAX_QUEUE"])
};
/// `max_body`
pub static MAX_BODY: Setting<Bytes> = Setting {
    placeholder: "SIZE",
    commands: SERVE,
    group: LIMITS,
    fallback: Fallback::Text("32MiB"),
    help: "Largest request.",
    ..Setting::named("max_body", "max-body", &["ONEBIT_MAX_BODY"])
};
/// `max_buffered`
pub static MAX_BUFFERED: Setting<Bytes> = Setting {
    placeholder: "SIZE",
    commands: SERVE,
    group: LIMITS,
    fallback: Fallback::Text("256MiB"),
    help: "Bytes of all requests that are being received at one time.",
    ..Setting::named("max_buffered", "max-buffered", &["ONEBIT_MAX_BUFFERED"])
};
/// `max_connections`
pub static MAX_CONNECTIONS: Setting<u32> = Setting {
    placeholder: "N",
    commands: SERVE,
    group: LIMITS,
    fallback: Fallback::Text("1024"),
    help: "Open connections; more wait until one is closed.",
    sensible: |count| if *count > 0 { Ok(()) } else { Err("must be at least 1".into()) },
    ..Setting::named("max_connections", "max-connections", &["ONEBIT_MAX_CONNECTIONS"])
};
/// `header_timeout`
pub static HEADER_TIMEOUT: Setting<Span> = Setting {
    placeholder: "TIME",
    commands: SERVE,
    group: LIMITS,
    fallback: Fallback::Text("30s"),
    help: "How long the head of a request may take to arrive, and how long an idle connection stays open.",
    ..Setting::named("header_timeout", "header-timeout", &["ONEBIT_HEADER_TIMEOUT"])
};
/// `body_timeout`
pub static BODY_TIMEOUT: Setting<Span> = Setting {
    placeholder: "TIME",
    commands: SERVE,
    group: LIMITS,
    fallback: Fallback::Text("60s"),
    help: "How long the body of a request may take to arrive.",
    ..Setting::named("body_timeout", "body-timeout", &["ONEBIT_BODY_TIMEOUT"])
};
/// `write_timeout`
pub static WRITE_TIMEOUT: Setting<Span> = Setting {
    placeholder: "TIME",
    commands: SERVE,
    group: LIMITS,
    fallback: Fallback::Text("60s"),
    help: "How long a client may leave what it is sent lying.",
    ..Setting::named("write_timeout", "write-timeout", &["ONEBIT_WRITE_TIMEOUT"])
};
/// `start_timeout`
pub static START_TIMEOUT: Setting<Span> = Setting {
    placeholder: "TIME",
    commands: SERVE,
    group: LIMITS,
    fallback: Fallback::Text("10m"),
    help: "How long a request waits for its answer to begin, loading the model and the queue included; then it is told to come back later.",
    ..Setting::named("start_timeout", "start-timeout", &["ONEBIT_START_TIMEOUT"])
};
/// `stall_timeout`
pub static STALL_TIMEOUT: Setting<Span> = Setting {
    placeholder: "TIME",
    commands: COMPUTING,
    group: LIMITS,
    fallback: Fallback::Text("2m"),
    help: "How long a worker may make no progress while it loads or computes; then it is taken for hanging, ended and replaced.",
    sensible: |span| match span.0 {
        Some(time) if time.is_zero() => Err("must not be 0: every worker would be ended".into()),
        _ => Ok(()),
    },
    ..Setting::named("stall_timeout", "worker-stall-timeout", &["ONEBIT_STALL_TIMEOUT"])
};
/// `prefix_cache`
pub static PREFIX_CACHE: Setting<PrefixCache> = Setting {
    placeholder: "off|per-key|shared",
    commands: COMPUTING,
    group: ANSWERS,
    fallback: Fallback::Text("per-key"),
    help: "Keep what was computed of a request for those that begin alike: the next turn of a conversation, the same instructions. shared: also for those of other keys, who can tell by the time an answer takes that somebody has asked the same.",
    ..Setting::named("prefix_cache", "prefix-cache", &["ONEBIT_PREFIX_CACHE"])
};
/// Everything, in the order of help and documentation.
#[rustfmt::skip]
pub static TABLE: &[&dyn Row] = &[
    &MODELS_DIR, &MANIFEST_DIR, &PLUGIN_DIR, &NO_DEFAULT_DIRS, &CACHE_DIR,
    &CONFIG, &VERBOSE, &LOG, &LOG_FORMAT,
    &LISTEN, &DRAIN_TIMEOUT, &RESPONSES_DB, &RESPONSES_RETENTION,
    &TRUST_MODE, &TRUST_KEYS,
    &API_KEY, &API_KEYS_FILE, &TLS_CERT, &TLS_KEY, &INSECURE, &ALLOW_ORIGIN, &ALLOW_HOST,
    &DEVICE, &SLOTS, &CONTEXT, &THREADS, &KEEP_ALIVE,
    &MAX_LOADED, &MEMORY_BUDGET, &MAX_QUEUE, &MAX_BODY, &MAX_BUFFERED, &MAX_CONNECTIONS,
    &HEADER_TIMEOUT, &BODY_TIMEOUT, &WRITE_TIMEOUT, &START_TIMEOUT, &STALL_TIMEOUT, &PREFIX_CACHE,
    &SANDBOX_REQUIRE, &SANDBOX_EXEMPT, &SANDBOX_NETWORK, &SANDBOX_READ, &SANDBOX_MEMORY, &SANDBOX_ENVIRONMENT,
    &RUN_SYSTEM, &RUN_TEMPERATURE, &RUN_SEED, &RUN_MAX_TOKENS,
    &HUB_ENDPOINT, &HUB_TOKEN, &PULL_ATTEMPTS, &PULL_STALL, &PULL_PYTHON,
];
