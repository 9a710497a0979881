//! The little of HTTP that the demo and the bench need: JSON in, JSON or a stream of server-sent events out. Loopback only, so no TLS.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

fn agent(timeout: Duration) -> ureq::Agent {
    ureq::Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false).build().into()
}

/// GET; status and body.
pub fn get(url: &str, timeout: Duration) -> Result<(u16, String)> {
    let mut response = agent(timeout).get(url).call().with_context(|| format!("GET {url}"))?;
    Ok((response.status().as_u16(), response.body_mut().read_to_string()?))
}

/// POST that must succeed; the answer as JSON.
pub fn post(url: &str, body: &Value) -> Result<Value> {
    let mut response = agent(Duration::from_secs(600)).post(url).send_json(body).with_context(|| format!("POST {url}"))?;
    let status = response.status();
    let text = response.body_mut().read_to_string()?;
    if !status.is_success() {
        bail!("POST {url}: {status}: {text}");
    }
    serde_json::from_str(&text).with_context(|| format!("POST {url}: the answer is no JSON: {text}"))
}

/// POST that streams; `event` hears each `data:` and says whether to go on. Stopping early closes the connection.
pub fn stream(url: &str, body: &Value, mut event: impl FnMut(&Value) -> bool) -> Result<()> {
    let mut response = agent(Duration::from_secs(600)).post(url).send_json(body).with_context(|| format!("POST {url}"))?;
    let status = response.status();
    if !status.is_success() {
        bail!("POST {url}: {status}: {}", response.body_mut().read_to_string()?);
    }
    for line in BufReader::new(response.into_body().into_reader()).lines() {
        let line = line.context("the stream broke off")?;
        let Some(data) = line.strip_prefix("data:").map(str::trim) else {
            continue;
        };
        if data == "[DONE]" {
            return Ok(());
        }
        let value: Value = serde_json::from_str(data).with_context(|| format!("an event is no JSON: {data}"))?;
        if let Some(error) = value.get("error") {
            bail!("the server says: {error}");
        }
        if !event(&value) {
            return Ok(());
        }
    }
    Ok(())
}
