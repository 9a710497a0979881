//! `parameters` of a model: how its answers are made unless a request says otherwise, in Ollama's names. Read for a model that is made, written
//! of one that is there.

use onebit_worker::Defaults;
use serde_json::{Value, json};

use super::options;
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::generation::Wishes;

/// What a manifest has a word for. Everything else is refused: it would be lost.
pub(super) const KNOWN: &[&str] = &[
    "num_predict",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "num_ctx",
    "num_thread",
];
/// Positions of a context at most.
pub(super) const CONTEXT_MAX: u32 = 1 << 26;
/// Threads at most.
pub(super) const THREADS_MAX: u32 = 4096;

/// Reads them.
pub fn read(fields: &Fields<'_>) -> Result<Defaults, ApiError> {
    let empty = crate::body::Object::new();
    let object = fields.object("parameters")?.unwrap_or(&empty);
    let inside = Fields::inside(object, "parameters");
    if let Some(name) = object.keys().find(|name| !KNOWN.contains(&name.as_str()) && inside.value(name).is_some()) {
        let shown: String = inside.path(name).chars().take(60).collect();
        return Err(ApiError::unsupported(
            &shown,
            format!("{shown:?} is nothing that a model's manifest can say; leave it out. There are: {}", KNOWN.join(", ")),
        ));
    }
    if inside.value("num_predict").and_then(Value::as_i64) == Some(0) {
        return Err(ApiError::invalid(
            "parameters.num_predict",
            "\"parameters.num_predict\" is 0; it must be at least 1, or -1 for no end",
        ));
    }
    inside.integer("seed", 0..=i64::MAX)?;
    let Wishes { max_tokens, stop, sampling, .. } = options::read_in(fields, "parameters")?;
    Ok(Defaults {
        temperature: sampling.temperature,
        top_k: sampling.top_k,
        top_p: sampling.top_p,
        min_p: sampling.min_p,
        typical_p: sampling.typical_p,
        repetition_penalty: sampling.repetition_penalty,
        penalty_window: sampling.penalty_window,
        presence_penalty: sampling.presence_penalty,
        frequency_penalty: sampling.frequency_penalty,
        seed: sampling.seed,
        stop,
        max_tokens,
        context: inside.count("num_ctx", 1..=CONTEXT_MAX)?,
        slots: None,
        threads: inside.count("num_thread", 1..=THREADS_MAX)?,
        keep_alive: None,
    })
}

/// Names and values, as Ollama's model files have them.
pub fn write(defaults: &Defaults) -> Vec<(&'static str, String)> {
    let Defaults { stop, .. } = defaults;
    // 0 is "all" to a manifest and -1 to Ollama.
    let window = defaults.penalty_window.map(|window| if window == 0 { json!(-1) } else { json!(window) });
    let decimal = |number: Option<f32>| number.map(|number| number.to_string());
    let text = |number: Option<Value>| number.map(|number| number.to_string());
    let single = [
        ("num_predict", text(defaults.max_tokens.map(Value::from))),
        ("temperature", decimal(defaults.temperature)),
        ("top_p", decimal(defaults.top_p)),
        ("top_k", text(defaults.top_k.map(Value::from))),
        ("min_p", decimal(defaults.min_p)),
        ("typical_p", decimal(defaults.typical_p)),
        ("repeat_penalty", decimal(defaults.repetition_penalty)),
        ("repeat_last_n", text(window)),
        ("presence_penalty", decimal(defaults.presence_penalty)),
        ("frequency_penalty", decimal(defaults.frequency_penalty)),
        ("seed", text(defaults.seed.map(Value::from))),
        ("num_ctx", text(defaults.context.map(Value::from))),
        ("num_thread", text(defaults.threads.map(Value::from))),
    ];
    let single = single.into_iter().filter_map(|(name, value)| Some((name, value?)));
    single.chain(stop.iter().map(|stop| ("stop", json!(stop).to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(value: Value) -> Result<Defaults, ApiError> {
        let body = json!({"parameters": value});
        read(&Fields::of(body.as_object().expect("an object")))
    }

    #[test]
    fn what_is_read_can_be_written_again() {
        let all = json!({
            "num_predict": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "typical_p": 0.5, "repeat_penalty": 1.5,
            "repeat_last_n": -1, "presence_penalty": 0.25, "frequency_penalty": -0.5, "seed": 7, "stop": ["\n", "b\""], "num_ctx": 4096, "num_thread": 3
        });
        assert_eq!(all.as_object().expect("an object").len(), KNOWN.len());
        let read = parameters(all).expect("fine");
        let lines: Vec<String> = write(&read).into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(
            lines.join("; "),
            "num_predict 5; temperature 0.5; top_p 0.9; top_k 40; min_p 0.05; typical_p 0.5; repeat_penalty 1.5; repeat_last_n -1; \
             presence_penalty 0.25; frequency_penalty -0.5; seed 7; num_ctx 4096; num_thread 3; stop \"\\n\"; stop \"b\\\"\""
        );
        assert_eq!(parameters(json!({"stop": "one"})).expect("fine").stop, ["one"]);
        assert!(write(&Defaults::default()).is_empty());
    }

    #[test]
    fn what_would_be_lost_is_refused_by_name() {
        for (bad, name) in [
            (json!({"num_gpu": 1}), "num_gpu"),
            (json!({"mirostat": 0}), "mirostat"),
            (json!({"temprature": 1}), "temprature"),
            (json!({"num_ctx": 0}), "num_ctx"),
            (json!({"num_thread": 1.5}), "num_thread"),
            (json!({"num_predict": 0}), "num_predict"),
            (json!({"seed": -1}), "seed"),
            (json!({"stop": [""]}), "stop"),
            (json!([]), "parameters"),
        ] {
            let error = parameters(bad).expect_err("refused");
            assert!(error.message.contains(name) && error.kind.row().status == 400, "{}", error.message);
        }
        assert_eq!(parameters(json!({"num_gpu": null, "num_predict": -1})).expect("fine"), Defaults::default());
    }
}
