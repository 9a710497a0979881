//! Responses that nobody waits for: they are made by tasks of their own, which outlive the request and end with the process.
//!
//! A response whose process ended has failed; whoever looks next writes that down (`store/runner.rs`).

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::{Notify, oneshot, watch};
use tracing::Instrument;

use super::Responses;
use super::answer::{Answer, ItemState};
use super::create::to_the_end;
use super::object::{Head, Stage};
use crate::app::App;
use crate::calls::Call;
use crate::chat::{self, ChatRequest};
use crate::errors::{ApiError, Kind};
use crate::generation::{End, Tally};

/// Most at a time; each is a request that waits, or is computed.
const MAX_RUNNING: usize = 256;

/// Those that are being made, by their ids.
#[derive(Debug, Default)]
pub struct Background {
    running: Mutex<HashMap<String, Running>>,
}

#[derive(Debug, Clone)]
struct Running {
    cancel: Arc<Notify>,
    /// Closed when its end is written down.
    ended: watch::Receiver<()>,
}

impl Background {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, if there is one; what the task needs to be found by.
    fn enter(&self, id: &str) -> Result<(Arc<Notify>, watch::Sender<()>), ApiError> {
        let mut running = self.lock();
        if running.len() >= MAX_RUNNING {
            return Err(ApiError::new(
                Kind::QueueFull,
                format!("{MAX_RUNNING} responses are made in the background already; try again later"),
            ));
        }
        let cancel = Arc::new(Notify::new());
        let (end, ended) = watch::channel(());
        running.insert(id.to_owned(), Running { cancel: Arc::clone(&cancel), ended });
        Ok((cancel, end))
    }

    /// Ends one, and waits until that is written down; false if it is not being made here.
    pub(super) async fn cancel(&self, id: &str) -> bool {
        let Some(Running { cancel, mut ended }) = self.lock().get(id).cloned() else { return false };
        cancel.notify_one();
        while ended.changed().await.is_ok() {}
        true
    }
}

/// How one ended.
enum Outcome {
    Ended(End, Tally),
    Failed(ApiError),
    Cancelled,
}

impl Responses {
    /// Begins to make a response, and says what to tell its client, once it is written down as waiting.
    pub(super) async fn begin_in_background(
        &self,
        app: &App,
        chat: ChatRequest,
        mut head: Head,
        call: Arc<Call>,
    ) -> Result<Value, ApiError> {
        // A model that is not there is told at once, not found out later.
        let card = app.models.cards().into_iter().find(|card| card.id == chat.model || card.aliases.contains(&chat.model));
        head.model = card.ok_or_else(|| app.models.unknown(&chat.model))?.id;
        let (cancel, end) = self.background.enter(&head.id)?;
        let (tell, told) = oneshot::channel();
        let app = app.clone();
        // The task writes down that it waits, too: a client that leaves in this moment must not leave a response that nobody makes.
        let task = async move {
            let begun = queued(&app, &head).await;
            let goes_on = begun.is_ok();
            let _ = tell.send(begun);
            if goes_on {
                make(&app, chat, &mut head, &call, &cancel).await;
            }
            app.responses.background.lock().remove(&head.id);
            drop(end);
        };
        tokio::spawn(task.instrument(tracing::Span::current()));
        let lost = |_| ApiError::new(Kind::Internal, "the response could not be begun; please report this with the request id");
        told.await.map_err(lost)?
    }
}

async fn queued(app: &App, head: &Head) -> Result<Value, ApiError> {
    app.responses.keep(head.kept(Stage::Queued, &[])?).await?;
    serde_json::to_value(head.response(Stage::Queued, &[]))
        .map_err(|error| ApiError::new(Kind::Internal, format!("the response could not be written: {error}")))
}

/// Makes one, whatever happens.
async fn make(app: &App, chat: ChatRequest, head: &mut Head, call: &Arc<Call>, cancel: &Notify) {
    let mut answer = Answer::new(head.namespaces.clone());
    let work = AssertUnwindSafe(answered(app, chat, head, &mut answer, call)).catch_unwind();
    let outcome = tokio::select! {
        () = cancel.notified() => Outcome::Cancelled,
        done = work => match done {
            Ok(Ok((end, tally))) => Outcome::Ended(end, tally),
            Ok(Err(error)) => Outcome::Failed(error),
            Err(_) => Outcome::Failed(ApiError::new(Kind::Internal, "the server made a mistake with this request; please report it with the request id")),
        },
    };
    answer.close(ItemState::Incomplete);
    if let Outcome::Failed(error) = &outcome {
        tracing::warn!(code = error.kind.row().code, "a response in the background failed: {error}");
        app.metrics.failure(error.kind.row().code);
    }
    let stage = match &outcome {
        Outcome::Ended(end, tally) => Stage::Ended(end, tally),
        Outcome::Failed(error) => Stage::Failed(error),
        Outcome::Cancelled => Stage::Cancelled,
    };
    let kept = match head.kept(stage, &answer.items) {
        Ok(kept) => app.responses.keep(kept).await,
        Err(error) => Err(error),
    };
    if let Err(error) = kept {
        tracing::error!(id = head.id, "a response in the background is lost: {error}");
    }
}

async fn answered(app: &App, chat: ChatRequest, head: &mut Head, answer: &mut Answer, call: &Arc<Call>) -> Result<(End, Tally), ApiError> {
    let lease = app.lease(&chat.model, call).await?;
    head.computed_by(&*lease);
    let prepared = chat::prepare(app, &*lease, chat).await?;
    let mut run = chat::start(app, &lease, prepared).await?;
    app.responses.keep(head.kept(Stage::Running, &[])?).await?;
    let end = to_the_end(&mut run, answer).await?;
    Ok((end, *run.tally()))
}
