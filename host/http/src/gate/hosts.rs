//! The `Host` header: under which name was this server asked for.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::{Request, Version, header};

use super::single;
use crate::config::{HttpConfig, is_loopback};
use crate::errors::{ApiError, Kind};

/// Over what a connection came. Put into every request's extensions by the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// A listener that only this machine can reach.
    Loopback,
    /// A listener that others can reach.
    Network,
    /// A socket file; no browser can be made to connect to one.
    Unix,
}

/// The names.
#[derive(Debug)]
pub(super) struct Hosts {
    names: Vec<String>,
    any: bool,
    keyed: bool,
}

impl Hosts {
    pub(super) fn new(config: &HttpConfig) -> Self {
        Self {
            names: config.allowed_hosts.iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect(),
            any: config.allowed_hosts.iter().any(|name| name == "*"),
            keyed: config.keyed(),
        }
    }

    /// Refuses a request under a name that is not ours.
    pub(super) fn check(&self, request: &Request<Body>, via: Via) -> Result<(), ApiError> {
        let header = single(request.headers(), &header::HOST)?;
        if via == Via::Unix || self.any {
            return Ok(());
        }
        // An absolute URL in the request line outranks the header.
        let given = match (request.uri().authority(), header) {
            (Some(authority), _) => authority.as_str().to_owned(),
            (None, Some(header)) => String::from_utf8_lossy(header.as_bytes()).into_owned(),
            // Every browser sends it; HTTP/1.0 need not.
            (None, None) if request.version() == Version::HTTP_10 => return Ok(()),
            (None, None) => return Err(ApiError::new(Kind::BadHeaders, "the request has no Host header; HTTP/1.1 needs one")),
        };
        if self.allows(&given, via) {
            return Ok(());
        }
        let shown: String = given.chars().take(100).collect();
        Err(ApiError::new(
            Kind::ForeignHost,
            format!(
                "this server does not answer under the name {shown:?}; use localhost or its address, or add the name to its allowed hosts"
            ),
        ))
    }

    fn allows(&self, given: &str, via: Via) -> bool {
        let Some(name) = name_of(given) else { return false };
        if let Ok(address) = name.parse::<IpAddr>() {
            // A page cannot point an address somewhere else; beyond loopback the machine's own addresses change too often to list.
            return is_loopback(address) || via == Via::Network;
        }
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        // With a key, a rebound page learns nothing: it has none. Only on loopback is the stricter rule free of cost.
        name == "localhost" || self.names.contains(&name) || (via == Via::Network && self.keyed && !name.is_empty())
    }
}

/// Name without port and brackets; `None` where the form is wrong.
fn name_of(given: &str) -> Option<&str> {
    let (name, port) = match given.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']')?;
            name.parse::<std::net::Ipv6Addr>().ok()?;
            (name, port)
        }
        None => match given.split_once(':') {
            Some((name, _)) => (name, &given[name.len()..]),
            None => (given, ""),
        },
    };
    let port_fine = port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.parse::<u16>().is_ok());
    let name_fine = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
    (port_fine && name_fine).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str], key: Option<&str>) -> Hosts {
        let allowed_hosts = names.iter().map(|text| (*text).to_owned()).collect();
        Hosts::new(&HttpConfig { allowed_hosts, api_key: key.map(str::to_owned), ..HttpConfig::default() })
    }

    #[test]
    fn foreign_names_do_not_reach_a_loopback_server() {
        let hosts = hosts(&["box.lan"], None);
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            ":8080",
            "127.0.0.1.evil.example",
            "",
            "localhost:99999",
            "[::1",
            "[evil]:1",
            "192.168.0.1",
            "local host",
        ] {
            assert!(!hosts.allows(foreign, Via::Loopback), "{foreign}");
        }
        for own in ["localhost:8090", "127.0.0.1:8090", "[::1]:8090", "LOCALHOST:8090", "localhost", "localhost.", "Box.LAN:1", "127.8.8.8"]
        {
            assert!(hosts.allows(own, Via::Loopback), "{own}");
        }
    }

    #[test]
    fn an_open_server_answers_under_its_addresses_and_with_a_key_under_any_name() {
        assert!(hosts(&[], None).allows("192.168.0.1:8090", Via::Network));
        assert!(!hosts(&[], None).allows("evil.example", Via::Network));
        assert!(hosts(&[], Some("k")).allows("onebit:8090", Via::Network));
        assert!(!hosts(&[], Some("k")).allows("evil.example", Via::Loopback));
    }
}
