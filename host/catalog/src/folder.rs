//! Folders of model files: which GGUF files are there, and what their headers say.
//!
//! Whoever may write into a models folder may not hurt the host: links are followed, but a loop ends, depth and number are limited, only
//! regular files are opened, and a header is read by a bounded reader. What cannot be used is reported under its own name and never
//! hides what can.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use onebit_weights::{Gguf, Purpose};
use serde::Serialize;

use crate::problem::Problem;

/// Levels of folders below a models folder that are looked at. A hub cache needs four.
const DEPTH_MAX: usize = 6;
/// Entries of all models folders that are looked at.
const ENTRIES_MAX: usize = 50_000;

/// Tells whether a file is still the one that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Stamp {
    /// Bytes.
    pub bytes: u64,
    /// Last change, nanoseconds since 1970.
    pub modified_ns: i128,
    /// Number of the file in its file system.
    pub inode: u64,
}

impl Stamp {
    /// Of what the path leads to.
    pub fn of(metadata: &std::fs::Metadata) -> Self {
        let modified_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Self { bytes: metadata.len(), modified_ns, inode: metadata.ino() }
    }
}

/// What a model file's header says. Numbers that it does not state are 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// `llama`, `mamba`, …
    pub architecture: String,
    /// The type most weights have: `Q4_1`.
    pub quantisation: String,
    /// Positions the model was trained for.
    pub context_trained: u64,
    /// Weights, counted.
    pub parameters: u64,
    /// Tokens there are.
    pub vocabulary: u64,
    /// Whether the file has a chat template.
    pub chat_template: bool,
    /// What it was made for; not for people who list models.
    #[serde(skip)]
    pub purpose: Purpose,
    /// `general.license`.
    pub licence: Option<String>,
}

/// A model in one file or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFile {
    /// The file to open: the only one, or the first of a set.
    pub path: PathBuf,
    /// Name without `.gguf` and without the number of the part.
    pub stem: String,
    /// Bytes of all parts.
    pub bytes: u64,
    /// Of the file at `path`.
    pub stamp: Stamp,
    /// What the header says, or why the file cannot be used.
    pub facts: Result<Facts, Problem>,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Sorted by folder, then by path.
    pub files: Vec<ModelFile>,
    /// What belongs to no model.
    pub problems: Vec<Problem>,
}

/// Facts that are known from an earlier look, by path.
pub(crate) type Known<'a> = BTreeMap<&'a Path, &'a ModelFile>;

/// Looks through the folders, in order.
pub(crate) fn scan(folders: &[PathBuf], known: &Known<'_>) -> Found {
    let mut found = Found::default();
    let mut seen = HashSet::new();
    for folder in folders {
        let mut paths = Vec::new();
        walk(folder, &mut |path| paths.push(path.to_owned()), &mut found.problems);
        paths.sort();
        for path in paths.iter().filter(|path| is_gguf(path)) {
            // A file that is reached in two ways (a link into a hub cache) is one file.
            let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            if !seen.insert(real) || Part::of(path).is_some_and(|part| part.number > 1 && part.sibling(1).exists()) {
                continue;
            }
            found.files.push(look(path, known));
        }
    }
    found
}

/// Calls `visit` with everything that is not a folder, in no particular order. Folders that are reached twice are entered once.
pub(crate) fn walk(root: &Path, visit: &mut dyn FnMut(&Path), problems: &mut Vec<Problem>) {
    let mut entered = HashSet::new();
    let mut entries = 0_usize;
    let mut open = vec![(root.to_owned(), 0_usize)];
    while let Some((folder, depth)) = open.pop() {
        let listing = match std::fs::metadata(&folder).and_then(|metadata| {
            let first = entered.insert((metadata.dev(), metadata.ino()));
            if first { std::fs::read_dir(&folder).map(Some) } else { Ok(None) }
        }) {
            Ok(Some(listing)) => listing,
            Ok(None) => continue,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                problems.push(Problem::warning(&folder, None, format!("cannot be listed: {error}")));
                continue;
            }
        };
        for entry in listing.map_while(Result::ok) {
            entries += 1;
            if entries > ENTRIES_MAX {
                problems.push(Problem::warning(
                    root,
                    None,
                    format!("has more than {ENTRIES_MAX} files; the rest is not looked at. Choose a smaller models folder"),
                ));
                return;
            }
            let path = entry.path();
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // A folder named x.gguf is visited, not entered: somebody took it for a model.
            if path.is_dir() && !is_gguf(&path) {
                if depth < DEPTH_MAX {
                    open.push((path, depth + 1));
                } else {
                    problems.push(Problem::warning(&path, None, format!("lies more than {DEPTH_MAX} folders deep; it is not looked at")));
                }
            } else {
                visit(&path);
            }
        }
    }
}

pub(crate) fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// Reads what there is to know of one file. Never fails: what is wrong is in the result.
pub(crate) fn look(path: &Path, known: &Known<'_>) -> ModelFile {
    let part = Part::of(path);
    let stem = match &part {
        Some(part) => part.stem.clone(),
        None => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let file = |bytes, stamp, facts| ModelFile { path: path.to_owned(), stem, bytes, stamp, facts };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => {
            let message = match error.kind() {
                std::io::ErrorKind::NotFound => "is a link to a file that does not exist".to_owned(),
                _ => format!("cannot be read: {error}"),
            };
            return file(0, Stamp { bytes: 0, modified_ns: 0, inode: 0 }, Err(Problem::error(path, None, message)));
        }
    };
    let stamp = Stamp::of(&metadata);
    if let Some(known) = known.get(path).filter(|known| known.stamp == stamp && part.is_none()) {
        return (*known).clone();
    }
    let problem = |message: String| Problem::error(path, None, message);
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "is a folder, not a model file" } else { "is not a regular file" };
        return file(0, stamp, Err(problem(what.to_owned())));
    }
    if metadata.len() == 0 {
        return file(0, stamp, Err(problem("is empty; download it again".to_owned())));
    }
    if let Some(part) = part.as_ref().filter(|part| part.number != 1) {
        return file(
            metadata.len(),
            stamp,
            Err(problem(format!("is part {} of {}, and the first part is not beside it", part.number, part.count))),
        );
    }
    match Gguf::open_all(path) {
        Err(error) => file(metadata.len(), stamp, Err(problem(error.to_string()))),
        Ok(parts) => {
            let bytes = parts.iter().map(Gguf::file_bytes).fold(0, u64::saturating_add);
            file(bytes, stamp, facts(&parts).map_err(|error| problem(error.to_string())))
        }
    }
}

fn facts(parts: &[Gguf]) -> Result<Facts, onebit_weights::GgufError> {
    // `open_all` gives at least one part, and the first has the keys.
    let Some(first) = parts.first() else {
        return Err(onebit_weights::GgufError::Missing { key: "general.architecture".to_owned() });
    };
    let facts = first.facts()?;
    Ok(Facts {
        architecture: facts.architecture,
        quantisation: facts.quantisation,
        context_trained: facts.context_trained,
        parameters: parts.iter().map(Gguf::parameters).fold(0, u64::saturating_add),
        vocabulary: facts.vocabulary,
        chat_template: facts.chat_template.is_some(),
        purpose: facts.purpose,
        licence: first.text("general.license")?.map(str::to_owned),
    })
}

/// All files of a model whose first is at `path`.
pub(crate) fn parts(path: &Path) -> Vec<PathBuf> {
    match Part::of(path) {
        Some(part) => (1..=part.count).map(|number| part.sibling(number)).collect(),
        None => vec![path.to_owned()],
    }
}

/// `stem-00002-of-00003.gguf`.
struct Part {
    path: PathBuf,
    stem: String,
    number: u32,
    count: u32,
}

impl Part {
    fn of(path: &Path) -> Option<Self> {
        let (rest, count) = path.file_stem()?.to_str()?.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let parse = |digits: &str| (digits.len() == 5).then(|| digits.parse::<u32>().ok()).flatten();
        let (number, count) = (parse(number)?, parse(count)?);
        (1..=count).contains(&number).then(|| Self { path: path.to_owned(), stem: stem.to_owned(), number, count })
    }

    fn sibling(&self, number: u32) -> PathBuf {
        self.path.with_file_name(format!("{}-{number:05}-of-{:05}.gguf", self.stem, self.count))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The bytes of a small, valid GGUF file.
    pub(crate) fn tiny_gguf(architecture: &str) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        let text = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.as_bytes());
        };
        out.extend(3_u32.to_le_bytes());
        out.extend(1_u64.to_le_bytes());
        out.extend(2_u64.to_le_bytes());
        text(&mut out, "general.architecture");
        out.extend(8_u32.to_le_bytes());
        text(&mut out, architecture);
        text(&mut out, &format!("{architecture}.context_length"));
        out.extend(4_u32.to_le_bytes());
        out.extend(2048_u32.to_le_bytes());
        text(&mut out, "token_embd.weight");
        out.extend(1_u32.to_le_bytes());
        out.extend(32_u64.to_le_bytes());
        out.extend(2_u32.to_le_bytes());
        out.extend(0_u64.to_le_bytes());
        out.resize(out.len().next_multiple_of(32) + 18, 0);
        out
    }

    fn names(found: &Found) -> Vec<(String, bool)> {
        found.files.iter().map(|file| (file.stem.clone(), file.facts.is_ok())).collect()
    }

    #[test]
    fn a_header_becomes_facts() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Tiny.Q4_0.gguf"), tiny_gguf("llama")).unwrap();
        let found = scan(&[dir.path().to_owned()], &Known::new());
        let facts = found.files[0].facts.as_ref().unwrap();
        assert_eq!((facts.architecture.as_str(), facts.quantisation.as_str(), facts.context_trained), ("llama", "Q4_0", 2048));
    }

    #[test]
    fn what_cannot_be_used_is_said_and_hides_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("real")).unwrap();
        std::fs::write(at("real/good.gguf"), tiny_gguf("llama")).unwrap();
        symlink(at("real"), at("linked")).unwrap();
        symlink(dir.path(), at("real/loop")).unwrap();
        std::fs::write(at("a-empty.gguf"), b"").unwrap();
        std::fs::create_dir(at("b-folder.gguf")).unwrap();
        symlink("nowhere", at("c-dangling.gguf")).unwrap();
        std::fs::write(at("d-short.gguf"), b"GGUF\x03\0\0\0\xff\xff\xff\xff").unwrap();
        std::fs::write(at("e-magic.gguf"), vec![b'x'; 100]).unwrap();
        rustix_free_fifo(&at("f-pipe.gguf"));
        let mut cut = tiny_gguf("llama");
        cut.truncate(cut.len() - 1);
        std::fs::write(at("g-cut.gguf"), cut).unwrap();
        symlink("/dev/zero", at("h-zero.gguf")).unwrap();

        let start = std::time::Instant::now();
        let found = scan(&[dir.path().to_owned()], &Known::new());
        assert!(start.elapsed().as_secs_f32() < 2.0);
        assert_eq!(found.files.iter().filter(|file| file.facts.is_ok()).count(), 1, "{found:?}");
        assert_eq!(found.files.len(), 9, "{:?}", names(&found));
    }

    /// A pipe: opening it for reading would wait for ever.
    fn rustix_free_fifo(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn the_parts_of_a_set_are_one_model() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["big-00002-of-00002.gguf", "lone-00002-of-00003.gguf", "name-of-nothing.gguf"] {
            std::fs::write(dir.path().join(name), tiny_gguf("llama")).unwrap();
        }
        std::fs::write(dir.path().join("big-00001-of-00002.gguf"), tiny_gguf("llama")).unwrap();
        let found = scan(&[dir.path().to_owned()], &Known::new());
        assert_eq!(names(&found), [("big".to_owned(), true), ("lone".to_owned(), false), ("name-of-nothing".to_owned(), true)]);
    }

    #[test]
    fn a_file_that_has_not_changed_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.gguf");
        std::fs::write(&path, tiny_gguf("llama")).unwrap();
        let mut first = scan(&[dir.path().to_owned()], &Known::new());
        first.files[0].facts.as_mut().unwrap().architecture = "remembered".into();
        let known: Known<'_> = first.files.iter().map(|file| (file.path.as_path(), file)).collect();
        let again = scan(&[dir.path().to_owned()], &known);
        assert_eq!(again.files[0].facts.as_ref().unwrap().architecture, "remembered");
        std::fs::write(&path, tiny_gguf("mamba!")).unwrap();
        let changed = scan(&[dir.path().to_owned()], &known);
        assert_eq!(changed.files[0].facts.as_ref().unwrap().architecture, "mamba!");
    }
}
