//! The `Origin` header: which web page asks. Programs send none.

use axum::http::HeaderValue;

/// The pages.
#[derive(Debug)]
pub(super) struct Origins {
    listed: Vec<String>,
    any: bool,
}

impl Origins {
    pub(super) fn new(allowed: &[String]) -> Self {
        Self { listed: allowed.iter().map(|origin| origin.to_ascii_lowercase()).collect(), any: allowed.iter().any(|origin| origin == "*") }
    }

    /// Listed, a page of this machine, or a page that came from where the request goes (`host`, which has been checked).
    pub(super) fn allows(&self, origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
        if self.any {
            return true;
        }
        let Ok(origin) = origin.to_str() else { return false };
        let origin = origin.to_ascii_lowercase();
        if self.listed.contains(&origin) {
            return true;
        }
        // "null" (sandboxed frames, files) has no scheme and ends here.
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        if !matches!(scheme, "http" | "https") {
            return false;
        }
        is_this_machine(authority) || host.and_then(|host| host.to_str().ok()).is_some_and(|host| host.eq_ignore_ascii_case(authority))
    }
}

fn is_this_machine(authority: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        authority
            .strip_prefix(name)
            .is_some_and(|port| port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.parse::<u16>().is_ok()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(listed: &[&str], origin: &'static str, host: Option<&'static str>) -> bool {
        let listed: Vec<String> = listed.iter().map(|text| (*text).to_owned()).collect();
        Origins::new(&listed).allows(&HeaderValue::from_static(origin), host.map(HeaderValue::from_static).as_ref())
    }

    #[test]
    fn pages_of_this_machine_and_listed_ones_may_call() {
        for own in ["http://localhost:3000", "https://localhost", "http://127.0.0.1:1", "http://[::1]:5173", "HTTP://LOCALHOST:3000"] {
            assert!(allows(&[], own, None), "{own}");
        }
        assert!(allows(&["https://Chat.Example"], "https://chat.example", None));
        assert!(allows(&[], "http://192.168.0.5:8090", Some("192.168.0.5:8090")));
    }

    #[test]
    fn foreign_pages_may_not() {
        for foreign in [
            "http://evil.example",
            "null",
            "http://localhost.evil.example",
            "http://localhost:3000.evil.example",
            "http://127.0.0.1.evil.example",
            "file://",
            "chrome-extension://x",
            "http://localhost@evil.example",
            "http://localhost:",
            "",
        ] {
            assert!(!allows(&["https://chat.example"], foreign, Some("localhost:8090")), "{foreign}");
        }
    }
}
