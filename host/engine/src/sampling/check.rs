//! Refuses settings that mean nothing, before a sequence is spent on them. Every refusal names the setting and what is allowed.

use crate::request::{EngineError, Sampling};

/// Alternatives that may be asked for per token.
const MOST_LOGPROBS: u32 = 128;

fn invalid(param: &str, message: String) -> EngineError {
    EngineError::InvalidRequest { message, param: Some(param.to_owned()) }
}

/// Lets settings pass that make sense for a vocabulary of `vocabulary` tokens.
///
/// # Errors
/// [`EngineError::InvalidRequest`] for the first that does not.
pub(crate) fn check(sampling: &Sampling, logprobs: Option<u32>, prompt_logprobs: Option<u32>, vocabulary: u32) -> Result<(), EngineError> {
    let ranges = [
        ("temperature", sampling.temperature, 0.0, f32::MAX),
        ("top_p", sampling.top_p, 0.0, 1.0),
        ("min_p", sampling.min_p, 0.0, 1.0),
        ("typical_p", sampling.typical_p, 0.0, 1.0),
        ("repetition_penalty", sampling.repetition_penalty, 0.01, 100.0),
        ("presence_penalty", sampling.presence_penalty, -100.0, 100.0),
        ("frequency_penalty", sampling.frequency_penalty, -100.0, 100.0),
    ];
    for (name, value, least, most) in ranges {
        if !(least..=most).contains(&value) {
            return Err(invalid(
                name,
                if most == f32::MAX {
                    format!("{name} is {value}; it must be a number that is {least} or more")
                } else {
                    format!("{name} is {value}; it must be from {least} to {most}")
                },
            ));
        }
    }
    for (token, bias) in &sampling.logit_bias {
        if *token >= vocabulary {
            return Err(invalid(
                "logit_bias",
                format!("logit_bias names token {token}; this model has the tokens 0 to {}", vocabulary.saturating_sub(1)),
            ));
        }
        if !(-100.0..=100.0).contains(bias) {
            return Err(invalid("logit_bias", format!("logit_bias of token {token} is {bias}; it must be from -100 to 100")));
        }
    }
    for (name, asked) in [("logprobs", logprobs), ("prompt_logprobs", prompt_logprobs)] {
        if let Some(count) = asked.filter(|count| *count > MOST_LOGPROBS.min(vocabulary)) {
            return Err(invalid(
                name,
                format!("{count} alternatives per token were asked for; at most {} are given", MOST_LOGPROBS.min(vocabulary)),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(sampling: Sampling) -> Option<String> {
        match check(&sampling, None, None, 100) {
            Err(EngineError::InvalidRequest { param, .. }) => param,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_token_that_does_not_exist_or_a_bias_out_of_range_is_refused_by_name() {
        for bad in [vec![(9_999_999, 1.0)], vec![(100, 0.0)], vec![(1, 101.0)], vec![(1, -101.0)], vec![(1, f32::NAN)]] {
            assert_eq!(param(Sampling { logit_bias: bad, ..Sampling::default() }).as_deref(), Some("logit_bias"));
        }
        assert_eq!(check(&Sampling { logit_bias: vec![(99, -100.0), (0, 100.0)], ..Sampling::default() }, None, None, 100), Ok(()));
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused_by_name() {
        assert_eq!(param(Sampling { temperature: f32::NAN, ..Sampling::default() }).as_deref(), Some("temperature"));
        assert_eq!(param(Sampling { temperature: -0.1, ..Sampling::default() }).as_deref(), Some("temperature"));
        assert_eq!(param(Sampling { temperature: f32::INFINITY, ..Sampling::default() }).as_deref(), Some("temperature"));
        assert_eq!(param(Sampling { top_p: 1.1, ..Sampling::default() }).as_deref(), Some("top_p"));
        assert_eq!(param(Sampling { repetition_penalty: 0.0, ..Sampling::default() }).as_deref(), Some("repetition_penalty"));
        assert!(check(&Sampling::default(), Some(129), None, 1000).is_err());
        assert!(check(&Sampling::default(), None, Some(129), 1000).is_err());
        assert!(check(&Sampling::default(), Some(0), Some(128), 1000).is_ok());
    }
}
