//! The process that gets a model file. The server itself speaks to nobody: it has no client for downloads, and none of their bytes.
//!
//! It ends with whoever holds it, and takes its own children (pip) along. What has arrived by then stays in a part file, which the next
//! pull goes on with.

use std::ffi::OsString;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::OwnedMutexGuard;

use crate::errors::{ApiError, Kind};

/// What it tells, a line each.
#[derive(Debug, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Told {
    /// It knows what to get.
    Found,
    /// It gets it.
    Pulling {
        /// Name of the file.
        file: String,
        /// What it must hash to, where that is known.
        sha256: Option<String>,
        /// Bytes, where that is known.
        total: Option<u64>,
        /// Bytes so far.
        completed: u64,
    },
    /// It is there.
    Done {
        /// What it hashes to.
        sha256: Option<String>,
        /// Bytes.
        bytes: u64,
    },
    /// It did not get it.
    Failed {
        /// A number of the program's table of exit codes.
        exit: u8,
        /// Why, and what to do.
        message: String,
    },
}

/// It runs as long as this lives.
#[derive(Debug)]
pub struct Puller {
    lines: Lines<BufReader<ChildStdout>>,
    /// Gone only while it is being dropped.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// Nobody else pulls this model until the process is gone, with its lock on the part file.
    turn: OwnedMutexGuard<()>,
}

impl Puller {
    /// Begins.
    pub fn start(program: &[OsString], model: &str, turn: OwnedMutexGuard<()>) -> Result<Self, ApiError> {
        let broken = |why: String| ApiError::new(Kind::PullFailed, format!("the program that pulls models cannot be started: {why}"));
        let Some((exe, words)) = program.split_first() else { return Err(broken("the server was not told which it is".into())) };
        let mut child = Command::new(exe)
            .args(words)
            .arg("--")
            .arg(model)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| broken(error.to_string()))?;
        let (Some(output), Some(words)) = (child.stdout.take(), child.stderr.take()) else { return Err(broken("it has no pipes".into())) };
        tokio::spawn(log(words, model.to_owned()));
        Ok(Self { lines: BufReader::new(output).lines(), running: Some(Running { child, turn }) })
    }

    /// What it tells next. A program that ends without having said how is an error.
    pub async fn next(&mut self) -> Result<Told, ApiError> {
        match self.lines.next_line().await {
            Ok(Some(line)) => serde_json::from_str(&line).map_err(|error| {
                ApiError::new(Kind::PullFailed, format!("the program that pulls models said what nobody understands: {error}"))
            }),
            Ok(None) | Err(_) => {
                let ended = match &mut self.running {
                    Some(running) => running.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string()),
                    None => String::new(),
                };
                Err(ApiError::new(
                    Kind::PullFailed,
                    format!("the program that pulls models ended early ({ended}); the server's log has its words"),
                ))
            }
        }
    }
}

impl Drop for Puller {
    fn drop(&mut self) {
        let Some(Running { mut child, turn }) = self.running.take() else { return };
        // Not waited for yet, so the number is still its own; and its group's.
        if let Some(group) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            // Gone already is as good.
            let _ = kill_process_group(group, Signal::KILL);
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // The system reaps what cannot be waited for.
                let _ = child.wait().await;
                drop(turn);
            });
        }
    }
}

/// An error with the sentence of the program.
pub fn refused(exit: u8, message: String) -> ApiError {
    let kind = match exit {
        2 => return ApiError::invalid("model", message),
        3 => return ApiError::new(Kind::UnknownModel, message).param("model"),
        9 => Kind::NoSpace,
        10 => Kind::StoreFailed,
        _ => Kind::PullFailed,
    };
    ApiError::new(kind, message)
}

/// Its words to people go into the server's log.
async fn log(from: impl AsyncRead + Unpin, model: String) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::info!(model, "pull: {}", onebit_worker::one_line(&line));
    }
}
