//! From numbers to a table, a JSON file, a plot, and a paragraph for the record of results.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::plot;
use crate::process;

/// What a measure has to reach.
#[derive(Debug, Clone)]
pub struct Bar {
    /// A peer, or `None` for a fixed limit.
    pub against: Option<&'static str>,
    /// Times the peer, or the limit itself.
    pub value: f64,
    /// Whether more is better.
    pub more_is_better: bool,
}

impl Bar {
    /// At least `factor` times the peer.
    pub fn at_least(peer: &'static str, factor: f64) -> Self {
        Self { against: Some(peer), value: factor, more_is_better: true }
    }

    /// At most `factor` times the peer.
    pub fn at_most(peer: &'static str, factor: f64) -> Self {
        Self { against: Some(peer), value: factor, more_is_better: false }
    }

    /// At most this.
    pub fn limit(value: f64) -> Self {
        Self { against: None, value, more_is_better: false }
    }
}

/// One measure of several programs.
#[derive(Debug, Clone)]
pub struct Series {
    name: String,
    unit: &'static str,
    bars: Vec<Bar>,
    values: Vec<(&'static str, Vec<f64>)>,
}

/// Ours.
pub const OURS: &str = "onebit-host";

impl Series {
    /// Without numbers yet.
    pub fn new(name: &str, unit: &'static str, bars: &[Bar]) -> Self {
        Self { name: name.to_owned(), unit, bars: bars.to_vec(), values: Vec::new() }
    }

    /// One more number of a program.
    pub fn add(&mut self, program: &'static str, value: f64) {
        match self.values.iter_mut().find(|(name, _)| *name == program) {
            Some((_, values)) => values.push(value),
            None => self.values.push((program, vec![value])),
        }
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The middle of a program's numbers.
    pub fn median(&self, program: &str) -> Option<f64> {
        median(self.of(program)?.iter().copied())
    }

    /// Ours in relation to a peer, in the middle of the rounds: each round's numbers were taken within seconds of each other.
    fn ratio(&self, peer: &str) -> Option<f64> {
        median(self.of(OURS)?.iter().zip(self.of(peer)?).map(|(ours, theirs)| ours / theirs))
    }

    fn of(&self, program: &str) -> Option<&[f64]> {
        self.values.iter().find(|(name, _)| *name == program).map(|(_, values)| values.as_slice())
    }

    fn spread(&self, program: &str) -> Option<(f64, f64)> {
        let values = self.of(program)?;
        Some((values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(f64::NEG_INFINITY, f64::max)))
    }

    /// Each bar for the plot: its words, what was found in parts of it (more than 1 = better than asked), whether it is reached.
    pub fn rows(&self) -> Vec<(String, f64, bool)> {
        let parts = |bar: &Bar, found: f64| match bar.more_is_better {
            true => found / bar.value,
            // A cost of zero or less is as good as can be; the axis has an end.
            false => bar.value / found.max(bar.value / 10.0),
        };
        let judged = self.bars.iter().filter(|bar| bar.against.is_none_or(|peer| self.median(peer).is_some()));
        judged
            .zip(self.verdicts())
            .map(|(bar, (words, found, reached))| (format!("{} {words}", self.name), parts(bar, found), reached))
            .collect()
    }

    /// Each bar: in words, ours in relation to it, whether it is reached.
    pub fn verdicts(&self) -> Vec<(String, f64, bool)> {
        let Some(ours) = self.median(OURS) else { return Vec::new() };
        self.bars
            .iter()
            .filter_map(|bar| {
                let sign = if bar.more_is_better { "≥" } else { "≤" };
                let (words, found) = match bar.against {
                    Some(peer) => (format!("{sign} {} × {peer}", bar.value), self.ratio(peer)?),
                    None => (format!("{sign} {} {}", bar.value, self.unit), ours),
                };
                Some((words, found, if bar.more_is_better { found >= bar.value } else { found <= bar.value }))
            })
            .collect()
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, sorted[middle]) })
}

/// A whole run.
pub struct Report {
    device: String,
    threads: usize,
    rounds: u32,
    series: Vec<Series>,
}

impl Report {
    /// Empty.
    pub fn new(device: &str, threads: usize, rounds: u32) -> Self {
        Self { device: device.to_owned(), threads, rounds, series: Vec::new() }
    }

    /// More measures.
    pub fn extend(&mut self, series: impl IntoIterator<Item = Series>) {
        self.series.extend(series);
    }

    /// Prints the table and writes everything into `place`.
    pub fn write(&self, place: &Path) -> Result<()> {
        let table = self.table();
        let machine = machine();
        let date = process::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?.trim().to_owned();
        let head = format!(
            "{date}, {machine}, {} with {} threads, medians of {} rounds, SmolLM2-135M-Instruct Q4_1",
            self.device, self.threads, self.rounds
        );
        std::fs::write(place.join("bench.json"), serde_json::to_string_pretty(&self.json(&head))?)?;
        std::fs::write(place.join("bench.md"), format!("### {head}\n\n{table}"))?;
        plot::draw(&self.series, &head, &place.join("bench.svg")).context("cannot draw the plot")?;
        println!("\n{head}\n\n{table}");
        println!("{}: bench.md, bench.json, bench.svg; the first belongs into tests/bench/RESULTS.md", place.display());
        Ok(())
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| measure | onebit-host (min – max) | llama-bench | llama-server | bar | found | |\n|---|---|---|---|---|---|---|\n",
        );
        for series in &self.series {
            let cell = |program: &str| series.median(program).map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"));
            let spread = series.spread(OURS).map_or_else(String::new, |(low, high)| format!(" ({low:.1} – {high:.1})"));
            let verdicts = series.verdicts();
            let join = |pick: &dyn Fn(&(String, f64, bool)) -> String| verdicts.iter().map(pick).collect::<Vec<_>>().join("<br>");
            let _ = writeln!(
                text,
                "| {}, {} | {}{spread} | {} | {} | {} | {} | {} |",
                series.name,
                series.unit,
                cell(OURS),
                cell("llama-bench"),
                cell("llama-server"),
                join(&|verdict| verdict.0.clone()),
                join(&|verdict| format!("{:.3}", verdict.1)),
                join(&|verdict| if verdict.2 { "reached".into() } else { "NOT reached".into() }),
            );
        }
        text
    }

    fn json(&self, head: &str) -> Value {
        let series: Vec<Value> = self
            .series
            .iter()
            .map(|series| {
                let values: serde_json::Map<String, Value> = series
                    .values
                    .iter()
                    .map(|(name, values)| ((*name).to_owned(), json!({"median": series.median(name), "all": values})))
                    .collect();
                let bars: Vec<Value> = series
                    .verdicts()
                    .into_iter()
                    .map(|(bar, found, reached)| json!({"bar": bar, "found": found, "reached": reached}))
                    .collect();
                json!({"name": series.name, "unit": series.unit, "values": values, "bars": bars})
            })
            .collect();
        json!({"run": head, "series": series})
    }
}

/// The processor's name and its number of threads.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_owned()));
    let count = text.lines().filter(|line| line.starts_with("processor")).count();
    format!("{} ({count} logical processors)", name.unwrap_or_else(|| std::env::consts::ARCH.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_judged_by_the_median_of_the_rounds() {
        let mut series = Series::new("decode", "tok/s", &[Bar::at_least("peer", 0.96), Bar::limit(500.0)]);
        for value in [90.0, 97.0, 500.0] {
            series.add(OURS, value);
        }
        for value in [100.0, 50.0, 400.0] {
            series.add("peer", value);
        }
        assert_eq!((series.median(OURS), series.median("peer")), (Some(97.0), Some(100.0)));
        // Of 0.9, 1.94 and 1.25.
        let verdicts = series.verdicts();
        assert!(verdicts[0].2 && (verdicts[0].1 - 1.25).abs() < 1e-9 && verdicts[1].2);
        assert_eq!(median(std::iter::empty()), None);
        assert_eq!(series.spread(OURS), Some((90.0, 500.0)));
    }

    #[test]
    fn a_bar_against_a_peer_that_was_not_measured_says_nothing() {
        let mut series = Series::new("decode", "tok/s", &[Bar::at_most("peer", 1.05)]);
        series.add(OURS, 1.0);
        assert!(series.verdicts().is_empty());
    }
}
