//! Saved state of one sequence: a header of ours, then llama.cpp's bytes.
//!
//! llama.cpp trusts what it is given to load, and does not say which positions are inside. A prompt cache lies on a disk, where it can be cut
//! off, mixed up or written by another build. So the header carries a fingerprint of everything that shapes the bytes, the positions, and a
//! checksum; what does not agree never reaches llama.cpp.

use onebit_sdk::Error;
use onebit_weights::GgufFacts;

use crate::settings::Settings;

/// Changes when this layout does.
const MAGIC: &[u8; 8] = b"OBGGML\x01\0";
/// Magic, fingerprint, number of positions, bytes of the payload, checksum of positions and payload.
const FIXED: usize = 8 + 8 + 8 + 8 + 8;

/// The version of llama.cpp is part of what shapes its bytes.
const LLAMA: &str = "llama-cpp-sys-2 0.1.161";

/// Bytes before the payload.
pub fn header_size(positions: usize) -> usize {
    FIXED + 4 * positions
}

/// Bytes of a snapshot.
pub fn size(positions: usize, payload: usize) -> u64 {
    (header_size(positions) + payload) as u64
}

/// What two contexts must have in common for one to load the other's state.
pub fn fingerprint(facts: &GgufFacts, settings: &Settings) -> u64 {
    let text = format!(
        "{LLAMA}|{}|{:?}|{}|{}|{}|{}|{}|{}|{}|{:?}|{:?}|{}",
        facts.architecture,
        facts.name,
        facts.layers,
        facts.embedding,
        facts.heads,
        facts.kv_heads,
        facts.vocabulary,
        facts.parameters,
        facts.weights_bytes,
        settings.kv_type,
        settings.flash_attention,
        settings.swa_full,
    );
    fnv(FNV_START, text.as_bytes())
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a over 8 bytes at a time: finds accidents, not attacks. A state is as trusted as the folder it lies in.
fn fnv(start: u64, bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x100_0000_01b3;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = start;
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME).rotate_left(29);
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    }
    hash
}

/// Fills `header`, which has [`header_size`] bytes.
pub fn write_header(header: &mut [u8], fingerprint: u64, positions: &[u32], payload: &[u8]) {
    let mut bytes = Vec::with_capacity(header.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend(fingerprint.to_le_bytes());
    bytes.extend((positions.len() as u64).to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    let list: Vec<u8> = positions.iter().flat_map(|position| position.to_le_bytes()).collect();
    bytes.extend(fnv(fnv(FNV_START, &list), payload).to_le_bytes());
    bytes.extend(list);
    header.copy_from_slice(&bytes);
}

/// The positions and the payload of a snapshot that fits `fingerprint`.
pub fn read(buffer: &[u8], fingerprint: u64) -> Result<(Vec<u32>, &[u8]), Error> {
    let damaged = |what: &str| Error::invalid_argument(format!("this is no saved state that can be loaded: {what}"));
    let (fixed, rest) = buffer.split_at_checked(FIXED).ok_or_else(|| damaged("it is too short"))?;
    if fixed[..8] != MAGIC[..] {
        return Err(damaged("it was written by something else"));
    }
    let (numbers, _) = fixed[8..].as_chunks::<8>();
    let [stated, count, length, checksum] = *numbers else {
        return Err(damaged("it is too short"));
    };
    let number = |bytes: [u8; 8]| u64::from_le_bytes(bytes);
    if number(stated) != fingerprint {
        return Err(damaged("it belongs to another model, other settings or another version"));
    }
    let list_bytes = usize::try_from(number(count)).ok().and_then(|count| count.checked_mul(4));
    let (list, payload) = list_bytes.and_then(|bytes| rest.split_at_checked(bytes)).ok_or_else(|| damaged("it is cut off"))?;
    if number(length) != payload.len() as u64 {
        return Err(damaged("it is cut off, or something follows it"));
    }
    if fnv(fnv(FNV_START, list), payload) != number(checksum) {
        return Err(damaged("its checksum is wrong"));
    }
    let (list, _) = list.as_chunks::<4>();
    Ok((list.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect(), payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Vec<u8> {
        let payload = b"the state of two positions";
        let mut bytes = vec![0; header_size(2)];
        write_header(&mut bytes, 77, &[3, 4], payload);
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        let bytes = written();
        let (positions, payload) = read(&bytes, 77).expect("readable");
        assert_eq!((positions.as_slice(), payload), ([3, 4].as_slice(), b"the state of two positions".as_slice()));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_refused() {
        let bytes = written();
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length], 77).is_err(), "cut to {length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x41;
            assert!(read(&changed, 77).is_err(), "byte {at}");
        }
        assert!(read(&bytes, 78).is_err(), "another model");
        assert!(read(&[bytes.as_slice(), &[0]].concat(), 77).is_err(), "one byte more");
    }
}
