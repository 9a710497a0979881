//! What the file looks like, and how an older one becomes a newer one.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

/// The file's `user_version`: how many of [`STEPS`] it has taken. A file of a newer host is refused, not guessed at.
const VERSION: usize = STEPS.len();

/// From each version to the next. A released step never changes.
const STEPS: [&str; 1] = ["
    CREATE TABLE responses (
        id TEXT NOT NULL PRIMARY KEY,
        owner TEXT NOT NULL,
        created INTEGER NOT NULL,
        previous TEXT,
        runner TEXT,
        body TEXT NOT NULL,
        input TEXT NOT NULL,
        bytes INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX by_age ON responses (created);
    CREATE TABLE held (bytes INTEGER NOT NULL) STRICT;
    INSERT INTO held VALUES (0);
    CREATE TRIGGER added AFTER INSERT ON responses BEGIN UPDATE held SET bytes = bytes + new.bytes; END;
    CREATE TRIGGER changed AFTER UPDATE OF bytes ON responses BEGIN UPDATE held SET bytes = bytes + new.bytes - old.bytes; END;
    CREATE TRIGGER removed AFTER DELETE ON responses BEGIN UPDATE held SET bytes = bytes - old.bytes; END;
"];

/// Opens or makes the file; the error says why not.
pub(super) fn open(file: &Path) -> Result<Connection, String> {
    prepare(file)?;
    let mut connection = Connection::open(file).map_err(|error| error.to_string())?;
    let version = set_up(&mut connection).map_err(|error| error.to_string())?;
    if version > VERSION {
        return Err(format!("a newer version of this program made it (version {version} of its form; this program knows {VERSION})"));
    }
    Ok(connection)
}

/// Only the user may read what was said. SQLite gives the files beside it the same rights.
fn prepare(file: &Path) -> Result<(), String> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| format!("its folder cannot be made: {error}"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(file).map(drop).map_err(|error| error.to_string())
}

/// Sets up the connection and takes the steps that are missing; the version it came to.
fn set_up(connection: &mut Connection) -> rusqlite::Result<usize> {
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.execute_batch(
        "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;",
    )?;
    // One that begins with reading could not go on to write where another server has written meanwhile.
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
    let transaction = connection.transaction()?;
    let version = transaction.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))?;
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    if version >= VERSION {
        return Ok(version);
    }
    for step in &STEPS[version..] {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", VERSION as i64)?;
    transaction.commit()?;
    Ok(VERSION)
}
