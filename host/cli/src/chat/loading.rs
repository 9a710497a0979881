//! Waiting for a model, with a bar that shows what the worker says.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use onebit_worker::{Host, Lease, LeaseOptions, WorkerState};

use crate::exit::{Exit, Failure};
use crate::output::watched;

/// How often the worker's word is looked at.
const PERIOD: Duration = Duration::from_millis(100);

/// Loads the model. Ctrl-C gives up.
pub async fn load(host: &Host, name: &str) -> Result<Lease, Failure> {
    let bar = watched().then(|| {
        let bar = ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{msg} [{bar:24}] {percent:>3}%").unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_message(format!("loading {name}"));
        bar
    });
    let mut lease = std::pin::pin!(host.lease(name, LeaseOptions::default()));
    let mut tick = tokio::time::interval(PERIOD);
    let done = loop {
        tokio::select! {
            lease = &mut lease => break lease.map_err(Failure::from),
            _ = tick.tick() => if let Some(bar) = &bar {
                show(bar, host);
            },
            _ = tokio::signal::ctrl_c() => break Err(Failure::silent(Exit::Interrupted)),
        }
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    done
}

/// There is only one model in this process.
fn show(bar: &ProgressBar, host: &Host) {
    for status in host.status() {
        if let WorkerState::Loading { progress } = status.state {
            bar.set_message(format!("loading with {} {} on {}", status.plugin, status.plugin_version, status.device));
            bar.set_position((progress.clamp(0.0, 1.0) * 100.0) as u64);
        }
    }
}
