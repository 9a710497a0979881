//! A TOML file as a tree whose every value remembers the file and line it came from.
//!
//! Manifests stack: a value that a person sees in `explain` may come from any of several files. So files are not turned into structs one by
//! one; they become trees, the trees are merged, and only the result is read. A value that wins keeps its origin.
//!
//! A byte-order mark at the start and CRLF line ends are what Windows editors write; both are accepted. A mark in the middle of a file is
//! an error, because it would hide in a key.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use crate::problem::Problem;

/// The largest manifest that is read, bytes. Chat templates are the largest thing in one; the longest known have some 30 KiB.
pub const MANIFEST_MAX: u64 = 1 << 20;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: Arc<Path>,
    /// Counted from 1.
    pub line: u32,
}

impl Origin {
    /// `file:line`.
    pub fn display(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }

    pub(crate) fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::error(&self.file, Some(self.line), message)
    }
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it was written.
    pub origin: Origin,
    /// What was written.
    pub value: Value,
}

/// What TOML can say, without dates: no setting is one.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// True or false.
    Boolean(bool),
    /// An array.
    List(Vec<Node>),
    /// A table.
    Table(BTreeMap<String, Node>),
}

impl Value {
    /// What to call it in a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Boolean(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// What a file turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// A table of settings; always a [`Value::Table`].
    Table(Node),
    /// An empty file or a link to `/dev/null`: what lies below it is not wanted.
    Mask,
}

impl Node {
    /// The node at a dotted path, for example `model.file`.
    pub fn get(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, key| match &node.value {
            Value::Table(table) => table.get(key),
            _ => None,
        })
    }

    /// Puts `over` on top: tables are merged key by key, everything else is replaced as a whole (lists too: half a list of choices would
    /// be nobody's intention).
    pub fn amend(&mut self, over: Node) {
        match (&mut self.value, over.value) {
            (Value::Table(below), Value::Table(above)) => {
                for (key, node) in above {
                    match below.get_mut(&key) {
                        Some(existing) => existing.amend(node),
                        None => {
                            below.insert(key, node);
                        }
                    }
                }
            }
            (value, above) => {
                *value = above;
                self.origin = over.origin;
            }
        }
    }
}

/// Reads one file. Anything that is not a readable, valid table (or a mask) is a problem that names file and line.
pub fn read(path: &Path) -> Result<Document, Problem> {
    let cannot = |error: std::io::Error| Problem::error(path, None, format!("cannot be read: {error}"));
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Problem::error(path, None, "is a link to a file that does not exist; link it to /dev/null to mask, or remove it")
        }
        _ => cannot(error),
    })?;
    if is_null_device(path, &metadata) || (metadata.is_file() && metadata.len() == 0) {
        return Ok(Document::Mask);
    }
    if !metadata.is_file() {
        return Err(Problem::error(path, None, "is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(cannot)?.take(MANIFEST_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MANIFEST_MAX {
        return Err(Problem::error(path, None, format!("has more than {MANIFEST_MAX} bytes; a file of settings is a short text")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::error(path, Some(line_at(error.as_bytes(), at)), "is not UTF-8 text here; save the file as UTF-8")
    })?;
    parse(path, &text).map(Document::Table)
}

fn is_null_device(path: &Path, metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_char_device() && std::fs::canonicalize(path).is_ok_and(|real| real == Path::new("/dev/null"))
}

/// Reads the text of a file; `path` is for messages and origins only.
pub fn parse(path: &Path, text: &str) -> Result<Node, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(at) = text.find('\u{feff}') {
        let line = line_at(text.as_bytes(), at);
        return Err(Problem::error(
            path,
            Some(line),
            "a byte-order mark (U+FEFF) in the middle of the file; remove it (it is invisible in most editors)",
        ));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| line_at(text.as_bytes(), span.start));
        Problem::error(path, line, format!("is not valid TOML: {}", error.message()))
    })?;
    let lines = Lines { file: Arc::from(path), starts: line_starts(text) };
    Ok(Node { origin: Origin { file: Arc::clone(&lines.file), line: 1 }, value: lines.table(table.get_ref())? })
}

/// Line of a byte, counted from 1.
fn line_at(text: &[u8], at: usize) -> u32 {
    let newlines = text.iter().take(at).filter(|&&byte| byte == b'\n').count();
    u32::try_from(newlines).unwrap_or(u32::MAX - 1) + 1
}

fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1)).collect()
}

struct Lines {
    file: Arc<Path>,
    starts: Vec<usize>,
}

impl Lines {
    fn origin(&self, at: usize) -> Origin {
        let line = self.starts.partition_point(|&start| start <= at);
        Origin { file: Arc::clone(&self.file), line: u32::try_from(line).unwrap_or(u32::MAX) }
    }

    fn table(&self, table: &DeTable<'_>) -> Result<Value, Problem> {
        let mut out = BTreeMap::new();
        for (key, value) in table {
            let origin = self.origin(key.span().start);
            let value = self.value(value.get_ref(), &origin)?;
            out.insert(key.get_ref().to_string(), Node { origin, value });
        }
        Ok(Value::Table(out))
    }

    fn value(&self, value: &DeValue<'_>, origin: &Origin) -> Result<Value, Problem> {
        Ok(match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Boolean(value) => Value::Boolean(*value),
            DeValue::Integer(integer) => Value::Integer(
                i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix())
                    .map_err(|_| origin.problem(format!("{integer} does not fit into 64 bits")))?,
            ),
            DeValue::Float(float) => Value::Float(
                float.as_str().replace('_', "").parse().map_err(|_| origin.problem(format!("{float} is not a number that can be read")))?,
            ),
            DeValue::Datetime(_) => return Err(origin.problem("a date; no setting is one (put a text in quotes)")),
            DeValue::Table(table) => self.table(table)?,
            DeValue::Array(array) => {
                let mut list = Vec::with_capacity(array.len());
                for item in array.iter() {
                    let origin = self.origin(item.span().start);
                    let value = self.value(item.get_ref(), &origin)?;
                    list.push(Node { origin, value });
                }
                Value::List(list)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Node {
        parse(Path::new("x.toml"), text).unwrap()
    }

    #[test]
    fn every_value_knows_its_line() {
        let node = table("name = \"a\"\n\n[model]\nfile = \"b\"\nsource = [\n  \"c\",\n  \"d\",\n]\n");
        assert_eq!(node.get("name").unwrap().origin.line, 1);
        assert_eq!(node.get("model.file").unwrap().origin.line, 4);
        let Value::List(list) = &node.get("model.source").unwrap().value else { panic!("a list") };
        assert_eq!(list[1].origin.line, 7);
    }

    #[test]
    fn a_byte_order_mark_and_windows_line_ends_change_nothing() {
        let plain = "name = \"smol\"\n\n[limits]\nnote = \"naïve café\"\nvalue = 7\n";
        let windows = format!("\u{feff}{}", plain.replace('\n', "\r\n"));
        assert_eq!(table(plain), table(&windows));
    }

    #[test]
    fn a_mark_in_the_middle_names_its_line() {
        let problem = parse(Path::new("x.toml"), "a = 1\n\u{feff}b = 2\n").unwrap_err();
        assert_eq!(problem.line, Some(2));
        assert!(problem.to_string().starts_with("x.toml:2: "), "{problem}");
    }

    #[test]
    fn broken_text_names_its_line() {
        for (text, line) in
            [("a = 1\nb = = 2\n", 2), ("a = 1\na = 2\n", 2), ("a = 1\n\nb = 99999999999999999999\n", 3), ("a = 1979-05-27\n", 1)]
        {
            assert_eq!(parse(Path::new("x.toml"), text).unwrap_err().line, Some(line), "{text:?}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
        let text = format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(Path::new("x.toml"), &text).is_err());
    }

    #[test]
    fn amending_merges_tables_and_replaces_everything_else() {
        let mut below = table("a = 1\n[t]\nx = 1\ny = [1, 2]\n");
        let above = parse(Path::new("y.toml"), "b = 2\n[t]\ny = [3]\nz = 4\n").unwrap();
        below.amend(above);
        assert_eq!(below.get("t.x").unwrap().value, Value::Integer(1));
        assert_eq!(below.get("t.z").unwrap().origin.display(), "y.toml:4");
        let Value::List(list) = &below.get("t.y").unwrap().value else { panic!("a list") };
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn files_that_are_not_tables_are_problems_and_masks_are_masks() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("latin1.toml"), b"a = 1\nb = \"caf\xe9\"\n").unwrap();
        std::fs::write(at("empty.toml"), b"").unwrap();
        std::fs::write(at("huge.toml"), vec![b'#'; MANIFEST_MAX as usize + 1]).unwrap();
        std::fs::create_dir(at("dir.toml")).unwrap();
        std::os::unix::fs::symlink("/dev/null", at("null.toml")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero.toml")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling.toml")).unwrap();
        assert_eq!(read(&at("empty.toml")), Ok(Document::Mask));
        assert_eq!(read(&at("null.toml")), Ok(Document::Mask));
        assert_eq!(read(&at("latin1.toml")).unwrap_err().line, Some(2));
        for name in ["huge.toml", "dir.toml", "zero.toml", "dangling.toml"] {
            assert!(read(&at(name)).is_err(), "{name}");
        }
    }
}
