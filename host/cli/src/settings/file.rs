//! Configuration files: TOML whose keys are those of the table.
//!
//! A file that cannot be read, a key nobody knows and a value of the wrong form are errors with file and line. A file is never skipped
//! because it is broken; only a standard file that does not exist is no error.

use std::collections::HashMap;
use std::path::Path;

use onebit_catalog::document::{self, Document, Node, Value as Toml};

use super::resolve::{Origin, Raw};
use super::row::Row;
use super::table::TABLE;
use super::value::Shape;
use crate::exit::{Exit, Failure};

/// Values by key, as far as files have any.
pub type FromFile = HashMap<&'static str, Raw>;

/// Reads one file on top of others. `named` = a person named it, so it must exist.
pub fn read_over(values: &mut FromFile, path: &Path, named: bool) -> Result<(), Failure> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !named => return Ok(()),
        // A user's folder that the service's user cannot enter holds no configuration of that service.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory && !named => return Ok(()),
        Err(error) => {
            let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::of_io(&error) };
            return Err(Failure::new(exit, format!("cannot read the configuration file {}: {error}", path.display()))
                .next("Check the path given with --config or ONEBIT_CONFIG, and who may read it."));
        }
        Ok(_) => {}
    }
    match document::read(path).map_err(|problem| broken(&problem.to_string()))? {
        Document::Mask => Ok(()),
        Document::Table(node) => table(values, &node, "", path),
    }
}

fn broken(message: &str) -> Failure {
    Failure::new(Exit::Usage, message)
        .next("Nothing was started: a broken configuration is never replaced by defaults. `onebit-host docs settings` lists all keys.")
}

fn table(values: &mut FromFile, node: &Node, prefix: &str, path: &Path) -> Result<(), Failure> {
    let Toml::Table(entries) = &node.value else {
        return Err(broken(&format!("{}: expected a table", node.origin.display())));
    };
    for (name, node) in entries {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let row = TABLE.iter().copied().find(|row| row.in_file() && row.key() == key);
        match (row, &node.value) {
            (Some(row), _) => {
                let raw = Raw { texts: texts(row, node)?, origin: Origin::File(path.to_owned(), node.origin.line) };
                values.insert(row.key(), raw);
            }
            (None, Toml::Table(_)) if TABLE.iter().any(|row| row.key().starts_with(&format!("{key}."))) => table(values, node, &key, path)?,
            (None, _) => return Err(broken(&format!("{}: there is no setting {key:?}{}", node.origin.display(), suggestion(&key)))),
        }
    }
    Ok(())
}

fn texts(row: &dyn Row, node: &Node) -> Result<Vec<String>, Failure> {
    let wrong = |found: &str| broken(&format!("{}: {} is {found}; it takes {}", node.origin.display(), row.key(), row.expects()));
    let scalar = |node: &Node| match (&node.value, row.shape()) {
        (Toml::Text(text), Shape::One | Shape::List(_)) => Ok(text.clone()),
        (Toml::Integer(number), Shape::One) => Ok(number.to_string()),
        (Toml::Float(number), Shape::One) => Ok(number.to_string()),
        (Toml::Boolean(value), Shape::Switch) => Ok(value.to_string()),
        (other, _) => Err(wrong(other.kind())),
    };
    match (&node.value, row.shape()) {
        (Toml::List(items), Shape::List(_)) => items.iter().map(scalar).collect(),
        _ => Ok(vec![scalar(node)?]),
    }
}

/// The nearest key: by spelling, by its last part, or spelled like the flag.
fn suggestion(key: &str) -> String {
    let flag = key.replace('_', "-");
    let known = || TABLE.iter().copied().filter(|row| row.in_file());
    let same = known().find(|row| row.flag() == flag || row.key().rsplit('.').next() == key.rsplit('.').next());
    let near = || {
        known()
            .map(|row| (strsim::damerau_levenshtein(row.key(), key), row))
            .min_by_key(|(distance, _)| *distance)
            .filter(|(distance, row)| *distance <= 1 + row.key().len() / 4)
            .map(|(_, row)| row)
    };
    same.or_else(near).map_or_else(String::new, |row| format!("; did you mean {:?}?", row.key()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<FromFile, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let mut values = FromFile::new();
        let at = format!("{}/", dir.path().display());
        read_over(&mut values, &path, true).map_err(|failure| failure.what().replace(&at, ""))?;
        Ok(values)
    }

    fn without_origin(values: FromFile) -> Vec<(&'static str, Vec<String>)> {
        let mut list: Vec<_> = values.into_iter().map(|(key, raw)| (key, raw.texts)).collect();
        list.sort();
        list
    }

    #[test]
    fn a_byte_order_mark_and_windows_line_ends_change_nothing() {
        let plain = "listen = \"[::1]:80\"\n\n[run]\nsystem = \"naïve café\"\ntemperature = 0.5\n";
        let windows = format!("\u{feff}{}", plain.replace('\n', "\r\n"));
        let expected = without_origin(read(plain).unwrap());
        assert_eq!(expected.len(), 3);
        assert_eq!(without_origin(read(&windows).unwrap()), expected);
    }

    #[test]
    fn a_mark_in_the_middle_is_an_error_with_its_line() {
        assert!(read("slots = 2\n\u{feff}context = 7\n").unwrap_err().starts_with("config.toml:2: "));
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest_key() {
        for (text, error) in [
            ("\nlisten_ = \"x\"\n", "config.toml:2: there is no setting \"listen_\"; did you mean \"listen\"?"),
            ("models-dir = \"x\"\n", "config.toml:1: there is no setting \"models-dir\"; did you mean \"models_dir\"?"),
            ("temperature = 1\n", "config.toml:1: there is no setting \"temperature\"; did you mean \"run.temperature\"?"),
            ("[run]\nsytem = \"x\"\n", "config.toml:2: there is no setting \"run.sytem\"; did you mean \"run.system\"?"),
            ("zebra = 1\n", "config.toml:1: there is no setting \"zebra\""),
            ("config = \"x\"\n", "config.toml:1: there is no setting \"config\""),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_form_names_its_line() {
        assert_eq!(read("\n\ninsecure = \"yes\"\n").unwrap_err(), "config.toml:3: insecure is a text; it takes true or false");
        assert_eq!(read("models_dir = [\"a\", 1]\n").unwrap_err(), "config.toml:1: models_dir is a whole number; it takes paths");
    }

    #[test]
    fn a_list_may_be_one_text() {
        assert_eq!(without_origin(read("models_dir = \"/a\"\n").unwrap()), [("models_dir", vec!["/a".to_owned()])]);
    }
}
