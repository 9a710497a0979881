//! How answers are to be made: how many, how long, how tokens are chosen, when to stop. A dialect reads it from its own fields.

use onebit_engine::Sampling;

use crate::errors::ApiError;
use crate::models::Defaults;

/// Most answers to one request, as OpenAI documents for `n`.
pub const MAX_CHOICES: u32 = 128;
/// OpenAI takes four; other servers more.
pub const MAX_STOPS: usize = 16;
/// Bytes of one stop string.
pub const MAX_STOP_BYTES: usize = 4096;

/// What a request says of its answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Wishes {
    /// Answers per prompt; at least 1.
    pub n: u32,
    /// Tokens at most; `None` = not said.
    pub max_tokens: Option<u32>,
    /// Never empty strings.
    pub stop: Vec<String>,
    /// Go on after the end token.
    pub ignore_eos: bool,
    /// How tokens are chosen.
    pub sampling: SamplingWishes,
}

/// Sampling as asked; what is `None` comes from the manifest or OpenAI's default.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "named as in `Sampling`")]
pub struct SamplingWishes {
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<u32>,
    pub min_p: Option<f32>,
    pub typical_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    pub penalty_window: Option<u32>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub seed: Option<u64>,
    pub logit_bias: Vec<(u32, f32)>,
}

impl Default for Wishes {
    fn default() -> Self {
        Self { n: 1, max_tokens: None, stop: Vec::new(), ignore_eos: false, sampling: SamplingWishes::default() }
    }
}

impl Wishes {
    /// The sampling of answer number `index`: each answer of a seeded request has its own seed, and the first one the seed itself.
    pub(super) fn sampling(&self, defaults: &Defaults, index: u32) -> Sampling {
        let asked = &self.sampling;
        let off = Sampling::default();
        Sampling {
            temperature: asked.temperature.or(defaults.temperature).unwrap_or(1.0),
            top_k: asked.top_k.or(defaults.top_k).unwrap_or(off.top_k),
            top_p: asked.top_p.or(defaults.top_p).unwrap_or(off.top_p),
            min_p: asked.min_p.or(defaults.min_p).unwrap_or(off.min_p),
            typical_p: asked.typical_p.or(defaults.typical_p).unwrap_or(off.typical_p),
            repetition_penalty: asked.repetition_penalty.or(defaults.repetition_penalty).unwrap_or(off.repetition_penalty),
            penalty_window: asked.penalty_window.or(defaults.penalty_window).unwrap_or(off.penalty_window),
            presence_penalty: asked.presence_penalty.or(defaults.presence_penalty).unwrap_or(off.presence_penalty),
            frequency_penalty: asked.frequency_penalty.or(defaults.frequency_penalty).unwrap_or(off.frequency_penalty),
            seed: asked.seed.or(defaults.seed).map(|seed| seed.wrapping_add(u64::from(index))),
            logit_bias: asked.logit_bias.clone(),
        }
    }

    /// The request's stop strings and the manifest's.
    pub(super) fn stops(&self, defaults: &Defaults) -> Vec<String> {
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

/// Refuses stop strings that could not work; `param` is what the dialect calls them.
pub fn check_stops(param: &str, stops: &[&str]) -> Result<(), ApiError> {
    if stops.len() > MAX_STOPS {
        return Err(ApiError::invalid(param, format!("{param:?} has {} entries; at most {MAX_STOPS} are allowed", stops.len())));
    }
    for text in stops {
        if text.is_empty() {
            return Err(ApiError::invalid(
                param,
                format!("{param:?} holds an empty string, which would end every answer at once; leave it out"),
            ));
        }
        if text.len() > MAX_STOP_BYTES {
            return Err(ApiError::invalid(
                param,
                format!("{param:?} holds a string of {} bytes; at most {MAX_STOP_BYTES} are allowed", text.len()),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_request_says_goes_before_the_manifest_and_that_before_openais_default() {
        let silent = Wishes::default();
        assert_eq!(silent.sampling(&Defaults::default(), 0).temperature, 1.0);
        let manifest = Defaults { temperature: Some(0.2), ..Defaults::default() };
        assert_eq!(silent.sampling(&manifest, 0).temperature, 0.2);
        let said = Wishes { sampling: SamplingWishes { temperature: Some(0.0), ..SamplingWishes::default() }, ..Wishes::default() };
        assert_eq!(said.sampling(&manifest, 0).temperature, 0.0);
    }

    #[test]
    fn each_answer_of_a_seeded_request_has_its_own_seed() {
        let seeded = Wishes { sampling: SamplingWishes { seed: Some(u64::MAX), ..SamplingWishes::default() }, n: 2, ..Wishes::default() };
        let seeds: Vec<_> = (0..2).map(|index| seeded.sampling(&Defaults::default(), index).seed).collect();
        assert_eq!(seeds, [Some(u64::MAX), Some(0)]);
    }

    #[test]
    fn an_empty_stop_string_never_means_an_empty_answer() {
        for stops in [vec![""], vec!["a", ""], vec!["a"; 17]] {
            assert!(check_stops("stop", &stops).is_err());
        }
        assert!(check_stops("stop", &["A".repeat(200_000).as_str()]).is_err());
        assert!(check_stops("stop", &["\n", "END"]).is_ok());
    }
}
