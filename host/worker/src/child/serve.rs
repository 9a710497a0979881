//! Requests to the engine, events back; the same in a worker process and inside the host.
//!
//! A generation goes to the engine's own thread. What blocks (embedding, ranking, long texts to tokens) has threads of its own, so that it stands in
//! nobody's way. Every request gets its last word, also one that was cancelled before it began.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, unbounded};
use onebit_engine::{EmbedRequest, Engine, EngineError, Event, Prompt, RequestId, RerankRequest, TokenId};
use onebit_loader::CancelFlag;

use crate::protocol::{FromWorker, ToWorker};

/// Threads for embeddings and rankings, and for tokens. One is not enough: a long embedding would keep token counts waiting.
const CALL_THREADS: usize = 2;

/// Where answers go. Must not block: it is called on the engine's thread.
pub(crate) trait Outlet: Send + Sync + 'static {
    /// Takes a message.
    fn push(&self, message: FromWorker);

    /// What was taken goes out now, if it has not yet.
    fn flush(&self) {}
}

/// A call that blocks.
enum Call {
    Embed { request_id: String, request: EmbedRequest, cancel: CancelFlag },
    Rerank { request_id: String, request: RerankRequest, cancel: CancelFlag },
    Encode { prompt: Prompt, add_special: bool },
    Decode { tokens: Vec<TokenId> },
}

/// Calls that take long enough to be cancelled.
type Long = Arc<Mutex<HashMap<u64, CancelFlag>>>;

/// An engine and the threads around it. Dropping it stops the engine; calls in progress keep it until they end.
pub(crate) struct Server {
    engine: Arc<Engine>,
    outlet: Arc<dyn Outlet>,
    /// Embeddings and rankings that have not ended.
    long: Long,
    /// One queue for embeddings and rankings, one for tokens.
    calls: [Sender<(u64, Call)>; CALL_THREADS],
}

impl Server {
    pub(crate) fn start(engine: Arc<Engine>, outlet: Arc<dyn Outlet>) -> std::io::Result<Self> {
        let long = Long::default();
        let spawn = |name: &str| {
            let (sender, calls) = unbounded();
            let (engine, outlet, long) = (engine.clone(), outlet.clone(), long.clone());
            std::thread::Builder::new().name(name.into()).spawn(move || serve_calls(&calls, &engine, outlet.as_ref(), &long))?;
            Ok::<_, std::io::Error>(sender)
        };
        let calls = [spawn("worker-embed")?, spawn("worker-tokens")?];
        engine.flush_with({
            let outlet = outlet.clone();
            Box::new(move || outlet.flush())
        });
        Ok(Self { engine, outlet, long, calls })
    }

    /// Starts what the message asks for. Does not block.
    pub(crate) fn handle(&self, message: ToWorker) {
        match message {
            ToWorker::Generate { id, request_id, request } => {
                tracing::debug!(request_id, id, "generation begins");
                let outlet = self.outlet.clone();
                let sink = move |event: Event| {
                    match &event {
                        Event::Finished(end) => {
                            tracing::debug!(request_id, reason = ?end.reason, tokens = end.usage.completion_tokens, "generation ended");
                        }
                        Event::Failed(error) => tracing::info!(request_id, %error, "generation failed"),
                        _ => {}
                    }
                    outlet.push(FromWorker::Event { id, event });
                };
                self.engine.submit(RequestId(id), *request, Box::new(sink));
                // A refusal was said on this thread.
                self.outlet.flush();
            }
            ToWorker::Embed { id, request_id, request } => {
                let cancel = self.long_call(id);
                self.call(0, id, Call::Embed { request_id, request, cancel });
            }
            ToWorker::Rerank { id, request_id, request } => {
                let cancel = self.long_call(id);
                self.call(0, id, Call::Rerank { request_id, request, cancel });
            }
            ToWorker::Encode { id, prompt, add_special } => self.call(1, id, Call::Encode { prompt, add_special }),
            ToWorker::Decode { id, tokens } => self.call(1, id, Call::Decode { tokens }),
            ToWorker::Cancel { id } => {
                self.engine.cancel(RequestId(id));
                if let Some(cancel) = self.long.lock().unwrap_or_else(PoisonError::into_inner).get(&id) {
                    cancel.set();
                }
            }
            // The order and the end are matters of whoever owns this server.
            ToWorker::Load { .. } | ToWorker::Shutdown => {}
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The flag of a call that can be cancelled from now on.
    fn long_call(&self, id: u64) -> CancelFlag {
        let cancel = CancelFlag::new();
        self.long.lock().unwrap_or_else(PoisonError::into_inner).insert(id, cancel.clone());
        cancel
    }

    fn call(&self, queue: usize, id: u64, call: Call) {
        // The threads live as long as the sender.
        self.calls[queue].send((id, call)).ok();
    }
}

fn serve_calls(calls: &Receiver<(u64, Call)>, engine: &Engine, outlet: &dyn Outlet, long: &Mutex<HashMap<u64, CancelFlag>>) {
    for (id, call) in calls {
        let answer = match call {
            Call::Embed { request_id, request, cancel } => {
                let result = if cancel.is_set() { Err(EngineError::Cancelled) } else { engine.embed(&request, &cancel) };
                over(long, id, &request_id, "embedding", result.as_ref().err());
                FromWorker::Embedded { id, result }
            }
            Call::Rerank { request_id, request, cancel } => {
                let result = if cancel.is_set() { Err(EngineError::Cancelled) } else { engine.rerank(&request, &cancel) };
                over(long, id, &request_id, "ranking", result.as_ref().err());
                FromWorker::Ranked { id, result }
            }
            Call::Encode { prompt, add_special } => FromWorker::Encoded { id, result: engine.encode(&prompt, add_special) },
            Call::Decode { tokens } => FromWorker::Decoded { id, result: engine.decode(&tokens) },
        };
        outlet.push(answer);
        outlet.flush();
    }
}

/// A call that could be cancelled has ended.
fn over(long: &Mutex<HashMap<u64, CancelFlag>>, id: u64, request_id: &str, what: &str, error: Option<&EngineError>) {
    long.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    if let Some(error) = error {
        tracing::info!(request_id, %error, "{what} failed");
    }
}
