//! The fields that OpenAI's chat and completions share.
//!
//! Checked in two steps: everything that needs no model before a model is loaded for it, token ids afterwards.

use serde_json::Value;

use crate::body::describe;
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::generation::{MAX_CHOICES, SamplingWishes, Wishes, check_stops};

/// Entries of `logit_bias`.
pub(super) const MAX_BIASES: usize = 1024;

/// What both read the same way.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// The model asked for.
    pub model: String,
    /// Answer as a stream of events.
    pub stream: bool,
    /// A last chunk with the usage.
    pub include_usage: bool,
    /// How answers are made.
    pub wishes: Wishes,
}

impl Common {
    /// Reads the shared fields.
    pub fn read(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let include_usage = match fields.object("stream_options")? {
            Some(options) => Fields::inside(options, "stream_options").boolean("include_usage")?.unwrap_or(false),
            None => false,
        };
        Ok(Self {
            model: model(fields)?,
            stream: fields.boolean("stream")?.unwrap_or(false),
            include_usage,
            wishes: Wishes {
                n: fields.count("n", 1..=MAX_CHOICES)?.unwrap_or(1),
                max_tokens: max_tokens(fields)?,
                stop: stop(fields, "stop")?,
                ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
                sampling: sampling(fields)?,
            },
        })
    }
}

/// The model asked for.
pub fn model(fields: &Fields<'_>) -> Result<String, ApiError> {
    let model = fields.string("model")?.ok_or_else(|| fields.missing("model", "the name of a model of GET /v1/models"))?;
    if model.is_empty() {
        return Err(ApiError::invalid("model", "\"model\" is empty; give the name of a model of GET /v1/models"));
    }
    Ok(model.to_owned())
}

/// Sampling under OpenAI's names and those that other servers added to them.
pub fn sampling(fields: &Fields<'_>) -> Result<SamplingWishes, ApiError> {
    Ok(SamplingWishes {
        temperature: fields.number("temperature", 0.0, 2.0)?,
        top_p: fields.number("top_p", 0.0, 1.0)?,
        // −1 means "all" to several servers' clients.
        top_k: fields.integer("top_k", -1..=i64::from(u32::MAX))?.map(|k| u32::try_from(k).unwrap_or(0)),
        min_p: fields.number("min_p", 0.0, 1.0)?,
        typical_p: positive(fields, "typical_p", 1.0)?,
        repetition_penalty: positive(fields, "repetition_penalty", 10.0)?,
        penalty_window: None,
        presence_penalty: fields.number("presence_penalty", -2.0, 2.0)?,
        frequency_penalty: fields.number("frequency_penalty", -2.0, 2.0)?,
        // A seed is a pattern of 64 bits; the sign has no meaning.
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?.map(i64::cast_unsigned),
        logit_bias: logit_bias(fields)?,
    })
}

/// A number above nought.
pub fn positive(fields: &Fields<'_>, name: &str, high: f64) -> Result<Option<f32>, ApiError> {
    match fields.number(name, 0.0, high)? {
        Some(number) if number <= 0.0 => {
            let path = fields.path(name);
            let message = format!("{path:?} is 0; it must be above 0 and at most {high}");
            Err(ApiError::invalid(path, message))
        }
        other => Ok(other),
    }
}

fn max_tokens(fields: &Fields<'_>) -> Result<Option<u32>, ApiError> {
    let old = fields.count("max_tokens", 0..=u32::MAX)?;
    let new = fields.count("max_completion_tokens", 0..=u32::MAX)?;
    match (old, new) {
        (Some(old), Some(new)) if old != new => Err(ApiError::invalid(
            "max_completion_tokens",
            format!("\"max_tokens\" is {old} and \"max_completion_tokens\" is {new}; they mean the same, give one of them"),
        )),
        (old, new) => Ok(new.or(old)),
    }
}

/// One stop string or several.
pub fn stop(fields: &Fields<'_>, name: &str) -> Result<Vec<String>, ApiError> {
    let path = fields.path(name);
    let stops: Vec<&str> = match fields.value(name) {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => {
            let read = items.iter().enumerate().map(|(i, item)| {
                item.as_str().ok_or_else(|| {
                    ApiError::invalid(format!("{path}[{i}]"), format!("\"{path}[{i}]\" is {}; it must be a string", describe(item)))
                })
            });
            read.collect::<Result<_, _>>()?
        }
        Some(other) => return Err(fields.wrong(name, other, "a string or a list of strings")),
    };
    check_stops(&path, &stops)?;
    Ok(stops.into_iter().map(str::to_owned).collect())
}

fn logit_bias(fields: &Fields<'_>) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(object) = fields.object("logit_bias")? else { return Ok(Vec::new()) };
    if object.len() > MAX_BIASES {
        return Err(ApiError::invalid(
            "logit_bias",
            format!("\"logit_bias\" has {} entries; at most {MAX_BIASES} are allowed", object.len()),
        ));
    }
    let inside = Fields::inside(object, "logit_bias");
    let mut biases = Vec::with_capacity(object.len());
    for (key, value) in object {
        let id = key.parse::<u32>().ok().filter(|_| key.bytes().all(|b| b.is_ascii_digit()));
        let Some(id) = id else {
            let shown: String = key.chars().take(40).collect();
            return Err(ApiError::invalid(
                "logit_bias",
                format!("\"logit_bias\" has the key {shown:?}; keys are token ids (whole numbers from 0)"),
            ));
        };
        let Some(bias) = inside.number(key, -100.0, 100.0)? else {
            return Err(inside.wrong(key, value, "a number from -100 to 100"));
        };
        biases.push((id, bias));
    }
    Ok(biases)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Common, ApiError> {
        Common::read(&Fields::of(value.as_object().expect("an object")))
    }

    #[test]
    fn bad_biases_are_refused() {
        for bias in [
            json!({"1": 101}),
            json!({"1": -101}),
            json!({"-1": 1}),
            json!({"x": 1}),
            json!({"+1": 1}),
            json!({"1": null}),
            json!({"1": "2"}),
            json!([1]),
        ] {
            let shown = bias.to_string();
            assert!(read(json!({"model": "m", "logit_bias": bias})).is_err(), "{shown}");
        }
        let many: serde_json::Map<_, _> = (0..100_000).map(|i| (i.to_string(), json!(1))).collect();
        assert!(read(json!({"model": "m", "logit_bias": many})).is_err());
        let unknown = read(json!({"model": "m", "logit_bias": {"9999999": 5, "1": -100}})).expect("fine without a vocabulary");
        assert!(unknown.wishes.check_vocabulary(49152).is_err());
    }

    #[test]
    fn two_different_token_limits_are_refused_equal_ones_pass() {
        assert!(read(json!({"model": "m", "max_tokens": 3, "max_completion_tokens": 4})).is_err());
        assert_eq!(read(json!({"model": "m", "max_tokens": 3, "max_completion_tokens": 3})).expect("fine").wishes.max_tokens, Some(3));
    }

    #[test]
    fn stop_strings_are_read_in_both_forms() {
        assert_eq!(read(json!({"model": "m", "stop": "a"})).expect("fine").wishes.stop, ["a"]);
        assert_eq!(read(json!({"model": "m", "stop": ["a", "b"]})).expect("fine").wishes.stop, ["a", "b"]);
        for stop in [json!(""), json!(["a", ""]), json!([1]), json!({})] {
            assert!(read(json!({"model": "m", "stop": stop})).is_err());
        }
    }
}
