//! What lies between the check and the use, and who owns what: things that cannot be set up from outside.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use onebit_faults::build_c;

use super::place::{Owners, check_way, own_uid};
use super::*;
use crate::{LoadError, PluginFile, inspect};

/// A C plugin whose library leaves a mark when it is loaded, and the mark's path.
struct Marked {
    dir: tempfile::TempDir,
}

impl Marked {
    fn new() -> Self {
        let marked = Self { dir: tempfile::tempdir().expect("a folder") };
        onebit_faults::install(onebit_faults::Which::NgramC, marked.dir.path()).expect("a plugin");
        marked.build(&marked.library(), "first");
        marked
    }

    fn plugin(&self) -> PathBuf {
        self.dir.path().join("ngram-c")
    }

    fn library(&self) -> PathBuf {
        self.plugin().join("libngram_c.so")
    }

    fn build(&self, library: &Path, mark: &str) {
        let header = self.dir.path().join("mark.h");
        let path = self.dir.path().join(mark);
        let text = format!(
            "extern int creat(const char *, unsigned);\n__attribute__((constructor)) static void leave_mark(void) {{ (void)creat(\"{}\", 0644); }}\n",
            path.display()
        );
        fs::write(&header, text).expect("a header");
        build_c("ngram.c", library, &["-include", header.to_str().expect("UTF-8")]).expect("compiled");
    }

    fn marks(&self) -> Vec<&'static str> {
        ["first", "second"].into_iter().filter(|mark| self.dir.path().join(mark).exists()).collect()
    }

    fn list_hash(&self) {
        let hash = hash::sha256(&fs::File::open(self.library()).expect("the library")).expect("a hash");
        let toml = self.plugin().join("plugin.toml");
        let text = fs::read_to_string(&toml).expect("plugin.toml");
        fs::write(&toml, format!("{text}\n[sha256]\n\"libngram_c.so\" = \"{hash}\"\n")).expect("plugin.toml");
    }

    fn file(&self) -> PluginFile {
        inspect(&self.plugin()).unwrap_or_else(|refusal| panic!("{refusal}")).file
    }
}

#[track_caller]
fn refused(result: Result<impl Sized, LoadError>, words: &str) {
    match result {
        Err(LoadError::Refused(refusal)) => assert!(refusal.to_string().contains(words), "{refusal}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[test]
fn a_library_that_is_put_in_its_place_after_the_check_does_not_run() {
    for hashed in [false, true] {
        let marked = Marked::new();
        if hashed {
            marked.list_hash();
        }
        let file = marked.file();
        let verified = verified::open(&file).expect("as it should be");
        let other = marked.dir.path().join("other.so");
        marked.build(&other, "second");
        fs::rename(&other, marked.library()).expect("swapped");
        // Neither of the two: the one that was checked has lost its name, which its inode remembers.
        refused(verified.load(), "replaced or changed");
        assert!(marked.marks().is_empty(), "hashed: {hashed}");
    }
}

#[test]
fn a_folder_that_is_swapped_after_the_check_gives_the_library_that_was_checked() {
    // This is what `plugin install` does while a worker starts.
    let (checked, other) = (Marked::new(), Marked::new());
    other.build(&other.library(), "second");
    let file = checked.file();
    let verified = verified::open(&file).expect("as it should be");
    let (here, there) = (checked.plugin(), other.plugin());
    rustix::fs::renameat_with(rustix::fs::CWD, &here, rustix::fs::CWD, &there, rustix::fs::RenameFlags::EXCHANGE).expect("swapped");
    core::mem::forget(verified.load().expect("loaded"));
    assert_eq!((checked.marks(), other.marks()), (vec!["first"], vec![]));
}

#[test]
fn a_library_that_is_written_to_after_the_check_does_not_run() {
    for hashed in [false, true] {
        let marked = Marked::new();
        if hashed {
            marked.list_hash();
        }
        let file = marked.file();
        let verified = verified::open(&file).expect("as it should be");
        let other = marked.dir.path().join("other.so");
        marked.build(&other, "second");
        let modified = fs::metadata(marked.library()).and_then(|metadata| metadata.modified()).expect("a time");
        fs::write(marked.library(), fs::read(&other).expect("the other")).expect("written in place");
        // An old date does not help: nobody can set the time of the last change of the inode.
        fs::File::options().write(true).open(marked.library()).and_then(|file| file.set_modified(modified)).expect("an old date");
        refused(verified.load(), "replaced or changed");
        assert!(marked.marks().is_empty(), "hashed: {hashed}");
    }
}

#[test]
fn a_listed_library_that_was_altered_after_the_inspection_does_not_run() {
    let marked = Marked::new();
    marked.list_hash();
    let file = marked.file();
    marked.build(&marked.library(), "second");
    refused(verified::open(&file), "libngram_c.so has sha256");
    assert!(marked.marks().is_empty());
}

#[test]
fn a_file_that_was_seen_is_not_read_again_unless_it_changed_or_proof_is_asked_for() {
    let marked = Marked::new();
    let mut file = marked.file();
    let open = || fs::File::open(marked.library()).expect("the library");
    // A lie: that it is believed proves that nothing was read.
    let lie = "0".repeat(64);
    let stamp = Stamp::of(&open().metadata().expect("a stamp"));
    file.seen = vec![Seen { stamp, sha256: lie.clone() }];
    let compare = |file: &PluginFile| verified::compare(file, "libngram_c.so", &lie, &open());
    compare(&file).expect("seen");
    file.trust.mode = Mode::Strict;
    refused(compare(&file), "libngram_c.so has sha256");
    file.trust.mode = Mode::Warn;
    // Written with what it holds already, and dated back: the same file for everybody but the kernel.
    let modified = open().metadata().and_then(|metadata| metadata.modified()).expect("a time");
    fs::write(marked.library(), fs::read(marked.library()).expect("the library")).expect("written");
    fs::File::options().write(true).open(marked.library()).and_then(|file| file.set_modified(modified)).expect("an old date");
    refused(compare(&file), "libngram_c.so has sha256");
}

#[test]
fn a_plugin_toml_that_changed_after_the_inspection_is_refused() {
    let marked = Marked::new();
    let file = marked.file();
    let toml = marked.plugin().join("plugin.toml");
    let text = fs::read_to_string(&toml).expect("plugin.toml");
    fs::write(&toml, text.replace("licence = \"", "licence = \"Zlib OR ")).expect("plugin.toml");
    refused(verified::open(&file), "plugin.toml");
    fs::remove_file(&toml).expect("removed");
    refused(verified::open(&file), "plugin.toml");
}

#[test]
fn descriptors_of_loaded_libraries_are_not_used_for_others() {
    // Were the first descriptor closed, the second library would get its number, and the linker would take the name for the first one.
    let (first, second) = (Marked::new(), Marked::new());
    for marked in [&first, &second] {
        core::mem::forget(verified::open(&marked.file()).expect("as it should be").load().expect("loaded"));
        assert_eq!(marked.marks(), ["first"]);
    }
    // The same file once more is the same library: its constructors do not run again.
    fs::remove_file(first.dir.path().join("first")).expect("the mark");
    core::mem::forget(verified::open(&first.file()).expect("as it should be").load().expect("loaded"));
    assert!(first.marks().is_empty());
}

fn way(path: &Path, owners: &Owners) -> Vec<Problem> {
    let mut problems = Vec::new();
    check_way(path, owners, &mut problems);
    once(problems)
}

#[test]
fn every_folder_and_link_on_the_way_is_looked_at() {
    let dir = tempfile::tempdir().expect("a folder");
    let base = dir.path().canonicalize().expect("a path");
    fs::create_dir_all(base.join("a/b/plugin")).expect("folders");
    symlink("a/b", base.join("short")).expect("a link");
    symlink("../short/plugin", base.join("a/again")).expect("a link");
    let owners = Owners::of_this_process();
    let weak = |path: &str| {
        let problems = way(&base.join(path), &owners);
        problems
            .into_iter()
            .filter(|problem| matches!(problem, Problem::WorldWritable { .. } | Problem::GroupWritable { .. }))
            .collect::<Vec<_>>()
    };
    for path in ["a/b/plugin", "short/plugin", "a/again"] {
        assert_eq!(weak(path), [], "{path}");
    }
    fs::set_permissions(base.join("a/b"), fs::Permissions::from_mode(0o757)).expect("chmod");
    for path in ["a/b/plugin", "short/plugin", "a/again"] {
        assert_eq!(weak(path), [Problem::WorldWritable { path: base.join("a/b"), mode: 0o757 }], "{path}");
    }
    // The end of the way is for others to judge.
    assert_eq!(weak("a/b"), []);
}

#[test]
fn files_of_other_users_are_not_trusted_wherever_they_are_on_the_way() {
    let dir = tempfile::tempdir().expect("a folder");
    let base = dir.path().canonicalize().expect("a path");
    fs::create_dir(base.join("plugin")).expect("a folder");
    symlink("plugin", base.join("link")).expect("a link");
    // Seen by a user who owns none of this.
    let stranger = Owners::only(own_uid() + 1);
    let problems = way(&base.join("link"), &stranger);
    for path in [base.clone(), base.join("link"), "/".into()] {
        assert!(
            problems.iter().any(|problem| matches!(problem, Problem::ForeignOwner { path: owned, .. } if *owned == path)),
            "{problems:?}"
        );
    }
    let examined = examine_for(&base.join("plugin"), &Trust::default(), Reading::Names, &stranger);
    let own = |problem: &Problem| matches!(problem, Problem::ForeignOwner { path, .. } if *path == base.join("plugin"));
    assert!(examined.problems.iter().any(own), "{:?}", examined.problems);
}

#[test]
fn a_loop_of_links_ends() {
    let dir = tempfile::tempdir().expect("a folder");
    let base = dir.path().canonicalize().expect("a path");
    symlink("b", base.join("a")).expect("a link");
    symlink("a", base.join("b")).expect("a link");
    let problems = way(&base.join("a/x"), &Owners::of_this_process());
    assert!(problems.iter().any(|problem| problem.to_string().contains("links on the way")), "{problems:?}");
}
