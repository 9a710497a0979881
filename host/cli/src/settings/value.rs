//! What a setting's value may be, and how each kind is written.
//!
//! Every value begins as text, whether it came from a flag, the environment or a file, so that one spelling works everywhere and one
//! sentence says what is wrong with it. A kind that needs another spelling in a file than on the command line does not belong here.

use std::path::PathBuf;
use std::time::Duration;

/// How many texts make a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One.
    One,
    /// Any number: the flag repeats, the file has an array, the environment separates with the given character.
    List(char),
    /// None: the flag alone means yes; file and environment say true or false.
    Switch,
}

/// A type that a setting can have.
pub trait Value: Sized + 'static {
    /// How it is given.
    const SHAPE: Shape = Shape::One;
    /// What it looks like, for messages and help: "a number".
    const EXPECTS: &'static str;
    /// Reads it. No text at all means "not set", which only optional kinds and lists allow.
    fn read(raw: &[String]) -> Result<Self, String>;
}

fn one(raw: &[String], expects: &str) -> Result<String, String> {
    match raw {
        [text] => Ok(text.clone()),
        [] => Err(format!("has no value; it takes {expects}")),
        _ => Err(format!("has {} values; it takes {expects}", raw.len())),
    }
}

impl Value for String {
    const EXPECTS: &'static str = "a text";
    fn read(raw: &[String]) -> Result<Self, String> {
        one(raw, Self::EXPECTS)
    }
}

impl Value for PathBuf {
    const EXPECTS: &'static str = "a path";
    fn read(raw: &[String]) -> Result<Self, String> {
        match one(raw, Self::EXPECTS)? {
            text if text.is_empty() => Err("is empty; it takes a path".to_owned()),
            text => Ok(PathBuf::from(text)),
        }
    }
}

impl<T: Value> Value for Option<T> {
    const SHAPE: Shape = T::SHAPE;
    const EXPECTS: &'static str = T::EXPECTS;
    fn read(raw: &[String]) -> Result<Self, String> {
        if raw.is_empty() { Ok(None) } else { T::read(raw).map(Some) }
    }
}

impl Value for Vec<PathBuf> {
    const SHAPE: Shape = Shape::List(':');
    const EXPECTS: &'static str = "paths";
    fn read(raw: &[String]) -> Result<Self, String> {
        raw.iter().map(|text| PathBuf::read(std::slice::from_ref(text))).collect()
    }
}

impl Value for Vec<String> {
    const SHAPE: Shape = Shape::List(',');
    const EXPECTS: &'static str = "texts";
    fn read(raw: &[String]) -> Result<Self, String> {
        Ok(raw.to_vec())
    }
}

impl Value for bool {
    const SHAPE: Shape = Shape::Switch;
    const EXPECTS: &'static str = "true or false";
    fn read(raw: &[String]) -> Result<Self, String> {
        match one(raw, Self::EXPECTS)?.as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" | "" => Ok(false),
            other => Err(format!("is {other:?}; it takes true or false")),
        }
    }
}

impl Value for u32 {
    const EXPECTS: &'static str = "a whole number";
    fn read(raw: &[String]) -> Result<Self, String> {
        let text = one(raw, Self::EXPECTS)?;
        text.trim().parse().map_err(|_| format!("is {text:?}; it takes a whole number from 0 to {}", u32::MAX))
    }
}

impl Value for u64 {
    const EXPECTS: &'static str = "a whole number";
    fn read(raw: &[String]) -> Result<Self, String> {
        let text = one(raw, Self::EXPECTS)?;
        text.trim().parse().map_err(|_| format!("is {text:?}; it takes a whole number"))
    }
}

impl Value for f32 {
    const EXPECTS: &'static str = "a number";
    fn read(raw: &[String]) -> Result<Self, String> {
        let text = one(raw, Self::EXPECTS)?;
        match text.trim().parse::<f32>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(format!("is {text:?}; it takes a number such as 0.7")),
        }
    }
}

impl Value for onebit_catalog::Selector {
    const EXPECTS: &'static str = "a set of devices such as cpu or vulkan";
    fn read(raw: &[String]) -> Result<Self, String> {
        one(raw, Self::EXPECTS)?.parse().map_err(|error: onebit_catalog::SelectorError| error.to_string())
    }
}

impl Value for Vec<onebit_http::Listen> {
    const SHAPE: Shape = Shape::List(',');
    const EXPECTS: &'static str = "addresses such as 127.0.0.1:8090";
    fn read(raw: &[String]) -> Result<Self, String> {
        raw.iter().map(|text| text.trim().parse().map_err(|error: onebit_http::ServeError| error.to_string())).collect()
    }
}

/// A number of bytes: `1048576`, `512KiB`, `4MiB`, `1.5GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl Value for Bytes {
    const EXPECTS: &'static str = "a size such as 4MiB";
    fn read(raw: &[String]) -> Result<Self, String> {
        let text = one(raw, Self::EXPECTS)?;
        let wrong = || format!("is {text:?}; it takes a size such as 512KiB, 4MiB or 1.5GiB (a bare number is bytes)");
        let (number, unit) = split_unit(&text);
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(wrong()),
        };
        match number.parse::<f64>() {
            Ok(value) if value >= 0.0 && value * (factor as f64) < 9e18 => Ok(Self((value * factor as f64).round() as u64)),
            _ => Err(wrong()),
        }
    }
}

/// A length of time: `250ms`, `30s`, `5m`, `2h`, or `forever`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Option<Duration>);

impl Value for Span {
    const EXPECTS: &'static str = "a time such as 30s";
    fn read(raw: &[String]) -> Result<Self, String> {
        let text = one(raw, Self::EXPECTS)?;
        let wrong = || format!("is {text:?}; it takes a time such as 250ms, 30s, 5m, 2h, or forever");
        if text.trim() == "forever" {
            return Ok(Self(None));
        }
        let (number, unit) = split_unit(&text);
        let seconds = match unit {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(wrong()),
        };
        match number.parse::<f64>() {
            Ok(value) if value >= 0.0 => Duration::try_from_secs_f64(value * seconds).map(|span| Self(Some(span))).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    (text[..at].trim(), text[at..].trim())
}

/// Makes a type with a fixed set of spellings out of names and texts.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $expects:literal, { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }
        impl Value for $name {
            const EXPECTS: &'static str = $expects;
            fn read(raw: &[String]) -> Result<Self, String> {
                match one(raw, Self::EXPECTS)?.as_str() {
                    $($text => Ok(Self::$variant),)+
                    other => Err(format!("is {other:?}; it takes {}", Self::EXPECTS)),
                }
            }
        }
    };
}

choice!(
    /// How log lines look.
    LogFormat, "text or json", {
        /// For people.
        Text = "text",
        /// One object a line.
        Json = "json",
    }
);

choice!(
    /// Whether what was computed of a request is kept for others.
    PrefixCache, "off, per-key or shared", {
        /// No.
        Off = "off",
        /// For those of the same key.
        PerKey = "per-key",
        /// For all.
        Shared = "shared",
    }
);

choice!(
    /// How much proof of its origin a plugin must bring.
    TrustMode, "warn or strict", {
        /// Missing proof is reported.
        Warn = "warn",
        /// Missing proof is refused.
        Strict = "strict",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Vec<String> {
        vec![value.to_owned()]
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        for (given, bytes) in [("0", 0), ("17", 17), ("4MiB", 4 << 20), ("1.5 GiB", 3 << 29), ("2kb", 2000), ("8k", 8192)] {
            assert_eq!(Bytes::read(&text(given)), Ok(Bytes(bytes)), "{given}");
        }
        for given in ["", "x", "-1", "4 parsecs", "1e40"] {
            assert!(Bytes::read(&text(given)).is_err(), "{given}");
        }
    }

    #[test]
    fn times_are_read_with_their_unit() {
        for (given, ms) in [("250ms", 250), ("30s", 30_000), ("30", 30_000), ("5m", 300_000), ("1.5h", 5_400_000)] {
            assert_eq!(Span::read(&text(given)), Ok(Span(Some(Duration::from_millis(ms)))), "{given}");
        }
        assert_eq!(Span::read(&text("forever")), Ok(Span(None)));
        for given in ["", "soon", "-1s", "5 weeks", "1e300h"] {
            assert!(Span::read(&text(given)).is_err(), "{given}");
        }
    }

    #[test]
    fn a_wrong_value_is_quoted_and_the_right_form_is_named() {
        assert_eq!(u32::read(&text("many")).unwrap_err(), "is \"many\"; it takes a whole number from 0 to 4294967295");
        assert_eq!(LogFormat::read(&text("xml")).unwrap_err(), "is \"xml\"; it takes text or json");
        assert!(f32::read(&text("NaN")).is_err());
    }
}
