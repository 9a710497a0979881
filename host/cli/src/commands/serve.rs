//! `serve`: the server, until a signal ends it.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::Arc;

use onebit_http::{Arrivals, HostModels, HttpConfig, KeepResponses, Listen, Server, TlsFiles};
use onebit_worker::Host;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Command, Invocation, open};
use crate::exit::{Exit, Failure};
use crate::output;
use crate::places::SELF;
use crate::settings::{Bytes, PrefixCache, Settings, Span, table};
use crate::version;

pub(super) static COMMAND: Command = Command {
    log: "info",
    ..Command::new("serve", "Answer over HTTP (OpenAI's and Anthropic's dialects), loading models on their first request", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let http = http_config(&invocation.settings)?;
    // Told before the folders are looked at: a wrong address or a missing key should not wait for a slow disk.
    http.check()?;
    let patience = invocation.settings.get(&table::START_TIMEOUT)?.0.unwrap_or(open::VERY_LONG);
    if patience.is_zero() {
        return Err(
            Failure::new(Exit::Usage, "start_timeout is 0: every request would be refused").next("Give a time such as 10m, or forever.")
        );
    }
    let (runtime, host) = open::with_runtime(open::config(invocation)?, open::runtime()?)?;
    let models = HostModels::new(host.clone(), patience);
    runtime.block_on(serve(host, models, http))
}

fn http_config(settings: &Settings) -> Result<HttpConfig, Failure> {
    let span = |setting| settings.get(setting).map(|span: Span| span.0.unwrap_or(open::VERY_LONG));
    let size = |setting| settings.get(setting).map(|bytes: Bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX));
    Ok(HttpConfig {
        listen: settings.get(&table::LISTEN)?,
        api_key: settings.get(&table::API_KEY)?,
        api_keys_file: settings.get(&table::API_KEYS_FILE)?,
        tls: tls(settings)?,
        insecure: settings.get(&table::INSECURE)?,
        allowed_hosts: settings.get(&table::ALLOW_HOST)?,
        allowed_origins: settings.get(&table::ALLOW_ORIGIN)?,
        max_body_bytes: size(&table::MAX_BODY)?,
        max_buffered_bytes: size(&table::MAX_BUFFERED)?,
        max_connections: settings.get(&table::MAX_CONNECTIONS)? as usize,
        header_timeout: span(&table::HEADER_TIMEOUT)?,
        body_timeout: span(&table::BODY_TIMEOUT)?,
        write_timeout: span(&table::WRITE_TIMEOUT)?,
        drain_timeout: span(&table::DRAIN_TIMEOUT)?,
        share_prefixes: settings.get(&table::PREFIX_CACHE)? == PrefixCache::Shared,
        responses: responses(settings)?,
        arrivals: arrivals(settings)?,
        renderer: Some(SELF.into()),
    })
}

/// Where model files come in, and who gets them: this program as a child, told what this one was told. Environment and configuration files are
/// the same for it; flags are passed on.
fn arrivals(settings: &Settings) -> Result<Option<Arrivals>, Failure> {
    let Some(models_dir) = settings.get(&table::MODELS_DIR)?.into_iter().next() else { return Ok(None) };
    let words = [SELF, "pull", "--json", "--by-name"].map(OsString::from);
    Ok(Some(Arrivals { models_dir, pull: words.into_iter().chain(settings.flags_of_every_command()).collect() }))
}

/// Half of a pair would be a server without TLS that was meant to have it.
fn tls(settings: &Settings) -> Result<Option<TlsFiles>, Failure> {
    match (settings.get(&table::TLS_CERT)?, settings.get(&table::TLS_KEY)?) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        (cert, _) => {
            let (there, missing) = if cert.is_some() { ("tls_cert", "tls_key") } else { ("tls_key", "tls_cert") };
            Err(Failure::new(Exit::Usage, format!("{there} is given and {missing} is not")).next("TLS needs both; give both, or neither."))
        }
    }
}

/// Bytes of all responses that are kept.
const KEPT_BYTES: u64 = 1 << 30;

/// Where responses are kept; `None` = nowhere.
fn responses(settings: &Settings) -> Result<Option<KeepResponses>, Failure> {
    let retention = settings.get(&table::RESPONSES_RETENTION)?.0;
    if retention.is_some_and(|time| time.is_zero()) {
        return Ok(None);
    }
    Ok(Some(KeepResponses { file: settings.get(&table::RESPONSES_DB)?, retention, max_bytes: KEPT_BYTES }))
}

async fn serve(host: Host, models: HostModels, http: HttpConfig) -> Result<(), Failure> {
    // Before anything is promised: a signal that comes early must not be lost.
    let mut signals = Signals::new()?;
    let server = Server::bind(Arc::new(models), &http).await?;
    // Whoever started the server may have read the first line and left: a closed pipe is no reason to end.
    if let Err(failure) = announce(&server.addresses(), &host, &http) {
        tracing::debug!("where the server listens could not be printed: {}", failure.what());
    }
    for (setting, plugin) in host.misnamed() {
        tracing::warn!(plugin, "{setting} names a plugin that is not there: it changes nothing");
    }
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut running = std::pin::pin!(server.run(async {
        // A sender that is gone means the same.
        let _ = stopped.await;
    }));
    tokio::select! {
        () = &mut running => return Err(Failure::new(Exit::Other, "the server ended by itself").next("The log above says why.")),
        name = signals.next() => tracing::info!("{name}: no new requests; running answers may end within {:?}, a second signal ends at once", http.drain_timeout),
    }
    let _ = stop.send(());
    let drained = async {
        running.await;
        host.drain(http.drain_timeout).await;
    };
    tokio::select! {
        () = drained => Ok(()),
        name = signals.next() => {
            tracing::warn!("{name} again: ending at once");
            Err(Failure::silent(Exit::Interrupted))
        }
    }
}

/// SIGTERM and Ctrl-C.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::io("listen for signals", &error));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Where it listens, and what to do first. To standard output, so that a script can read the port it was given.
fn announce(addresses: &[Listen], host: &Host, http: &HttpConfig) -> Result<(), Failure> {
    let scheme = if http.tls.is_some() { "https" } else { "http" };
    let models = host.models();
    for address in addresses {
        match address {
            Listen::Tcp(address) => output::line(format!("onebit-host {} listens on {scheme}://{address}", version::VERSION))?,
            Listen::Unix(path) => output::line(format!("onebit-host {} listens on unix:{}", version::VERSION, path.display()))?,
        }
    }
    let here: Vec<&str> =
        models.iter().filter(|model| matches!(model.state, onebit_worker::ModelState::Here)).map(|model| model.name.as_str()).collect();
    output::line(format!("models: {} here, {} known (`onebit-host list`)", here.len(), models.len()))?;
    if !std::io::stdout().is_terminal() {
        return Ok(());
    }
    let Some(first) = here.first() else {
        return output::line("Get one:  onebit-host pull MODEL");
    };
    let to = match addresses.first() {
        Some(Listen::Tcp(address)) if address.ip().is_unspecified() => format!("{scheme}://localhost:{}", address.port()),
        Some(Listen::Tcp(address)) => format!("{scheme}://{address}"),
        Some(Listen::Unix(path)) => format!("--unix-socket {} http://localhost", path.display()),
        None => return Ok(()),
    };
    let auth = if http.keyed() { " -H \"Authorization: Bearer $ONEBIT_API_KEY\"" } else { "" };
    output::line(format!(
        "Try it:   curl {to}/v1/chat/completions{auth} -H 'Content-Type: application/json' -d '{{\"model\": \"{first}\", \"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'"
    ))
}
