//! The signature over `plugin.toml`: a file `plugin.toml.minisig` beside it, made with minisign.
//!
//! It covers `plugin.toml` alone; through the hashes listed there it covers the rest. Signing is not the host's business: `minisign -Sm plugin.toml`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minisign_verify::Signature;
use serde::{Deserialize, Serialize};

use super::Problem;
use super::keys::{Key, today};

/// Name of the signature's file.
pub const SIGNATURE: &str = "plugin.toml.minisig";
/// Bytes of it; real ones have some 300.
pub(super) const SIGNATURE_MAX: u64 = 4096;

/// Who signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signer {
    /// The key's file name without `.pub`.
    pub key: String,
    /// What the signer wrote beside it, covered by the signature.
    pub comment: String,
}

/// Compares `toml` with the signature.
pub(super) fn verify(toml: &[u8], signature: &[u8], keys: &[Key], problems: &mut Vec<Problem>) -> Option<Signer> {
    let damaged = |reason: &str| Problem::SignatureDamaged { reason: reason.to_owned() };
    let Ok(text) = core::str::from_utf8(signature) else {
        problems.push(damaged("it is not text"));
        return None;
    };
    let (Ok(parsed), Some(key_id)) = (Signature::decode(text), key_id(text)) else {
        problems.push(damaged("its lines are not those of a signature"));
        return None;
    };
    let mut refused = Problem::KeyUnknown { key_id };
    for key in keys {
        // Legacy signatures, over the file instead of its hash, are as good for so small a file.
        match key.public.verify(toml, &parsed, true) {
            Ok(()) => match key.last_day.filter(|last| *last < today()) {
                Some(last) => refused = Problem::KeyExpired { key: key.name.clone(), last_day: last.to_string() },
                None => return Some(Signer { key: key.name.clone(), comment: printable(parsed.trusted_comment()) }),
            },
            Err(minisign_verify::Error::UnexpectedKeyId) => {}
            Err(_) if matches!(refused, Problem::KeyExpired { .. }) => {}
            Err(_) => refused = Problem::SignatureWrong { key: key.name.clone() },
        }
    }
    problems.push(refused);
    None
}

/// The number of the key, as minisign prints it.
fn key_id(signature: &str) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(signature.lines().nth(1)?.trim()).ok()?;
    let number: [u8; 8] = bytes.get(2..10)?.try_into().ok()?;
    Some(format!("{:016X}", u64::from_le_bytes(number)))
}

/// Goes to terminals and logs.
fn printable(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
