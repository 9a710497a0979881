//! API keys: finding the caller's among those of the setting and of the file, in either of the two headers that client libraries use.

use std::path::Path;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use onebit_engine::Priority;
use subtle::{Choice, ConstantTimeEq};

use super::hosts::Via;
use super::{Caller, meter::Meter, single};
use crate::config::HttpConfig;
use crate::errors::{ApiError, Kind};
use crate::keys::{self, Hash, KeyEntry, Limits, OF_THE_SETTING, Scope};
use crate::reload::Reloaded;
use crate::serve::ServeError;

/// A key that opens.
pub(crate) struct Key {
    pub(crate) name: String,
    hash: Hash,
    pub(crate) scope: Scope,
    pub(crate) priority: Priority,
    pub(crate) meter: Arc<Meter>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.scope)
    }
}

impl Key {
    pub(super) fn new(name: &str, hash: Hash, scope: Scope, limits: Limits) -> Self {
        Self { name: name.to_owned(), hash, scope, priority: Priority::default(), meter: Arc::new(Meter::new(limits)) }
    }

    /// An entry of the file as it is now; a key that was there under this name keeps its books.
    fn read(entry: &KeyEntry, before: Option<&KeySet>) -> Arc<Self> {
        let known = before.and_then(|keys| keys.iter().find(|key| key.name == entry.name));
        let key = Self { priority: entry.priority, ..Self::new(&entry.name, entry.sha256, entry.scope, entry.limits()) };
        let Some(known) = known else { return Arc::new(key) };
        known.meter.set(entry.limits());
        Arc::new(Self { meter: Arc::clone(&known.meter), ..key })
    }
}

/// The keys of a file.
pub(super) type KeySet = Vec<Arc<Key>>;

/// All keys.
#[derive(Debug)]
pub(super) struct Keys {
    /// The key of the setting. There is one person behind it, who may do everything.
    fixed: Option<Arc<Key>>,
    file: Option<Arc<Reloaded<KeySet>>>,
    /// What was computed for one is shared with all.
    shares_prefixes: bool,
}

impl Keys {
    pub(super) fn open(config: &HttpConfig) -> Result<Self, ServeError> {
        let fixed = config.api_key.as_deref().map(str::trim);
        let fixed = fixed.map(|key| Arc::new(Key::new(OF_THE_SETTING, keys::hash(key.as_bytes()), Scope::Admin, Limits::default())));
        let file = match config.api_keys_file.clone() {
            Some(path) => Some(Reloaded::open("api_keys_file", vec![path.clone()], move |before| read(&path, before))?),
            None => None,
        };
        Ok(Self { fixed, file, shares_prefixes: config.share_prefixes })
    }

    /// The file, for whoever watches it.
    pub(super) fn file(&self) -> Option<&Arc<Reloaded<KeySet>>> {
        self.file.as_ref()
    }

    /// Who has this key. Where none is set up, everybody on this machine may do everything, and others may ask models.
    pub(super) fn caller(&self, headers: &HeaderMap, via: Via) -> Result<Caller, ApiError> {
        if self.fixed.is_none() && self.file.is_none() {
            return Ok(Caller::anonymous(if via == Via::Network { Scope::Inference } else { Scope::Admin }));
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
        self.find(&keys::hash(given))
            .map(|key| Caller::with(key, self.shares_prefixes))
            .ok_or_else(|| ApiError::new(Kind::Unauthorised, "the API key is not one of this server's; check it in your client's settings"))
    }

    /// All keys are compared, whichever matches.
    fn find(&self, hash: &Hash) -> Option<Arc<Key>> {
        let file = self.file.as_ref().map(|file| file.get());
        let keys = self.fixed.iter().chain(file.iter().flat_map(|keys| keys.iter()));
        keys.fold(None, |found, key| {
            let same: Choice = key.hash.ct_eq(hash);
            if bool::from(same) { Some(Arc::clone(key)) } else { found }
        })
    }
}

/// At the start a file without keys is a mistake; later it is what is left after the last key was removed, and opens to nobody.
fn read(path: &Path, before: Option<&KeySet>) -> Result<KeySet, ServeError> {
    let entries = keys::read(path)?;
    if before.is_none() && entries.is_empty() {
        let reason = "has no key in it; make one with: onebit-host key new NAME".to_owned();
        return Err(ServeError::Keys { path: path.to_owned(), reason });
    }
    Ok(entries.iter().map(|entry| Key::read(entry, before)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(key: Option<&str>) -> Keys {
        Keys::open(&HttpConfig { api_key: key.map(str::to_owned), ..HttpConfig::default() }).unwrap()
    }

    #[test]
    fn either_header_opens_and_nothing_else_does() {
        let passes = |header: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header, value.parse().expect("a header"));
            keys(Some("one")).caller(&headers, Via::Network).is_ok()
        };
        for (header, value) in [("authorization", "Bearer one"), ("authorization", "bearer  one "), ("x-api-key", "one")] {
            assert!(passes(header, value), "{header}: {value}");
        }
        for (header, value) in [
            ("authorization", "one"),
            ("authorization", "Basic one"),
            ("authorization", "Bearer on"),
            ("authorization", "Bearer onee"),
            ("authorization", "Bearer "),
            ("x-api-key", ""),
            ("cookie", "one"),
        ] {
            assert!(!passes(header, value), "{header}: {value}");
        }
    }

    #[test]
    fn without_any_key_this_machine_may_do_everything_and_others_may_ask_models() {
        let may_command = |via| keys(None).caller(&HeaderMap::new(), via).unwrap().require(Scope::Admin).is_ok();
        assert!(may_command(Via::Loopback) && may_command(Via::Unix) && !may_command(Via::Network));
    }

    #[test]
    fn a_key_that_is_read_again_keeps_its_books() {
        let text = |limits: &str| format!("[[key]]\nname = \"a\"\nsha256 = \"{}\"\nscope = \"admin\"\n{limits}", keys::hex(&[7; 32]));
        let entries = |limits: &str| keys::parse(&text(limits)).unwrap();
        let before: KeySet = entries("concurrent = 1").iter().map(|entry| Key::read(entry, None)).collect();
        let running = before[0].meter.begin().unwrap();
        let after = Key::read(&entries("concurrent = 2")[0], Some(&before));
        let second = after.meter.begin().unwrap();
        assert!(after.meter.begin().is_err());
        drop((running, second));
        assert!(after.meter.begin().is_ok());
    }
}
