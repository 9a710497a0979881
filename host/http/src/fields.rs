//! Typed reading of a request's fields. Every refusal names the field, what it holds and what is allowed.
//!
//! `null` means the same as an absent field, as in OpenAI's API. A number with a fraction is not an integer, a boolean is not a number, and
//! nothing is rounded, clamped or guessed.

use serde_json::Value;

use crate::body::{Object, describe};
use crate::errors::{ApiError, Kind};

/// Reads fields of an object; `prefix` is what the object itself is called (`messages[2].`).
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    object: &'a Object,
    prefix: String,
}

impl<'a> Fields<'a> {
    /// Of the whole request.
    pub fn of(object: &'a Object) -> Self {
        Self { object, prefix: String::new() }
    }

    /// Of an object inside it.
    pub fn inside(object: &'a Object, path: impl Into<String>) -> Self {
        Self { object, prefix: format!("{}.", path.into()) }
    }

    /// The full name of a field.
    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The value, where one other than `null` is given.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// The error for a value of a wrong type.
    pub fn wrong(&self, name: &str, value: &Value, wanted: &str) -> ApiError {
        let path = self.path(name);
        let message = format!("{path:?} is {}; it must be {wanted}", describe(value));
        ApiError::invalid(path, message)
    }

    /// The error for an absent field.
    pub fn missing(&self, name: &str, what: &str) -> ApiError {
        let path = self.path(name);
        ApiError::new(Kind::MissingField, format!("{path:?} is missing; give {what}")).param(path)
    }

    /// A string.
    pub fn string(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, other, "a string")),
        }
    }

    /// A boolean.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(name, other, "true or false")),
        }
    }

    /// A whole number within bounds.
    pub fn integer(&self, name: &str, bounds: std::ops::RangeInclusive<i64>) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let allowed = if *bounds.end() >= i64::from(u32::MAX) {
            format!("a whole number from {}", bounds.start())
        } else {
            format!("a whole number from {} to {}", bounds.start(), bounds.end())
        };
        match value.as_i64() {
            Some(number) if bounds.contains(&number) => Ok(Some(number)),
            Some(number) => {
                let path = self.path(name);
                let message = format!("{path:?} is {number}; it must be {allowed}");
                Err(ApiError::invalid(path, message))
            }
            None if value.is_u64() => {
                let path = self.path(name);
                let message = format!("{path:?} is too large; it must be {allowed}");
                Err(ApiError::invalid(path, message))
            }
            None => Err(self.wrong(name, value, &allowed)),
        }
    }

    /// A whole number that fits `u32`.
    pub fn count(&self, name: &str, bounds: std::ops::RangeInclusive<u32>) -> Result<Option<u32>, ApiError> {
        let number = self.integer(name, i64::from(*bounds.start())..=i64::from(*bounds.end()))?;
        Ok(number.and_then(|n| u32::try_from(n).ok()))
    }

    /// A number within bounds, both ends allowed.
    pub fn number(&self, name: &str, low: f64, high: f64) -> Result<Option<f32>, ApiError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match value.as_f64() {
            Some(number) if number.is_finite() && (low..=high).contains(&number) => Ok(Some(number as f32)),
            Some(number) => {
                let path = self.path(name);
                let message = format!("{path:?} is {number}; it must be a number from {low} to {high}");
                Err(ApiError::invalid(path, message))
            }
            None => Err(self.wrong(name, value, &format!("a number from {low} to {high}"))),
        }
    }

    /// A list.
    pub fn list(&self, name: &str) -> Result<Option<&'a [Value]>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(self.wrong(name, other, "a list")),
        }
    }

    /// An object.
    pub fn object(&self, name: &str) -> Result<Option<&'a Object>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(self.wrong(name, other, "an object")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_fraction_is_no_integer_and_the_message_names_the_field() {
        let object = object(json!({"max_tokens": 1.5}));
        let error = Fields::of(&object).count("max_tokens", 0..=u32::MAX).expect_err("a fraction");
        assert_eq!(error.param.as_deref(), Some("max_tokens"));
        assert!(error.message.contains("a fraction"), "{}", error.message);
    }

    #[test]
    fn null_is_absent() {
        let object = object(json!({"n": null}));
        assert_eq!(Fields::of(&object).count("n", 1..=4).expect("fine"), None);
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused_not_wrapped() {
        let object = object(json!({"max_tokens": 18446744073709551615u64, "seed": 1e30}));
        assert!(Fields::of(&object).count("max_tokens", 0..=u32::MAX).is_err());
        assert!(Fields::of(&object).integer("seed", i64::MIN..=i64::MAX).is_err());
    }

    #[test]
    fn nested_fields_are_named_in_full() {
        let object = object(json!({"role": 3}));
        let error = Fields::inside(&object, "messages[2]").string("role").expect_err("a number");
        assert_eq!(error.param.as_deref(), Some("messages[2].role"));
    }
}
