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
use crate::protocol::{Decoder, FrameError, Hello, ToWorker};

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

enum Item {
    Greeting(Hello),
    Message(ToWorker),
}

/// What the host said and nobody has dealt with yet.
pub(super) struct Inbox {
    items: Receiver<Item>,
}

impl Inbox {
    /// Starts the thread. `cancel` is set when the host wants the worker to end, also in the middle of a load.
    pub(super) fn start(socket: UnixStream, cancel: CancelFlag) -> std::io::Result<Self> {
        let (sender, items) = unbounded();
        std::thread::Builder::new().name("worker-inbox".into()).spawn(move || {
            let reason = read(socket, &sender, &cancel);
            tracing::info!("ending at once: {reason}");
            vanish();
        })?;
        Ok(Self { items })
    }

    /// The host's greeting.
    pub(super) fn greeting(&self) -> Option<Hello> {
        match self.items.recv() {
            Ok(Item::Greeting(hello)) => Some(hello),
            Ok(Item::Message(_)) | Err(_) => None,
        }
    }

    /// The next message; `None` never while the host lives.
    pub(super) fn next(&self) -> Option<ToWorker> {
        match self.items.recv() {
            Ok(Item::Message(message)) => Some(message),
            Ok(Item::Greeting(_)) | Err(_) => None,
        }
    }
}

/// Reads until the socket ends; says why.
fn read(mut socket: UnixStream, items: &Sender<Item>, cancel: &CancelFlag) -> String {
    let mut decoder = Decoder::new();
    let mut bytes = vec![0; READ_BYTES];
    let mut greeted = false;
    loop {
        // A plain read would be woken by every write of ours that the host picks up: both ways of a socket share one queue of waiters.
        rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).ok();
        match socket.read(&mut bytes) {
            Ok(0) => return "the socket closed".into(),
            Ok(n) => decoder.space().extend_from_slice(&bytes[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return error.to_string(),
        }
        loop {
            let item = if greeted {
                decoder.take().map(|message| message.map(Item::Message))
            } else {
                decoder.take().map(|hello| hello.map(Item::Greeting))
            };
            match item {
                Ok(Some(item)) => {
                    greeted = true;
                    if matches!(item, Item::Message(ToWorker::Shutdown)) {
                        cancel.set();
                    }
                    if items.send(item).is_err() {
                        // The main thread has finished; the process ends any moment.
                        return "the worker has finished".into();
                    }
                }
                Ok(None) => break,
                Err(FrameError::Malformed { reason, .. }) if !greeted => return format!("no greeting: {reason}"),
                Err(error) => return error.to_string(),
            }
        }
    }
}
