//! The thread that writes the socket: batches what the engine says, and adds measurements.
//!
//! The engine's thread only drops an event into a channel. Events that pile up while a write is in progress go out together in the next one, so a
//! busy worker makes fewer system calls per token, and an idle one adds no delay.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use onebit_engine::{Engine, EngineError, Event, Health};

use super::process::measure;
use super::serve::Outlet;
use crate::protocol::{FrameError, FromWorker, Hello, MAX_FRAME_BYTES, Stats, encode, encode_into};

/// How often the host hears how the worker is.
const PULSE: Duration = Duration::from_millis(500);

/// Bytes that are gathered for one write at most.
const WRITE_BYTES: usize = 256 * 1024;

enum Item {
    Message(FromWorker),
    Close,
}

/// The writing side of the worker's socket.
pub(super) struct Outbox {
    items: Sender<Item>,
    engine: Arc<OnceLock<Arc<Engine>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Pipe(Sender<Item>);

impl Outlet for Pipe {
    fn push(&self, message: FromWorker) {
        // The writer ends only with the process.
        self.0.send(Item::Message(message)).ok();
    }
}

impl Outbox {
    /// Greets the host and starts the thread.
    pub(super) fn start(mut socket: UnixStream) -> std::io::Result<Self> {
        let greeting = encode(&Hello::ours()).map_err(std::io::Error::other)?;
        socket.write_all(&greeting)?;
        let (items, queue) = unbounded();
        let engine = Arc::new(OnceLock::new());
        let thread = std::thread::Builder::new().name("worker-outbox".into()).spawn({
            let engine = engine.clone();
            move || write(socket, &queue, &engine)
        })?;
        Ok(Self { items, engine, thread: Mutex::new(Some(thread)) })
    }

    pub(super) fn outlet(&self) -> Arc<dyn Outlet> {
        Arc::new(Pipe(self.items.clone()))
    }

    /// From now on measurements tell how busy this engine is, and whether it can go on.
    pub(super) fn watch(&self, engine: Arc<Engine>) {
        // Called once; a second engine in one worker does not exist.
        self.engine.set(engine).ok();
    }

    /// Writes what is left, and ends the thread.
    pub(super) fn close(&self) {
        self.items.send(Item::Close).ok();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It holds no lock that matters any more.
            thread.join().ok();
        }
    }
}

fn write(mut socket: UnixStream, queue: &Receiver<Item>, engine: &OnceLock<Arc<Engine>>) {
    let mut bytes = Vec::with_capacity(16 * 1024);
    let mut next_pulse = Instant::now() + PULSE;
    let mut open = true;
    while open {
        let mut failed = false;
        let mut item = match queue.recv_deadline(next_pulse) {
            Ok(item) => Some(item),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        while let Some(some) = item.take() {
            match some {
                Item::Message(message) => {
                    failed |= matches!(message, FromWorker::Event { event: Event::Failed(_), .. });
                    append(message, &mut bytes);
                }
                Item::Close => open = false,
            }
            if open && bytes.len() < WRITE_BYTES {
                item = queue.try_recv().ok();
            }
        }
        if failed || Instant::now() >= next_pulse {
            next_pulse = Instant::now() + PULSE;
            append(FromWorker::Stats(stats(engine)), &mut bytes);
            if let Some(Health::Failed(error)) = engine.get().map(|engine| engine.health()) {
                append(FromWorker::Failed(error), &mut bytes);
            }
        }
        if socket.write_all(&bytes).is_err() {
            // The reader sees the same end and acts on it.
            return;
        }
        bytes.clear();
    }
}

fn stats(engine: &OnceLock<Arc<Engine>>) -> Stats {
    let Some(engine) = engine.get() else { return measure() };
    let load = engine.load();
    Stats { active: load.active, waiting: load.waiting, progress: engine.progress().steps, ..measure() }
}

/// Appends the message; one that is too large for a frame becomes the error of its request.
fn append(message: FromWorker, bytes: &mut Vec<u8>) {
    let Err(error) = encode_into(&message, bytes) else { return };
    let too_large = |what: &str| EngineError::InvalidRequest {
        message: match &error {
            FrameError::TooLarge { bytes } => {
                format!("{what} takes {bytes} bytes, at most {MAX_FRAME_BYTES} can be given at a time; ask for less at a time")
            }
            other => other.to_string(),
        },
        param: None,
    };
    let instead = match message {
        FromWorker::Event { id, .. } => FromWorker::Event { id, event: Event::Failed(too_large("one part of the answer")) },
        FromWorker::Embedded { id, .. } => FromWorker::Embedded { id, result: Err(too_large("the answer")) },
        FromWorker::Encoded { id, .. } => FromWorker::Encoded { id, result: Err(too_large("the answer")) },
        FromWorker::Decoded { id, .. } => FromWorker::Decoded { id, result: Err(too_large("the answer")) },
        other => {
            tracing::error!(%error, "a message about the worker cannot be sent: {other:?}");
            return;
        }
    };
    // A sentence always fits.
    encode_into(&instead, bytes).ok();
}
