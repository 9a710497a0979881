//! The first words between host and worker, spoken on the only thread there is.
//!
//! The order says how the process is to be confined, and that must happen while it has one thread. So the greeting and the order are read here,
//! blocking, and the threads that live with the socket start afterwards. If the host goes away meanwhile, the socket ends and so does this.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use super::ChildError;
use crate::protocol::{Decoder, Hello, LoadOrder, ToWorker, encode};
use onebit_confine::SandboxConfig;

/// Bytes read at a time.
const READ_BYTES: usize = 16 * 1024;

/// What the host wants, and what has arrived behind it.
pub(super) struct Opening {
    pub(super) order: LoadOrder,
    pub(super) sandbox: SandboxConfig,
    pub(super) decoder: Decoder,
}

impl Opening {
    /// Greets, and waits for the host's greeting and order.
    pub(super) fn with(socket: &mut UnixStream) -> Result<Self, ChildError> {
        let system = |what| move |error| ChildError::System { what, error };
        let ours = Hello::ours();
        let greeting = encode(&ours).map_err(std::io::Error::other).map_err(system("the greeting cannot be written"))?;
        // The greeting goes out first: a host of another build must be able to tell what it talks to.
        socket.write_all(&greeting).map_err(system("the host does not take the greeting"))?;
        let mut decoder = Decoder::new();
        let theirs: Hello = next(socket, &mut decoder)?;
        if !ours.agrees_with(&theirs) {
            return Err(ChildError::Build { ours: Box::new(ours), theirs: Box::new(theirs) });
        }
        match next(socket, &mut decoder)? {
            ToWorker::Load { order, sandbox } => Ok(Self { order: *order, sandbox: *sandbox, decoder }),
            _ => Err(ChildError::NoOrder("it began with something else".into())),
        }
    }
}

fn next<M: serde::de::DeserializeOwned>(socket: &mut UnixStream, decoder: &mut Decoder) -> Result<M, ChildError> {
    let mut bytes = [0; READ_BYTES];
    loop {
        if let Some(message) = decoder.take().map_err(|error| ChildError::NoOrder(error.to_string()))? {
            return Ok(message);
        }
        match socket.read(&mut bytes) {
            Ok(0) => return Err(ChildError::NoOrder("it went away".into())),
            Ok(n) => decoder.space().extend_from_slice(&bytes[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ChildError::NoOrder(error.to_string())),
        }
    }
}
