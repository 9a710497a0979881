//! Asks one question in a process of its own, within a time limit.
//!
//! A crash, a hang and a torrent of text are results. Whatever happens the process and everything it started are gone afterwards.

use std::ffi::OsString;
use std::fmt;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use onebit_loader::one_line;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use super::message::{Answer, LINE_MAX, Question};
use crate::death::Cause;
use onebit_confine::SandboxConfig;

/// How probe processes are started.
#[derive(Debug, Clone)]
pub struct ProbeConfig {
    /// The program; `None` = this very program, even if its file was replaced meanwhile.
    pub exe: Option<PathBuf>,
    /// Its first argument.
    pub command: OsString,
    /// How long a question may take.
    pub limit: Duration,
    /// What the process may do once a plugin runs in it.
    pub sandbox: SandboxConfig,
}

impl Default for ProbeConfig {
    fn default() -> Self {
        Self { exe: None, command: "probe".into(), limit: Duration::from_secs(15), sandbox: SandboxConfig::default() }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Silence {
    /// The system did not let the process be started, or broke off the conversation: says nothing about the plugin.
    Host(String),
    /// It took too long and was ended.
    Slow { limit: Duration, last_line: Option<String> },
    /// It ended without an answer.
    Died { cause: Cause, last_line: Option<String> },
    /// It said something else.
    Nonsense(String),
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = |f: &mut fmt::Formatter<'_>, line: &Option<String>| match line {
            Some(line) => write!(f, "; its last words: {line}"),
            None => Ok(()),
        };
        match self {
            Self::Host(reason) => write!(f, "the probe could not be carried out: {reason}"),
            Self::Slow { limit, last_line } => {
                write!(f, "did not answer within {:.0} s and was ended", limit.as_secs_f32().max(1.0))?;
                last(f, last_line)
            }
            Self::Died { cause, last_line } => {
                write!(f, "crashed while it was asked: {cause}")?;
                last(f, last_line)
            }
            Self::Nonsense(reason) => write!(f, "broke the protocol of the probe: {reason}"),
        }
    }
}

/// Asks. Blocks for at most the limit and a moment.
pub(super) fn ask(config: &ProbeConfig, question: &Question, environment: &[(OsString, OsString)]) -> Result<Answer, Silence> {
    let host = |what: &str, error: &dyn fmt::Display| Silence::Host(format!("{what}: {error}"));
    let deadline = Instant::now() + config.limit;
    let mut line = serde_json::to_vec(question).map_err(|error| host("the question cannot be written", &error))?;
    line.push(b'\n');
    let (ours, theirs) = UnixStream::pair().map_err(|error| host("no socket", &error))?;
    let mut process = Process::start(config, question, environment, theirs.into())?;
    let told = (&ours).set_write_timeout_at(deadline).and_then(|()| (&ours).write_all(&line));
    let heard = told.and_then(|()| read_line(&ours, deadline));
    match heard {
        Ok(line) if line.ends_with(b"\n") => understand(&line),
        Ok(line) if line.len() >= LINE_MAX => Err(Silence::Nonsense(format!("its answer has more than {LINE_MAX} bytes"))),
        Ok(_) => process.silence(deadline, config.limit),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
            process.end();
            Err(Silence::Slow { limit: config.limit, last_line: process.last_line() })
        }
        // It closed its end before it had read the question.
        Err(error) if matches!(error.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset) => {
            process.silence(deadline, config.limit)
        }
        Err(error) => Err(host("the socket failed", &error)),
    }
}

/// What the other side's line says. It comes from a process in which foreign code ran: nothing in it is believed but its form, and
/// its texts, which people are shown, lose what a terminal would obey.
pub(super) fn understand(line: &[u8]) -> Result<Answer, Silence> {
    let nonsense = |error: serde_json::Error| Silence::Nonsense(one_line(&error.to_string()));
    let mut answer: Value = serde_json::from_slice(line).map_err(nonsense)?;
    only_shown(&mut answer);
    serde_json::from_value(answer).map_err(nonsense)
}

fn only_shown(value: &mut Value) {
    match value {
        Value::String(text) if text.chars().any(char::is_control) => *text = one_line(text),
        Value::Array(items) => items.iter_mut().for_each(only_shown),
        Value::Object(object) => object.values_mut().for_each(only_shown),
        _ => {}
    }
}

trait Deadline {
    fn set_write_timeout_at(&self, deadline: Instant) -> std::io::Result<()>;
}

impl Deadline for &UnixStream {
    fn set_write_timeout_at(&self, deadline: Instant) -> std::io::Result<()> {
        self.set_write_timeout(Some(left(deadline)?))
    }
}

fn left(deadline: Instant) -> std::io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads up to the end of a line, the end of the stream, or [`LINE_MAX`].
fn read_line(mut socket: &UnixStream, deadline: Instant) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut chunk = [0_u8; 4096];
    while line.last() != Some(&b'\n') && line.len() < LINE_MAX {
        socket.set_read_timeout(Some(left(deadline)?))?;
        match socket.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => line.extend_from_slice(chunk.get(..count).unwrap_or(&[])),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(line)
}

/// A probe process and what it wrote last. Ends it when dropped.
struct Process {
    child: Child,
    ended: bool,
    stderr: Arc<Mutex<Vec<u8>>>,
}

/// Bytes of a probe's standard error that are kept.
const STDERR_KEPT: usize = 4096;

impl Process {
    fn start(config: &ProbeConfig, question: &Question, environment: &[(OsString, OsString)], socket: OwnedFd) -> Result<Self, Silence> {
        let exe = config.exe.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
        let mut command = Command::new(&exe);
        command.arg0("onebit-host").arg(&config.command);
        match question {
            Question::Devices => command.arg("--devices"),
            Question::Probe { plugin_dir, .. } | Question::Fit { plugin_dir, .. } => command.arg("--plugin").arg(plugin_dir),
        };
        command
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(socket))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // A group of its own: so that a Ctrl-C in the terminal is the host's business, and whatever it starts can be ended with it.
            .process_group(0);
        let mut child = command.spawn().map_err(|error| Silence::Host(format!("{} could not be started: {error}", exe.display())))?;
        let stderr = Arc::new(Mutex::new(Vec::new()));
        if let Some(mut pipe) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            let reader = move || {
                let mut chunk = [0_u8; 1024];
                while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend_from_slice(chunk.get(..count).unwrap_or(&[]));
                    let surplus = kept.len().saturating_sub(STDERR_KEPT);
                    kept.drain(..surplus);
                }
            };
            // Without this thread the process might wait for ever for somebody to read; then the time limit ends it.
            std::thread::Builder::new().name("probe-stderr".into()).spawn(reader).ok();
        }
        Ok(Self { child, ended: false, stderr })
    }

    /// It will say nothing more: waits for its end and says how that was.
    fn silence(&mut self, deadline: Instant, limit: Duration) -> Result<Answer, Silence> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.ended = true;
                    return Err(Silence::Died { cause: Cause::of(status), last_line: self.last_line() });
                }
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) => {
                    self.end();
                    return Err(Silence::Slow { limit, last_line: self.last_line() });
                }
                Err(error) => return Err(Silence::Host(format!("its end cannot be seen: {error}"))),
            }
        }
    }

    fn last_line(&self) -> Option<String> {
        // What it wrote just before its end may still be in the pipe; the reader needs a moment.
        std::thread::sleep(Duration::from_millis(20));
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept)
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .map(|line| one_line(&line.chars().take(300).collect::<String>()))
    }

    /// Ends it and everything it started, and waits for that.
    fn end(&mut self) {
        if self.ended {
            return;
        }
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself in this moment.
            rustix::process::kill_process_group(group, Signal::KILL).ok();
        }
        self.child.kill().ok();
        self.ended = self.child.wait().is_ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After an answer nothing that the process still does is of interest: drivers may take seconds to shut down.
        self.end();
    }
}
