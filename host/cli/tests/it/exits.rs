//! How each command ends, and that the server starts, says where it is, and goes when told.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Said, User};

/// A running server.
pub struct Serving {
    child: Child,
    lines: Option<BufReader<std::process::ChildStdout>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // A test that failed leaves no server behind; one that ended has nothing left to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    pub fn start(user: &User, args: &[&str]) -> Self {
        Self::start_with(user, args, &[])
    }

    pub fn start_with(user: &User, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = user.command();
        command.envs(environment.iter().copied());
        let mut child = command.arg("serve").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = child.stdout.take().map(BufReader::new);
        Self { child, lines }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.as_mut().unwrap().read_line(&mut line).unwrap();
        line
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn end(mut self) -> (Option<i32>, String) {
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), err)
    }
}

#[test]
fn the_server_says_where_it_is_and_goes_when_told() {
    for signal in [Signal::TERM, Signal::INT] {
        let user = User::new();
        let mut serving = Serving::start(&user, &["--listen", "127.0.0.1:0", "--listen", "[::1]:0"]);
        let first = serving.line();
        let address = first.trim().rsplit("http://").next().unwrap().to_owned();
        assert!(first.starts_with("onebit-host ") && address.starts_with("127.0.0.1:"), "{first}");
        assert!(serving.line().contains("http://[::1]:"));
        assert!(serving.line().starts_with("models: 0 here"));
        let said = user.run(&["ps", "--listen", &address]).ends_with_code(0);
        assert!(said.err.contains("no model loaded"), "{}", said.err);
        let started = Instant::now();
        serving.signal(signal);
        let (code, err) = serving.end();
        assert_eq!(code, Some(0), "{err}");
        assert!(started.elapsed() < Duration::from_secs(5), "nothing was running");
        user.run(&["ps", "--listen", &address]).ends_with_code(3);
    }
}

#[test]
fn a_server_whose_first_line_was_all_that_was_read_goes_on() {
    let user = User::new();
    let mut serving = Serving::start(&user, &["--listen", "127.0.0.1:0"]);
    let address = serving.line().trim().rsplit("http://").next().unwrap().to_owned();
    serving.lines = None;
    user.run(&["ps", "--listen", &address]).ends_with_code(0);
    serving.signal(Signal::TERM);
    assert_eq!(serving.end().0, Some(0));
}

#[test]
fn a_server_on_a_socket_file_is_found_there() {
    let user = User::new();
    let at = format!("unix:{}", user.home().join("s.sock").display());
    let mut serving = Serving::start(&user, &["--listen", &at]);
    assert!(serving.line().contains(&at));
    user.run(&["ps", "--listen", &at]).ends_with_code(0);
    let second = user.run(&["serve", "--listen", &at]).ends_with_code(8);
    assert!(second.err.contains("in use"), "{}", second.err);
    // Killed, it leaves its file behind; the next one starts all the same.
    serving.signal(Signal::KILL);
    serving.end();
    let mut again = Serving::start(&user, &["--listen", &at]);
    assert!(again.line().contains(&at));
    again.signal(Signal::TERM);
    assert_eq!(again.end().0, Some(0));
    assert!(!user.home().join("s.sock").exists());
    let long = format!("unix:{}/{}", user.home().display(), "x".repeat(120));
    let said = user.run(&["serve", "--listen", &long]).ends_with_code(1);
    assert!(said.err.contains("bytes"), "{}", said.err);
}

#[test]
fn a_taken_port_has_its_code() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = User::new().run(&["serve", "--listen", &address]).ends_with_code(8);
    assert!(said.err.contains(&address) && said.err.contains("in use"), "{}", said.err);
    assert!(said.out.is_empty());
}

#[test]
fn an_open_server_needs_a_key_or_the_word_insecure() {
    let user = User::new();
    let said = user.run(&["serve", "--listen", "0.0.0.0:0"]).ends_with_code(2);
    assert!(said.err.contains("--insecure"), "{}", said.err);
    user.run(&["serve", "--listen", "0.0.0.0:0", "--api-keys-file", "/no/such/file"]).ends_with_code(3);
    let keys = user.file("keys.toml", "# none\n");
    let said = user.run(&["serve", "--listen", "0.0.0.0:0", "--api-keys-file", keys.to_str().unwrap()]).ends_with_code(2);
    assert!(said.err.contains("chmod 600"), "{}", said.err);
    let mut serving = Serving::start_with(&user, &["--listen", "127.0.0.1:0"], &[("ONEBIT_API_KEY", "hush-hush")]);
    let address = serving.line().trim().rsplit("http://").next().unwrap().to_owned();
    let said = user.run(&["ps", "--listen", &address]).ends_with_code(10);
    assert!(said.err.contains("ONEBIT_API_KEY"), "{}", said.err);
    user.run(&["ps", "--listen", &address, "--api-key", "hush-hush"]).ends_with_code(0);
    serving.signal(Signal::TERM);
    let (_, err) = serving.end();
    assert!(!err.contains("hush-hush"), "{err}");
}

#[test]
fn a_server_that_would_refuse_everything_does_not_start() {
    let said = User::new().run(&["serve", "--listen", "127.0.0.1:0", "--start-timeout", "0s"]).ends_with_code(2);
    assert!(said.err.contains("start_timeout") && said.err.contains("10m"), "{}", said.err);
}

#[test]
fn what_does_not_exist_has_one_code_everywhere() {
    let user = User::new();
    for args in [
        &["explain", "nothing"][..],
        &["run", "nothing", "hello"],
        &["pull", "nothing"],
        &["plugin", "check", "/no/such/plugin"],
        &["ps", "--listen", "127.0.0.1:1"],
    ] {
        let said = user.run(args).ends_with_code(3);
        assert!(said.err.starts_with("error: ") && said.err.matches("error: ").count() == 1, "{args:?}: {}", said.err);
    }
}

#[test]
fn a_model_without_a_plugin_is_listed_with_the_reason() {
    let user = User::new();
    user.file("models/broken.gguf", b"GGUF not really");
    let models = user.models();
    let said = user.run(&["list", "--models-dir", models.to_str().unwrap(), "--no-default-dirs"]).ends_with_code(0);
    assert!(said.out.contains("broken") && said.err.contains("broken.gguf"), "{}\n{}", said.out, said.err);
    user.run(&["run", "broken", "hello", "--models-dir", models.to_str().unwrap(), "--no-default-dirs"]).ends_with_code(7);
}

#[test]
fn a_folder_that_is_no_plugin_is_refused_with_a_table() {
    let user = User::new();
    let toml = user.file("p/plugin.toml", "schema = 1\nid = \"x\"\n");
    let said = user.run(&["plugin", "check", toml.to_str().unwrap()]).ends_with_code(1);
    assert!(said.out.contains("what to do"), "{}", said.out);
    let said = user.run(&["plugin", "check", "--json", toml.parent().unwrap().to_str().unwrap()]).ends_with_code(1);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(json["usable"], false);
    let library = user.file("alone/libx.so", b"\x7fELF");
    let said = user.run(&["plugin", "check", library.to_str().unwrap()]).ends_with_code(3);
    assert!(said.err.contains("plugin.toml"), "{}", said.err);
    let dirs = user.home().display().to_string();
    let said = user.run(&["plugin", "list", "--why", "--plugin-dir", &dirs, "--no-default-dirs"]).ends_with_code(0);
    assert!(said.out.contains("refused") && said.out.contains("what to do"), "{}", said.out);
    user.run(&["plugin", "rescan", "--plugin-dir", &dirs, "--no-default-dirs"]).ends_with_code(0);
}

#[test]
fn doctor_looks_at_everything_and_json_says_the_same() {
    let user = User::new();
    // Without a plugin nothing can be computed: that is a failure, with advice.
    let said = user.run(&["doctor", "--no-default-dirs"]).ends_with_code(1);
    for area in ["cpu", "memory", "devices", "plugins", "folders"] {
        assert!(said.out.lines().any(|line| line == area), "{area}: {}", said.out);
    }
    assert!(said.out.contains("FAIL  no plugin is installed") && said.out.contains("--plugin-dir"), "{}", said.out);
    let said = user.run(&["doctor", "--no-default-dirs", "--json"]).ends_with_code(1);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(json["worst"], "fail");
    let findings = json["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["facts"]["kind"] == "cpu"), "the processor is a device: {}", said.out);
    assert!(findings.iter().all(|finding| finding["level"] == "ok" || finding["next"].is_string()), "whatever is wrong says what to do");
}

#[test]
fn doctor_notices_settings_of_the_sandbox_that_name_no_plugin() {
    let user = User::new();
    onebit_faults::install(onebit_faults::Which::NgramC, &user.home().join("plugins")).unwrap();
    let plugins = user.home().join("plugins").display().to_string();
    let doctor = |setting: &str, name: &str| {
        let mut command = user.command();
        command.args(["doctor", "--no-default-dirs", "--plugin-dir", &plugins]).env(setting, name);
        Said::of(command.output().unwrap())
    };
    let said = doctor("ONEBIT_SANDBOX_EXEMPT", "ngram-see");
    assert!(said.out.contains("warn  sandbox.exempt names the plugin ngram-see, which is not there"), "{}", said.out);
    assert!(doctor("ONEBIT_SANDBOX_NETWORK", "ngram-see").out.contains("sandbox.network names the plugin ngram-see"));
    let said = doctor("ONEBIT_SANDBOX_EXEMPT", "ngram-c");
    assert!(said.out.contains("ngram-c runs with all rights") && !said.out.contains("is not there"), "{}", said.out);
}

#[test]
fn nothing_to_ask_is_said() {
    let said = User::new().run(&["run", "nothing"]).ends_with_code(2);
    assert!(said.err.contains("nothing was asked"), "{}", said.err);
}
