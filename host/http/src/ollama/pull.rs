//! `POST /api/pull`: gets a model by its name, in a process of its own.
//!
//! Names are those of manifests and of the hub's repositories (`hf.co/owner/repo:QUANT`); a path or an address is none, so nobody reads the
//! server's files or its network by this. One model is pulled once at a time: whoever asks for it meanwhile waits, and finds it there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};

use super::arrivals::{self, Arrivals};
use super::child::{Puller, Told, refused};
use super::name;
use super::progress::{respond, step, success};
use crate::app::App;
use crate::errors::{ApiError, Kind};
use crate::fields::Fields;
use crate::gate::Caller;
use crate::keys::Scope;

/// One that has ended is gone by then; what takes longer is told.
const A_MOMENT: Duration = Duration::from_millis(500);

/// Handles the request.
pub async fn handle(State(app): State<App>, caller: Caller, headers: HeaderMap, request: Request<Body>) -> Result<Response, ApiError> {
    caller.require(Scope::Admin)?;
    let object = app.limits.read_object(&headers, request.into_body()).await?;
    let fields = Fields::of(&object);
    let whole = fields.boolean("stream")? == Some(false);
    if fields.boolean("insecure")? == Some(true) {
        return Err(ApiError::unsupported("insecure", "\"insecure\" is not supported: files come over https, or with a known sha256"));
    }
    let model = name::read(&fields, "model", Some("name"), "the name of a manifest, or hf.co/owner/repo:QUANT")?.to_owned();
    let arrivals = Arc::clone(arrivals::of(&app)?);
    let room = arrivals.pull()?;
    let pull = Pull { app: app.clone(), arrivals, model, stage: Stage::Asked, told: VecDeque::new(), _room: room };
    let steps = stream::unfold(pull, |mut pull| async move { Some((pull.next().await?, pull)) });
    respond(&app, whole, steps).await
}

struct Pull {
    app: App,
    arrivals: Arc<Arrivals>,
    model: String,
    stage: Stage,
    /// Steps that are to be told.
    told: VecDeque<Value>,
    _room: OwnedSemaphorePermit,
}

enum Stage {
    Asked,
    Waiting,
    Running(Box<Puller>),
    Over,
}

impl Pull {
    /// The next step; `None` after the last.
    async fn next(&mut self) -> Option<Result<Value, ApiError>> {
        let draining = self.app.draining.clone();
        while self.told.is_empty() {
            if matches!(self.stage, Stage::Over) {
                return None;
            }
            let gone_on = tokio::select! {
                gone_on = self.go_on() => gone_on,
                () = draining.cancelled() => {
                    let words = "the server is shutting down; what has arrived is kept, pull again when it is back";
                    Err(ApiError::new(Kind::Draining, words))
                }
            };
            if let Err(error) = gone_on {
                self.stage = Stage::Over;
                return Some(Err(error));
            }
        }
        self.told.pop_front().map(Ok)
    }

    async fn go_on(&mut self) -> Result<(), ApiError> {
        match &mut self.stage {
            Stage::Asked => match tokio::time::timeout(A_MOMENT, self.arrivals.turn(&self.model).lock_owned()).await {
                Ok(turn) => self.start(turn)?,
                Err(_) => {
                    self.told.push_back(step(&format!("waiting for another pull of {}", self.model)));
                    self.stage = Stage::Waiting;
                }
            },
            Stage::Waiting => {
                let turn = self.arrivals.turn(&self.model).lock_owned().await;
                self.start(turn)?;
            }
            Stage::Running(puller) => match puller.next().await? {
                Told::Found => self.told.push_back(step("pulling manifest")),
                Told::Pulling { file, sha256, total, completed } => self.told.push_back(pulling(&file, sha256, total, completed)),
                Told::Failed { exit, message } => return Err(refused(exit, message)),
                Told::Done { sha256, bytes } => self.arrived(sha256, bytes).await?,
            },
            Stage::Over => {}
        }
        Ok(())
    }

    fn start(&mut self, turn: OwnedMutexGuard<()>) -> Result<(), ApiError> {
        self.stage = Stage::Running(Box::new(Puller::start(self.arrivals.program(), &self.model, turn)?));
        Ok(())
    }

    /// It is there; whether it can be asked for is for the host to say.
    async fn arrived(&mut self, sha256: Option<String>, bytes: u64) -> Result<(), ApiError> {
        self.stage = Stage::Over;
        self.app.models.look_again().await?;
        self.app.models.said(&self.model).map_err(|error| {
            ApiError::new(
                Kind::PullFailed,
                format!("the file of {} is here, but there is no model of that name: {}", self.model, error.message),
            )
        })?;
        if sha256.is_some() {
            // Also of a file that was there before, and of which nothing else is told.
            self.told.extend([pulling("", sha256, Some(bytes), bytes), step("verifying sha256 digest")]);
        }
        self.told.push_back(success());
        Ok(())
    }
}

/// A step in Ollama's words: what has no digest is told by its name.
fn pulling(file: &str, sha256: Option<String>, total: Option<u64>, completed: u64) -> Value {
    let shown = sha256.as_ref().and_then(|sha256| sha256.get(..12)).unwrap_or(file);
    let mut line = json!({"status": format!("pulling {shown}"), "completed": completed});
    if let Some(sha256) = &sha256 {
        line["digest"] = format!("sha256:{sha256}").into();
    }
    if let Some(total) = total {
        line["total"] = total.into();
    }
    line
}
