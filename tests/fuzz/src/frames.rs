//! The protocol between the front and a worker, both ways: a worker maps foreign code, so what it sends is a stranger's word.

use std::fmt::Debug;

use onebit_worker::protocol::{Decoder, FromWorker, Hello, ToWorker, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::law;

/// What the front may be sent.
pub fn from_worker(bytes: &[u8]) {
    stream::<FromWorker>(bytes);
}

/// What a worker may be sent.
pub fn to_worker(bytes: &[u8]) {
    stream::<ToWorker>(bytes);
}

/// The greeting, then messages.
///
/// The portions in which bytes arrive change nothing, a message says the same after it was sent on, and what is refused is refused in a
/// sentence.
fn stream<M: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) {
    let whole = read::<M>(bytes, usize::MAX, false);
    for portion in [1, 7] {
        assert_eq!(read::<M>(bytes, portion, false), whole, "portions of {portion} mean something else");
    }
    if let Some(refusal) = &whole.refusal {
        law::is_a_sentence(refusal);
    }
    for frame in &whole.frames {
        let again = read::<M>(frame, usize::MAX, true);
        assert_eq!((again.frames.as_slice(), again.refusal), (std::slice::from_ref(frame), None), "a message changed on its way");
    }
}

/// What came out of a stream.
#[derive(Debug, PartialEq)]
struct Read {
    /// Each message, written anew: floats that are not numbers have no equality.
    frames: Vec<Vec<u8>>,
    /// What ended it.
    refusal: Option<String>,
}

/// `greeted` = the greeting was before these bytes.
fn read<M: Serialize + DeserializeOwned>(bytes: &[u8], portion: usize, mut greeted: bool) -> Read {
    let mut decoder = Decoder::new();
    let mut read = Read { frames: Vec::new(), refusal: None };
    for part in bytes.chunks(portion.min(bytes.len().max(1))) {
        decoder.space().extend_from_slice(part);
        loop {
            let frame = if greeted {
                decoder.take::<M>().map(|message| message.map(|message| encode(&message)))
            } else {
                decoder.take::<Hello>().map(|message| message.map(|message| encode(&message)))
            };
            match frame {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    if greeted {
                        read.frames.push(frame.expect("what fitted into a frame fits again"));
                    }
                    greeted = true;
                }
                Err(error) => {
                    read.refusal = Some(error.to_string());
                    return read;
                }
            }
        }
    }
    read
}
