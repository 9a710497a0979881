//! What a token costs more because a process border lies between the host and the plugin.
//!
//! Measured with the small test plugin, whose tokens cost half a millisecond: beside a real model's, which take many of them and
//! never the same time twice, a few microseconds cannot be seen.

use std::path::Path;

use anyhow::{Context, Result};
use onebit_faults::{Which, install, ngram_model};

use super::report::{Bar, Series};
use crate::{cargo, process};

/// Runs the example that measures it.
pub fn measure(dist: &Path, place: &Path) -> Result<Series> {
    let plugin = install(Which::NgramC, &place.join("plugins")).context("the test plugin cannot be built")?;
    let model = ngram_model(place)?;
    let mut run = cargo::command(&["run", "--quiet", "--release", "-p", "onebit-worker", "--example", "border", "--"])?;
    run.arg(dist.join("bin/onebit-host")).arg(&plugin).args([Which::NgramC.id(), env!("CARGO_PKG_VERSION")]).arg(&model).arg("row_us=500");
    let text = process::output(&mut run)?;
    let mut border = Series::new("worker border", "µs/token", &[Bar::limit(50.0)]);
    for line in text.lines() {
        let (worker, here) = line.split_once(' ').with_context(|| format!("no two numbers in {line:?}"))?;
        let (worker, here): (f64, f64) = (worker.parse()?, here.parse()?);
        border.add("onebit-host", worker - here);
    }
    Ok(border)
}
