//! The process of a case, seen from the kit: started, listened to, and gone afterwards with everything that it started.
//!
//! A crash, a hang, an exit and a torrent of text are results, not errors of the kit.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::KitError;
use crate::message::{LINE_MAX, Said, Task};

/// The hidden command of the program that runs a case.
pub const ROLE: &str = "kit-case";
/// Bytes of what a process prints that are kept.
const KEPT: usize = 64 << 10;
/// Lines of the plugin's log that are kept.
const LOG_KEPT: usize = 20;

/// How processes are started.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The program; `None` = this very program, even if its file was replaced meanwhile.
    pub exe: Option<PathBuf>,
    /// Its variables, all of them.
    pub environment: Vec<(OsString, OsString)>,
}

/// Why a process has said nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// It ended.
    Ended(String),
    /// It took too long and was ended.
    Slow(Duration),
    /// It said something that is no message.
    Nonsense(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(how) => write!(f, "the process {how}"),
            Self::Slow(limit) => write!(f, "no end within {:.0} s; it was ended", limit.as_secs_f32()),
            Self::Nonsense(what) => write!(f, "the process broke the kit's protocol: {what}"),
        }
    }
}

/// Says how a process ended: `died of signal 11 (SIGSEGV)`.
pub(crate) fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(_) => format!("died of {}", status.to_string().replacen("signal: ", "signal ", 1)),
        None => format!("was ended from within, with status {}", status.code().unwrap_or_default()),
    }
}

/// A process that runs cases.
pub(crate) struct Process {
    child: Child,
    ended: Option<ExitStatus>,
    socket: BufReader<UnixStream>,
    stdout: Arc<Mutex<Vec<u8>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// What it was about to do, last.
    pub(crate) step: Option<String>,
    /// What the plugin logged, warnings and errors, the last ones.
    pub(crate) log: Vec<String>,
    /// Its folder for files that nobody needs afterwards, whichever way it ended.
    _scratch: tempfile::TempDir,
}

impl Process {
    /// Starts one and gives it its task.
    pub(crate) fn start(program: &Program, task: &Task) -> Result<Self, KitError> {
        let cannot = |doing: &'static str| move |error: std::io::Error| KitError::Process { doing, error };
        let (ours, theirs) = UnixStream::pair().map_err(cannot("make a socket"))?;
        let scratch = tempfile::Builder::new().prefix("onebit-kit-").tempdir().map_err(cannot("make a folder for files"))?;
        let exe = program.exe.clone().unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
        let mut command = Command::new(exe);
        command
            .arg0("onebit-host")
            .arg(ROLE)
            .env_clear()
            .envs(program.environment.iter().map(|(name, value)| (name, value)))
            .env("TMPDIR", scratch.path())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: whatever it starts can be ended with it.
            .process_group(0);
        let mut child = command.spawn().map_err(cannot("start a process"))?;
        drop(command);
        let stdout = child.stdout.take().map(collect).unwrap_or_default();
        let stderr = child.stderr.take().map(collect).unwrap_or_default();
        let mut process =
            Self { child, ended: None, socket: BufReader::new(ours), stdout, stderr, step: None, log: Vec::new(), _scratch: scratch };
        process.send(task)?;
        Ok(process)
    }

    /// Sends it one message. That it is gone already is seen when its answer is read.
    pub(crate) fn send(&mut self, message: &impl serde::Serialize) -> Result<(), KitError> {
        let mut line = serde_json::to_vec(message).map_err(|error| KitError::Message(error.to_string()))?;
        line.push(b'\n');
        match self.socket.get_ref().write_all(&line) {
            Err(error) if !matches!(error.kind(), std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset) => {
                Err(KitError::Process { doing: "speak to a process", error })
            }
            _ => Ok(()),
        }
    }

    /// Waits for its verdict, and keeps what it says before that.
    pub(crate) fn verdict(&mut self, limit: Duration) -> Result<crate::case::Verdict, End> {
        let deadline = Instant::now() + limit;
        loop {
            let Some(line) = self.line(deadline) else { return Err(self.silence(deadline, limit)) };
            match serde_json::from_slice(&line) {
                Ok(Said::Step(step)) => self.step = Some(step),
                Ok(Said::Log(line)) => {
                    self.log.push(line);
                    let surplus = self.log.len().saturating_sub(LOG_KEPT);
                    self.log.drain(..surplus);
                }
                Ok(Said::Verdict(verdict)) => return Ok(verdict),
                Err(error) => return Err(End::Nonsense(error.to_string())),
            }
        }
    }

    /// One line, or nothing if there will be none.
    fn line(&mut self, deadline: Instant) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            self.socket.get_ref().set_read_timeout(Some(left)).ok()?;
            match (&mut self.socket).take((LINE_MAX - line.len()) as u64).read_until(b'\n', &mut line) {
                Ok(0) => return None,
                Ok(_) if line.ends_with(b"\n") => return Some(line),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// It will say nothing more: how that is.
    fn silence(&mut self, deadline: Instant, limit: Duration) -> End {
        match self.wait(deadline) {
            Some(status) => End::Ended(describe(status)),
            None => {
                self.end();
                End::Slow(limit)
            }
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self, deadline: Instant) -> Option<ExitStatus> {
        while self.ended.is_none() {
            match self.child.try_wait() {
                Ok(Some(status)) => self.ended = Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                _ => break,
            }
        }
        self.ended
    }

    /// What it printed: standard output, standard error.
    pub(crate) fn printed(&self) -> [String; 2] {
        // What it wrote just before its end may still be in the pipe; the readers need a moment.
        std::thread::sleep(Duration::from_millis(10));
        [&self.stdout, &self.stderr].map(|kept| String::from_utf8_lossy(&kept.lock().unwrap_or_else(PoisonError::into_inner)).into_owned())
    }

    /// Ends it and everything it started, and waits for that.
    fn end(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself; what it started may not.
            rustix::process::kill_process_group(group, Signal::KILL).ok();
        }
        if self.ended.is_none() {
            self.child.kill().ok();
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Keeps the last part of what comes out of a pipe.
fn collect(mut pipe: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&kept);
    let reader = move || {
        let mut chunk = [0_u8; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut chunk) {
            let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
            into.extend_from_slice(chunk.get(..count).unwrap_or(&[]));
            let surplus = into.len().saturating_sub(KEPT);
            into.drain(..surplus);
        }
    };
    // Without this thread the process might wait for ever for somebody to read; then its time limit ends it.
    std::thread::Builder::new().name("kit-reader".into()).spawn(reader).ok();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_by_the_name_of_its_signal_or_by_its_status() {
        for (raw, text) in
            [(11, "died of signal 11 (SIGSEGV)"), (6, "died of signal 6 (SIGABRT)"), (0, "was ended from within, with status 0")]
        {
            assert_eq!(describe(ExitStatus::from_raw(raw)), text);
        }
    }
}
