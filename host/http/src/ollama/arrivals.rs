//! Where model files come in, by upload or by pull, and how many at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{MutexGuard, OwnedSemaphorePermit, Semaphore};

use super::blobs::Blobs;
use crate::app::App;
use crate::config;
use crate::errors::{ApiError, Kind};

/// Pulls, running or waiting for one of the same model.
const PULLS: usize = 8;
/// Uploads.
const UPLOADS: usize = 4;

/// One at a time.
type Turn = tokio::sync::Mutex<()>;

/// What the routes share.
#[derive(Debug)]
pub struct Arrivals {
    config: config::Arrivals,
    blobs: Blobs,
    pulls: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    making: Turn,
    /// By model. A turn that nobody holds or waits for is gone.
    turns: Mutex<HashMap<String, Weak<Turn>>>,
}

impl Arrivals {
    /// Into these folders. Nothing is made before something comes.
    pub fn new(config: config::Arrivals) -> Self {
        let blobs = Blobs::new(&config.models_dir);
        let (pulls, uploads) = (Arc::new(Semaphore::new(PULLS)), Arc::new(Semaphore::new(UPLOADS)));
        Self { config, blobs, pulls, uploads, making: Turn::default(), turns: Mutex::default() }
    }

    /// The program that pulls, with its first arguments.
    pub fn program(&self) -> &[std::ffi::OsString] {
        &self.config.pull
    }

    /// Files that were uploaded.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Room for one more pull.
    pub fn pull(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        room(&self.pulls, PULLS, "pulls")
    }

    /// Room for one more upload.
    pub fn upload(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        room(&self.uploads, UPLOADS, "uploads")
    }

    /// The turn to make a model of an uploaded file.
    pub async fn making(&self) -> MutexGuard<'_, ()> {
        self.making.lock().await
    }

    /// The turn of a model: two pulls of one would only be in each other's way. The second finds what the first has brought.
    pub fn turn(&self, model: &str) -> Arc<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let key = model.strip_suffix(":latest").unwrap_or(model).to_lowercase();
        let known = turns.get(&key).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let turn = Arc::new(Turn::default());
            turns.insert(key, Arc::downgrade(&turn));
            turn
        })
    }
}

fn room(of: &Arc<Semaphore>, most: usize, what: &str) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(of)
        .try_acquire_owned()
        .map_err(|_| ApiError::new(Kind::QueueFull, format!("{most} {what} are running already; try again when one has ended")))
}

/// Of a server that was told where files go.
pub fn of(app: &App) -> Result<&Arc<Arrivals>, ApiError> {
    app.arrivals
        .as_ref()
        .ok_or_else(|| ApiError::new(Kind::StoreFailed, "this server was started without a models folder that files could come into"))
}
