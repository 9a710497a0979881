//! Connections: taking them, bounding them, ending them.
//!
//! A connection holds a permit from before it is accepted until it ends, so there are never more than allowed; the others wait in the
//! kernel's queue. A client that is slow to send its head, slow to send its body, or slow to read its answer is let go. When a client leaves,
//! hyper drops the handler's future at once, and with it the generation.

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
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutWriter;
use tower::ServiceExt;

use super::bind::Socket;
use super::linger::Lingering;
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
    header_timeout: Duration,
    write_timeout: Duration,
    drain_timeout: Duration,
}

impl Acceptor {
    pub(super) fn new(router: Router, metrics: Arc<Metrics>, config: &HttpConfig) -> Self {
        Self {
            router,
            metrics,
            permits: Arc::new(Semaphore::new(config.max_connections.clamp(1, Semaphore::MAX_PERMITS))),
            header_timeout: config.header_timeout,
            write_timeout: config.write_timeout,
            drain_timeout: config.drain_timeout,
        }
    }

    pub(super) async fn run(self, sockets: Vec<Socket>, shutdown: impl Future<Output = ()> + Send) {
        let graceful = Arc::new(GracefulShutdown::new());
        let mut loops = JoinSet::new();
        for socket in sockets {
            loops.spawn(self.clone().accept(socket, Arc::clone(&graceful)));
        }
        shutdown.await;
        // Dropping the listeners: new clients are refused by the kernel, not left waiting.
        loops.shutdown().await;
        let Ok(graceful) = Arc::try_unwrap(graceful) else { return };
        let open = graceful.count();
        tracing::info!(open, "shutting down; waiting for running answers");
        if tokio::time::timeout(self.drain_timeout, graceful.shutdown()).await.is_err() {
            tracing::warn!(after_s = self.drain_timeout.as_secs(), "some answers did not end in time and are cut off");
        }
    }

    async fn accept(self, socket: Socket, graceful: Arc<GracefulShutdown>) {
        let via = socket.via();
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
            let accepted = match &socket {
                Socket::Tcp(listener, _) => listener.accept().await.map(|(stream, _)| {
                    // A token is a small packet that must not wait for the next one.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!("TCP_NODELAY: {error}");
                    }
                    self.spawn(stream, via, permit, &graceful);
                }),
                Socket::Unix(listener, _) => listener.accept().await.map(|(stream, _)| self.spawn(stream, via, permit, &graceful)),
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

    fn spawn<S>(&self, stream: S, via: Via, permit: OwnedSemaphorePermit, graceful: &GracefulShutdown)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(self.write_timeout));
        let router = self.router.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let router = router.clone();
            async move {
                let mut request = request.map(|body| Body::new(Lingering::new(body)));
                request.extensions_mut().insert(via);
                router.oneshot(request).await
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .half_close(false)
            .serve_connection(TokioIo::new(Box::pin(stream)), service);
        let connection = graceful.watch(connection);
        let counted = self.metrics.connection();
        tokio::spawn(async move {
            if let Err(error) = pin!(connection).await {
                tracing::debug!("connection: {error}");
            }
            drop((permit, counted));
        });
    }
}
