//! What a server may be told, with the defaults. Checked as a whole before anything is opened.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::serve::ServeError;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// `127.0.0.1:8090`, `[::1]:8090`; port 0 = any free one.
    Tcp(SocketAddr),
    /// `unix:/run/onebit.sock`.
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(ServeError::Address(text.to_owned())) } else { Ok(Self::Unix(path.into())) };
        }
        // `localhost` is not looked up: what it resolves to is not ours to trust, what it means is.
        let numeric = match text.rsplit_once(':') {
            Some((name, port)) if name.eq_ignore_ascii_case("localhost") => format!("127.0.0.1:{port}"),
            _ => text.to_owned(),
        };
        numeric.parse().map(Self::Tcp).map_err(|_| ServeError::Address(text.to_owned()))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listen {
    /// Nobody outside this machine can connect.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => is_loopback(address.ip()),
            Self::Unix(_) => true,
        }
    }
}

/// Loopback, also written as an IPv4 address inside IPv6.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Where TLS has its certificate from, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and those that lead to one that clients trust.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How responses are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepResponses {
    /// The file; its folder is made.
    pub file: PathBuf,
    /// For so long; `None` = until there is too much.
    pub retention: Option<Duration>,
    /// Bytes of all of them; the oldest go first.
    pub max_bytes: u64,
}

/// How model files come to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrivals {
    /// The folder that they come into.
    pub models_dir: PathBuf,
    /// The program, with its first arguments, that gets a model by a name: the name is its last argument. It tells of its progress in lines of
    /// JSON on standard output.
    pub pull: Vec<OsString>,
}

/// All settings of the HTTP front.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// At least one.
    pub listen: Vec<Listen>,
    /// Opens every route. Without it and without a file of keys, no key is needed.
    pub api_key: Option<String>,
    /// Keys of many people, with scopes and limits; see [`crate::keys`].
    pub api_keys_file: Option<PathBuf>,
    /// Certificate and key for TLS; sockets in files stay without.
    pub tls: Option<TlsFiles>,
    /// Allows listening beyond this machine without a key.
    pub insecure: bool,
    /// Names, besides `localhost` and addresses, under which clients may reach the server (the `Host` header). `*` = any.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call, besides those of this machine: `https://chat.example`. `*` = any.
    pub allowed_origins: Vec<String>,
    /// Bytes of one request body.
    pub max_body_bytes: usize,
    /// Bytes of all request bodies being read at one time.
    pub max_buffered_bytes: usize,
    /// Open connections; more wait to be accepted.
    pub max_connections: usize,
    /// For the head of a request to arrive, and for the next one on an idle connection.
    pub header_timeout: Duration,
    /// For the body of a request to arrive.
    pub body_timeout: Duration,
    /// For a client to take what it is sent.
    pub write_timeout: Duration,
    /// For running answers to end after the shutdown began.
    pub drain_timeout: Duration,
    /// What was computed for the beginning of one key's request serves those of others too, who can tell by the time it takes.
    pub share_prefixes: bool,
    /// How responses of `/v1/responses` are kept; `None` = they are not.
    pub responses: Option<KeepResponses>,
    /// How model files come; `None` = they do not.
    pub arrivals: Option<Arrivals>,
    /// The program that runs chat templates when its first argument is [`crate::template::ROLE`]; `None` = this very program.
    pub renderer: Option<PathBuf>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 8090)))],
            api_key: None,
            api_keys_file: None,
            tls: None,
            insecure: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body_bytes: 32 << 20,
            max_buffered_bytes: 256 << 20,
            max_connections: 1024,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
            share_prefixes: false,
            responses: None,
            arrivals: None,
            renderer: None,
        }
    }
}

impl fmt::Debug for HttpConfig {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpConfig")
            .field("listen", &self.listen)
            .field("api_key", &self.api_key.is_some())
            .field("api_keys_file", &self.api_keys_file)
            .field("tls", &self.tls)
            .field("insecure", &self.insecure)
            .field("allowed_hosts", &self.allowed_hosts)
            .field("allowed_origins", &self.allowed_origins)
            .finish_non_exhaustive()
    }
}

impl HttpConfig {
    /// Whether callers need a key.
    pub fn keyed(&self) -> bool {
        self.api_key.is_some() || self.api_keys_file.is_some()
    }

    /// Addresses where what is sent, keys included, can be read on the way.
    pub fn in_the_clear(&self) -> impl Iterator<Item = &Listen> {
        self.listen.iter().filter(|listen| self.tls.is_none() && self.keyed() && !listen.is_local())
    }

    /// Refuses a configuration that is unsafe or cannot work.
    pub fn check(&self) -> Result<(), ServeError> {
        if self.listen.is_empty() {
            return Err(ServeError::NoAddress);
        }
        let unfit = |key: &String| key.trim().is_empty() || !key.is_ascii() || key.bytes().any(|byte| byte.is_ascii_control());
        if self.api_key.as_ref().is_some_and(unfit) {
            return Err(ServeError::Key);
        }
        if !self.keyed()
            && !self.insecure
            && let Some(open) = self.listen.iter().find(|listen| !listen.is_local())
        {
            return Err(ServeError::Open(open.clone()));
        }
        for origin in &self.allowed_origins {
            let well_formed = origin == "*"
                || origin.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty() && !rest.contains('/'));
            if !well_formed {
                return Err(ServeError::Origin(origin.clone()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_all_their_forms() {
        for (text, shown) in
            [("127.0.0.1:1", "127.0.0.1:1"), ("[::1]:0", "[::1]:0"), ("LocalHost:80", "127.0.0.1:80"), ("unix:/a/b", "unix:/a/b")]
        {
            assert_eq!(text.parse::<Listen>().expect("an address").to_string(), shown);
        }
        for text in ["", "8090", "example.org:80", "unix:", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_open_address_needs_a_key_or_the_word_insecure() {
        let open = |key: Option<&str>, insecure| HttpConfig {
            listen: vec!["0.0.0.0:0".parse().expect("an address")],
            api_key: key.map(str::to_owned),
            insecure,
            ..HttpConfig::default()
        };
        let error = open(None, false).check().expect_err("open");
        assert!(error.to_string().contains("--insecure") && error.to_string().contains("key"), "{error}");
        assert!(open(Some("k"), false).check().is_ok());
        assert!(open(None, true).check().is_ok());
        assert!(open(Some(" "), false).check().is_err());
        assert!(HttpConfig::default().check().is_ok());
    }

    #[test]
    fn a_key_travels_in_the_clear_where_others_could_read_it() {
        let at = |address: &str, keyed: bool, tls: bool| {
            let files = TlsFiles { cert: "c".into(), key: "k".into() };
            let config = HttpConfig {
                listen: vec![address.parse().expect("an address")],
                api_key: keyed.then(|| "k".into()),
                tls: tls.then_some(files),
                ..HttpConfig::default()
            };
            config.in_the_clear().count() == 1
        };
        assert!(at("0.0.0.0:1", true, false));
        assert!(
            !at("0.0.0.0:1", true, true)
                && !at("0.0.0.0:1", false, false)
                && !at("127.0.0.1:1", true, false)
                && !at("unix:/s", true, false)
        );
    }

    #[test]
    fn keys_are_not_shown() {
        let config = HttpConfig { api_key: Some("hush".into()), ..HttpConfig::default() };
        assert!(!format!("{config:?}").contains("hush"));
    }
}
