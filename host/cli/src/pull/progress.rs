//! How far a download is: a bar on a terminal, a line for each tenth elsewhere (a log of a build has no use for a bar).

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{bytes, note, watched};

/// Shows the progress of one file.
pub struct Progress {
    name: String,
    bar: Option<ProgressBar>,
    total: Option<u64>,
    tenth: u64,
}

impl Progress {
    /// Nothing is shown until [`Progress::total`] or [`Progress::at`].
    pub fn new(name: &str) -> Self {
        let bar = watched().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
            bar.set_style(unknown_style());
            bar.set_message(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self { name: name.to_owned(), bar, total: None, tenth: 0 }
    }

    /// How many bytes there are, and how many of them were here before.
    pub fn total(&mut self, total: Option<u64>, before: u64) {
        self.total = total;
        match (&self.bar, total) {
            (Some(bar), Some(total)) => {
                bar.set_style(known_style());
                bar.set_length(total);
                bar.reset_eta();
                bar.set_position(before);
            }
            (Some(bar), None) => bar.set_position(before),
            (None, _) => {
                let size = total.map_or_else(|| "size unknown".to_owned(), bytes);
                let from = if before > 0 { format!(", going on at {}", bytes(before)) } else { String::new() };
                note(format!("{}: {size}{from}", self.name));
                self.tenth = total.filter(|total| *total > 0).map_or(0, |total| before * 10 / total);
            }
        }
    }

    /// How many bytes are here.
    pub fn at(&mut self, position: u64) {
        match &self.bar {
            Some(bar) => bar.set_position(position),
            None => {
                let Some(total) = self.total.filter(|total| *total > 0) else { return };
                let tenth = position * 10 / total;
                if tenth > self.tenth {
                    self.tenth = tenth;
                    note(format!("{}: {}% ({} of {})", self.name, tenth * 10, bytes(position), bytes(total)));
                }
            }
        }
    }

    /// Something to say beside the bar.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note(text)),
            None => note(text),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
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
