//! `plugin new`: a folder with a small plugin that works, for somebody who wants to write one.
//!
//! What it writes is what this project tests: the sources in `sdk/templates` are also the honest plugins of its own tests. It writes into a
//! folder that is empty or not there, and nowhere else.

mod files;
mod sdk;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches};

use self::files::{Language, Marks};
use self::sdk::Sdk;
use super::Sub;
use crate::commands::Invocation;
use crate::exit::{Exit, Failure};
use crate::output::{self, note};

pub(super) static SUB: Sub = Sub {
    name: "new",
    about: "Write a small plugin that works, to begin one of your own with",
    arguments: |command| {
        command
            .arg(Arg::new("name").value_name("NAME").required(true).help("Id of the plugin: lower-case letters, digits and '-'"))
            .arg(
                Arg::new("lang")
                    .long("lang")
                    .required(true)
                    .value_parser(clap::builder::PossibleValuesParser::new(Language::ALL.map(Language::word)))
                    .help("Language of its sources"),
            )
            .arg(
                Arg::new("dir")
                    .long("dir")
                    .value_name("DIR")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Folder to write into, empty or not there yet [default: NAME in the current folder]"),
            )
            .arg(Arg::new("sdk").long("sdk").value_name("PATH|git").value_parser(clap::value_parser!(PathBuf)).help(
                "Where the SDK or the C header comes from: a clone of this project's repository, or `git` to take it from there when it is \
                 built [default: what is installed beside this program, else git]",
            ))
    },
    run: new,
};

fn new(invocation: &Invocation<'_>, own: &ArgMatches) -> Result<(), Failure> {
    let name = own.get_one::<String>("name").map(String::as_str).unwrap_or_default();
    let word = own.get_one::<String>("lang").map(String::as_str).unwrap_or_default();
    let language = Language::ALL.into_iter().find(|language| language.word() == word);
    let language = language.ok_or_else(|| Failure::new(Exit::Usage, format!("there is no template in {word:?}")))?;
    check_name(name)?;
    let sdk = Sdk::find(own.get_one::<PathBuf>("sdk").map(PathBuf::as_path), invocation.places.prefix.as_deref())?;
    let dir = own.get_one::<PathBuf>("dir").cloned().unwrap_or_else(|| PathBuf::from(name));
    let marks = Marks::new(language, name, &sdk)?;

    check_folder(&dir)?;
    for file in language.files() {
        write(&dir.join(marks.fill(file.path).as_ref()), &marks.fill(file.text))?;
    }
    output::line(dir.display())?;
    note(format_args!("\n{name} is there, in {}. From here to an answer, as its README.md says:\n", language.name()));
    note(format_args!("  cd {}\n{}", dir.display(), indented(&marks.first_commands())));
    Ok(())
}

/// The name becomes the plugin's id, the package's name and, with `_`, part of the library's name.
fn check_name(name: &str) -> Result<(), Failure> {
    let refuse = |why: &str| Err(Failure::new(Exit::Usage, format!("{name:?} cannot be the id of a plugin: {why}")));
    if !onebit_loader::is_plugin_id(name) {
        return refuse("an id is made of 1 to 64 lower-case letters, digits and '-'");
    }
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || name.ends_with('-') {
        return refuse("it begins with a letter, and does not end with '-'");
    }
    if RESERVED.contains(&name) {
        return refuse("it is a word of the language, or the name of a package that the plugin needs");
    }
    Ok(())
}

/// Ids that a host would take, but that no Rust package, or none that needs our SDK, can have.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "const", "continue", "core", "crate", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut",
    "onebit-plugin-api", "onebit-sdk", "override", "priv", "proc-macro", "pub", "ref", "return", "self", "static", "std", "struct", "super",
    "test", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Nothing of anybody is overwritten.
fn check_folder(dir: &Path) -> Result<(), Failure> {
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(Exit::Usage, format!("{} is not empty", dir.display())).next("Give another folder with --dir.")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::io(format!("look into {}", dir.display()), &error).next("Give another folder with --dir.")),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::io(format!("write {}", path.display()), error);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| failed(&error))?;
    }
    // Never over a file that came meanwhile.
    let mut file = std::fs::File::create_new(path).map_err(|error| failed(&error))?;
    file.write_all(text.as_bytes()).map_err(|error| failed(&error))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_be_an_id_that_a_package_can_have() {
        for good in ["a", "my-plugin", "q8-0", &"x".repeat(64)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-x", "x-", "8bit", "My", "a_b", "a b", "../x", "fn", "onebit-sdk", "ä", &"x".repeat(65)] {
            assert_eq!(check_name(bad).expect_err("refused").exit(), Exit::Usage, "{bad}");
        }
    }
}
