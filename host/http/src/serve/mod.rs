//! The server: binds, says where, answers until told to stop, then lets running answers end.

mod accept;
mod bind;
mod linger;
mod tls;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::app::App;
use crate::body::BodyLimits;
use crate::calls::Calls;
use crate::config::{HttpConfig, Listen};
use crate::gate::Gate;
use crate::metrics::Metrics;
use crate::models::Models;
use crate::ollama::arrivals::Arrivals;
use crate::reload::Watched;
use crate::responses::{OpenError, Responses};
use crate::router::router;
use crate::template::Renderer;

use accept::Acceptor;
use bind::Socket;
use tls::Tls;

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No address was given.
    #[error("no address to listen on; give one, for example 127.0.0.1:8090")]
    NoAddress,
    /// Not an address.
    #[error("{0:?} is not an address to listen on; write 127.0.0.1:8090, [::1]:8090, localhost:8090 or unix:/path/to/socket")]
    Address(String),
    /// Others could use the server without a key.
    #[error(
        "{0} can be reached from other machines and no API key is set; set a key, listen on 127.0.0.1, or pass --insecure if everybody who can reach it may use it"
    )]
    Open(Listen),
    /// A file that the settings name cannot be read.
    #[error("the {what} {} cannot be read: {error}", path.display())]
    File {
        /// What it should be.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A file of keys that cannot be used.
    #[error("the file of API keys {} {reason}", path.display())]
    Keys {
        /// Which.
        path: PathBuf,
        /// The rest of the sentence.
        reason: String,
    },
    /// A certificate or its key that cannot be used.
    #[error("the TLS file {} {reason}", path.display())]
    Tls {
        /// Which.
        path: PathBuf,
        /// The rest of the sentence.
        reason: String,
    },
    /// A key that no client could send.
    #[error("an API key is empty or holds characters that do not fit into a header; use printable ASCII")]
    Key,
    /// Not an origin.
    #[error("{0:?} is not an origin; write scheme://host[:port], for example https://chat.example.org, or *")]
    Origin(String),
    /// Somebody listens there already.
    #[error("{listen} is in use by another program{}; stop that program or choose another address (port 0 picks a free one)", held_by(.listen))]
    InUse {
        /// Where.
        listen: Listen,
    },
    /// The system does not let us.
    #[error("cannot listen on {listen}: {reason}")]
    Bind {
        /// Where.
        listen: Listen,
        /// Why, and what to do.
        reason: String,
    },
    /// This program does not know where it is.
    #[error("the program that runs chat templates cannot be found: {0}")]
    Renderer(String),
    /// Responses cannot be kept.
    #[error(transparent)]
    Responses(#[from] OpenError),
    /// The metrics could not be set up.
    #[error("the metrics could not be set up: {0}")]
    Metrics(String),
}

fn held_by(listen: &Listen) -> String {
    match listen {
        Listen::Tcp(address) => format!(" (port {}; `ss -ltnp sport = :{}` names it)", address.port(), address.port()),
        Listen::Unix(_) => " (a live server answers on this socket)".to_owned(),
    }
}

/// A server that is bound and does not answer yet.
#[derive(Debug)]
pub struct Server {
    sockets: Vec<Socket>,
    front: Front,
    acceptor: Acceptor,
}

impl Server {
    /// Checks the settings and binds every address; clients may connect from here on, and are answered by [`Server::run`].
    pub async fn bind(models: Arc<dyn Models>, config: &HttpConfig) -> Result<Self, ServeError> {
        config.check()?;
        let tls = config.tls.as_ref().map(Tls::open).transpose()?;
        let front = front(models, config, tls.as_ref())?;
        let mut sockets = Vec::with_capacity(config.listen.len());
        for listen in &config.listen {
            sockets.push(Socket::bind(listen).await?);
        }
        for listen in config.in_the_clear() {
            tracing::warn!(%listen, "others can read API keys and answers on their way to this address; set tls_cert and tls_key, or put a proxy with TLS before it");
        }
        let acceptor = Acceptor::new(front.router.clone(), Arc::clone(&front.metrics), tls, front.draining.clone(), config);
        Ok(Self { sockets, front, acceptor })
    }

    /// Where it listens, with the ports that were picked.
    pub fn addresses(&self) -> Vec<Listen> {
        self.sockets.iter().map(Socket::address).collect()
    }

    /// Answers until `shutdown` is done, then takes no more work and waits for running answers, at most the drain time.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        let watching = AbortOnDropHandle::new(tokio::spawn(self.front.watched.run()));
        self.acceptor.run(self.sockets, shutdown).await;
        drop(watching);
    }
}

/// All routes with what they share, as the settings want them.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) router: Router,
    metrics: Arc<Metrics>,
    draining: CancellationToken,
    watched: Watched,
}

pub(crate) fn front(models: Arc<dyn Models>, config: &HttpConfig, tls: Option<&Tls>) -> Result<Front, ServeError> {
    let renderer = match &config.renderer {
        Some(exe) => exe.clone(),
        None => std::env::current_exe().map_err(|error| ServeError::Renderer(error.to_string()))?,
    };
    let metrics = Arc::new(Metrics::new().map_err(|error| ServeError::Metrics(error.to_string()))?);
    models.observe({
        let metrics = Arc::clone(&metrics);
        Box::new(move |event| metrics.lifecycle(event))
    });
    let (calls, draining) = (Arc::new(Calls::default()), CancellationToken::new());
    let gate = Arc::new(Gate::open(config, Arc::clone(&calls), draining.clone())?);
    let watched = Watched(gate.watched().into_iter().chain(tls.map(Tls::watched)).collect());
    let app = App {
        models,
        templates: Arc::new(Renderer::new(renderer)),
        metrics: Arc::clone(&metrics),
        responses: Arc::new(Responses::open(config.responses.as_ref())?),
        arrivals: config.arrivals.clone().map(|arrivals| Arc::new(Arrivals::new(arrivals))),
        limits: Arc::new(BodyLimits::new(config.max_body_bytes, config.body_timeout, config.max_buffered_bytes)),
        calls,
        draining: draining.clone(),
        watched: watched.clone(),
    };
    Ok(Front { router: router(app, gate), metrics, draining, watched })
}

/// A socket file that is removed with its server.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.0);
    }
}
