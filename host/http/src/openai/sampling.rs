//! The fields that chat and completions share: how many tokens, how to choose them, when to stop.
//!
//! Checked in two steps: everything that needs no model before a model is loaded for it, token ids afterwards.

use onebit_engine::{GenerateRequest, Prompt, Sampling};
use serde_json::Value;

use crate::body::describe;
use crate::errors::ApiError;
use crate::fields::Fields;
use crate::models::Defaults;

/// Most answers to one request, as OpenAI documents for `n`.
pub const MAX_CHOICES: u32 = 128;
/// OpenAI takes four; other servers more.
const MAX_STOPS: usize = 16;
/// Bytes of one stop string.
const MAX_STOP_BYTES: usize = 4096;
/// Entries of `logit_bias`.
const MAX_BIASES: usize = 1024;

/// What both dialects read the same way.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// The model asked for.
    pub model: String,
    /// Answer as a stream of events.
    pub stream: bool,
    /// A last chunk with the usage.
    pub include_usage: bool,
    /// Answers per prompt.
    pub n: u32,
    /// Tokens at most; `None` = not said.
    pub max_tokens: Option<u32>,
    /// Never empty strings.
    pub stop: Vec<String>,
    /// Go on after the end token.
    pub ignore_eos: bool,
    sampling: Asked,
}

/// Sampling as asked; what is `None` comes from the manifest or OpenAI's default.
#[derive(Debug, Clone, Default, PartialEq)]
struct Asked {
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<u32>,
    min_p: Option<f32>,
    typical_p: Option<f32>,
    repetition_penalty: Option<f32>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    seed: Option<u64>,
    logit_bias: Vec<(u32, f32)>,
}

impl Common {
    /// Reads the shared fields.
    pub fn read(fields: &Fields<'_>) -> Result<Self, ApiError> {
        let model = fields.string("model")?.ok_or_else(|| fields.missing("model", "the name of a model of GET /v1/models"))?;
        if model.is_empty() {
            return Err(ApiError::invalid("model", "\"model\" is empty; give the name of a model of GET /v1/models"));
        }
        let include_usage = match fields.object("stream_options")? {
            Some(options) => Fields::inside(options, "stream_options").boolean("include_usage")?.unwrap_or(false),
            None => false,
        };
        Ok(Self {
            model: model.to_owned(),
            stream: fields.boolean("stream")?.unwrap_or(false),
            include_usage,
            n: fields.count("n", 1..=MAX_CHOICES)?.unwrap_or(1),
            max_tokens: max_tokens(fields)?,
            stop: stop(fields)?,
            ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
            sampling: Asked::read(fields)?,
        })
    }

    /// The generations for these prompts, `max_tokens` being what the dialect makes of the request's and the manifest's.
    pub fn requests(self, prompts: Vec<Prompt>, defaults: &Defaults, logprobs: Option<u32>, max_tokens: Option<u32>) -> Requests {
        Requests { common: self, prompts, defaults: defaults.clone(), logprobs, max_tokens, next: 0 }
    }

    /// The sampling of answer number `index`: each answer of a seeded request has its own seed, and the first one the seed itself.
    fn sampling(&self, defaults: &Defaults, index: u32) -> Sampling {
        let asked = &self.sampling;
        let off = Sampling::default();
        Sampling {
            temperature: asked.temperature.or(defaults.temperature).unwrap_or(1.0),
            top_k: asked.top_k.or(defaults.top_k).unwrap_or(off.top_k),
            top_p: asked.top_p.or(defaults.top_p).unwrap_or(off.top_p),
            min_p: asked.min_p.or(defaults.min_p).unwrap_or(off.min_p),
            typical_p: asked.typical_p.or(defaults.typical_p).unwrap_or(off.typical_p),
            repetition_penalty: asked.repetition_penalty.or(defaults.repetition_penalty).unwrap_or(off.repetition_penalty),
            penalty_window: defaults.penalty_window.unwrap_or(off.penalty_window),
            presence_penalty: asked.presence_penalty.or(defaults.presence_penalty).unwrap_or(off.presence_penalty),
            frequency_penalty: asked.frequency_penalty.or(defaults.frequency_penalty).unwrap_or(off.frequency_penalty),
            seed: asked.seed.or(defaults.seed).map(|seed| seed.wrapping_add(u64::from(index))),
            logit_bias: asked.logit_bias.clone(),
        }
    }

    /// The request's stop strings and the manifest's.
    fn stops(&self, defaults: &Defaults) -> Vec<String> {
        self.stop.iter().chain(defaults.stop.iter().filter(|text| !self.stop.contains(text))).cloned().collect()
    }

    /// Token ids of `logit_bias` against the vocabulary.
    pub fn check_vocabulary(&self, vocabulary: u32) -> Result<(), ApiError> {
        match self.sampling.logit_bias.iter().find(|(id, _)| *id >= vocabulary) {
            None => Ok(()),
            Some((id, _)) => Err(ApiError::invalid(
                "logit_bias",
                format!("\"logit_bias\" names token {id}; this model has tokens 0 to {}", vocabulary.saturating_sub(1)),
            )),
        }
    }
}

/// The generations of one request, prompt by prompt. Each is made when its turn comes: many answers to a long prompt are not many copies.
#[derive(Debug)]
pub struct Requests {
    common: Common,
    prompts: Vec<Prompt>,
    defaults: Defaults,
    logprobs: Option<u32>,
    max_tokens: Option<u32>,
    next: u32,
}

impl Requests {
    /// Answers to each prompt.
    pub fn answers_per_prompt(&self) -> u32 {
        self.common.n
    }

    /// Answers in all; at most [`MAX_CHOICES`].
    pub fn total(&self) -> u32 {
        u32::try_from(self.prompts.len()).unwrap_or(u32::MAX).saturating_mul(self.common.n)
    }
}

impl Iterator for Requests {
    type Item = GenerateRequest;

    fn next(&mut self) -> Option<GenerateRequest> {
        let prompt = self.prompts.get((self.next / self.common.n) as usize)?.clone();
        let index = self.next % self.common.n;
        self.next += 1;
        Some(GenerateRequest {
            prompt,
            // A template may or may not write the start token; the engine adds it only where it is missing.
            add_special: true,
            max_tokens: self.max_tokens,
            sampling: self.common.sampling(&self.defaults, index),
            stop: self.common.stops(&self.defaults),
            logprobs: self.logprobs,
            ignore_eos: self.common.ignore_eos,
            constraint: None,
            reasoning: None,
            control_text: false,
            prompt_logprobs: None,
        })
    }
}

impl Asked {
    fn read(fields: &Fields<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            temperature: fields.number("temperature", 0.0, 2.0)?,
            top_p: fields.number("top_p", 0.0, 1.0)?,
            // −1 means "all" to several servers' clients.
            top_k: fields.integer("top_k", -1..=i64::from(u32::MAX))?.map(|k| u32::try_from(k).unwrap_or(0)),
            min_p: fields.number("min_p", 0.0, 1.0)?,
            typical_p: positive(fields, "typical_p", 1.0)?,
            repetition_penalty: positive(fields, "repetition_penalty", 10.0)?,
            presence_penalty: fields.number("presence_penalty", -2.0, 2.0)?,
            frequency_penalty: fields.number("frequency_penalty", -2.0, 2.0)?,
            // A seed is a pattern of 64 bits; the sign has no meaning.
            seed: fields.integer("seed", i64::MIN..=i64::MAX)?.map(i64::cast_unsigned),
            logit_bias: logit_bias(fields)?,
        })
    }
}

fn positive(fields: &Fields<'_>, name: &str, high: f64) -> Result<Option<f32>, ApiError> {
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

fn stop(fields: &Fields<'_>) -> Result<Vec<String>, ApiError> {
    let stops: Vec<&str> = match fields.value("stop") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(items)) => {
            if items.len() > MAX_STOPS {
                return Err(ApiError::invalid("stop", format!("\"stop\" has {} entries; at most {MAX_STOPS} are allowed", items.len())));
            }
            let read = items.iter().enumerate().map(|(i, item)| {
                item.as_str().ok_or_else(|| {
                    ApiError::invalid(format!("stop[{i}]"), format!("\"stop[{i}]\" is {}; it must be a string", describe(item)))
                })
            });
            read.collect::<Result<_, _>>()?
        }
        Some(other) => return Err(fields.wrong("stop", other, "a string or a list of strings")),
    };
    for text in &stops {
        if text.is_empty() {
            return Err(ApiError::invalid("stop", "\"stop\" holds an empty string, which would end every answer at once; leave it out"));
        }
        if text.len() > MAX_STOP_BYTES {
            return Err(ApiError::invalid("stop", format!("a stop string has {} bytes; at most {MAX_STOP_BYTES} are allowed", text.len())));
        }
    }
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
    fn absent_settings_are_openais_unless_the_manifest_says_otherwise() {
        let common = read(json!({"model": "m"})).expect("fine");
        assert_eq!(common.sampling(&Defaults::default(), 0).temperature, 1.0);
        let manifest = Defaults { temperature: Some(0.2), ..Defaults::default() };
        assert_eq!(common.sampling(&manifest, 0).temperature, 0.2);
        let asked = read(json!({"model": "m", "temperature": 0})).expect("fine");
        assert_eq!(asked.sampling(&manifest, 0).temperature, 0.0);
    }

    #[test]
    fn each_answer_of_a_seeded_request_has_its_own_seed() {
        let common = read(json!({"model": "m", "seed": -1, "n": 2})).expect("fine");
        let seeds: Vec<_> = (0..2).map(|i| common.sampling(&Defaults::default(), i).seed).collect();
        assert_eq!(seeds, [Some(u64::MAX), Some(0)]);
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
        assert!(unknown.check_vocabulary(49152).is_err());
    }

    #[test]
    fn two_different_token_limits_are_refused_equal_ones_pass() {
        assert!(read(json!({"model": "m", "max_tokens": 3, "max_completion_tokens": 4})).is_err());
        assert_eq!(read(json!({"model": "m", "max_tokens": 3, "max_completion_tokens": 3})).expect("fine").max_tokens, Some(3));
    }

    #[test]
    fn an_empty_stop_string_never_means_an_empty_answer() {
        for stop in [json!(""), json!(["a", ""]), json!(vec!["a"; 17]), json!([1]), json!("A".repeat(200_000))] {
            assert!(read(json!({"model": "m", "stop": stop})).is_err());
        }
    }
}
