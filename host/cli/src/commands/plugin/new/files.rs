//! The templates: for each language a table of files, and the few marks in them that a name or a path replaces.
//!
//! The sources have no marks: what a stranger gets is, byte for byte, what our own tests build.

use std::borrow::Cow;

use super::sdk::Sdk;
use crate::exit::Failure;

/// What a template is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    C,
}

/// One file of a template. Marks in both are filled.
pub(super) struct File {
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

macro_rules! root {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $path))
    };
}

macro_rules! files {
    ($($path:literal <- $source:literal),* $(,)?) => {
        &[$(File { path: $path, text: root!($source) }),*]
    };
}

static RUST: &[File] = files![
    "Cargo.toml" <- "sdk/templates/rust/Cargo.toml.in",
    "plugin.toml" <- "sdk/templates/rust/plugin.toml.in",
    "src/lib.rs" <- "sdk/templates/rust/src/lib.rs",
    "src/table.rs" <- "sdk/templates/rust/src/table.rs",
    "src/model.rs" <- "sdk/templates/rust/src/model.rs",
    "src/session.rs" <- "sdk/templates/rust/src/session.rs",
    "src/embed.rs" <- "sdk/templates/rust/src/embed.rs",
    "models/story.ngram" <- "sdk/templates/common/story.ngram",
    "models/@NAME@.toml" <- "sdk/templates/common/model.toml.in",
    "README.md" <- "sdk/templates/rust/README.md.in",
    ".github/workflows/ci.yml" <- "sdk/templates/rust/ci.yml.in",
    ".gitignore" <- "sdk/templates/rust/gitignore",
    "LICENSE-MIT" <- "LICENSE-MIT",
    "LICENSE-APACHE" <- "LICENSE-APACHE",
];

static C: &[File] = files![
    "Makefile" <- "sdk/templates/c/Makefile.in",
    "plugin.toml" <- "sdk/templates/c/plugin.toml.in",
    "src/ngram.h" <- "sdk/templates/c/src/ngram.h",
    "src/plugin.c" <- "sdk/templates/c/src/plugin.c",
    "src/model.c" <- "sdk/templates/c/src/model.c",
    "src/session.c" <- "sdk/templates/c/src/session.c",
    "src/tokenize.c" <- "sdk/templates/c/src/tokenize.c",
    "src/support.c" <- "sdk/templates/c/src/support.c",
    "models/story.ngram" <- "sdk/templates/common/story.ngram",
    "models/@NAME@.toml" <- "sdk/templates/common/model.toml.in",
    "README.md" <- "sdk/templates/c/README.md.in",
    ".github/workflows/ci.yml" <- "sdk/templates/c/ci.yml.in",
    ".gitignore" <- "sdk/templates/c/gitignore",
    "LICENSE-MIT" <- "LICENSE-MIT",
    "LICENSE-APACHE" <- "LICENSE-APACHE",
];

impl Language {
    pub(super) const ALL: [Self; 2] = [Self::Rust, Self::C];

    /// On the command line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::C => "c",
        }
    }

    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::C => "C",
        }
    }

    pub(super) fn files(self) -> &'static [File] {
        match self {
            Self::Rust => RUST,
            Self::C => C,
        }
    }
}

/// What replaces the marks.
pub(super) struct Marks {
    language: Language,
    pairs: Vec<(&'static str, String)>,
}

impl Marks {
    pub(super) fn new(language: Language, name: &str, sdk: &Sdk) -> Result<Self, Failure> {
        let pairs = vec![
            ("@NAME@", name.to_owned()),
            ("@VERSION@", "0.1.0".to_owned()),
            ("@LIBRARY@", format!("lib{}.so", name.replace('-', "_"))),
            ("@SDK@", sdk.dependency()?),
            ("@SDK_WHERE@", sdk.described()),
            ("@HEADER@", sdk.make_lines()?),
            ("@RUST_VERSION@", env!("CARGO_PKG_RUST_VERSION").to_owned()),
            ("@REPOSITORY@", env!("CARGO_PKG_REPOSITORY").to_owned()),
            ("@HOST_VERSION@", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        Ok(Self { language, pairs })
    }

    /// The text with its marks replaced. A text without marks is left as it is.
    pub(super) fn fill<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.pairs
            .iter()
            .filter(|(mark, _)| text.contains(mark))
            .fold(Cow::Borrowed(text), |text, (mark, value)| Cow::Owned(text.replace(mark, value)))
    }

    /// The first block of commands in the README, so that what is printed cannot differ from it.
    pub(super) fn first_commands(&self) -> String {
        let readme = self.language.files().iter().find(|file| file.path == "README.md").map_or("", |file| file.text);
        let block = readme.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
        self.fill(block).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mark_is_left_and_sources_have_none() {
        for language in Language::ALL {
            let marks = Marks::new(language, "my-plugin", &Sdk::Git).expect("marks");
            for file in language.files() {
                let text = marks.fill(file.text);
                let left = text
                    .split('@')
                    .skip(1)
                    .step_by(2)
                    .find(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
                assert_eq!(left, None, "{}", file.path);
                if file.path.starts_with("src/") {
                    assert!(matches!(text, Cow::Borrowed(_)), "{} has a mark", file.path);
                }
            }
            assert!(marks.first_commands().contains("onebit-host run my-plugin"), "{}", marks.first_commands());
        }
    }

    /// A source that is not in the table would be missing from every new plugin.
    #[test]
    fn every_source_of_a_template_is_in_its_table() {
        for language in Language::ALL {
            let folder = format!("{}/../../sdk/templates/{}/src", env!("CARGO_MANIFEST_DIR"), language.word());
            for entry in std::fs::read_dir(folder).expect("the sources") {
                let path = format!("src/{}", entry.expect("an entry").file_name().to_string_lossy());
                assert!(language.files().iter().any(|file| file.path == path), "{path}");
            }
        }
    }
}
