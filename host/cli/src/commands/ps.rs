//! `ps`: what a running server has loaded, asked over its own address.
//!
//! A server with TLS is asked with it, and must show the certificate that the settings name.

use std::path::Path;
use std::time::Duration;

use onebit_http::Listen;
use reqwest::{Client, StatusCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

use super::{Command, Invocation};
use crate::exit::{Exit, Failure};
use crate::output::{self, note};
use crate::settings::table;

pub(super) static COMMAND: Command = Command {
    arguments: |command| command.arg(super::json_flag()),
    ..Command::new("ps", "Show the models that a running server has loaded", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let listen = invocation.settings.get(&table::LISTEN)?;
    let key = invocation.settings.get(&table::API_KEY)?;
    let cert = invocation.settings.get(&table::TLS_CERT)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("start the network runtime", &error))?;
    let address = listen.first().ok_or_else(|| Failure::new(Exit::Usage, "no address to ask"))?;
    let answer = runtime.block_on(ask(address, key.as_deref(), cert.as_deref()))?;
    if invocation.matches.get_flag("json") {
        return output::json(&answer);
    }
    let models = answer.get("models").and_then(Value::as_array).cloned().unwrap_or_default();
    if models.is_empty() {
        note(format!("The server at {address} has no model loaded; the first request to one loads it."));
        return Ok(());
    }
    let text = |model: &Value, field: &str| model.get(field).and_then(Value::as_str).unwrap_or("-").to_owned();
    let count = |model: &Value, field: &str| model.get(field).and_then(Value::as_u64).unwrap_or(0);
    let rows = models.iter().map(|model| {
        let requests = match (count(model, "requests_active"), count(model, "requests_waiting")) {
            (0, 0) => "-".to_owned(),
            (active, 0) => format!("{active} running"),
            (active, waiting) => format!("{active} running, {waiting} waiting"),
        };
        let memory = model.get("memory_bytes").and_then(Value::as_u64).map_or_else(|| "-".to_owned(), output::bytes);
        vec![
            text(model, "id"),
            text(model, "status"),
            text(model, "plugin"),
            text(model, "device"),
            memory,
            requests,
            sandbox(model),
            text(model, "detail"),
        ]
    });
    output::line(output::table(&["model", "state", "plugin", "device", "memory", "requests", "sandbox", "detail"], rows))
}

/// What confines the plugin, and how often it was refused something.
fn sandbox(model: &Value) -> String {
    let layers = model.get("sandbox").and_then(Value::as_str).unwrap_or("-");
    match model.get("refused_calls").and_then(Value::as_u64) {
        Some(count) => format!("{layers}; {count} calls refused"),
        None => layers.to_owned(),
    }
}

/// The server's own certificate: the first of its file.
fn certificate(path: &Path) -> Result<CertificateDer<'static>, Failure> {
    let text = std::fs::read(path).map_err(|error| Failure::io(format!("read the certificate {}", path.display()), &error))?;
    CertificateDer::from_pem_slice(&text).map_err(|error| {
        Failure::new(Exit::Usage, format!("{} holds no certificate in PEM", path.display()))
            .next("Give the file that the server has as tls_cert.")
            .caused_by(&error)
    })
}

async fn ask(listen: &Listen, key: Option<&str>, cert: Option<&Path>) -> Result<Value, Failure> {
    let absent = |error: &reqwest::Error| {
        Failure::new(Exit::NotFound, format!("no server answers at {listen}"))
            .next("Start one with `onebit-host serve`, or give its address with --listen.")
            .caused_by(error)
    };
    crate::tls::prepare();
    let mut builder = Client::builder().no_proxy().timeout(Duration::from_secs(5));
    let scheme = match (cert, listen) {
        (Some(cert), Listen::Tcp(_)) => {
            let tls = crate::tls::only(certificate(cert)?);
            builder =
                builder.tls_backend_preconfigured(tls.map_err(|error| Failure::new(Exit::Other, format!("cannot prepare TLS: {error}")))?);
            "https"
        }
        _ => "http",
    };
    let base = match listen {
        Listen::Unix(path) => {
            builder = builder.unix_socket(path.clone());
            "http://localhost".to_owned()
        }
        // A server that listens everywhere is asked here.
        Listen::Tcp(address) if address.ip().is_unspecified() => format!("{scheme}://localhost:{}", address.port()),
        Listen::Tcp(address) => format!("{scheme}://{address}"),
    };
    let client = builder.build().map_err(|error| Failure::new(Exit::Network, "cannot prepare the request").caused_by(&error))?;
    let mut request = client.get(format!("{base}/readyz"));
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    let response = request.send().await.map_err(|error| absent(&error))?;
    match response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(Failure::new(Exit::Permission, format!("the server at {listen} wants an API key"))
                .next("Give it with ONEBIT_API_KEY or --api-key."));
        }
        status if !status.is_success() => {
            return Err(Failure::new(Exit::Network, format!("the server at {listen} answers {status}")).next("Is it an onebit-host?"));
        }
        _ => {}
    }
    let text = response.text().await.map_err(|error| absent(&error))?;
    let answer: Option<Value> = serde_json::from_str(&text).ok();
    answer.filter(|answer| answer.get("models").is_some_and(Value::is_array)).ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("what answers at {listen} is not an onebit-host server"))
            .next("Give the address of one with --listen.")
    })
}
