//! What the hub says of a file before it is downloaded: its sha256 and its size.
//!
//! The hub answers a request for a large file with a redirect to a store, and puts the file's hash (`X-Linked-ETag`) and size
//! (`X-Linked-Size`) beside it. So the bytes are checked against a hash that another server than the one with the bytes has named.

use reqwest::{Client, Url, header};

use super::destination::{Expected, sha256_text};
use super::download::shown;
use crate::exit::{Exit, Failure};

/// Address of a file in a repository.
pub fn url(at: &str, repository: &str, revision: &str, file: &str) -> Result<Url, Failure> {
    let mut url = endpoint(at)?;
    if let Ok(mut segments) = url.path_segments_mut() {
        segments
            .pop_if_empty()
            .extend(repository.split('/'))
            .push("resolve")
            .push(&revision.replace("%2F", "/").replace("%2f", "/"))
            .extend(file.split('/'));
    }
    Ok(url)
}

/// The hub's own address; it can have a path.
pub fn endpoint(text: &str) -> Result<Url, Failure> {
    let wrong = |why: String| {
        Failure::new(Exit::Usage, format!("hub.endpoint {text:?} {why}"))
            .next("Set HF_ENDPOINT or --hub-endpoint to an address such as https://huggingface.co.")
    };
    let url = Url::parse(text).map_err(|error| wrong(format!("is not a URL: {error}")))?;
    if matches!(url.scheme(), "http" | "https") { Ok(url) } else { Err(wrong("is not an http or https address".into())) }
}

/// Asks the hub. Small files have no hash there; then only the size may be known. A hub that does not answer here will say so in the
/// download, with tries and waits, so an error is no failure yet.
///
/// `unredirected` is a client that follows nothing: the hash stands in the hub's own answer, not in that of the store behind it.
pub async fn expected(unredirected: &Client, url: &Url, token: Option<&str>) -> Expected {
    let mut at = url.clone();
    // A repository that was renamed redirects within the hub first.
    for _ in 0..5 {
        let mut request = unredirected.head(at.clone()).header(header::ACCEPT_ENCODING, "identity");
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let Ok(response) = request.send().await else { break };
        let text = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(|text| text.trim().trim_matches('"').to_owned())
        };
        let sha256 = text("x-linked-etag").and_then(|etag| sha256_text(&etag).ok());
        let size = text("x-linked-size").and_then(|size| size.parse().ok());
        tracing::debug!(url = shown(&at), status = %response.status(), ?sha256, ?size, "asked the hub");
        if sha256.is_some() || size.is_some() {
            return Expected { sha256, size, most: None };
        }
        let next = text("location").and_then(|location| at.join(&location).ok());
        match next {
            Some(next) if response.status().is_redirection() && next.origin() == url.origin() => at = next,
            _ => break,
        }
    }
    Expected::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_keep_a_path_of_the_mirror_and_escape_the_rest() {
        let made = |endpoint: &str, revision: &str, file: &str| url(endpoint, "a/b", revision, file).unwrap().to_string();
        assert_eq!(made("https://hub.example", "main", "c.gguf"), "https://hub.example/a/b/resolve/main/c.gguf");
        assert_eq!(
            made("http://mirror.example/hf/", "refs%2Fpr%2F1", "d/c d.gguf"),
            "http://mirror.example/hf/a/b/resolve/refs%2Fpr%2F1/d/c%20d.gguf"
        );
        assert!(url("mirror", "a/b", "main", "c").is_err());
        assert!(url("ftp://x", "a/b", "main", "c").is_err());
    }
}
