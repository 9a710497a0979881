//! Functions and filters that Hugging Face adds to Jinja, with Python's results.

use std::io;

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind, State};
use serde::Serialize;
use serde_json::ser::Formatter;

/// The words of `raise_exception`, found again in the chain of causes.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Raised(pub String);

/// `raise_exception(message)`: the template's own refusal.
pub fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raised by the template").with_source(Raised(message)))
}

/// `strftime_now(format)`, in the machine's time zone.
pub fn strftime_now(format: &str) -> Result<String, Error> {
    // A width like `%999999999d` would be obeyed.
    if format.len() > 256 || format.bytes().filter(u8::is_ascii_digit).count() > 8 || format.contains("000") {
        return Err(Error::new(ErrorKind::InvalidOperation, "strftime_now: the format is too long"));
    }
    jiff::fmt::strtime::format(format, &jiff::ZonedDateTime::now())
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}")))
}

/// `escape`: for HTML, whatever the template is for, and in the words of Python's MarkupSafe.
pub fn escape(value: &Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            other => out.push(other),
        }
    }
    out
}

/// `is iterable`: Python cannot walk over `none`, and templates ask to learn whether there are tools.
pub fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Bytes of JSON that one fuel pays: walking a value costs more than copying its text.
const JSON_BYTES_PER_FUEL: u64 = 4;

/// `tojson(indent=…)` as `json.dumps(x, ensure_ascii=False, …)` writes it; Jinja's own would escape `<`, `>`, `&` and `'` for HTML.
pub fn tojson(state: &State<'_, '_>, value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    let sort_keys: Option<bool> = kwargs.get("sort_keys")?;
    let ensure_ascii: Option<bool> = kwargs.get("ensure_ascii")?;
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    kwargs.assert_all_used()?;
    let failed = |error: &dyn std::fmt::Display| Error::new(ErrorKind::BadSerialization, format!("tojson: {error}"));
    if indent.is_some_and(|width| width > 16) {
        return Err(failed(&"an indent above 16 is not allowed"));
    }
    let (item, key) = match separators.as_deref() {
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(failed(&"separators must be a pair")),
    };
    let style = || PythonStyle { indent, item: item.clone(), key: key.clone(), depth: 0, filled: false };
    let affordable = state.fuel_levels().map_or(0, |(_, left)| left.saturating_mul(JSON_BYTES_PER_FUEL));
    let mut out = Bounded { bytes: Vec::new(), most: usize::try_from(affordable).unwrap_or(usize::MAX) };
    let written = if sort_keys.unwrap_or(false) {
        // A tree of the bytes that were affordable, never of a value that has not been measured.
        value.serialize(&mut serde_json::Serializer::new(&mut out)).map_err(|error| failed(&error))?;
        let plain: serde_json::Value = serde_json::from_slice(&out.bytes).map_err(|error| failed(&error))?;
        out.bytes.clear();
        sorted(plain).serialize(&mut serde_json::Serializer::with_formatter(&mut out, style()))
    } else {
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, style()))
    };
    written.map_err(|error| failed(&error))?;
    state.consume_fuel(out.bytes.len() as u64 / JSON_BYTES_PER_FUEL)?;
    let text = String::from_utf8(out.bytes).map_err(|error| failed(&error))?;
    Ok(if ensure_ascii.unwrap_or(false) { escape_non_ascii(&text) } else { text })
}

fn sorted(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(object) => {
            let mut entries: Vec<_> = object.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            serde_json::Value::Object(entries.into_iter().collect())
        }
        serde_json::Value::Array(items) => serde_json::Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

fn escape_non_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// A buffer that stops growing.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(io::Error::other("the result is too large"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Python's spaces: `{"a": 1, "b": [1, 2]}`, or one item a line with an indent.
struct PythonStyle {
    indent: Option<usize>,
    item: String,
    key: String,
    depth: usize,
    filled: bool,
}

impl PythonStyle {
    fn begin<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.item.as_bytes())?;
        }
        self.line(writer)
    }

    fn line<W: ?Sized + io::Write>(&self, writer: &mut W) -> io::Result<()> {
        let Some(width) = self.indent else { return Ok(()) };
        writer.write_all(b"\n")?;
        for _ in 0..self.depth * width {
            writer.write_all(b" ")?;
        }
        Ok(())
    }

    fn open(&mut self) {
        self.depth += 1;
        self.filled = false;
    }

    fn close<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.filled { self.line(writer) } else { Ok(()) }
    }
}

impl Formatter for PythonStyle {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open();
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer)?;
        self.filled = true;
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open();
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer)?;
        self.filled = true;
        writer.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}
