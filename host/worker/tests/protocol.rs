//! Frames under attack: whatever bytes arrive, the reader neither panics nor takes memory for what has only been announced.

use onebit_engine::{Embeddings, Event, Prompt, PromptPart};
use onebit_worker::protocol::{Decoder, FrameError, FromWorker, HEADER_BYTES, Hello, MAX_FRAME_BYTES, ToWorker, encode, encode_into};
use proptest::prelude::*;

fn feed(bytes: &[u8]) -> Result<usize, FrameError> {
    let mut decoder = Decoder::new();
    decoder.space().extend_from_slice(bytes);
    let mut messages = 0;
    while decoder.take::<FromWorker>()?.is_some() {
        messages += 1;
    }
    Ok(messages)
}

#[test]
fn a_huge_announced_length_ends_the_connection_before_any_memory_is_taken() {
    for length in [u32::MAX, 64 * 1024 * 1024 + 1, 0x8000_0000] {
        let mut decoder = Decoder::new();
        decoder.space().extend_from_slice(&length.to_le_bytes());
        assert_eq!(decoder.take::<FromWorker>(), Err(FrameError::AnnouncedTooLarge { bytes: length as usize }));
        assert!(decoder.space().capacity() < 1024 * 1024);
    }
}

#[test]
fn a_length_that_is_allowed_takes_no_memory_until_the_bytes_arrive() {
    let mut decoder = Decoder::new();
    decoder.space().extend_from_slice(&(MAX_FRAME_BYTES as u32).to_le_bytes());
    assert_eq!(decoder.take::<FromWorker>(), Ok(None));
    assert!(decoder.space().capacity() < 1024 * 1024);
}

#[test]
fn a_vector_that_claims_to_be_endless_is_an_error_and_not_an_allocation() {
    // Embedded { id: 1, result: Ok(Embeddings { vectors: <2^60 entries> … }) }: variant 4, id, Ok, then a length.
    let mut payload = vec![4, 1, 0];
    payload.extend_from_slice(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]);
    let mut frame = (payload.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&payload);
    assert!(matches!(feed(&frame), Err(FrameError::Malformed { .. })));
}

#[test]
fn bytes_after_the_message_are_an_error() {
    let mut frame = encode(&FromWorker::LoadProgress { fraction: 0.5 }).expect("fits");
    frame.push(0);
    let length = (frame.len() - HEADER_BYTES) as u32;
    frame[..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    assert!(matches!(feed(&frame), Err(FrameError::Malformed { .. })));
}

#[test]
fn a_message_beyond_the_limit_is_refused_by_the_sender_and_leaves_the_buffer_as_it_was() {
    let mut buffer = encode(&Hello::ours()).expect("fits");
    let before = buffer.clone();
    let huge = ToWorker::Encode {
        id: 1,
        prompt: Prompt::Parts(vec![PromptPart { text: "x".repeat(MAX_FRAME_BYTES), control: false }]),
        add_special: true,
    };
    assert!(matches!(encode_into(&huge, &mut buffer), Err(FrameError::TooLarge { bytes }) if bytes > MAX_FRAME_BYTES));
    assert_eq!(buffer, before);
}

#[test]
fn the_greeting_never_changes_its_bytes() {
    // Another build must be able to read this for ever: length, "onebit-worker", protocol, build.
    let hello = Hello { protocol: 300, build: "0.1.0".into(), ..Hello::ours() };
    let mut expected = vec![22, 0, 0, 0, 13];
    expected.extend_from_slice(b"onebit-worker");
    expected.extend_from_slice(&[0xac, 0x02, 5]);
    expected.extend_from_slice(b"0.1.0");
    assert_eq!(encode(&hello).expect("fits"), expected);
}

#[test]
fn frames_arrive_whole_however_they_are_cut() {
    let messages: Vec<FromWorker> = (0..50)
        .map(|n| match n % 3 {
            0 => FromWorker::Event { id: n, event: Event::Delta { text: "é".repeat(n as usize), tokens: Vec::new() } },
            1 => FromWorker::LoadProgress { fraction: n as f32 },
            _ => FromWorker::Embedded { id: n, result: Ok(Embeddings { vectors: vec![vec![n as f32; 7]; 3], prompt_tokens: 1 }) },
        })
        .collect();
    let mut bytes = Vec::new();
    for message in &messages {
        encode_into(message, &mut bytes).expect("fits");
    }
    for step in [1, 2, 3, 7, 64, bytes.len()] {
        let mut decoder = Decoder::new();
        let mut got = Vec::new();
        for piece in bytes.chunks(step) {
            decoder.space().extend_from_slice(piece);
            while let Some(message) = decoder.take::<FromWorker>().expect("good frames") {
                got.push(message);
            }
        }
        assert_eq!(got, messages);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        feed(&bytes).ok();
    }

    #[test]
    fn a_well_framed_random_payload_never_panics(payload in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut frame = (payload.len() as u32).to_le_bytes().to_vec();
        frame.extend_from_slice(&payload);
        feed(&frame).ok();
        let mut decoder = Decoder::new();
        decoder.space().extend_from_slice(&frame);
        decoder.take::<ToWorker>().ok();
    }

    #[test]
    fn a_flipped_byte_in_an_honest_frame_is_read_or_refused(at in 0usize..200, flip in 1u8..) {
        let message = FromWorker::Event { id: 7, event: Event::Delta { text: "some text".repeat(15), tokens: Vec::new() } };
        let mut frame = encode(&message).expect("fits");
        let at = at % frame.len();
        frame[at] ^= flip;
        feed(&frame).ok();
    }
}
