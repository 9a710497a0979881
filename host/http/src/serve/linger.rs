//! Request bodies that are refused before they were read.
//!
//! A client that is still sending its body does not look for an answer yet. If the connection is closed under it, the kernel may throw away
//! the answer with it, and the client reports a broken pipe instead of "413, send less". So a body that is dropped before its end is read on
//! and thrown away, for a bounded time and size.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// For so long.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes at most.
const MOST: usize = 64 << 20;

/// A body that reads itself to its end when it is dropped.
#[derive(Debug)]
pub(super) struct Lingering(Option<Incoming>);

impl Lingering {
    pub(super) fn new(body: Incoming) -> Self {
        Self(Some(body))
    }
}

impl Body for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(body).poll_frame(context));
        // After its end or its failure there is nothing to linger for.
        if !matches!(frame, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(mut body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        // Also dropped while a server goes down; then nobody is left to wait for.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let rest = async {
                let mut seen = 0;
                while let Some(Ok(frame)) = body.frame().await {
                    seen += frame.data_ref().map_or(0, Bytes::len);
                    if seen > MOST {
                        return;
                    }
                }
            };
            // Either way the body ends here, and with it the connection.
            let _ = tokio::time::timeout(PATIENCE, rest).await;
        });
    }
}
