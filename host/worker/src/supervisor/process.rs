//! A worker process: started, watched through a pidfd, ended, and always waited for.
//!
//! The worker gets its end of the socket as fd 0, which needs no `unsafe`; the worker moves it away before any foreign code runs. It leads a
//! process group of its own, so that Ctrl-C in a terminal reaches the host alone, and so that helpers which a plugin started go with it.
//! Whatever happens to the owner of a [`Process`], dropping it kills and reaps: there are no zombies and no orphans.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open, waitid};
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::config::SupervisorConfig;
use super::stderr::{Tail, follow};
use crate::spec::LaunchSpec;

/// How long the last lines of a dead worker may take to arrive. A helper that a plugin left behind could hold the pipe open for ever.
const LAST_LINES: Duration = Duration::from_millis(300);

/// One worker process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pidfd: AsyncFd<OwnedFd>,
    tail: Arc<Tail>,
    log: Option<JoinHandle<()>>,
    reaped: Option<ExitStatus>,
}

impl Process {
    /// Starts a worker and gives back the host's end of its socket.
    pub(crate) async fn spawn(config: &SupervisorConfig, spec: &LaunchSpec) -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = UnixStream::from_std(ours)?;

        let mut command = match &config.exe {
            Some(exe) => Command::new(exe),
            // The link still leads to this program when a package upgrade has replaced or removed its file: same build on both sides.
            None if Path::new("/proc/self/exe").exists() => {
                let mut command = Command::new("/proc/self/exe");
                command.arg0("onebit-host");
                command
            }
            None => Command::new(std::env::current_exe()?),
        };
        command
            .args(&config.args)
            .env_clear()
            .envs(config.sandbox.environment(&spec.plugin_id, &spec.env))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = fork_on_a_lasting_thread(command).await?;

        let watched = (|| {
            let pid = Pid::from_child(&child);
            let pidfd = watchable(pidfd_open(pid, PidfdFlags::empty())?)?;
            let stderr = child.stderr.take().ok_or_else(|| io::Error::other("the worker has no stderr"))?;
            Ok::<_, io::Error>((pidfd, pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?))
        })();
        let (pidfd, stderr) = match watched {
            Ok(watched) => watched,
            Err(error) => {
                // A process that cannot be watched must not be left behind.
                child.kill().and_then(|()| child.wait()).ok();
                return Err(error);
            }
        };
        let tail = Arc::new(Tail::default());
        let log = tokio::spawn({
            let (tail, model, pid) = (tail.clone(), spec.model.clone(), child.id());
            async move { follow(stderr, &model, pid, &tail).await }
        });
        Ok((Self { child, pidfd, tail, log: Some(log), reaped: None }, ours))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end and reaps. May be dropped and called again.
    pub(crate) async fn exited(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.reaped {
                return Ok(status);
            }
            // Readable once the process has ended, and for ever after.
            let mut ready = self.pidfd.readable().await?;
            if waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)?.is_none() {
                ready.clear_ready();
                continue;
            }
            drop(ready);
            self.sweep();
            self.reaped = self.child.try_wait()?;
        }
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends it now.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // Not reaped yet, so the number cannot belong to somebody else.
        if self.reaped.is_none() {
            // A failure means that it ended a moment ago, which is what was wanted.
            kill_process(Pid::from_child(&self.child), signal).ok();
        }
    }

    /// Ends the worker and what it has started itself. Only before it is reaped: as long as it is not, nobody else can have its number.
    fn sweep(&self) {
        // Fails if the worker has not made its group yet, or has just ended alone.
        kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
    }

    /// The last lines it wrote. For a process that has ended.
    pub(crate) async fn last_lines(&mut self) -> String {
        if let Some(log) = self.log.take() {
            // Too late is not an error: what has arrived until then is what there is.
            tokio::time::timeout(LAST_LINES, log).await.ok();
        }
        self.tail.text()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.reaped.is_none() {
            self.sweep();
            self.kill();
            // SIGKILL cannot be refused; a process in the kernel's uninterruptible sleep makes this wait, which is the truth.
            self.reaped = self.child.wait().ok();
        }
    }
}

#[allow(
    deprecated,
    reason = "the successor is an unsafe function whose condition, one open descriptor for the whole life, an OwnedFd keeps by its type"
)]
fn watchable(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(pidfd)
}

type ForkJob = (Command, oneshot::Sender<io::Result<Child>>);

/// Starts `command` from a thread that never ends.
///
/// A worker asks the kernel to be killed when its parent dies, and by "parent" the kernel means the thread that forked. The threads of an
/// async runtime come and go; this one stays as long as the process.
async fn fork_on_a_lasting_thread(command: Command) -> io::Result<Child> {
    static FORKER: OnceLock<crossbeam_channel::Sender<ForkJob>> = OnceLock::new();
    let forker = match FORKER.get() {
        Some(forker) => forker,
        None => {
            let (jobs, inbox) = crossbeam_channel::unbounded::<ForkJob>();
            std::thread::Builder::new().name("worker-forker".into()).spawn(move || {
                for (mut command, reply) in inbox {
                    // Nobody waits any more: the child must not stay.
                    if let Err(Ok(mut child)) = reply.send(command.spawn()) {
                        child.kill().and_then(|()| child.wait()).ok();
                    }
                }
            })?;
            // Two first callers at once start two threads; the loser's ends with its channel, before it has forked anything.
            FORKER.get_or_init(|| jobs)
        }
    };
    let (reply, answer) = oneshot::channel();
    forker.send((command, reply)).map_err(|_| io::Error::other("the thread that starts workers has ended"))?;
    answer.await.map_err(|_| io::Error::other("the thread that starts workers has ended"))?
}
