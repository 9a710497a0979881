//! The body of a streamed answer: server-sent events, or lines of JSON.
//!
//! One event of the worker becomes one write of one or more frames; nothing is collected, nothing waits for the next. A failure after the head
//! went out is a last frame with the dialect's error object and without the dialect's mark of a good end, so that no client takes half an
//! answer for a whole one.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use onebit_engine::TokenOut;
use serde::Serialize;
use tokio::time::Instant;

use super::run::{End, Happening, Run};
use super::tally::Tally;
use crate::errors::{ApiError, Kind};
use crate::formats::Piece;
use crate::metrics::{Held, Metrics};

/// Something is sent after this much silence, so that proxies do not take a long prefill for a dead connection.
const SILENCE: Duration = Duration::from_secs(15);

/// Server-sent events.
pub const EVENTS: &str = "text/event-stream";
/// One JSON object a line.
pub const LINES: &str = "application/x-ndjson";

/// How a dialect writes its frames.
pub trait Writer: Send + 'static {
    /// [`EVENTS`] or [`LINES`].
    const CONTENT_TYPE: &'static str;
    /// An answer begins.
    fn started(&mut self, index: u32, out: &mut Frames);
    /// The tokens of its prompt.
    fn prompt(&mut self, _index: u32, _tokens: &[TokenOut], _out: &mut Frames) {}
    /// More of it.
    fn said(&mut self, index: u32, pieces: &[Piece], tokens: &[TokenOut], out: &mut Frames);
    /// What must have happened before the end of an answer is told, such as keeping it. If it fails, the request broke off.
    fn before_end(&mut self, _index: u32, _end: &End, _tally: &Tally) -> BoxFuture<'static, Result<(), ApiError>> {
        std::future::ready(Ok(())).boxed()
    }
    /// Its end; `last` = of the whole request, whose numbers are complete.
    fn finished(&mut self, index: u32, end: &End, tally: &Tally, last: bool, out: &mut Frames);
    /// The whole request broke off.
    fn failed(&mut self, error: &ApiError, out: &mut Frames);
    /// What is sent in a long silence.
    fn silence(&mut self, out: &mut Frames) {
        out.comment();
    }
}

/// Frames to be written.
#[derive(Debug, Default)]
pub struct Frames(BytesMut);

impl Frames {
    /// `data: …`.
    pub fn data(&mut self, chunk: &impl Serialize) {
        self.framed(b"data: ", chunk, b"\n\n");
    }

    /// `event: name`, `data: …`.
    pub fn event(&mut self, name: &str, chunk: &impl Serialize) {
        let before = self.0.len();
        self.0.extend_from_slice(b"event: ");
        self.0.extend_from_slice(name.as_bytes());
        if !self.framed(b"\ndata: ", chunk, b"\n\n") {
            self.0.truncate(before);
        }
    }

    /// A line of JSON.
    pub fn line(&mut self, chunk: &impl Serialize) {
        self.framed(b"", chunk, b"\n");
    }

    /// OpenAI's mark of a good end.
    pub fn done(&mut self) {
        self.0.extend_from_slice(b"data: [DONE]\n\n");
    }

    /// A comment, which clients of events pass over.
    pub fn comment(&mut self) {
        self.0.extend_from_slice(b": still working\n\n");
    }

    fn framed(&mut self, before: &[u8], chunk: &impl Serialize, after: &[u8]) -> bool {
        let length = self.0.len();
        self.0.extend_from_slice(before);
        match serde_json::to_writer((&mut self.0).writer(), chunk) {
            Ok(()) => {
                self.0.extend_from_slice(after);
                true
            }
            // Strings and numbers always serialise; half a frame would spoil the ones after it.
            Err(error) => {
                tracing::error!("a chunk could not be written: {error}");
                self.0.truncate(length);
                false
            }
        }
    }

    fn take(&mut self) -> Bytes {
        self.0.split().freeze()
    }
}

struct Stream<W> {
    run: Run,
    writer: W,
    frames: Frames,
    metrics: Arc<Metrics>,
    over: bool,
    /// The request's; the body is written after its handler is done.
    span: tracing::Span,
    _in_flight: Held,
}

impl<W: Writer> Stream<W> {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        // Also where the writer holds back what it is given: what counts is what was sent.
        let quiet_until = Instant::now() + SILENCE;
        while !self.over {
            match tokio::time::timeout_at(quiet_until, self.run.next()).await {
                Err(_) => self.writer.silence(&mut self.frames),
                Ok(Some(Ok((index, happening)))) => self.happens(index, &happening).await,
                Ok(Some(Err(error))) => self.fail(&error),
                Ok(None) => {
                    self.fail(&ApiError::new(Kind::Internal, "the answer ended without its end; please report this with the request id"));
                }
            }
            if !self.frames.0.is_empty() {
                return Some(self.frames.take());
            }
        }
        None
    }

    async fn happens(&mut self, index: u32, happening: &Happening) {
        let out = &mut self.frames;
        match happening {
            Happening::Started => self.writer.started(index, out),
            Happening::Prompt(tokens) => self.writer.prompt(index, tokens, out),
            Happening::Said { pieces, tokens } => self.writer.said(index, pieces, tokens, out),
            Happening::Finished(end) => match self.writer.before_end(index, end, self.run.tally()).await {
                Ok(()) => {
                    self.over = self.run.complete();
                    self.writer.finished(index, end, self.run.tally(), self.over, out);
                }
                Err(error) => self.fail(&error),
            },
        }
    }

    fn fail(&mut self, error: &ApiError) {
        self.span.in_scope(|| tracing::warn!(code = error.kind.row().code, "answer broken off: {error}"));
        self.metrics.failure(error.kind.row().code);
        self.writer.failed(error, &mut self.frames);
        self.over = true;
    }
}

/// The streamed answer to a started run.
pub fn respond<W: Writer>(run: Run, writer: W, metrics: Arc<Metrics>) -> Response {
    let in_flight = metrics.in_flight();
    let stream =
        Stream { run, writer, frames: Frames::default(), metrics, over: false, span: tracing::Span::current(), _in_flight: in_flight };
    let body = futures_util::stream::unfold(stream, |mut stream| async move {
        let bytes = stream.next().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), stream))
    });
    streamed(Body::from_stream(body), W::CONTENT_TYPE)
}

/// A body that is sent as it is made.
pub fn streamed(body: Body, content_type: &'static str) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would otherwise hold the stream back until its buffer is full.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
