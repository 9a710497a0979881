//! How the socket is written: by whoever has something to say, and by a thread for what does not fit at once.
//!
//! What the engine says in one step is gathered and leaves in one system call, from the engine's own thread: waking a thread to write would
//! cost every token a switch of threads on a machine whose cores are all computing. The engine must not wait for a slow host, so what the
//! socket does not take at once is left to the thread of this file, which also adds a measurement twice a second.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use onebit_engine::{EngineError, Event, Gauge, Health};
use rustix::net::{SendFlags, send};

use super::process::measure;
use super::refusals;
use super::serve::Outlet;
use crate::protocol::{FrameError, FromWorker, MAX_FRAME_BYTES, Stats, encode_into};

/// How often the host hears how the worker is.
const PULSE: Duration = Duration::from_millis(500);

/// The memory that a buffer keeps between writes at most.
const KEPT_BYTES: usize = 256 * 1024;

/// The writing side of the worker's socket.
pub(super) struct Outbox {
    pen: Arc<Pen>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Pen {
    socket: UnixStream,
    paper: Mutex<Paper>,
    /// The thread has something to do.
    call: Condvar,
    gauge: OnceLock<Gauge>,
}

/// What was said and has not left yet.
#[derive(Default)]
struct Paper {
    bytes: Vec<u8>,
    /// Only the thread writes now: the socket did not take everything, and the order must stay.
    left_to_thread: bool,
    /// A request failed: the host should hear at once whether the engine can go on.
    failed: bool,
    closing: bool,
}

impl Outlet for Pen {
    fn push(&self, message: FromWorker) {
        let mut paper = self.paper();
        paper.failed |= matches!(message, FromWorker::Event { event: Event::Failed(_), .. });
        append(message, &mut paper.bytes);
    }

    fn flush(&self) {
        let mut paper = self.paper();
        if std::mem::take(&mut paper.failed) {
            self.report(&mut paper.bytes);
        }
        if paper.bytes.is_empty() || paper.left_to_thread {
            return;
        }
        // A broken connection shows in the thread that reads, which ends the process.
        let sent = send(&self.socket, &paper.bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).unwrap_or(0);
        paper.bytes.drain(..sent);
        if paper.bytes.is_empty() {
            paper.bytes.shrink_to(KEPT_BYTES);
        } else {
            paper.left_to_thread = true;
            self.call.notify_one();
        }
    }
}

impl Pen {
    fn paper(&self) -> MutexGuard<'_, Paper> {
        self.paper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the worker is.
    fn report(&self, bytes: &mut Vec<u8>) {
        refusals::tell();
        let Some(gauge) = self.gauge.get() else { return append(FromWorker::Stats(measure()), bytes) };
        let load = gauge.load();
        let stats = Stats { active: load.active, waiting: load.waiting, progress: gauge.progress().steps, ..measure() };
        append(FromWorker::Stats(stats), bytes);
        if let Health::Failed(error) = gauge.health() {
            append(FromWorker::Failed(error), bytes);
        }
    }

    /// The thread: measurements, and what the others could not write.
    fn keep_writing(&self) {
        let mut next_pulse = Instant::now() + PULSE;
        let mut writing = Vec::new();
        loop {
            let mut paper = self.paper();
            while !paper.left_to_thread && !paper.closing && Instant::now() < next_pulse {
                let wait = next_pulse.saturating_duration_since(Instant::now());
                paper = self.call.wait_timeout(paper, wait).unwrap_or_else(PoisonError::into_inner).0;
            }
            if Instant::now() >= next_pulse {
                next_pulse = Instant::now() + PULSE;
                self.report(&mut paper.bytes);
            }
            let closing = paper.closing;
            paper.left_to_thread = true;
            std::mem::swap(&mut paper.bytes, &mut writing);
            drop(paper);
            if (&self.socket).write_all(&writing).is_err() {
                // The thread that reads sees the same end and acts on it.
                return;
            }
            writing.clear();
            writing.shrink_to(KEPT_BYTES);
            let mut paper = self.paper();
            paper.left_to_thread = !paper.bytes.is_empty();
            if closing && !paper.left_to_thread {
                return;
            }
        }
    }
}

impl Outbox {
    /// Starts the thread.
    pub(super) fn start(socket: UnixStream) -> std::io::Result<Self> {
        let pen = Arc::new(Pen { socket, paper: Mutex::default(), call: Condvar::new(), gauge: OnceLock::new() });
        let thread = std::thread::Builder::new().name("worker-outbox".into()).spawn({
            let pen = pen.clone();
            move || pen.keep_writing()
        })?;
        Ok(Self { pen, thread: Mutex::new(Some(thread)) })
    }

    pub(super) fn outlet(&self) -> Arc<dyn Outlet> {
        self.pen.clone()
    }

    /// From now on measurements tell how busy an engine is, and whether it can go on.
    pub(super) fn watch(&self, gauge: Gauge) {
        // Called once; a second engine in one worker does not exist.
        self.pen.gauge.set(gauge).ok();
    }

    /// Writes what is left, and ends the thread.
    pub(super) fn close(&self) {
        self.pen.paper().closing = true;
        self.pen.call.notify_one();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It holds no lock that matters any more.
            thread.join().ok();
        }
    }
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
        FromWorker::Ranked { id, .. } => FromWorker::Ranked { id, result: Err(too_large("the answer")) },
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::protocol::Decoder;

    fn delta(id: u64) -> FromWorker {
        FromWorker::Event { id, event: Event::Delta { text: "x".repeat(500), tokens: Vec::new() } }
    }

    /// Everything that arrives until the end, the measurements left out.
    fn read(mut socket: UnixStream) -> Vec<u64> {
        let mut decoder = Decoder::new();
        let mut bytes = vec![0; 3000];
        let mut ids = Vec::new();
        loop {
            let n = socket.read(&mut bytes).unwrap();
            decoder.space().extend_from_slice(&bytes[..n]);
            while let Some(message) = decoder.take::<FromWorker>().unwrap() {
                if let FromWorker::Event { id, .. } = message {
                    ids.push(id);
                }
            }
            if n == 0 {
                return ids;
            }
        }
    }

    #[test]
    fn a_slow_host_keeps_nobody_waiting_and_gets_everything_in_order() {
        let (host, worker) = UnixStream::pair().unwrap();
        let outbox = Outbox::start(worker).unwrap();
        let outlet = outbox.outlet();
        // Far more than a socket takes, and nobody reads yet.
        for id in 0..8000 {
            outlet.push(delta(id));
            outlet.flush();
        }
        let reader = std::thread::spawn(move || read(host));
        // From here on, sometimes the thread writes and sometimes the caller.
        for id in 8000..8200 {
            outlet.push(delta(id));
            outlet.flush();
            if id % 8 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        outbox.close();
        drop((outbox, outlet));
        assert_eq!(reader.join().unwrap(), (0..8200).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_pushed_and_not_flushed_leaves_with_the_next_pulse() {
        let (host, worker) = UnixStream::pair().unwrap();
        let outbox = Outbox::start(worker).unwrap();
        outbox.outlet().push(delta(7));
        std::thread::sleep(PULSE * 2);
        // The process would end here without a word.
        host.set_nonblocking(true).unwrap();
        let mut bytes = Vec::new();
        (&host).read_to_end(&mut bytes).ok();
        assert!(bytes.windows(5).any(|five| five == b"xxxxx"), "{} bytes", bytes.len());
    }
}
