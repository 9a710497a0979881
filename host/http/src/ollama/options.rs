//! `options`: how tokens are chosen, under Ollama's names.

use crate::errors::ApiError;
use crate::fields::Fields;
use crate::generation::{SamplingWishes, Wishes};
use crate::openai::common::{positive, stop};

/// Settings of how a model is loaded and computed. They belong to the manifest here, and no answer depends on them.
pub(super) const OF_THE_MANIFEST: &[&str] =
    &["num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock", "numa", "low_vram"];

/// Reads them. What is absent is the manifest's, else Ollama's own default where it differs from the engine's.
pub fn read(fields: &Fields<'_>) -> Result<Wishes, ApiError> {
    read_in(fields, "options")
}

/// The same of another field.
pub(super) fn read_in(fields: &Fields<'_>, name: &str) -> Result<Wishes, ApiError> {
    let empty = crate::body::Object::new();
    let object = fields.object(name)?.unwrap_or(&empty);
    let options = Fields::inside(object, name);
    for name in ["mirostat", "tfs_z", "penalize_newline"] {
        let neutral = options.value(name).is_none_or(|value| {
            value.as_f64().is_some_and(|number| number == 0.0 || (name == "tfs_z" && number == 1.0)) || value.as_bool().is_some()
        });
        if !neutral {
            return Err(ApiError::unsupported(
                options.path(name),
                format!("{:?} is not supported; use temperature, top_p, min_p or typical_p", options.path(name)),
            ));
        }
    }
    for name in OF_THE_MANIFEST {
        if let Some(value) = options.value(name).filter(|value| !(value.is_number() || value.is_boolean())) {
            return Err(options.wrong(name, value, "a number"));
        }
    }
    // −1 is without end, −2 fills the context: the same here.
    let max_tokens = options.integer("num_predict", -2..=i64::from(u32::MAX))?.and_then(|count| u32::try_from(count).ok());
    let sampling = SamplingWishes {
        temperature: options.number("temperature", 0.0, 2.0)?,
        top_p: options.number("top_p", 0.0, 1.0)?,
        top_k: options.integer("top_k", -1..=i64::from(u32::MAX))?.map(|k| u32::try_from(k).unwrap_or(0)),
        min_p: options.number("min_p", 0.0, 1.0)?,
        typical_p: positive(&options, "typical_p", 1.0)?,
        repetition_penalty: positive(&options, "repeat_penalty", 10.0)?,
        // −1 looks at the whole context, and 0 switches the penalty off; the engine says "all" with 0.
        penalty_window: match options.integer("repeat_last_n", -1..=i64::from(u32::MAX))? {
            Some(-1) => Some(0),
            other => other.and_then(|count| u32::try_from(count).ok()),
        },
        presence_penalty: options.number("presence_penalty", -2.0, 2.0)?,
        frequency_penalty: options.number("frequency_penalty", -2.0, 2.0)?,
        seed: options.integer("seed", i64::MIN..=i64::MAX)?.map(i64::cast_unsigned),
        logit_bias: Vec::new(),
    };
    let off = options.integer("repeat_last_n", -1..=i64::from(u32::MAX))? == Some(0);
    let sampling = if off { SamplingWishes { repetition_penalty: Some(1.0), penalty_window: None, ..sampling } } else { sampling };
    Ok(Wishes { n: 1, max_tokens, stop: stop(&options, "stop")?, ignore_eos: false, sampling })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read_options(options: Value) -> Result<Wishes, ApiError> {
        let body = json!({"options": options});
        read(&Fields::of(body.as_object().expect("an object")))
    }

    #[test]
    fn ollamas_names_mean_the_engines_settings() {
        let wishes =
            read_options(json!({"num_predict": 5, "repeat_penalty": 1.1, "repeat_last_n": -1, "stop": ["a"], "seed": 7, "num_ctx": 8192}))
                .expect("fine");
        assert_eq!((wishes.max_tokens, wishes.stop.as_slice(), wishes.sampling.seed), (Some(5), ["a".to_owned()].as_slice(), Some(7)));
        assert_eq!((wishes.sampling.repetition_penalty, wishes.sampling.penalty_window), (Some(1.1), Some(0)));
        for endless in [-1, -2] {
            assert_eq!(read_options(json!({"num_predict": endless})).expect("fine").max_tokens, None);
        }
        assert_eq!(read_options(json!({"num_predict": 0})).expect("fine").max_tokens, Some(0));
        assert_eq!(read_options(json!({"repeat_last_n": 0, "repeat_penalty": 1.5})).expect("fine").sampling.repetition_penalty, Some(1.0));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            json!([]),
            json!({"temperature": "hot"}),
            json!({"num_predict": -3}),
            json!({"num_predict": 1.5}),
            json!({"mirostat": 2}),
            json!({"num_ctx": "x"}),
            json!({"stop": [""]}),
            json!({"top_p": 2}),
        ] {
            let shown = bad.to_string();
            assert!(read_options(bad).is_err(), "{shown}");
        }
    }
}
