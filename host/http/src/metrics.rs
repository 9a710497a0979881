//! What Prometheus may ask: counters and histograms of the front, and gauges read from the workers' real state when it asks.
//!
//! The recorder belongs to one server and is not the process-wide one, so several servers (tests, embedders) do not mix. A `model` label is
//! only ever the name of a model that exists; a client cannot invent series.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use metrics::{Counter, Gauge, Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use onebit_engine::Finished;
use onebit_worker::Lifecycle;

use crate::models::{WorkerPhase, WorkerState};

/// Seconds; from a cached prompt's prefill to a cold load of a large model.
const SECONDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Observations are kept one by one until somebody asks; where nobody does, they are added up after this many.
const OBSERVED_KEPT: u64 = 4096;

static METADATA: Metadata<'static> = Metadata::new("onebit_http", Level::INFO, None);

/// A series: name, unit, what it counts.
struct Series(&'static str, Unit, &'static str);

const REQUESTS: Series = Series("onebit_http_requests_total", Unit::Count, "Answered requests by route, method and status");
const REQUEST_SECONDS: Series =
    Series("onebit_http_request_seconds", Unit::Seconds, "From the head of a request to the head of its answer, by route");
const IN_FLIGHT: Series = Series("onebit_http_requests_in_flight", Unit::Count, "Requests being answered, streams included");
const CONNECTIONS: Series = Series("onebit_http_connections", Unit::Count, "Open connections");
const FAILURES: Series =
    Series("onebit_http_failures_total", Unit::Count, "Requests that ended badly, by reason (the `code` of the error)");
const CACHED_TOKENS: Series =
    Series("onebit_cached_prompt_tokens_total", Unit::Count, "Of the tokens read, those that had been computed before, by model");
const PROMPT_TOKENS: Series = Series("onebit_prompt_tokens_total", Unit::Count, "Tokens read, by model");
const COMPLETION_TOKENS: Series = Series("onebit_completion_tokens_total", Unit::Count, "Tokens made, by model");
const LOAD: Series = Series("onebit_lease_seconds", Unit::Seconds, "Wait for a loaded model, loading included, by model");
const QUEUE: Series = Series("onebit_queue_seconds", Unit::Seconds, "Wait in the worker before the first batch, by model");
const PREFILL: Series = Series("onebit_prefill_seconds", Unit::Seconds, "From the first batch to the first token, by model");
const DECODE: Series = Series("onebit_decode_seconds", Unit::Seconds, "From the first token to the last, by model");
const WORKER_UP: Series = Series("onebit_worker_ready", Unit::Count, "1 while the worker of this model answers");
const RESTARTS: Series =
    Series("onebit_worker_restarts_total", Unit::Count, "Times the worker of this model was started again after a failure");
const LOADS: Series = Series("onebit_model_loads_total", Unit::Count, "Loads by model and outcome: ok, or the kind of failure");
const UNLOADS: Series =
    Series("onebit_model_unloads_total", Unit::Count, "Models that left, by reason: idle, evicted, asked, replaced, shutdown");
const DEATHS: Series = Series("onebit_worker_deaths_total", Unit::Count, "Workers that ended unexpectedly, by kind: crash, hang, protocol");
const REPLAYS: Series =
    Series("onebit_requests_replayed_total", Unit::Count, "Requests sent to a new worker because the old one died before it had answered");
const ESTIMATED: Series = Series("onebit_worker_memory_estimated_bytes", Unit::Bytes, "Memory the plugin said the model would need");
const MEASURED: Series = Series("onebit_worker_memory_measured_bytes", Unit::Bytes, "Memory the worker really has");
const CONFINED: Series = Series("onebit_worker_confined", Unit::Count, "1 while the sandbox confines the worker of this model");
const REFUSED: Series =
    Series("onebit_sandbox_refused_calls_total", Unit::Count, "System calls that the sandbox refused to the worker that runs now");
const ACTIVE: Series = Series("onebit_worker_requests_active", Unit::Count, "Requests being computed, by model");
const WAITING: Series = Series("onebit_worker_requests_waiting", Unit::Count, "Requests waiting for a slot, by model");
const RELOADED: Series =
    Series("onebit_http_files_current", Unit::Count, "0 while the file of this setting was changed and could not be taken over");

const COUNTERS: [Series; 11] =
    [REFUSED, REQUESTS, FAILURES, PROMPT_TOKENS, CACHED_TOKENS, COMPLETION_TOKENS, RESTARTS, LOADS, UNLOADS, DEATHS, REPLAYS];
const GAUGES: [Series; 9] = [RELOADED, CONFINED, IN_FLIGHT, CONNECTIONS, WORKER_UP, ESTIMATED, MEASURED, ACTIVE, WAITING];
const HISTOGRAMS: [Series; 5] = [REQUEST_SECONDS, LOAD, QUEUE, PREFILL, DECODE];

/// The series of one server.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    observed: AtomicU64,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Empty series.
    pub fn new() -> Result<Self, BuildError> {
        let recorder = PrometheusBuilder::new().set_buckets(SECONDS)?.build_recorder();
        let handle = recorder.handle();
        for Series(name, unit, help) in COUNTERS {
            recorder.describe_counter(KeyName::from(name), Some(unit), SharedString::from(help));
        }
        for Series(name, unit, help) in GAUGES {
            recorder.describe_gauge(KeyName::from(name), Some(unit), SharedString::from(help));
        }
        for Series(name, unit, help) in HISTOGRAMS {
            recorder.describe_histogram(KeyName::from(name), Some(unit), SharedString::from(help));
        }
        Ok(Self { recorder, handle, observed: AtomicU64::new(0) })
    }

    /// The answer's head went out.
    pub fn request(&self, route: &str, method: &str, status: u16, took: Duration) {
        let status = status.to_string();
        self.counter(&REQUESTS, &[("route", route), ("method", method), ("status", &status)]).increment(1);
        self.observe(&REQUEST_SECONDS, &[("route", route)], took.as_secs_f64());
    }

    /// A request ended badly, in its status or inside its stream.
    pub fn failure(&self, reason: &'static str) {
        self.counter(&FAILURES, &[("reason", reason)]).increment(1);
    }

    /// A lease was waited for.
    pub fn lease(&self, model: &str, took: Duration) {
        self.observe(&LOAD, &[("model", model)], took.as_secs_f64());
    }

    /// A generation came to a good end.
    pub fn generation(&self, model: &str, finished: &Finished) {
        let labels = [("model", model)];
        self.counter(&PROMPT_TOKENS, &labels).increment(u64::from(finished.usage.prompt_tokens));
        self.counter(&CACHED_TOKENS, &labels).increment(u64::from(finished.usage.cached_tokens));
        self.counter(&COMPLETION_TOKENS, &labels).increment(u64::from(finished.usage.completion_tokens));
        let seconds = |us: u64| us as f64 / 1e6;
        self.observe(&QUEUE, &labels, seconds(finished.timings.queue_us));
        self.observe(&PREFILL, &labels, seconds(finished.timings.prefill_us));
        self.observe(&DECODE, &labels, seconds(finished.timings.decode_us));
    }

    /// Texts were read that nothing is written to: embedded, ranked.
    pub fn read(&self, model: &str, prompt_tokens: u32) {
        self.counter(&PROMPT_TOKENS, &[("model", model)]).increment(u64::from(prompt_tokens));
    }

    /// Something happened to a worker.
    pub fn lifecycle(&self, event: &Lifecycle) {
        match event {
            Lifecycle::Loaded { model, .. } => self.counter(&LOADS, &[("model", model), ("outcome", "ok")]).increment(1),
            Lifecycle::LoadFailed { model, kind, .. } => self.counter(&LOADS, &[("model", model), ("outcome", kind)]).increment(1),
            Lifecycle::Unloaded { model, reason } => self.counter(&UNLOADS, &[("model", model), ("reason", reason.name())]).increment(1),
            Lifecycle::Died { model, kind, .. } => self.counter(&DEATHS, &[("model", model), ("kind", kind)]).increment(1),
            Lifecycle::Replayed { model } => self.counter(&REPLAYS, &[("model", model)]).increment(1),
            // Its request ends badly, and that is counted.
            _ => {}
        }
    }

    /// Counts a request as being answered until the guard is dropped.
    pub fn in_flight(&self) -> Held {
        Held::new(self.gauge(&IN_FLIGHT, &[]))
    }

    /// Counts a connection as open until the guard is dropped.
    pub fn connection(&self) -> Held {
        Held::new(self.gauge(&CONNECTIONS, &[]))
    }

    /// Whether what the file of a setting says is what holds.
    pub fn reloaded(&self, setting: &str, current: bool) {
        self.gauge(&RELOADED, &[("setting", setting)]).set(f64::from(u8::from(current)));
    }

    /// The exposition text, with the workers as they are now.
    pub fn render(&self, workers: &[WorkerState]) -> String {
        for worker in workers {
            let labels = [("model", worker.model.as_str()), ("plugin", &worker.plugin), ("device", &worker.device)];
            self.gauge(&WORKER_UP, &labels).set(f64::from(u8::from(worker.phase == WorkerPhase::Ready)));
            self.gauge(&ESTIMATED, &labels).set(worker.memory_estimated as f64);
            self.gauge(&MEASURED, &labels).set(worker.memory_measured as f64);
            self.gauge(&ACTIVE, &labels).set(worker.active as f64);
            self.gauge(&WAITING, &labels).set(worker.waiting as f64);
            let confined = worker.sandbox.as_deref().is_some_and(|layers| layers != "none");
            self.gauge(&CONFINED, &labels).set(f64::from(u8::from(confined)));
            self.counter(&REFUSED, &labels).absolute(worker.refused_calls);
            self.counter(&RESTARTS, &[("model", worker.model.as_str())]).absolute(worker.restarts);
        }
        self.handle.run_upkeep();
        self.handle.render()
    }

    fn key(series: &Series, labels: &[(&'static str, &str)]) -> Key {
        let labels: Vec<Label> = labels.iter().map(|(name, value)| Label::new(*name, (*value).to_owned())).collect();
        Key::from_parts(series.0, labels)
    }

    fn counter(&self, series: &Series, labels: &[(&'static str, &str)]) -> Counter {
        self.recorder.register_counter(&Self::key(series, labels), &METADATA)
    }

    fn gauge(&self, series: &Series, labels: &[(&'static str, &str)]) -> Gauge {
        self.recorder.register_gauge(&Self::key(series, labels), &METADATA)
    }

    /// Into a histogram.
    fn observe(&self, series: &Series, labels: &[(&'static str, &str)], value: f64) {
        self.recorder.register_histogram(&Self::key(series, labels), &METADATA).record(value);
        if self.observed.fetch_add(1, Relaxed) % OBSERVED_KEPT == OBSERVED_KEPT - 1 {
            self.handle.run_upkeep();
        }
    }
}

/// A gauge that is one higher while this lives.
pub struct Held(Gauge);

impl Held {
    fn new(gauge: Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    /// Alone in a process: tests beside it take and give memory, too.
    #[test]
    fn a_server_that_nobody_asks_keeps_no_sample() {
        const ALONE: &str = "ONEBIT_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let mut this = std::process::Command::new(std::env::current_exe().unwrap());
            this.args(["--exact", "metrics::tests::a_server_that_nobody_asks_keeps_no_sample"]).env(ALONE, "1");
            let said = this.output().unwrap();
            assert!(said.status.success(), "{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
            return;
        }
        let metrics = Metrics::new().unwrap();
        let fill = |count| (0..count).for_each(|_| metrics.lease("demo", Duration::from_millis(20)));
        fill(10_000);
        let before = memory();
        fill(500_000);
        let grown = memory().saturating_sub(before);
        assert!(grown < 4 << 20, "{grown} bytes; as many samples take 8 MB");
        let text = metrics.render(&[]);
        assert!(text.contains("onebit_lease_seconds_count{model=\"demo\"} 510000\n"), "{text}");
    }
}
