//! The host's end of one worker: its process and its socket, read together, so that nothing a worker said before it died is lost.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::process::Process;
use crate::protocol::{Decoder, FrameError};

/// How long a worker whose socket has closed may take to end; and how long the socket of a worker that has ended may take to run dry
/// (a helper that a plugin forked may hold it open).
const FAREWELL: Duration = Duration::from_secs(2);

/// Bytes that are written at once at most, when many messages wait.
const WRITE_BYTES: usize = 256 * 1024;

/// What a worker did.
#[derive(Debug)]
pub(crate) enum Wake<M> {
    /// It said something.
    Message(M),
    /// It ended.
    Exited(ExitStatus),
    /// It closed its socket and did not end; it was killed.
    HungUp,
    /// It said something that cannot be understood. Every further call says so again.
    Broken(FrameError),
    /// It cannot be watched any more.
    Lost(io::Error),
}

/// Process and socket of one worker.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) process: Process,
    reader: OwnedReadHalf,
    decoder: Decoder,
    /// When the socket closed.
    closed: Option<Instant>,
    exited: Option<(ExitStatus, Instant)>,
    /// It was killed for closing its socket without ending.
    hung_up: bool,
}

impl Wire {
    /// Also starts the task that writes; it ends when the last sender is gone or the worker is.
    pub(crate) fn new(process: Process, socket: UnixStream) -> (Self, mpsc::UnboundedSender<Vec<u8>>) {
        let (reader, writer) = socket.into_split();
        let (outbox, frames) = mpsc::unbounded_channel();
        tokio::spawn(write(writer, frames));
        (Self { process, reader, decoder: Decoder::new(), closed: None, exited: None, hung_up: false }, outbox)
    }

    /// The next thing the worker does. May be dropped and called again.
    pub(crate) async fn next<M: DeserializeOwned>(&mut self) -> Wake<M> {
        loop {
            match self.decoder.take() {
                Ok(Some(message)) => return Wake::Message(message),
                Ok(None) => {}
                Err(error) => return Wake::Broken(error),
            }
            match (self.closed, self.exited) {
                (Some(_), Some(_)) if self.hung_up => return Wake::HungUp,
                (Some(_), Some((status, _))) => return Wake::Exited(status),
                (Some(since), None) => tokio::select! {
                    status = self.process.exited() => match status {
                        Ok(status) => self.exited = Some((status, Instant::now())),
                        Err(error) => return Wake::Lost(error),
                    },
                    () = sleep_until(since + FAREWELL), if !self.hung_up => {
                        self.process.kill();
                        self.hung_up = true;
                    }
                },
                (None, Some((status, since))) => tokio::select! {
                    read = self.reader.read_buf(self.decoder.space()) => self.closed = closed(&read),
                    () = sleep_until(since + FAREWELL) => return Wake::Exited(status),
                },
                (None, None) => tokio::select! {
                    read = self.reader.read_buf(self.decoder.space()) => self.closed = closed(&read),
                    status = self.process.exited() => match status {
                        Ok(status) => self.exited = Some((status, Instant::now())),
                        Err(error) => return Wake::Lost(error),
                    },
                },
            }
        }
    }

    /// Ends the worker now and reaps it.
    pub(crate) async fn kill(&mut self) {
        self.process.kill();
        if let Err(error) = self.process.exited().await {
            tracing::error!(pid = self.process.pid(), %error, "a killed worker cannot be waited for");
        }
    }

    /// Waits until it has ended, throwing away what it still says.
    pub(crate) async fn farewell(&mut self) {
        loop {
            match self.next::<crate::protocol::FromWorker>().await {
                Wake::Message(_) => {}
                Wake::Exited(_) | Wake::HungUp | Wake::Lost(_) => return,
                Wake::Broken(_) => return self.kill().await,
            }
        }
    }
}

fn closed(read: &io::Result<usize>) -> Option<Instant> {
    // A reset connection says the same as a closed one: nothing more will come.
    matches!(read, Ok(0) | Err(_)).then(Instant::now)
}

async fn write(mut socket: OwnedWriteHalf, mut frames: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(mut bytes) = frames.recv().await {
        while bytes.len() < WRITE_BYTES {
            match frames.try_recv() {
                Ok(more) => bytes.extend_from_slice(&more),
                Err(_) => break,
            }
        }
        if socket.write_all(&bytes).await.is_err() {
            // The reader notices the same and knows why.
            return;
        }
    }
}
