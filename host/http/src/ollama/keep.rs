//! `keep_alive`: how long a model stays loaded after this request. A number is seconds, a string is a duration as Go writes it (`5m`, `1h30m`);
//! below nought means for ever, nought means to unload at once.

use std::time::Duration;

use onebit_worker::KeepAlive;
use serde_json::Value;

use crate::errors::ApiError;
use crate::fields::Fields;

/// Longer is for ever: 292 years, as far as Ollama's durations reach.
const FOREVER_S: f64 = 9.2e9;

/// Reads it; `None` = not said.
pub fn read(fields: &Fields<'_>) -> Result<Option<KeepAlive>, ApiError> {
    let forms = "a number of seconds or a duration such as \"5m\"; -1 keeps the model loaded, 0 unloads it";
    let seconds = match fields.value("keep_alive") {
        None => return Ok(None),
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => duration(text),
        Some(other) => return Err(fields.wrong("keep_alive", other, forms)),
    };
    match seconds {
        Some(seconds) if !(0.0..FOREVER_S).contains(&seconds) => Ok(Some(KeepAlive::Forever)),
        Some(seconds) => Ok(Some(KeepAlive::For(Duration::from_secs_f64(seconds)))),
        None => {
            let shown: String = fields.string("keep_alive")?.unwrap_or_default().chars().take(40).collect();
            Err(ApiError::invalid("keep_alive", format!("\"keep_alive\" is {shown:?}; it must be {forms}")))
        }
    }
}

/// Seconds of a duration as Go writes it, or of a bare whole number.
fn duration(text: &str) -> Option<f64> {
    if let Ok(seconds) = text.parse::<i64>() {
        return Some(seconds as f64);
    }
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let number: f64 = number.parse().ok()?;
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        total += number
            * match unit {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = after;
    }
    (text.len() > 1).then_some(sign * total)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(value: Value) -> Result<Option<KeepAlive>, ApiError> {
        let body = json!({"keep_alive": value});
        read(&Fields::of(body.as_object().expect("an object")))
    }

    #[test]
    fn times_are_read_as_ollama_reads_them() {
        let secs = |seconds| Some(KeepAlive::For(Duration::from_secs(seconds)));
        for (value, wanted) in [
            (json!(null), None),
            (json!(-1), Some(KeepAlive::Forever)),
            (json!("-1"), Some(KeepAlive::Forever)),
            (json!("-1m"), Some(KeepAlive::Forever)),
            (json!(1e30), Some(KeepAlive::Forever)),
            (json!(0), secs(0)),
            (json!("0"), secs(0)),
            (json!("5m"), secs(300)),
            (json!(300), secs(300)),
            (json!("1h30m"), secs(5400)),
            (json!("1.5h"), secs(5400)),
            (json!("1h2m3s"), secs(3723)),
            (json!(0.5), Some(KeepAlive::For(Duration::from_millis(500)))),
        ] {
            let shown = value.to_string();
            assert_eq!(kept(value).expect("fine"), wanted, "{shown}");
        }
        for bad in [
            json!(""),
            json!([]),
            json!("5 minutes"),
            json!("m"),
            json!("5x"),
            json!("1h "),
            json!("."),
            json!("-"),
            json!(true),
            json!({}),
        ] {
            let shown = bad.to_string();
            assert!(kept(bad).is_err(), "{shown}");
        }
    }
}
