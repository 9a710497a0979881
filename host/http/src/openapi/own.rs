//! The routes that are in nobody's dialect: what runs, whether the server is well, and this document.

use super::shapes::{Shape, amount, any_object, flag, list, map, or_null, record, text, word};
use super::{ADMIN, Description};
use crate::errors::Kind;
use crate::models::WorkerPhase;

const REQUESTS: &str = "Requests";
const HEALTH: &str = "Health";

/// `GET /v1/requests`.
pub fn requests() -> Description {
    let item = record("")
        .must("id", text("Its x-request-id"))
        .must("object", word(&["request"], ""))
        .must("key", or_null(text("The name of the key it came with")))
        .must("route", text(""))
        .must("model", or_null(text("null until there is one")))
        .must("since", amount("Unix seconds"))
        .must("tokens", amount("Read and made so far"));
    let all = record("").must("object", word(&["list"], "")).must("data", list(item.into(), ""));
    Description::new(REQUESTS, "The requests that ask models now: your own, for admin all").answer("Requests", all)
}

/// `POST /v1/requests/{id}/cancel`.
pub fn request_cancel() -> Description {
    let done = record("")
        .must("id", text(""))
        .must("object", word(&["request.cancelled"], ""))
        .must("cancelled", amount("More than one only where a client gave several the same id"));
    Description::new(REQUESTS, "Ends a request")
        .path("id", "Its x-request-id")
        .answer("RequestCancelled", done)
        .ends(&[Kind::UnknownRequest])
}

/// `GET /healthz` needs no key; `GET /health` is the same behind it.
pub fn health(public: bool) -> Description {
    let fine = record("").must("status", word(&["ok"], ""));
    let described = Description::new(HEALTH, "The process answers").answer("Health", fine);
    if public { described.public() } else { described }
}

/// `GET /readyz`.
pub fn ready() -> Description {
    Description::new(HEALTH, "The real state of the workers; with a name, 200 only while that model is loaded and answers")
        .query("model", text("A model or an alias of one"))
        .answer("Ready", readiness())
        .status(
            503,
            "Not now: a shutdown, a sandbox that is required and does not hold, or a model that is not loaded",
            "Ready",
            readiness(),
        )
        .ends(&[Kind::UnknownModel])
}

fn readiness() -> Shape {
    let phases = [WorkerPhase::Loading, WorkerPhase::Ready, WorkerPhase::Stopping, WorkerPhase::Crashed, WorkerPhase::Failed];
    let states: Vec<&str> = phases.into_iter().map(WorkerPhase::name).chain(["not_loaded"]).collect();
    let sandbox = record("What this kernel confines plugins with")
        .must("layers", text(""))
        .must("missing", list(text(""), "One sentence for each thing that does not hold here"))
        .must("required", flag(""));
    let stale = record("").must("setting", text("")).sometimes("problem", text("For admin"));
    let model = record("")
        .must("id", text(""))
        .must("status", word(&states, ""))
        .sometimes("detail", text("Why"))
        .sometimes("plugin", text(""))
        .sometimes("device", text(""))
        .sometimes("memory_bytes", amount("Measured; before the first measurement what the plugin said it would need"))
        .sometimes("sandbox", text("What confines its process"))
        .sometimes("refused_calls", amount("System calls that the sandbox refused to the plugin"))
        .sometimes("requests_active", amount(""))
        .sometimes("requests_waiting", amount(""));
    record("")
        .must("status", word(&["ready", "not_ready", "draining"], ""))
        .must("sandbox", sandbox.into())
        .sometimes("not_reloaded", list(stale.into(), "Files that were changed and are not taken over; what they said before still holds"))
        .must("models", list(model.into(), ""))
        .into()
}

/// `GET /metrics`.
pub fn metrics() -> Description {
    Description::new(HEALTH, "Numbers in Prometheus' text form; for admin").answer_as("text/plain", "Metrics", text("")).ends(ADMIN)
}

/// `GET /openapi.json`.
pub fn document() -> Description {
    let whole = record("")
        .must("openapi", text(""))
        .must("info", any_object(""))
        .must("paths", map(any_object(""), ""))
        .must("components", any_object(""))
        .must("security", list(any_object(""), ""));
    Description::new(HEALTH, "This document").answer("Document", whole)
}
