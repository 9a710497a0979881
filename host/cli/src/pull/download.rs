//! One file over HTTP, in as many tries as it takes.
//!
//! A try asks for what is missing (`Range`, `If-Range`) and appends what comes. It counts as failed only if no new byte came, so a slow or
//! shaky line gets there in the end. What the server says about the file (length, version) is checked before a byte is written.

use std::time::Duration;

use reqwest::header::{self, HeaderMap};
use reqwest::{Client, Response, StatusCode, Url, redirect};
use tokio::time::{sleep, timeout};

use super::destination::{Destination, Expected};
use super::part::{Part, Stamp};
use super::progress::Progress;
use crate::exit::{Exit, Failure};
use crate::output::bytes;

/// Longest wait between two tries, also if a server asks for more.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How patient a download is.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Tries in a row without a new byte.
    pub attempts: u32,
    /// Silence of the server; `None` = for ever.
    pub stall: Option<Duration>,
}

/// What to get.
#[derive(Debug, Clone)]
pub struct Download {
    /// From where.
    pub url: Url,
    /// Sent to that server only.
    pub token: Option<String>,
    /// What it must be.
    pub expected: Expected,
}

/// How a try ended, if not well.
enum Trouble {
    /// Trying again cannot help.
    Fatal(Failure),
    /// Trying again may help; after this long, if the server said so.
    Passing(String, Option<Duration>),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Fatal(failure)
    }
}

/// Who follows redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// Follow, but never from https to http.
    Follow,
    /// The answer of the address itself is wanted.
    Stay,
}

/// A client for all downloads of a command.
pub fn client(patience: Patience, redirects: Redirects) -> Result<Client, Failure> {
    let policy = match redirects {
        Redirects::Stay => redirect::Policy::none(),
        Redirects::Follow => redirect::Policy::custom(|attempt| {
            let downgraded = attempt.url().scheme() == "http" && attempt.previous().iter().any(|url| url.scheme() == "https");
            if downgraded {
                attempt.error("the server redirects from https to http")
            } else if attempt.previous().len() > 10 {
                attempt.error("more than 10 redirects")
            } else {
                attempt.follow()
            }
        }),
    };
    crate::tls::prepare();
    let mut builder = Client::builder()
        .user_agent(concat!("onebit-host/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(15))
        .redirect(policy);
    if let Some(stall) = patience.stall {
        builder = builder.read_timeout(stall);
    }
    builder.build().map_err(|error| {
        Failure::new(Exit::Network, "cannot prepare HTTPS")
            .next("Is a set of root certificates installed (package ca-certificates)?")
            .caused_by(&error)
    })
}

/// Gets the file under its final name. Returns its sha256.
pub async fn download(
    client: &Client,
    what: &Download,
    destination: &Destination,
    patience: Patience,
    progress: &mut Progress,
) -> Result<String, Failure> {
    let mut part = Part::open(destination, what.url.as_str(), &what.expected)?;
    let mut without_a_byte = 0;
    loop {
        let before = part.length();
        let trouble = match attempt(client, what, destination, &mut part, patience, progress).await {
            Ok(()) => return part.finish(&what.expected),
            Err(Trouble::Fatal(failure)) => return Err(failure),
            Err(Trouble::Passing(reason, wait)) => (reason, wait),
        };
        without_a_byte = if part.length() > before { 1 } else { without_a_byte + 1 };
        let (reason, wait) = trouble;
        if without_a_byte >= patience.attempts {
            return Err(Failure::new(Exit::Network, format!("cannot get {} from {}: {reason}", destination.name, shown(&what.url)))
                .next(format!("{} have arrived and are kept; the same command goes on from there.", bytes(part.length()))));
        }
        let wait = wait.unwrap_or_else(|| Duration::from_millis(250 << without_a_byte.min(7))).min(LONGEST_WAIT);
        progress.say(&format!("{}: {reason}; next try in {:.1} s", destination.name, wait.as_secs_f32()));
        sleep(wait).await;
    }
}

/// A URL without what may be secret in it.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs that cannot have a user at all.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.to_string()
}

async fn attempt(
    client: &Client,
    what: &Download,
    destination: &Destination,
    part: &mut Part,
    patience: Patience,
    progress: &mut Progress,
) -> Result<(), Trouble> {
    let mut request = client.get(what.url.clone()).header(header::ACCEPT_ENCODING, "identity");
    if let Some(token) = &what.token {
        request = request.bearer_auth(token);
    }
    if part.length() > 0 {
        request = request.header(header::RANGE, format!("bytes={}-", part.length()));
        if let Some(validator) = part.stamp().validator() {
            request = request.header(header::IF_RANGE, validator);
        }
    }
    let mut response = request.send().await.map_err(|error| passing(&error))?;
    let total = match response.status() {
        StatusCode::PARTIAL_CONTENT => match content_range(response.headers()) {
            Some((start, total)) if start == part.length() => total,
            _ => {
                part.restart(part.stamp().clone())?;
                return Err(Trouble::Passing("the server sent another part than the one asked for".into(), None));
            }
        },
        StatusCode::RANGE_NOT_SATISFIABLE if part.length() > 0 => {
            let whole = unsatisfied_range(response.headers());
            if whole == Some(part.length()) {
                return Ok(());
            }
            part.restart(part.stamp().clone())?;
            return Err(Trouble::Passing(
                "what had arrived does not belong to the server's file; it begins anew".into(),
                Some(Duration::ZERO),
            ));
        }
        StatusCode::OK => {
            if part.length() > 0 {
                progress.say(&format!("{}: the server's file has changed or cannot be sent in parts; it begins anew", destination.name));
            }
            refuse_web_page(&response, destination)?;
            part.restart(stamp(what, response.headers()))?;
            response.content_length()
        }
        status => return Err(refused(status, &response, what)),
    };
    if let (Some(wanted), Some(total)) = (what.expected.size, total)
        && wanted != total
    {
        return Err(Trouble::Fatal(
            Failure::new(Exit::Corrupt, format!("{} at {} has {total} bytes, it must have {wanted}", destination.name, shown(&what.url)))
                .next("It is another file than the one asked for. Nothing was written; pull from another source."),
        ));
    }
    within(what, destination, total.unwrap_or(0))?;
    destination.check_space(total.or(what.expected.size).unwrap_or(0).saturating_sub(part.length()))?;
    progress.total(total, part.length());
    receive(&mut response, what, destination, part, patience, progress).await?;
    match total {
        Some(total) if part.length() < total => {
            Err(Trouble::Passing(format!("the connection ended at {} of {}", bytes(part.length()), bytes(total)), None))
        }
        Some(total) if part.length() > total => {
            let length = part.length();
            part.restart(part.stamp().clone())?;
            Err(Trouble::Passing(format!("the server sent {length} bytes and had announced {total}"), None))
        }
        _ => Ok(()),
    }
}

/// A server may send without end.
fn within(what: &Download, destination: &Destination, length: u64) -> Result<(), Trouble> {
    match what.expected.most.filter(|most| length > *most) {
        None => Ok(()),
        Some(most) => Err(Trouble::Fatal(
            Failure::new(Exit::Corrupt, format!("{} at {} has more than {}", destination.name, shown(&what.url), bytes(most)))
                .next("It is no plugin. Look at what the address really offers."),
        )),
    }
}

async fn receive(
    response: &mut Response,
    what: &Download,
    destination: &Destination,
    part: &mut Part,
    patience: Patience,
    progress: &mut Progress,
) -> Result<(), Trouble> {
    loop {
        let chunk = match patience.stall {
            Some(stall) => timeout(stall, response.chunk())
                .await
                .map_err(|_| Trouble::Passing(format!("the server was silent for {} s", stall.as_secs()), None))?,
            None => response.chunk().await,
        };
        match chunk.map_err(|error| passing(&error))? {
            Some(chunk) => {
                part.append(&chunk)?;
                within(what, destination, part.length())?;
            }
            None => return Ok(()),
        }
        progress.at(part.length());
    }
}

fn stamp(what: &Download, headers: &HeaderMap) -> Stamp {
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok()).map(str::to_owned);
    Stamp {
        source: what.url.to_string(),
        // A weak name says "about the same": not good enough to glue bytes together.
        etag: text(header::ETAG).filter(|etag| !etag.starts_with("W/")),
        last_modified: text(header::LAST_MODIFIED),
        sha256: what.expected.sha256.clone(),
    }
}

fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (range, total) = text.split_once('/')?;
    let start = range.split_once('-')?.0.trim().parse().ok()?;
    Some((start, total.trim().parse().ok()))
}

fn unsatisfied_range(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes */")?.trim().parse().ok()
}

fn refuse_web_page(response: &Response, destination: &Destination) -> Result<(), Failure> {
    let page =
        response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| kind.starts_with("text/html"));
    if !page {
        return Ok(());
    }
    Err(Failure::new(Exit::Corrupt, format!("{} answers with a web page instead of {}", shown(response.url()), destination.name))
        .next("Nothing was written. Use the address of the file itself (on a hub: the download link)."))
}

fn refused(status: StatusCode, response: &Response, what: &Download) -> Trouble {
    let at = shown(&what.url);
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Trouble::Fatal(
            Failure::new(Exit::NotFound, format!("there is no {at} ({status})"))
                .next("Check the spelling of repository, revision and file name."),
        ),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let next = if what.token.is_some() {
                "The token does not allow it. Look whether the repository wants its terms accepted, and which rights the token has."
            } else {
                "A private or gated file needs an access token: set HF_TOKEN (or --hub-token)."
            };
            Trouble::Fatal(Failure::new(Exit::Network, format!("{at} refuses the download ({status})")).next(next))
        }
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT => {
            let wait =
                response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(|text| text.trim().parse().ok());
            Trouble::Passing(format!("the server says {status}"), wait.map(Duration::from_secs))
        }
        status => Trouble::Fatal(
            Failure::new(Exit::Network, format!("{at} answers {status}"))
                .next("Look at what the address offers, for example in a browser."),
        ),
    }
}

/// What went wrong on the line. Trying again may help, except where the peer is not who it should be.
fn passing(error: &reqwest::Error) -> Trouble {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    let reason = deepest.to_string();
    if error.is_redirect() || error.is_builder() {
        return Trouble::Fatal(
            Failure::new(Exit::Network, format!("the download was stopped: {reason}"))
                .next("Use an address that leads to the file over https.")
                .caused_by(error),
        );
    }
    if reason.contains("certificate") {
        return Trouble::Fatal(
            Failure::new(Exit::Network, format!("the server cannot prove who it is: {reason}"))
                .next("Check the date of this machine and its root certificates (package ca-certificates, or SSL_CERT_FILE).")
                .caused_by(error),
        );
    }
    let what = if error.is_connect() {
        "cannot connect"
    } else if error.is_timeout() {
        "the server is silent"
    } else {
        "the connection broke"
    };
    Trouble::Passing(format!("{what}: {reason}"), None)
}
