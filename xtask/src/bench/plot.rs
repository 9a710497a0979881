//! The bars as a picture: for each, what was found in parts of what is asked, so that all fit on one axis.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::report::Series;

/// Draws an SVG.
pub fn draw(series: &[Series], title: &str, file: &Path) -> Result<()> {
    let rows: Vec<(String, f64, bool)> = series.iter().flat_map(Series::rows).collect();
    if rows.is_empty() {
        return Ok(());
    }
    inner(&rows, title, file).map_err(|error| anyhow!("{error}"))
}

fn inner(rows: &[(String, f64, bool)], title: &str, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let height = 110 + 34 * u32::try_from(rows.len())?;
    let area = SVGBackend::new(file, (1000, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let count = i32::try_from(rows.len())?;
    let right = rows.iter().map(|row| row.1).fold(1.3, f64::max).min(3.0) * 1.05;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .caption(title, ("sans-serif", 15))
        .x_label_area_size(30)
        .y_label_area_size(430)
        .build_cartesian_2d(0.0..right, (0..count).into_segmented())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .x_desc("reached, in parts of the bar (1 = the bar)")
        .y_labels(rows.len())
        .y_label_formatter(&|at| match at {
            SegmentValue::CenterOf(row) => {
                usize::try_from(count - 1 - row).ok().and_then(|row| rows.get(row)).map_or_else(String::new, |row| row.0.clone())
            }
            _ => String::new(),
        })
        .draw()?;
    for (index, (_, value, reached)) in rows.iter().enumerate() {
        let at = count - 1 - i32::try_from(index)?;
        let colour = if *reached { RGBColor(46, 125, 50) } else { RGBColor(183, 28, 28) };
        let mut bar =
            Rectangle::new([(0.0, SegmentValue::Exact(at)), (value.min(right), SegmentValue::Exact(at + 1))], colour.mix(0.75).filled());
        bar.set_margin(6, 6, 0, 0);
        chart.draw_series([bar])?;
    }
    chart.draw_series(LineSeries::new([(1.0, SegmentValue::Exact(0)), (1.0, SegmentValue::Exact(count))], BLACK.stroke_width(2)))?;
    area.present()?;
    Ok(())
}
