//! Connections: taking them, bounding them, ending them.
//!
//! A connection holds a permit from before it is accepted until it ends, so there are never more than allowed; the others wait in the
//! kernel's queue. A client that is slow in its handshake, slow to send its head, slow to send its body, or slow to read its answer is let go.
//! When a client leaves, hyper drops the handler's future at once, and with it the generation.
//!
//! A shutdown waits for the connections there are, at most the drain time. Until then new ones are still taken, for one request each: whoever
//! asks hears that the server goes down, and a load balancer reads it from `/readyz`, instead of finding nobody. Nobody waits for those.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutWriter;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::bind::Socket;
use super::linger::Lingering;
use super::tls::Tls;
use crate::config::HttpConfig;
use crate::gate::Via;
use crate::metrics::Metrics;

/// Bytes of a request's head.
const MAX_HEAD: usize = 64 << 10;
/// Header lines of a request.
const MAX_HEADERS: usize = 100;
/// Pause after the system refused a connection (no file descriptors left), so that the loop does not spin.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// What a connection needs.
#[derive(Debug, Clone)]
pub(super) struct Acceptor {
    router: Router,
    metrics: Arc<Metrics>,
    permits: Arc<Semaphore>,
    tls: Option<Tls>,
    draining: CancellationToken,
    /// Connections from before the shutdown.
    open: TaskTracker,
    header_timeout: Duration,
    write_timeout: Duration,
    drain_timeout: Duration,
}

impl Acceptor {
    pub(super) fn new(router: Router, metrics: Arc<Metrics>, tls: Option<Tls>, draining: CancellationToken, config: &HttpConfig) -> Self {
        Self {
            router,
            metrics,
            permits: Arc::new(Semaphore::new(config.max_connections.clamp(1, Semaphore::MAX_PERMITS))),
            tls,
            draining,
            open: TaskTracker::new(),
            header_timeout: config.header_timeout,
            write_timeout: config.write_timeout,
            drain_timeout: config.drain_timeout,
        }
    }

    pub(super) async fn run(self, sockets: Vec<Socket>, shutdown: impl Future<Output = ()> + Send) {
        let mut loops = JoinSet::new();
        for socket in sockets {
            loops.spawn(self.clone().accept(socket));
        }
        shutdown.await;
        self.draining.cancel();
        self.open.close();
        tracing::info!(open = self.open.len(), "shutting down; waiting for running answers");
        if tokio::time::timeout(self.drain_timeout, self.open.wait()).await.is_err() {
            tracing::warn!(after_s = self.drain_timeout.as_secs(), "some answers did not end in time and are cut off");
        }
        // Dropping the listeners: from here on the kernel refuses.
        loops.shutdown().await;
    }

    async fn accept(self, socket: Socket) {
        let via = socket.via();
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
            let accepted = match &socket {
                Socket::Tcp(listener, _) => listener.accept().await.map(|(stream, _)| self.tcp(stream, via, permit)),
                Socket::Unix(listener, _) => listener.accept().await.map(|(stream, _)| self.spawn(self.clone().serve(stream, via), permit)),
            };
            // A client that gave up while it waited is no trouble of ours.
            if let Err(error) = accepted
                && !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
            {
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(REFUSED_PAUSE).await;
            }
        }
    }

    fn tcp(&self, stream: TcpStream, via: Via, permit: OwnedSemaphorePermit) {
        // A token is a small packet that must not wait for the next one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY: {error}");
        }
        let this = self.clone();
        match &self.tls {
            None => self.spawn(this.serve(stream, via), permit),
            Some(tls) => {
                let tls = tls.clone();
                let secured = async move {
                    let shaken = tokio::time::timeout(this.header_timeout, tls.accept(stream));
                    let gone = this.draining.clone();
                    // Somebody who has not said a word when the server goes down is not waited for.
                    let Some(shaken) = gone.run_until_cancelled(shaken).await else { return };
                    match shaken {
                        Ok(Ok(stream)) => this.serve(stream, via).await,
                        Ok(Err(error)) => tracing::debug!("TLS handshake: {error}"),
                        Err(_) => tracing::debug!("TLS handshake: the client did not finish it in time"),
                    }
                };
                self.spawn(secured, permit);
            }
        }
    }

    fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static, permit: OwnedSemaphorePermit) {
        let counted = self.metrics.connection();
        let connection = async move {
            connection.await;
            drop((permit, counted));
        };
        if self.draining.is_cancelled() {
            tokio::spawn(connection);
        } else {
            self.open.spawn(connection);
        }
    }

    async fn serve<S>(self, stream: S, via: Via)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(self.write_timeout));
        let router = self.router;
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let router = router.clone();
            async move {
                let mut request = request.map(|body| Body::new(Lingering::new(body)));
                request.extensions_mut().insert(via);
                router.oneshot(request).await
            }
        });
        let late = self.draining.is_cancelled();
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .half_close(false)
            .keep_alive(!late)
            .serve_connection(TokioIo::new(Box::pin(stream)), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = self.draining.cancelled(), if !late => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!("connection: {error}");
        }
    }
}
