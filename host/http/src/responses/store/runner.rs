//! Who makes a response that is not finished: a process, told from every other by its number and the time it began.
//!
//! A server that ended in the middle leaves responses that say they are being made. Whoever looks next ends them.

use rusqlite::{Transaction, params};
use serde_json::{Value, json};

/// This process.
pub(super) fn this_process() -> String {
    let pid = std::process::id();
    format!("{pid} {}", began(pid).unwrap_or_default())
}

/// Whether the process that was written down still runs.
fn lives(runner: &str) -> bool {
    runner.split_once(' ').is_some_and(|(pid, then)| pid.parse().ok().and_then(began).is_some_and(|now| now == then))
}

/// When a process began, in ticks since the machine did; `None` = there is no such process.
fn began(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name, in brackets, may hold anything. The fields after it begin with the third, its state; its beginning is the 22nd.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // One that has ended and that nobody has asked for yet keeps its number: in a container often for ever.
    let ended = matches!(fields.next(), Some("Z" | "X"));
    fields.nth(18).filter(|_| !ended).map(str::to_owned)
}

/// Ends responses whose process is gone.
pub(super) fn end_orphans(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare("SELECT id, runner, body FROM responses WHERE runner IS NOT NULL")?;
    let running = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?)))?;
    for (id, _, body) in running.collect::<Result<Vec<_>, _>>()?.into_iter().filter(|(_, runner, _)| !lives(runner)) {
        let mut body: Value = serde_json::from_str(&body).unwrap_or_default();
        if let Value::Object(object) = &mut body {
            object.insert("status".into(), "failed".into());
            object.insert(
                "error".into(),
                json!({"code": "server_error", "message": "the server ended before the response was complete; ask again"}),
            );
        }
        let body = body.to_string();
        transaction.execute(
            "UPDATE responses SET runner = NULL, body = ?2, bytes = ?3 + length(CAST(input AS BLOB)) WHERE id = ?1",
            params![id, body, body.len() as i64],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_its_beginning() {
        let this = this_process();
        assert!(lives(&this), "{this}");
        let pid = std::process::id();
        for gone in [format!("{pid} 0"), format!("{pid}"), "4194305 1".to_owned(), "x y".to_owned(), String::new()] {
            assert!(!lives(&gone), "{gone:?}");
        }
    }

    #[test]
    fn a_process_that_has_ended_is_gone_also_while_nobody_asks_for_it() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let began = began(child.id()).expect("it runs");
        let runner = format!("{} {began}", child.id());
        assert!(lives(&runner));
        child.kill().expect("it can be ended");
        // Not waited for: it stays in the table of processes.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while lives(&runner) && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!lives(&runner) && std::path::Path::new(&format!("/proc/{}", child.id())).exists());
        child.wait().expect("its end");
    }
}
