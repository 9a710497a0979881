//! A worker's stderr: every line becomes a log line of the host, and the last 8 KiB are kept for the day the worker dies.
//!
//! Lines are foreign text of any length and any bytes: they are cut, made valid UTF-8 and freed of control characters. They are shown to
//! people and never parsed for meaning; the one exception are the worker's own JSON log lines, which are unpacked to keep their level.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// Bytes kept for a crash report.
const TAIL_BYTES: usize = 8 * 1024;

/// Longest line that is passed on in one piece.
const LINE_BYTES: usize = 4 * 1024;

/// The last lines of one worker.
#[derive(Debug, Default)]
pub(crate) struct Tail(Mutex<VecDeque<String>>);

impl Tail {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        let mut bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
        while bytes > TAIL_BYTES {
            let Some(gone) = lines.pop_front() else { break };
            bytes -= gone.len() + 1;
        }
    }

    /// The lines, oldest first, each with a line end.
    pub(crate) fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().fold(String::new(), |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        })
    }
}

/// Reads until the pipe closes.
pub(crate) async fn follow(pipe: impl AsyncRead + Unpin, model: &str, pid: u32, tail: &Tail) {
    let mut reader = BufReader::new(pipe);
    let mut raw = Vec::new();
    loop {
        raw.clear();
        // `take` bounds a line without end; the rest of it comes as the next line.
        match (&mut reader).take(LINE_BYTES as u64).read_until(b'\n', &mut raw).await {
            Ok(0) => return,
            Ok(_) => {
                let line = readable(&raw);
                if !line.is_empty() {
                    tail.push(pass_on(&line, model, pid));
                }
            }
            Err(error) => {
                tracing::warn!(model, pid, %error, "the worker's log cannot be read any more");
                return;
            }
        }
    }
}

/// Valid text without line ends and terminal escapes.
fn readable(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).trim_end().chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// Logs the line and gives back how a person should see it in a crash report.
fn pass_on(line: &str, model: &str, pid: u32) -> String {
    let Some(record) = Record::parse(line) else {
        tracing::info!(model, pid, "{line}");
        return line.to_owned();
    };
    let Record { level, text, request_id } = &record;
    match level.as_str() {
        "ERROR" => tracing::error!(model, pid, request_id, "{text}"),
        "WARN" => tracing::warn!(model, pid, request_id, "{text}"),
        "INFO" => tracing::info!(model, pid, request_id, "{text}"),
        _ => tracing::debug!(model, pid, request_id, "{text}"),
    }
    format!("{level} {text}")
}

/// A log line that the worker's own logger wrote.
struct Record {
    level: String,
    text: String,
    request_id: Option<String>,
}

impl Record {
    fn parse(line: &str) -> Option<Self> {
        if !line.starts_with('{') {
            return None;
        }
        let value: serde_json::Value = serde_json::from_str(line).ok()?;
        let level = value.get("level")?.as_str()?.to_owned();
        let fields = value.get("fields")?.as_object()?;
        let request_id = fields.get("request_id").and_then(|id| id.as_str()).map(str::to_owned);
        let mut text = value.get("target").and_then(|target| target.as_str()).unwrap_or("worker").to_owned();
        text.push_str(": ");
        text.push_str(fields.get("message").and_then(|message| message.as_str()).unwrap_or_default());
        for (name, value) in fields.iter().filter(|(name, _)| !matches!(name.as_str(), "message" | "request_id")) {
            text.push_str(&format!(" {name}={value}"));
        }
        Some(Self { level, text, request_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_the_last_eight_kibibytes() {
        let tail = Tail::default();
        for n in 0..10_000 {
            tail.push(format!("line {n}"));
        }
        let text = tail.text();
        assert!(text.len() <= TAIL_BYTES && text.len() > TAIL_BYTES - 32, "{}", text.len());
        assert!(text.ends_with("line 9999\n"));
    }

    #[tokio::test]
    async fn a_line_without_end_and_bytes_that_are_no_text_are_cut_and_cleaned() {
        let tail = Tail::default();
        let mut raw = vec![b'x'; 3 * LINE_BYTES];
        raw.extend_from_slice(b"\n\xff\x1b[31mred\n");
        follow(&raw[..], "tiny", 1, &tail).await;
        let text = tail.text();
        assert!(text.lines().all(|line| line.len() <= LINE_BYTES));
        assert!(text.ends_with("\u{fffd}\u{fffd}[31mred\n"), "{text:?}");
    }

    #[tokio::test]
    async fn a_log_record_of_the_worker_keeps_its_level_and_fields() {
        let tail = Tail::default();
        let raw = br#"{"timestamp":"x","level":"WARN","fields":{"message":"slow","n":3,"request_id":"r1"},"target":"plugin"}"#;
        follow(&raw[..], "tiny", 1, &tail).await;
        assert_eq!(tail.text(), "WARN plugin: slow n=3\n");
    }
}
