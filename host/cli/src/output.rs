//! What reaches the terminal: results on standard output, everything else on standard error.
//!
//! A result is never mixed with words about it, so that `onebit-host list --json | jq` and `run … > answer.txt` work. A closed pipe ends the
//! command quietly (see [`Failure::io`]).

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::SystemTime;

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::exit::{Exit, Failure};

/// A line of result.
pub fn line(text: impl Display) -> Result<(), Failure> {
    write(format_args!("{text}\n"))
}

/// A piece of result without a line end, at once visible.
pub fn write(text: impl Display) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(|error| Failure::io("write to standard output", &error))
}

/// A result for programs.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    line(serde_json::to_string_pretty(value).map_err(|error| Failure::new(Exit::Other, format!("cannot write JSON: {error}")))?)
}

/// A word to the person, not part of the result.
pub fn note(text: impl Display) {
    // If standard error is gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Columns under a header, wide enough for what they hold, without lines.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Whether a person sees standard error as it is written.
pub fn watched() -> bool {
    std::io::stderr().is_terminal()
}

/// `12 min`: how long ago that was.
pub fn ago(at: SystemTime) -> String {
    let seconds = at.elapsed().unwrap_or_default().as_secs();
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5_999 => format!("{} min", seconds / 60),
        6_000..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// `93.8 MiB`.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (count, text) in [(0, "0 B"), (1023, "1023 B"), (98_362_432, "93.8 MiB"), (1 << 40, "1.0 TiB")] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn times_past_are_in_one_unit() {
        for (seconds, text) in [(5, "5 s"), (725, "12 min"), (3 * 3_600, "3 h"), (50 * 86_400, "50 days")] {
            assert_eq!(ago(SystemTime::now() - std::time::Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn columns_line_up_and_lines_have_no_tail() {
        let text = table(&["name", "size"], [vec!["a".into(), "1".into()], vec!["long name".into(), "22".into()]]);
        assert_eq!(text, "name       size\na          1\nlong name  22");
    }
}
