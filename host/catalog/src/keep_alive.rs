//! How long a model stays loaded without work, and the ways in which people write that.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a model without work stays loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeepAlive {
    /// This long after its last request; zero = unload as soon as it is idle.
    For(Duration),
    /// Until memory is needed or the host ends.
    Forever,
}

impl Default for KeepAlive {
    /// Five minutes.
    fn default() -> Self {
        Self::For(Duration::from_secs(300))
    }
}

impl KeepAlive {
    /// `"300"`, `"300s"`, `"5m"`, `"1h"`, `"1500ms"`, `"forever"`, `"-1"`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("is {text:?}; write a time such as \"90s\", \"5m\" or \"1h\", or \"forever\"");
        let text = text.trim();
        if text == "forever" {
            return Ok(Self::Forever);
        }
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
        let (count, unit) = text.split_at(digits);
        let count: i64 = count.parse().map_err(|_| wrong())?;
        let milliseconds = match unit.trim() {
            _ if count < 0 => return Ok(Self::Forever),
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        Ok(Self::For(Duration::from_millis(count.unsigned_abs().checked_mul(milliseconds).ok_or_else(wrong)?)))
    }

    /// Whole seconds; negative = for ever.
    pub fn from_seconds(seconds: i64) -> Result<Self, String> {
        Ok(u64::try_from(seconds).map_or(Self::Forever, |seconds| Self::For(Duration::from_secs(seconds))))
    }
}

impl fmt::Display for KeepAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forever => f.write_str("forever"),
            Self::For(duration) => write!(f, "{duration:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_alive_reads_the_ways_people_write_times() {
        let seconds = |text| match KeepAlive::parse(text) {
            Ok(KeepAlive::For(duration)) => Some(duration.as_secs_f32()),
            Ok(KeepAlive::Forever) => Some(-1.0),
            Err(_) => None,
        };
        for (text, expected) in [
            ("300", Some(300.0)),
            ("0", Some(0.0)),
            ("90s", Some(90.0)),
            ("5m", Some(300.0)),
            ("1h", Some(3600.0)),
            ("1500ms", Some(1.5)),
            ("forever", Some(-1.0)),
            ("-1", Some(-1.0)),
            ("-1m", Some(-1.0)),
            ("", None),
            ("soon", None),
            ("5 parsecs", None),
            ("99999999999999999d", None),
        ] {
            assert_eq!(seconds(text), expected, "{text:?}");
        }
    }
}
