//! A server process on a free port of the loopback, watched until it answers, ended when dropped.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{http, process};

/// It runs.
pub struct Server {
    child: Child,
    /// `http://127.0.0.1:PORT`.
    pub base: String,
    /// From start to the first good answer.
    pub ready_after: Duration,
    log: PathBuf,
}

/// A port that nobody listens on right now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Server {
    /// Starts `command`, whose output goes to `log`, and waits until `base` + `health` answers 200.
    pub fn start(mut command: Command, base: String, health: &str, log: PathBuf, limit: Duration) -> Result<Self> {
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        process::as_a_user(&mut command).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let since = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start `{}`", process::shown(&command)))?;
        let mut server = Self { child, base, ready_after: Duration::ZERO, log };
        let url = format!("{}{health}", server.base);
        loop {
            if http::get(&url, Duration::from_secs(2)).is_ok_and(|(status, _)| status == 200) {
                server.ready_after = since.elapsed();
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("`{}` ended with {status}:\n{}", process::shown(&command), server.last_lines());
            }
            if since.elapsed() > limit {
                bail!("`{}` does not answer after {}:\n{}", process::shown(&command), process::short(limit), server.last_lines());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it ends by itself (or by Ctrl-C, which the terminal sends to both of us).
    pub fn wait(mut self) -> Result<()> {
        self.child.wait()?;
        Ok(())
    }

    /// The end of its log.
    pub fn last_lines(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM first: a host that is killed hard takes up to two seconds to lose its workers.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        for _ in 0..200 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
