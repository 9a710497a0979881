//! The worker as a process: its descriptors, its ties to the host, its size.
//!
//! The order in [`settle`] matters: the socket must be out of the way and stdout must be a log before any foreign code runs, and the tie to the
//! host must hold before anything can hang.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group, kill_process, set_parent_process_death_signal};
use rustix::stdio::{dup2_stdin, dup2_stdout};

use super::ChildError;
use crate::protocol::Stats;

/// A worker goes before the host and before most other processes when memory runs out: it can be started again.
const OOM_SCORE: &str = "500";

/// Takes the socket from descriptor 0, puts `/dev/null` there, and makes stdout a second stderr.
pub(super) fn settle() -> Result<UnixStream, ChildError> {
    let system = |what| move |error: std::io::Error| ChildError::System { what, error };
    // The copy is closed on exec: a program that a plugin starts does not inherit the protocol.
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(ChildError::NoSocket)?;
    let socket = UnixStream::from(socket);
    // A terminal or a file has no peer: somebody called the hidden command by hand.
    socket.peer_addr().map_err(ChildError::NoSocket)?;
    let null = File::open("/dev/null").map_err(system("/dev/null cannot be opened"))?;
    dup2_stdin(&null).map_err(|error| ChildError::System { what: "descriptor 0 cannot be replaced", error: error.into() })?;
    dup2_stdout(std::io::stderr()).map_err(|error| ChildError::System { what: "stdout cannot be redirected", error: error.into() })?;

    // The kernel's tie to the thread that forked this process. The socket is the second tie: see `inbox`.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| ChildError::System { what: "the tie to the host cannot be made", error: error.into() })?;
    // `top` and `ps` should not show "exe".
    rustix::thread::set_name(c"onebit-worker").ok();
    if let Err(error) = fs::write("/proc/self/oom_score_adj", OOM_SCORE) {
        // Some containers forbid it; the worker serves as well without.
        eprintln!("onebit-host worker: the out-of-memory score cannot be raised: {error}");
    }
    Ok(socket)
}

/// Ends this process and what it started, without asking anybody: exit handlers of a hanging plugin would hang too.
pub(super) fn vanish() -> ! {
    // The host makes the worker lead a group of its own. If it does not lead one, the others in it are strangers.
    if getpgrp() == getpid() {
        kill_current_process_group(Signal::KILL).ok();
    }
    kill_process(getpid(), Signal::KILL).ok();
    // SIGKILL to oneself does not return; this line is for the type.
    std::process::abort()
}

/// The process, measured. `progress` and requests are for the caller to fill in.
pub(super) fn measure() -> Stats {
    let page = rustix::param::page_size() as u64;
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    // size resident shared …, in pages.
    let mut pages = statm.split_ascii_whitespace().skip(1).map(|field| field.parse::<u64>().unwrap_or(0));
    let rss_bytes = pages.next().unwrap_or(0) * page;
    let rss_file_bytes = pages.next().unwrap_or(0) * page;
    let refused_calls = onebit_loader::refused_calls().iter().map(|(_, count)| count).sum();
    Stats { rss_bytes, rss_file_bytes, refused_calls, ..Stats::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_size_of_which_files_are_a_part() {
        let stats = measure();
        assert!(stats.rss_bytes > 100_000 && stats.rss_file_bytes > 0 && stats.rss_file_bytes < stats.rss_bytes, "{stats:?}");
    }
}
