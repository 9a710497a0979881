//! `GET /api/tags`, `/api/ps`, `/api/version` and `/`.

use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::App;
use crate::models::{Details, WorkerPhase};

/// See [`version`].
pub const API_VERSION: &str = "0.9.0";

/// What stays for ever leaves in a hundred years: clients reckon with a time.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What Ollama's clients look for to see whether a server is there.
pub async fn root() -> &'static str {
    "Ollama is running"
}

/// The version of Ollama whose API is spoken here, the one that brought `think`: clients that want a least version compare it. Ours is beside it.
pub async fn version() -> Json<Value> {
    Json(json!({"version": API_VERSION, "onebit_host": env!("CARGO_PKG_VERSION")}))
}

/// All models.
pub async fn tags(State(app): State<App>) -> Json<Value> {
    let models: Vec<Value> = app
        .models
        .cards()
        .into_iter()
        .map(|card| {
            let mut model = json!({
                "name": card.id,
                "model": card.id,
                "modified_at": time(SystemTime::UNIX_EPOCH + Duration::from_secs(card.created)),
                "size": card.details.bytes,
                "details": details(&card.details),
            });
            // Not known of a file that no manifest vouches for, and too dear to compute for a list.
            model["digest"] = card.details.sha256.unwrap_or_default().into();
            model
        })
        .collect();
    Json(json!({"models": models}))
}

/// Models that are loaded.
pub async fn ps(State(app): State<App>) -> Json<Value> {
    let cards = app.models.cards();
    let models: Vec<Value> = app
        .models
        .workers()
        .into_iter()
        .filter(|worker| worker.phase == WorkerPhase::Ready)
        .map(|worker| {
            let known = cards.iter().find(|card| card.id == worker.model).map(|card| card.details.clone()).unwrap_or_default();
            let size = if worker.memory_measured > 0 { worker.memory_measured } else { worker.memory_estimated };
            let on_device = worker.device != "cpu";
            json!({
                "name": worker.model,
                "model": worker.model,
                "size": size,
                "size_vram": if on_device { worker.memory_estimated } else { 0 },
                "digest": known.sha256.clone().unwrap_or_default(),
                "details": details(&known),
                "expires_at": time(worker.expires_at.unwrap_or_else(|| SystemTime::now() + FOREVER)),
            })
        })
        .collect();
    Json(json!({"models": models}))
}

/// `details` of a model.
pub fn details(details: &Details) -> Value {
    let family = details.architecture.clone().unwrap_or_default();
    json!({
        "parent_model": "",
        "format": details.format.clone().unwrap_or_default(),
        "family": family,
        "families": [family],
        "parameter_size": details.parameters.map(parameter_size).unwrap_or_default(),
        "quantization_level": details.quantisation.clone().unwrap_or_default(),
    })
}

/// `134.5M`, `7.2B`.
fn parameter_size(parameters: u64) -> String {
    let (number, unit) = match parameters {
        0..=999_999 => return parameters.to_string(),
        1_000_000..=999_999_999 => (parameters as f64 / 1e6, "M"),
        _ => (parameters as f64 / 1e9, "B"),
    };
    let text = format!("{number:.1}");
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// As Ollama writes times.
pub fn time(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map(|at| at.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_for_people() {
        assert_eq!(parameter_size(134_515_008), "134.5M");
        assert_eq!(parameter_size(7_000_000_000), "7B");
        assert_eq!(parameter_size(900), "900");
    }
}
