//! Responses in one SQLite file.
//!
//! Several servers may share the file. All work happens off the threads that serve sockets, one piece at a time. What is deleted is
//! overwritten, what is too old is deleted every hour, and where all of it together grows too large, the oldest goes first.

mod runner;
mod schema;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::config::KeepResponses;
use crate::errors::{ApiError, Kind};
use crate::openai::head::unix_now;

/// Between two looks for what is too old.
const SWEEP: Duration = Duration::from_secs(3600);
/// Longest conversation that is gone on from, in responses.
const MAX_TURNS: usize = 10_000;
/// And in bytes, as they are kept; no model reads as much.
const MAX_HISTORY: usize = 16 << 20;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("responses cannot be kept in {file}: {reason}; name another file (responses_db), or keep none (responses_retention = 0)")]
pub struct OpenError {
    /// Which file.
    pub file: PathBuf,
    /// Why.
    pub reason: String,
}

/// A response as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// `resp_…`.
    pub id: String,
    /// Whose it is.
    pub owner: Arc<str>,
    /// Unix seconds.
    pub created: u64,
    /// The one it goes on from.
    pub previous: Option<String>,
    /// It is still being made, by this process.
    pub running: bool,
    /// The object, as JSON.
    pub body: String,
    /// The items that were sent, as a JSON list.
    pub input: String,
}

/// A response as others go on from it.
#[derive(Debug)]
pub struct Turn {
    /// `resp_…`.
    pub id: String,
    /// It is still being made.
    pub running: bool,
    /// Items that were sent.
    pub input: Vec<Value>,
    /// Items that were answered.
    pub output: Vec<Value>,
}

/// A response with all that it goes on from.
#[derive(Debug)]
pub enum History {
    /// All of it, the oldest first.
    Whole(Vec<Turn>),
    /// This one is not there.
    Missing(String),
    /// It is more than is gone on from.
    TooLong,
}

/// The file.
#[derive(Debug)]
pub struct Store {
    connection: Arc<Mutex<Connection>>,
    max_bytes: u64,
}

impl Store {
    /// Opens or makes the file, and begins to look for what is too old.
    pub fn open(keep: &KeepResponses) -> Result<Self, OpenError> {
        let connection = schema::open(&keep.file).map_err(|reason| OpenError { file: keep.file.clone(), reason })?;
        let connection = Arc::new(Mutex::new(connection));
        let (swept, retention) = (Arc::downgrade(&connection), keep.retention);
        tokio::spawn(async move {
            while let Some(connection) = swept.upgrade() {
                if let Err(error) = with(connection, move |connection| sweep(connection, retention)).await {
                    tracing::warn!("old responses could not be deleted: {error}");
                }
                tokio::time::sleep(SWEEP).await;
            }
        });
        Ok(Self { connection, max_bytes: keep.max_bytes })
    }

    /// Writes a response, or writes it anew.
    pub async fn keep(&self, kept: Kept) -> Result<(), ApiError> {
        let max_bytes = i64::try_from(self.max_bytes).unwrap_or(i64::MAX);
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            let runner = kept.running.then(runner::this_process);
            transaction.execute(
                "INSERT INTO responses (id, owner, created, previous, runner, body, input, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (id) DO UPDATE SET runner = ?5, body = ?6, bytes = ?8",
                params![
                    kept.id,
                    &*kept.owner,
                    seconds(kept.created),
                    kept.previous,
                    runner,
                    kept.body,
                    kept.input,
                    (kept.body.len() + kept.input.len()) as i64
                ],
            )?;
            while transaction.query_row("SELECT bytes FROM held", [], |row| row.get::<_, i64>(0))? > max_bytes {
                let oldest = "DELETE FROM responses WHERE id = (SELECT id FROM responses WHERE runner IS NULL AND id <> ?1 ORDER BY created LIMIT 1)";
                if transaction.execute(oldest, [&kept.id])? == 0 {
                    break;
                }
            }
            transaction.commit()
        })
        .await
    }

    /// One of an owner's.
    pub async fn find(&self, owner: &Arc<str>, id: &str) -> Result<Option<Kept>, ApiError> {
        let (owner, id) = (Arc::clone(owner), id.to_owned());
        self.with(move |connection| {
            let kept = find(connection, &owner, &id)?;
            if !kept.as_ref().is_some_and(|kept| kept.running) {
                return Ok(kept);
            }
            // Whoever asks for it must not wait for a server that is gone.
            let transaction = connection.transaction()?;
            runner::end_orphans(&transaction)?;
            transaction.commit()?;
            find(connection, &owner, &id)
        })
        .await
    }

    /// A response with all that it goes on from.
    pub async fn history(&self, owner: &Arc<str>, id: &str) -> Result<History, ApiError> {
        let (owner, id) = (Arc::clone(owner), id.to_owned());
        self.with(move |connection| {
            let (mut turns, mut bytes, mut next) = (Vec::new(), 0, Some(id));
            while let Some(id) = next {
                let Some(kept) = find(connection, &owner, &id)? else { return Ok(History::Missing(id)) };
                bytes += kept.body.len() + kept.input.len();
                if bytes > MAX_HISTORY || turns.len() == MAX_TURNS {
                    return Ok(History::TooLong);
                }
                next = kept.previous.clone();
                turns.push(Turn::from(kept));
            }
            turns.reverse();
            Ok(History::Whole(turns))
        })
        .await
    }

    /// Deletes one of an owner's; false if it is not there.
    pub async fn remove(&self, owner: &Arc<str>, id: &str) -> Result<bool, ApiError> {
        let (owner, id) = (Arc::clone(owner), id.to_owned());
        self.with(move |connection| Ok(connection.execute("DELETE FROM responses WHERE owner = ?1 AND id = ?2", params![&*owner, id])? > 0))
            .await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        with(Arc::clone(&self.connection), work).await
    }
}

impl From<Kept> for Turn {
    fn from(kept: Kept) -> Self {
        let list = |value: Option<Value>| match value {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let body: Option<Value> = serde_json::from_str(&kept.body).ok();
        Self {
            id: kept.id,
            running: kept.running,
            input: list(serde_json::from_str(&kept.input).ok()),
            output: list(body.and_then(|mut body| body.get_mut("output").map(Value::take))),
        }
    }
}

async fn with<T: Send + 'static>(
    connection: Arc<Mutex<Connection>>,
    work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    let mut connection = connection.lock_owned().await;
    let done = tokio::task::spawn_blocking(move || work(&mut connection)).await;
    let done = done.map_err(|_| ApiError::new(Kind::Internal, "keeping responses failed; please report this with the request id"))?;
    done.map_err(|error| {
        ApiError::new(
            Kind::StoreFailed,
            format!("the file of kept responses cannot be used: {error}; send \"store\": false, or look at the server's disk"),
        )
    })
}

fn find(connection: &Connection, owner: &str, id: &str) -> rusqlite::Result<Option<Kept>> {
    let sql = "SELECT id, owner, created, previous, runner IS NOT NULL, body, input FROM responses WHERE owner = ?1 AND id = ?2";
    connection.query_row(sql, params![owner, id], kept).optional()
}

fn kept(row: &Row<'_>) -> rusqlite::Result<Kept> {
    Ok(Kept {
        id: row.get(0)?,
        owner: Arc::from(row.get::<_, String>(1)?),
        created: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
        previous: row.get(3)?,
        running: row.get(4)?,
        body: row.get(5)?,
        input: row.get(6)?,
    })
}

fn seconds(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

/// Deletes what is too old, and ends what nobody makes any more.
fn sweep(connection: &mut Connection, retention: Option<Duration>) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    runner::end_orphans(&transaction)?;
    if let Some(retention) = retention {
        let oldest = unix_now().saturating_sub(retention.as_secs());
        let gone = transaction.execute("DELETE FROM responses WHERE created < ?1 AND runner IS NULL", [seconds(oldest)])?;
        if gone > 0 {
            tracing::info!(gone, "old responses deleted");
        }
    }
    transaction.commit()?;
    // Gives the pages back to the disk, one a step.
    let mut vacuum = connection.prepare("PRAGMA incremental_vacuum")?;
    let mut steps = vacuum.query([])?;
    while steps.next()?.is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests;
