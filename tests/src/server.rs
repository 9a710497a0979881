//! `onebit-host` in a folder of its own: no test sees another one's models, cache or configuration, nor the user's.

use std::ffi::OsString;
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::{model_file, processes, program};

/// A folder with a home, a models folder and what else the program looks for.
pub struct Home {
    dir: tempfile::TempDir,
    environment: Vec<(OsString, OsString)>,
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// Empty.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("onebit-test-").tempdir().unwrap();
        for part in ["config", "data", "cache", "state", "models"] {
            std::fs::create_dir(dir.path().join(part)).unwrap();
        }
        let mut environment: Vec<(OsString, OsString)> = vec![("HOME".into(), dir.path().into())];
        for (name, part) in [
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_STATE_HOME", "state"),
            ("ONEBIT_MODELS_DIR", "models"),
        ] {
            environment.push((name.into(), dir.path().join(part).into()));
        }
        Self { dir, environment }
    }

    /// With the demo model in its models folder.
    pub fn with_model() -> Self {
        let home = Self::new();
        symlink(model_file(), home.models().join(crate::MODEL_FILE)).unwrap();
        // The model's own 8192 positions for four requests are 720 MiB to clear for every test; a test that needs more says so.
        home.env("ONEBIT_CONTEXT", "1024")
    }

    /// Sets a variable for what is started here.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        let value = value.into();
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.into(), value));
        self
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where models are looked for.
    pub fn models(&self) -> PathBuf {
        self.path().join("models")
    }

    /// `onebit-host WORDS…`, seeing only this home.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(words).stdin(Stdio::null()).current_dir(self.path());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            // Neither a developer's own settings nor what cargo sets for test processes may reach the program.
            if text.starts_with("ONEBIT_") || text == "LD_LIBRARY_PATH" || text.starts_with("CARGO") {
                command.env_remove(&name);
            }
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs it to its end.
    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Starts `serve` and waits until it answers.
    pub fn serve(self) -> Server {
        self.serve_with(&[])
    }

    /// Starts `serve WORDS…` and waits until it answers.
    pub fn serve_with(self, words: &[&str]) -> Server {
        let port = free_port();
        let mut all = vec!["serve".to_owned(), "--listen".to_owned(), format!("127.0.0.1:{port}")];
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let log = self.path().join("serve.log");
        let file = File::create(&log).unwrap();
        let words: Vec<&str> = all.iter().map(String::as_str).collect();
        let child = self.command(&words).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let mut server = Server { home: self, child: Some(child), port, log };
        server.wait_until_it_answers();
        server
    }
}

/// A port nobody listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A running `onebit-host serve`. Dropping it ends it; if a test fails, its log is printed.
pub struct Server {
    /// Its folders.
    pub home: Home,
    child: Option<Child>,
    /// On 127.0.0.1.
    pub port: u16,
    log: PathBuf,
}

impl Server {
    fn wait_until_it_answers(&mut self) {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().unwrap()) {
                panic!("onebit-host serve ended with {status}:\n{}", self.log());
            }
            if self.client().try_get("/healthz").is_some_and(|answer| answer.status == 200) {
                return;
            }
            assert!(since.elapsed() < Duration::from_secs(30), "onebit-host serve does not answer after 30 s:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        Client::new(format!("http://127.0.0.1:{}", self.port))
    }

    /// Process id of the front.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Process ids of its workers.
    pub fn workers(&self) -> Vec<u32> {
        processes::children(self.pid())
            .into_iter()
            .filter(|pid| processes::command_line(*pid).iter().any(|word| word == "worker"))
            .collect()
    }

    /// Waits until there is a worker.
    pub fn wait_for_worker(&self) -> u32 {
        let since = Instant::now();
        loop {
            if let Some(pid) = self.workers().first() {
                return *pid;
            }
            assert!(since.elapsed() < Duration::from_secs(30), "no worker after 30 s");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Everything it wrote so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Ends it without giving it a chance; gives back its folders.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Asks it to end, and waits.
    pub fn terminate(&mut self, limit: Duration) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        processes::signal(child.id(), rustix::process::Signal::TERM);
        let since = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if since.elapsed() > limit {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("onebit-host serve did not end {limit:?} after SIGTERM:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- the server's last lines ---\n{}\n---", lines[lines.len().saturating_sub(60)..].join("\n"));
        }
        self.kill();
    }
}
