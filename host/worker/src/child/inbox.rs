//! The thread that reads the socket, and the tie to the host that holds when the plugin hangs.
//!
//! This thread never calls into the plugin or the engine. When the socket closes, the host is gone, and so is the process, whatever its other
//! threads are doing.

use std::io::Read;
use std::os::unix::net::UnixStream;

use crossbeam_channel::{Receiver, Sender, unbounded};
use onebit_loader::CancelFlag;
use rustix::event::{PollFd, PollFlags};

use super::process::vanish;
use crate::protocol::{Decoder, ToWorker};

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

/// What the host said and nobody has dealt with yet.
pub(super) struct Inbox {
    messages: Receiver<ToWorker>,
}

impl Inbox {
    /// Starts the thread. `decoder` holds what has arrived behind the order; `cancel` is set when the host wants the worker to end, also in the
    /// middle of a load.
    pub(super) fn start(socket: UnixStream, decoder: Decoder, cancel: CancelFlag) -> std::io::Result<Self> {
        let (sender, messages) = unbounded();
        std::thread::Builder::new().name("worker-inbox".into()).spawn(move || {
            let reason = read(socket, decoder, &sender, &cancel);
            tracing::info!("ending at once: {reason}");
            vanish();
        })?;
        Ok(Self { messages })
    }

    /// The next message; `None` never while the host lives.
    pub(super) fn next(&self) -> Option<ToWorker> {
        self.messages.recv().ok()
    }
}

/// Reads until the socket ends; says why.
fn read(mut socket: UnixStream, mut decoder: Decoder, messages: &Sender<ToWorker>, cancel: &CancelFlag) -> String {
    let mut bytes = vec![0; READ_BYTES];
    loop {
        loop {
            match decoder.take() {
                Ok(Some(message)) => {
                    if matches!(message, ToWorker::Shutdown) {
                        cancel.set();
                    }
                    if messages.send(message).is_err() {
                        // The main thread has finished; the process ends any moment.
                        return "the worker has finished".into();
                    }
                }
                Ok(None) => break,
                Err(error) => return error.to_string(),
            }
        }
        // A plain read would be woken by every write of ours that the host picks up: both ways of a socket share one queue of waiters.
        rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).ok();
        match socket.read(&mut bytes) {
            Ok(0) => return "the socket closed".into(),
            Ok(n) => decoder.space().extend_from_slice(&bytes[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return error.to_string(),
        }
    }
}
