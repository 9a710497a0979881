//! Finds the shared libraries that a plugin needs, the way the dynamic linker would, so that a missing one is named before `dlopen` says
//! no more than "cannot open shared object file" about some library three steps away.
//!
//! Order, as `ld.so(8)`: RPATH (the library's and its loaders', if it has no RUNPATH), `LD_LIBRARY_PATH`, RUNPATH, `ld.so.cache`, the
//! default folders. A name that was found once serves everybody. Candidates of another machine are passed over, as the linker does.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use crate::elf::{self, ElfFacts};
use crate::ld_cache;

/// Libraries looked at in one walk.
const MAX_LIBRARIES: usize = 1024;

/// One that was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Its name.
    pub name: String,
    /// File name of the library that needs it.
    pub wanted_by: String,
    /// It lies beside the plugin's library, where nobody told the linker to look.
    pub beside: bool,
}

/// One that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// By what name it is needed.
    pub name: String,
    /// Where it is, links resolved.
    pub path: PathBuf,
    /// What it calls itself.
    pub soname: Option<String>,
    /// What it needs itself.
    pub needed: Vec<String>,
}

/// All that are needed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Needed {
    /// In the order found.
    pub found: Vec<Found>,
    /// In the order missed.
    pub missing: Vec<Missing>,
}

struct Visit {
    facts: ElfFacts,
    path: PathBuf,
    /// RPATHs that it inherits from its loaders.
    rpaths: Vec<PathBuf>,
}

/// Walks from `library`, whose facts are known.
pub(crate) fn walk(library: &Path, facts: &ElfFacts) -> Result<Needed, String> {
    let machine = facts.machine;
    let folder = library.parent().unwrap_or(Path::new("/"));
    let fallback = fallback_folders();
    let cache = ld_cache::read();
    let library_path = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let library_path: Vec<PathBuf> = library_path.split([':', ';']).filter(|path| !path.is_empty()).map(PathBuf::from).collect();

    let mut needed = Needed::default();
    let mut seen: HashMap<String, bool> = HashMap::new();
    let mut queue = VecDeque::from([Visit { facts: facts.clone(), path: library.to_owned(), rpaths: Vec::new() }]);
    while let Some(visit) = queue.pop_front() {
        let origin = visit.path.parent().unwrap_or(Path::new("/"));
        let expand = |paths: &[String]| paths.iter().flat_map(|path| expand(path, origin)).collect::<Vec<_>>();
        let mut rpaths = if visit.facts.runpath.is_some() { Vec::new() } else { expand(&visit.facts.rpath) };
        if visit.facts.runpath.is_none() {
            rpaths.extend(visit.rpaths.iter().cloned());
        }
        let runpath = expand(visit.facts.runpath.as_deref().unwrap_or_default());
        for name in &visit.facts.needed {
            if seen.contains_key(name) {
                continue;
            }
            if seen.len() == MAX_LIBRARIES {
                return Err(format!("more than {MAX_LIBRARIES} libraries are needed"));
            }
            let candidates = candidates(name, [&rpaths, &library_path, &runpath], &cache, &fallback);
            let found = candidates.into_iter().find_map(|path| {
                let path = path.canonicalize().ok()?;
                let facts = elf::read(&path).ok().filter(|facts| facts.machine == machine)?;
                Some((path, facts))
            });
            seen.insert(name.clone(), found.is_some());
            match found {
                Some((path, facts)) => {
                    needed.found.push(Found {
                        name: name.clone(),
                        path: path.clone(),
                        soname: facts.soname.clone(),
                        needed: facts.needed.clone(),
                    });
                    queue.push_back(Visit { facts, path, rpaths: rpaths.clone() });
                }
                None => needed.missing.push(Missing {
                    name: name.clone(),
                    wanted_by: visit.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                    beside: !name.contains('/') && folder.join(name).exists(),
                }),
            }
        }
    }
    Ok(needed)
}

fn candidates(name: &str, folders: [&Vec<PathBuf>; 3], cache: &HashMap<String, Vec<PathBuf>>, fallback: &[PathBuf]) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![PathBuf::from(name)];
    }
    let told = folders.into_iter().flatten().map(|folder| folder.join(name));
    let cached = cache.get(name).into_iter().flatten().cloned();
    told.chain(cached).chain(fallback.iter().map(|folder| folder.join(name))).collect()
}

/// `$ORIGIN` replaced, and `$LIB` by each folder that linkers of different systems take it for; nothing for what cannot be known here
/// (`$PLATFORM`).
fn expand(path: &str, origin: &Path) -> Vec<PathBuf> {
    let Some(origin) = origin.to_str() else { return Vec::new() };
    let path = path.replace("${ORIGIN}", origin).replace("$ORIGIN", origin).replace("${LIB}", "$LIB");
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders: &[&str] = if path.contains("$LIB") { &["lib64", &multiarch, "lib"] } else { &[""] };
    folders.iter().map(|folder| path.replace("$LIB", folder)).filter(|path| !path.contains('$')).map(PathBuf::from).collect()
}

/// Where linkers look last: glibc's and musl's folders, and Debian's for this architecture.
fn fallback_folders() -> Vec<PathBuf> {
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    let mut folders = vec![PathBuf::from("/lib").join(&multiarch), PathBuf::from("/usr/lib").join(&multiarch)];
    folders.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"].map(PathBuf::from));
    folders
}

/// A package that usually brings a library, so that the remedy can be a command. One row per library that a plugin is likely to miss.
const PACKAGES: &[(&str, &str)] = &[
    ("libvulkan.so.1", "libvulkan1"),
    ("libgomp.so.1", "libgomp1"),
    ("libstdc++.so.6", "libstdc++6"),
    ("libgcc_s.so.1", "libgcc-s1"),
    ("libdrm.so.2", "libdrm2"),
    ("libopenblas.so.0", "libopenblas0"),
    ("libtbb.so.12", "libtbb12"),
    ("libnuma.so.1", "libnuma1"),
    ("libxrt_coreutil.so.2", "libxrt2"),
];

/// What to do about a missing library.
pub(crate) fn remedy(missing: &Missing) -> String {
    if missing.beside {
        return format!("it lies beside the plugin; build {} with -Wl,-rpath,'$ORIGIN'", missing.wanted_by);
    }
    match PACKAGES.iter().find(|(library, _)| *library == missing.name) {
        Some((_, package)) => format!("install it (Debian, Ubuntu: apt install {package})"),
        None => "install the package that holds it, or put it into the plugin's folder".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_and_lib_are_replaced_and_the_unknown_is_left_out() {
        let origin = Path::new("/opt/p");
        assert_eq!(expand("${ORIGIN}/lib", origin), [PathBuf::from("/opt/p/lib")]);
        assert_eq!(expand("/usr/$LIB", origin).first(), Some(&PathBuf::from("/usr/lib64")));
        assert_eq!(expand("/usr/$LIB", origin).len(), 3);
        assert!(expand("/usr/$PLATFORM", origin).is_empty());
    }
}
