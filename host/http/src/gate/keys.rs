//! API keys, in either of the two headers that client libraries use.

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::single;
use crate::errors::{ApiError, Kind};

/// The keys, as digests: comparing those takes the same time for a wrong key of any length.
pub(super) struct Keys(Vec<[u8; 32]>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

impl Keys {
    pub(super) fn new(keys: &[String]) -> Self {
        Self(keys.iter().map(|key| digest(key.trim().as_bytes())).collect())
    }

    /// Passes with one of the keys, or where none is set up.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let bearer = single(headers, &header::AUTHORIZATION)?.and_then(|value| {
            let (scheme, key) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
        });
        let given = match bearer {
            Some(key) => Some(key),
            None => single(headers, &header::HeaderName::from_static("x-api-key"))?.map(|value| value.as_bytes().trim_ascii()),
        };
        let Some(given) = given else {
            return Err(ApiError::new(
                Kind::Unauthorised,
                "this server needs an API key; send it as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"",
            ));
        };
        let given = digest(given);
        // All keys are compared, whichever matches.
        let known = self.0.iter().fold(Choice::from(0), |found, key| found | key.ct_eq(&given));
        if bool::from(known) {
            Ok(())
        } else {
            Err(ApiError::new(Kind::Unauthorised, "the API key is not one of this server's; check it in your client's settings"))
        }
    }
}

fn digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(header: &'static str, value: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header, value.parse().expect("a header"));
        Keys::new(&["one".into(), "two".into()]).check(&headers).is_ok()
    }

    #[test]
    fn either_header_and_any_key_opens() {
        for (header, value) in [("authorization", "Bearer one"), ("authorization", "bearer  two "), ("x-api-key", "two")] {
            assert!(passes(header, value), "{header}: {value}");
        }
        for (header, value) in [
            ("authorization", "one"),
            ("authorization", "Basic one"),
            ("authorization", "Bearer on"),
            ("authorization", "Bearer onee"),
            ("x-api-key", ""),
            ("cookie", "one"),
        ] {
            assert!(!passes(header, value), "{header}: {value}");
        }
        assert!(Keys::new(&[]).check(&HeaderMap::new()).is_ok());
    }
}
