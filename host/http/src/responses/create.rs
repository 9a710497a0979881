//! `POST /v1/responses`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::{IntoResponse, Response};

use super::answer::{Answer, ItemState};
use super::conversation::Turns;
use super::events::Events;
use super::object::{Head, Stage};
use super::request::Asked;
use super::store::{History, Kept, Turn};
use super::{Responses, owner};
use crate::app::{App, stamp};
use crate::calls::call;
use crate::chat;
use crate::errors::{ApiError, Kind};
use crate::generation::{End, Happening, Run, stream};
use crate::template::conversation::Conversation;

/// Handles the request.
pub async fn handle(State(app): State<App>, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    let (call, owner) = (call(&request)?, owner(&request));
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let mut asked = Asked::read(&object)?;
    drop(object);
    let kept = app.responses.keeps(asked.store, asked.background)?;
    asked.echo.insert("store".into(), kept.into());
    asked.chat.conversation = app.responses.conversation(&asked, &owner).await?;
    let (stream, background) = (asked.stream, asked.background);
    let (mut head, chat) = Head::new(asked, owner);
    if background {
        let queued = app.responses.begin_in_background(&app, chat, head, call).await?;
        return Ok(axum::Json(queued).into_response());
    }
    let lease = app.lease(&chat.model, &call).await?;
    head.computed_by(&*lease);
    let prepared = chat::prepare(&app, &*lease, chat).await?;
    let run = chat::start(&app, &lease, prepared).await?;
    let response = if stream {
        let events = Events::new(head, kept.then(|| Arc::clone(&app.responses)));
        stream::respond(run, events, Arc::clone(&app.metrics))
    } else {
        whole(run, &head, kept.then_some(&app.responses)).await?
    };
    Ok(stamp(response, lease.facts()))
}

async fn whole(mut run: Run, head: &Head, keep: Option<&Arc<Responses>>) -> Result<Response, ApiError> {
    let mut answer = Answer::new(head.namespaces.clone());
    let end = to_the_end(&mut run, &mut answer).await?;
    let stage = Stage::Ended(&end, run.tally());
    if let Some(keep) = keep {
        keep.keep(head.kept(stage, &answer.items)?).await?;
    }
    Ok(axum::Json(head.response(stage, &answer.items)).into_response())
}

/// Takes all that is said.
pub(super) async fn to_the_end(run: &mut Run, answer: &mut Answer) -> Result<End, ApiError> {
    while let Some(happening) = run.next().await {
        match happening?.1 {
            Happening::Said { pieces, tokens } => drop(answer.take(&pieces, &tokens)),
            Happening::Finished(end) => {
                answer.close(if end == End::Length { ItemState::Incomplete } else { ItemState::Completed });
                return Ok(end);
            }
            Happening::Started | Happening::Prompt(_) => {}
        }
    }
    Err(ApiError::new(Kind::Internal, "the answer ended without its end; please report this with the request id"))
}

impl Responses {
    /// Whether a response is kept that wants to be, or leaves it to the server.
    fn keeps(&self, wanted: Option<bool>, background: bool) -> Result<bool, ApiError> {
        match (wanted, self.store().is_some()) {
            (Some(true), false) => Err(ApiError::unsupported(
                "store",
                "this server keeps no responses; send \"store\": false, or start it with a time in responses_retention",
            )),
            (Some(false), _) if background => {
                Err(ApiError::invalid("store", "a response in the background is asked for later, so it must be kept; leave \"store\" out"))
            }
            (None, false) if background => Err(ApiError::unsupported(
                "background",
                "this server keeps no responses, so none could be asked for later; leave \"background\" out, or start it with a time in responses_retention",
            )),
            (wanted, able) => Ok(wanted.unwrap_or(able)),
        }
    }

    /// Writes a response down.
    pub(super) async fn keep(&self, kept: Kept) -> Result<(), ApiError> {
        match self.store() {
            Some(store) => store.keep(kept).await,
            None => Ok(()),
        }
    }

    /// All that a request is about: instructions, the responses it goes on from, its own items.
    pub(super) async fn conversation(&self, asked: &Asked, owner: &Arc<str>) -> Result<Conversation, ApiError> {
        let mut turns = Turns::instructed(asked.instructions.as_deref());
        if let Some(previous) = &asked.previous {
            for turn in self.history(previous, owner).await? {
                turns.add("previous_response_id", &turn.input)?;
                turns.add("previous_response_id", &turn.output)?;
            }
        }
        turns.add("input", &asked.items)?;
        Ok(turns.end())
    }

    async fn history(&self, previous: &str, owner: &Arc<str>) -> Result<Vec<Turn>, ApiError> {
        let history = match self.store() {
            Some(store) => store.history(owner, previous).await?,
            None => History::Missing(previous.to_owned()),
        };
        let refused = |message: String| Err(ApiError::new(Kind::UnknownPrevious, message).param("previous_response_id"));
        match history {
            History::Whole(turns) => match turns.iter().find(|turn| turn.running) {
                None => Ok(turns),
                Some(turn) => refused(format!("the response {:?} is not complete yet; wait for it", turn.id)),
            },
            History::Missing(id) => {
                let shown: String = id.chars().take(100).collect();
                let instead = "send the whole conversation in \"input\"";
                refused(if id == previous {
                    format!("there is no response {shown:?}, or it was not stored; {instead}")
                } else {
                    format!("the response {shown:?}, which the previous one goes on from, is not stored any more; {instead}")
                })
            }
            History::TooLong => {
                refused("the conversation before this response is longer than is kept together; begin a new one".to_owned())
            }
        }
    }
}
