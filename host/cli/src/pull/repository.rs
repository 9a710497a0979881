//! `hf.co/owner/repo:QUANT`: a repository of the hub by the name that Ollama's users know it by, and which of its files is meant.
//!
//! The tag is how the weights are quantised, as the names of GGUF files end (`…-Q4_K_M.gguf`), or a whole file name. Without one it is the
//! usual Q4_K_M, or the only model file there is; nothing else is guessed.

use reqwest::{Client, Url};
use serde::Deserialize;

use super::download::shown;
use crate::exit::{Exit, Failure};

/// What is taken where a name does not say.
const USUAL: &str = "q4_k_m";
/// Bytes of a listing.
const LISTING_MAX: usize = 8 << 20;

/// What the hub says of a repository, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Listing {
    siblings: Vec<Sibling>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
}

/// The file of a repository that `tag` means, as the hub lists them now.
pub async fn file(client: &Client, endpoint: &str, repository: &str, tag: Option<&str>, token: Option<&str>) -> Result<String, Failure> {
    let url = address(endpoint, repository)?;
    let failed = |what: String| Failure::new(Exit::Network, format!("{} cannot be listed: {what}", shown(&url)));
    let mut request = client.get(url.clone());
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let mut response = request.send().await.map_err(|error| failed("no answer".into()).caused_by(&error))?;
    match response.status().as_u16() {
        200 => {}
        // The hub does not say whether a repository is private or not there.
        401 | 403 | 404 => {
            return Err(Failure::new(Exit::NotFound, format!("the hub has no repository {repository}, or does not show it"))
                .next("Check the spelling. A private or gated repository needs an access token: set HF_TOKEN (or --hub-token)."));
        }
        status => return Err(failed(format!("the hub answers {status}"))),
    }
    let mut text = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed("the answer broke off".into()).caused_by(&error))? {
        text.extend_from_slice(&chunk);
        if text.len() > LISTING_MAX {
            return Err(failed(format!("the list has more than {LISTING_MAX} bytes")));
        }
    }
    let listing: Listing = serde_json::from_slice(&text).map_err(|error| failed("the answer is no list".into()).caused_by(&error))?;
    choose(repository, listing.siblings.into_iter().map(|sibling| sibling.rfilename).collect(), tag)
}

fn address(endpoint: &str, repository: &str) -> Result<Url, Failure> {
    let mut url = super::hub::endpoint(endpoint)?;
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(["api", "models"]).extend(repository.split('/'));
    }
    Ok(url)
}

fn choose(repository: &str, names: Vec<String>, tag: Option<&str>) -> Result<String, Failure> {
    let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    // Eyes and ears of a model are no model.
    let models: Vec<&String> = names.iter().filter(|name| last(name).ends_with(".gguf") && !last(name).contains("mmproj")).collect();
    let tag = tag.map(str::to_ascii_lowercase).filter(|tag| tag != "latest");
    let found: Vec<&&String> = match &tag {
        Some(tag) => models.iter().filter(|name| is_meant(&last(name), tag)).collect(),
        None if models.len() == 1 => models.iter().collect(),
        None => models.iter().filter(|name| is_meant(&last(name), USUAL)).collect(),
    };
    let offered = || models.iter().take(40).map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    match found.as_slice() {
        [only] => Ok((**only).clone()),
        [] if models.is_empty() => Err(Failure::new(Exit::NotFound, format!("{repository} has no GGUF file"))
            .next("Look for a repository of the same model whose name ends in GGUF.")),
        [] => {
            let wanted = tag.as_deref().unwrap_or(USUAL).to_uppercase();
            Err(Failure::new(Exit::NotFound, format!("{repository} has no {wanted}; it has: {}", offered()))
                .next(format!("Name one of them by its end or as a whole: hf.co/{repository}:{}", models[0])))
        }
        several if several.iter().all(|name| last(name).contains("-of-")) => {
            Err(Failure::new(Exit::Usage, format!("this model of {repository} is in {} files", several.len()))
                .next(format!("Pull each by its name: onebit-host pull hf:{repository}/{}", several[0])))
        }
        several => Err(Failure::new(
            Exit::Usage,
            format!("several files of {repository} are meant: {}", several.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")),
        )
        .next("Name one of them as a whole after the colon.")),
    }
}

/// Whether a file's name is `tag`, or ends in it: `model-q4_k_m.gguf`, `model.q4_k_m.gguf`, `model-q4_k_m-00001-of-00002.gguf`.
fn is_meant(name: &str, tag: &str) -> bool {
    let stem = name.strip_suffix(".gguf").unwrap_or(name);
    let stem = stem.split_once("-of-").and_then(|(rest, _)| rest.rsplit_once('-')).map_or(stem, |(rest, _)| rest);
    name == tag || stem == tag || stem.strip_suffix(tag).is_some_and(|rest| rest.ends_with(['-', '.', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[&str] = &[
        "README.md",
        "m-Q4_K_M.gguf",
        "m-Q8_0.gguf",
        "mmproj-m-Q8_0.gguf",
        "m-IQ4_K_M.gguf",
        "big/m-F16-00001-of-00002.gguf",
        "big/m-F16-00002-of-00002.gguf",
    ];

    fn chosen(files: &[&str], tag: Option<&str>) -> Result<String, (Exit, String)> {
        let files = files.iter().map(|name| (*name).to_owned()).collect();
        choose("o/r", files, tag).map_err(|failure| (failure.exit(), failure.what().to_owned()))
    }

    #[test]
    fn a_tag_means_one_file() {
        for (tag, file) in [
            (None, "m-Q4_K_M.gguf"),
            (Some("latest"), "m-Q4_K_M.gguf"),
            (Some("q8_0"), "m-Q8_0.gguf"),
            (Some("IQ4_K_M"), "m-IQ4_K_M.gguf"),
            (Some("m-q8_0.gguf"), "m-Q8_0.gguf"),
        ] {
            assert_eq!(chosen(FILES, tag).as_deref(), Ok(file), "{tag:?}");
        }
        assert_eq!(chosen(&["only-Q2_K.gguf", "config.json"], None).as_deref(), Ok("only-Q2_K.gguf"));
    }

    #[test]
    fn what_is_not_clear_is_said_and_never_guessed() {
        for (files, tag, exit, word) in [
            (FILES, Some("q5_0"), Exit::NotFound, "m-Q8_0.gguf"),
            (FILES, Some("f16"), Exit::Usage, "in 2 files"),
            (&["a-Q2_K.gguf", "b-Q3_K.gguf"][..], None, Exit::NotFound, "Q4_K_M"),
            (&["a-Q2_K.gguf", "b-Q2_K.gguf"][..], Some("q2_k"), Exit::Usage, "several"),
            (&["model.safetensors"][..], None, Exit::NotFound, "no GGUF"),
        ] {
            let (found, what) = chosen(files, tag).unwrap_err();
            assert!(found == exit && what.contains(word), "{tag:?}: {what}");
        }
    }
}
