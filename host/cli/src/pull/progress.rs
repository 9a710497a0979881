//! How far a download is: a bar on a terminal, a line for each tenth elsewhere (a log of a build has no use for a bar), and lines of JSON on
//! standard output for a program that asked for them.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::destination::Expected;
use crate::output::{bytes, note, watched};

/// Between two lines of JSON.
const LINE_EVERY: Duration = Duration::from_millis(100);

/// Who reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Somebody at a terminal, or of a log.
    Person,
    /// A program.
    Program,
}

/// Shows the progress of one file.
pub struct Progress {
    name: String,
    face: Face,
    total: Option<u64>,
}

enum Face {
    Bar(ProgressBar),
    /// The last tenth that was told.
    Tenths(u64),
    Lines {
        sha256: Option<String>,
        told: Option<Instant>,
    },
}

impl Progress {
    /// Nothing is shown until [`Progress::total`] or [`Progress::at`].
    pub fn new(name: &str, expected: &Expected, reader: Reader) -> Self {
        let face = match reader {
            Reader::Program => Face::Lines { sha256: expected.sha256.clone(), told: None },
            Reader::Person if watched() => {
                let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
                bar.set_style(unknown_style());
                bar.set_message(name.to_owned());
                bar.enable_steady_tick(Duration::from_millis(250));
                Face::Bar(bar)
            }
            Reader::Person => Face::Tenths(0),
        };
        Self { name: name.to_owned(), face, total: None }
    }

    /// How many bytes there are, and how many of them were here before.
    pub fn total(&mut self, total: Option<u64>, before: u64) {
        self.total = total;
        match (&mut self.face, total) {
            (Face::Bar(bar), Some(total)) => {
                bar.set_style(known_style());
                bar.set_length(total);
                bar.reset_eta();
                bar.set_position(before);
            }
            (Face::Bar(bar), None) => bar.set_position(before),
            (Face::Tenths(tenth), _) => {
                let size = total.map_or_else(|| "size unknown".to_owned(), bytes);
                let from = if before > 0 { format!(", going on at {}", bytes(before)) } else { String::new() };
                note(format!("{}: {size}{from}", self.name));
                *tenth = total.filter(|total| *total > 0).map_or(0, |total| before * 10 / total);
            }
            (Face::Lines { told, .. }, _) => {
                *told = None;
                self.at(before);
            }
        }
    }

    /// How many bytes are here.
    pub fn at(&mut self, position: u64) {
        match &mut self.face {
            Face::Bar(bar) => bar.set_position(position),
            Face::Tenths(told) => {
                let Some(total) = self.total.filter(|total| *total > 0) else { return };
                let tenth = position * 10 / total;
                if tenth > *told {
                    *told = tenth;
                    note(format!("{}: {}% ({} of {})", self.name, tenth * 10, bytes(position), bytes(total)));
                }
            }
            Face::Lines { sha256, told } => {
                let due = told.is_none_or(|told| told.elapsed() >= LINE_EVERY) || Some(position) == self.total;
                if due {
                    *told = Some(Instant::now());
                    tell(&json!({"status": "pulling", "file": self.name, "sha256": sha256, "total": self.total, "completed": position}));
                }
            }
        }
    }

    /// Something to say beside the bar.
    pub fn say(&self, text: &str) {
        match &self.face {
            Face::Bar(bar) => bar.suspend(|| note(text)),
            Face::Tenths(_) | Face::Lines { .. } => note(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Face::Bar(bar) = &self.face {
            bar.finish_and_clear();
        }
    }
}

/// One line for a program. One that is gone has taken its interest along: the download ends with it, and what has arrived is kept.
pub fn tell(line: &serde_json::Value) {
    if crate::output::line(line).is_err() {
        std::process::exit(i32::from(crate::exit::Exit::Interrupted.code()));
    }
}

// The texts are constants, so an error here is found by the test below and never by a user.
fn known_style() -> ProgressStyle {
    ProgressStyle::with_template(KNOWN).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn unknown_style() -> ProgressStyle {
    ProgressStyle::with_template(UNKNOWN).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

const KNOWN: &str = "{wide_msg} {percent:>3}% [{bar:24}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
const UNKNOWN: &str = "{spinner} {wide_msg} {binary_bytes} {binary_bytes_per_sec}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        assert!(ProgressStyle::with_template(KNOWN).is_ok() && ProgressStyle::with_template(UNKNOWN).is_ok());
    }
}
