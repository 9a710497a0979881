//! How fast this model computes here, measured as it goes.
//!
//! A prompt that is computed beside running answers makes each of their steps longer. Its chunks are cut so that a step stays short
//! enough for a reader not to notice. Nothing is assumed about the machine: the first measure comes from the first batch.

use std::time::Duration;

/// A step with running answers in it takes about this long at most.
pub(crate) const STEP: Duration = Duration::from_millis(80);

/// A step of prompts alone takes about this long at most: whoever comes meanwhile waits for it. On a fast device such a step holds several
/// of the pieces a plugin computes at once, and the device does not stand still between them.
const ALONE: Duration = Duration::from_millis(250);
/// Prompts alone get this many rows, however slow the machine: smaller batches are slower by the row.
const ALONE_ROWS: usize = 512;

/// Rows of a step until there is a measure.
const FIRST_ROWS: usize = 64;
/// The least progress a prompt makes per step, however slow the machine.
const LEAST_ROWS: usize = 8;

/// Measured speed.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Rows per second of batches with prompt rows in them.
    wide: Option<f64>,
    /// Seconds per batch of single rows.
    narrow: Option<f64>,
}

impl Pace {
    /// A batch was computed.
    pub(crate) fn record(&mut self, rows: usize, prompt_rows: usize, took: Duration) {
        let seconds = took.as_secs_f64().max(1e-6);
        if prompt_rows == 0 {
            Self::blend(&mut self.narrow, seconds);
        } else if prompt_rows >= LEAST_ROWS {
            Self::blend(&mut self.wide, rows as f64 / seconds);
        }
    }

    /// Rows that fit into [`STEP`], including those of running answers.
    pub(crate) fn rows_per_step(&self) -> usize {
        self.wide.map_or(FIRST_ROWS, |rate| (rate * STEP.as_secs_f64()) as usize).max(LEAST_ROWS)
    }

    /// Rows of a step in which no answer runs.
    pub(crate) fn rows_alone(&self) -> usize {
        self.wide.map_or(0, |rate| (rate * ALONE.as_secs_f64()) as usize).max(ALONE_ROWS)
    }

    /// How long a batch will take, if that is known.
    pub(crate) fn predict(&self, rows: usize, prompt_rows: usize) -> Option<Duration> {
        let seconds = if prompt_rows == 0 { self.narrow? } else { rows as f64 / self.wide? };
        Some(Duration::from_secs_f64(seconds.min(3600.0)))
    }

    /// Follows a change within a few steps, and not every hiccup.
    fn blend(value: &mut Option<f64>, new: f64) {
        *value = Some(value.map_or(new, |old| old + 0.4 * (new - old)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_settle_where_a_step_takes_80_ms() {
        // 20 ms for every batch and 1 ms for every row.
        let cost = |rows: usize| Duration::from_millis(20 + rows as u64);
        let mut pace = Pace::default();
        pace.record(512, 512, cost(512));
        let mut rows = 0;
        for _ in 0..40 {
            rows = pace.rows_per_step();
            pace.record(rows, rows - 1, cost(rows));
        }
        assert!((50..=62).contains(&rows), "{rows} rows");
    }

    #[test]
    fn prompts_alone_take_what_fits_into_a_quarter_of_a_second_and_never_little() {
        let mut pace = Pace::default();
        assert_eq!(pace.rows_alone(), 512);
        pace.record(512, 512, Duration::from_secs(3));
        assert_eq!(pace.rows_alone(), 512);
        let mut pace = Pace::default();
        pace.record(512, 512, Duration::from_millis(16));
        assert_eq!(pace.rows_alone(), 8000);
    }

    #[test]
    fn a_slow_machine_still_makes_progress() {
        let mut pace = Pace::default();
        pace.record(64, 64, Duration::from_secs(60));
        assert_eq!(pace.rows_per_step(), LEAST_ROWS);
    }
}
