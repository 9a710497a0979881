//! Server-sent events: the body of a streamed answer.
//!
//! One event of the worker becomes one write of one or more `data:` frames; nothing is collected, nothing waits for the next. A failure after
//! the head went out is a last frame with OpenAI's error object, without `[DONE]`, so that no client takes half an answer for a whole one.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use onebit_engine::{Event, FinishReason, TokenOut};
use serde::Serialize;

use super::answer::{Run, TimingFields, UsageFields};
use crate::errors::{ApiError, Kind};
use crate::metrics::{Held, Metrics};

/// A comment is sent after this much silence, so that proxies do not take a long prefill for a dead connection.
const SILENCE: Duration = Duration::from_secs(15);

/// How a dialect writes its chunks.
pub trait Chunks: Send + 'static {
    /// An answer begins.
    fn started(&mut self, index: u32, out: &mut Frames);
    /// More of it.
    fn delta(&mut self, index: u32, text: &str, tokens: &[TokenOut], out: &mut Frames);
    /// Its end; `timings` with the last one of a request.
    fn finished(&mut self, index: u32, reason: &FinishReason, timings: Option<TimingFields>, out: &mut Frames);
    /// The chunk with the numbers, if it was asked for.
    fn usage(&mut self, usage: UsageFields, out: &mut Frames);
}

/// Frames to be written.
#[derive(Debug, Default)]
pub struct Frames(BytesMut);

impl Frames {
    /// One frame.
    pub fn push(&mut self, chunk: &impl Serialize) {
        let before = self.0.len();
        self.0.extend_from_slice(b"data: ");
        match serde_json::to_writer((&mut self.0).writer(), chunk) {
            Ok(()) => self.0.extend_from_slice(b"\n\n"),
            // Strings and numbers always serialise; half a frame would spoil the ones after it.
            Err(error) => {
                tracing::error!("a chunk could not be written: {error}");
                self.0.truncate(before);
            }
        }
    }

    fn take(&mut self) -> Bytes {
        self.0.split().freeze()
    }
}

struct Stream<C> {
    run: Run,
    chunks: C,
    frames: Frames,
    opened: Vec<bool>,
    metrics: Arc<Metrics>,
    over: bool,
    /// The request's; the body is written after its handler is done.
    span: tracing::Span,
    _in_flight: Held,
}

impl<C: Chunks> Stream<C> {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.over {
            let Ok(event) = tokio::time::timeout(SILENCE, self.run.next()).await else {
                return Some(Bytes::from_static(b": still working\n\n"));
            };
            match event {
                Some(Ok((index, event))) => self.event(index, &event),
                Some(Err(error)) => self.fail(&error),
                None => {
                    self.fail(&ApiError::new(Kind::Internal, "the answer ended without its end; please report this with the request id"))
                }
            }
            if !self.frames.0.is_empty() {
                return Some(self.frames.take());
            }
        }
        None
    }

    fn event(&mut self, index: u32, event: &Event) {
        let out = &mut self.frames;
        if let Some(opened) = self.opened.get_mut(index as usize)
            && !std::mem::replace(opened, true)
        {
            self.chunks.started(index, out);
        }
        match event {
            Event::Delta { text, tokens } => self.chunks.delta(index, text, tokens, out),
            Event::Finished(finished) => {
                let last = self.run.complete();
                self.chunks.finished(index, &finished.reason, last.then(|| self.run.tally().timings()), out);
                if last {
                    self.chunks.usage(self.run.tally().usage(), out);
                    out.0.extend_from_slice(b"data: [DONE]\n\n");
                    self.over = true;
                }
            }
            Event::Started { .. } | Event::Prefill { .. } | Event::Prompt { .. } | Event::Failed(_) => {}
        }
    }

    fn fail(&mut self, error: &ApiError) {
        self.span.in_scope(|| tracing::warn!(code = error.kind.row().code, "answer broken off: {error}"));
        self.metrics.failure(error.kind.row().code);
        self.frames.push(&error.body());
        self.over = true;
    }
}

/// The streamed answer to a started run.
pub fn respond(run: Run, chunks: impl Chunks, metrics: Arc<Metrics>) -> Response {
    let opened = vec![false; run.total() as usize];
    let in_flight = metrics.in_flight();
    let stream = Stream {
        run,
        chunks,
        frames: Frames::default(),
        opened,
        metrics,
        over: false,
        span: tracing::Span::current(),
        _in_flight: in_flight,
    };
    let body = futures_util::stream::unfold(stream, |mut stream| async move {
        let bytes = stream.next().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), stream))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would otherwise hold the stream back until its buffer is full.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
