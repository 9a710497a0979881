//! `check`: one small library for each finding, and exactly that finding.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use common::plugins;
use onebit_faults::{Which, build_c};
use onebit_loader::check::codes::TABLE;
use onebit_loader::check::{Report, Severity, check};
use onebit_loader::trust::Trust;

/// The honest C plugin, built for one test and damaged by it, below a folder that nobody else can write to.
struct Copy {
    dir: tempfile::TempDir,
}

/// `PT_LOAD`.
const LOAD: u32 = 1;
/// `PT_GNU_STACK`.
const GNU_STACK: u32 = 0x6474_e551;
/// How the template is linked; a test's own flags come behind.
const GOOD: &[&str] = &["-g0", "-Wl,-z,relro,-z,now,-z,noexecstack"];

impl Copy {
    fn new() -> Self {
        let copy = Self { dir: tempfile::tempdir().expect("a folder") };
        fs::create_dir(copy.plugin()).expect("a folder");
        fs::write(copy.plugin().join("plugin.toml"), Which::NgramC.toml_of(&copy.library())).expect("plugin.toml");
        copy
    }

    /// With the library compiled and linked with these flags besides the good ones.
    fn built(flags: &[&str]) -> Self {
        let copy = Self::new();
        build_c("ngram.c", &copy.library(), &[GOOD, flags].concat()).expect("compiled");
        copy
    }

    fn plugin(&self) -> PathBuf {
        self.dir.path().join("ngram-c")
    }

    fn library(&self) -> PathBuf {
        self.plugin().join("libngram_c.so")
    }

    fn edit(self, from: &str, to: &str) -> Self {
        let path = self.plugin().join("plugin.toml");
        let text = fs::read_to_string(&path).expect("plugin.toml");
        assert!(text.contains(from), "{from} is not in plugin.toml");
        fs::write(path, text.replace(from, to)).expect("plugin.toml");
        self
    }

    /// Changes bytes of the library; both have one length.
    fn patch(self, from: &str, to: &str) -> Self {
        let mut bytes = fs::read(self.library()).expect("the library");
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect("the bytes to change");
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        fs::write(self.library(), bytes).expect("the library");
        self
    }

    /// Changes the first program header of a kind. It begins with its kind and its flags, four bytes each.
    fn segment(self, kind: u32, change: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = fs::read(self.library()).expect("the library");
        // The headers follow the file's own; each has 56 bytes.
        let header = bytes[64..].chunks_exact_mut(56).find(|header| header[..4] == kind.to_le_bytes());
        change(header.expect("a segment of this kind"));
        fs::write(self.library(), bytes).expect("the library");
        self
    }

    /// A small library beside the plugin's.
    fn beside(self, source: &str, flags: &[&str]) -> Self {
        let file = self.dir.path().join("beside.c");
        fs::write(&file, source).expect("a source");
        build_c(file.to_str().expect("UTF-8"), &self.plugin().join("libbeside.so"), &[GOOD, flags].concat()).expect("compiled");
        self
    }
}

/// Under the policy that holds if nobody says otherwise.
fn check_warn(plugin: &Path) -> Report {
    check(plugin, &Trust::default())
}

/// What every plugin of these tests lacks: they lie below /tmp, without hashes and signatures.
const UNPROVEN: &[&str] = &["shared-parent", "no-hashes", "unsigned"];

/// Besides that, found are exactly these, and each says something and what to do.
#[track_caller]
fn finds(copy: &Copy, ids: &[&str]) -> String {
    finds_in(&copy.plugin(), ids)
}

#[track_caller]
fn finds_in(plugin: &Path, ids: &[&str]) -> String {
    let report = check_warn(plugin);
    let found: Vec<&str> = report.findings.iter().map(|finding| finding.id).filter(|id| !UNPROVEN.contains(id)).collect();
    assert_eq!(found, ids, "{:#?}", report.findings);
    for finding in &report.findings {
        assert!(!finding.sentence.is_empty() && !finding.remedy.is_empty(), "{finding:?}");
        let row = TABLE.iter().find(|code| code.id == finding.id).expect("a row");
        assert_eq!((finding.code, finding.severity), (row.number, row.severity));
    }
    // What is refused at a load is an error here.
    assert!(report.inspected.is_ok() || report.worst() == Some(Severity::Error));
    let sentences = report.findings.iter().filter(|finding| !UNPROVEN.contains(&finding.id)).map(|finding| finding.sentence.as_str());
    sentences.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_template_has_no_findings_in_either_language() {
    finds(&Copy::built(&[]), &[]);
    // Tests build it with debug information.
    let report = check_warn(&plugins().join("ngram"));
    assert!(report.worst() <= Some(Severity::Note), "{:#?}", report.findings);
}

#[test]
fn how_a_library_was_linked_is_told() {
    finds(&Copy::built(&["-Wl,-z,lazy"]), &["lazy-binding"]);
    // The same in two libraries is said once.
    let said = finds(&Copy::built(&["-Wl,-z,lazy"]).beside("int unused(void);\n", &["-Wl,-z,lazy"]), &["lazy-binding"]);
    assert!(said.starts_with("libngram_c.so, libbeside.so: "), "{said}");
    finds(&Copy::built(&["-Wl,-z,norelro"]), &["no-relro"]);
    finds(&Copy::built(&["-g"]), &["debug-info"]);
    finds(&Copy::built(&["-Wl,-z,execstack"]), &["executable-stack"]);
    finds(&Copy::built(&[]).segment(GNU_STACK, |header| header[..4].fill(0)), &["executable-stack"]);
    finds(&Copy::built(&[]).segment(LOAD, |header| header[4] |= 3), &["writable-code"]);
}

#[test]
fn relocations_in_code_are_told() {
    // An address in code, which a linker can only fill in at the load.
    let source = "__asm__(\".text\\n.globl here\\n.hidden here\\nhere: .quad here\\n\");\n";
    let copy = Copy::built(&[]).beside(source, &["-Wl,-z,notext"]);
    assert!(finds(&copy, &["text-relocations"]).starts_with("libbeside.so"));
}

#[test]
fn a_library_that_exports_more_than_its_entry_is_told_with_names() {
    let copy = Copy::built(&["-fvisibility=default"]);
    let said = finds(&copy, &["exported-symbols"]);
    assert!(said.starts_with("libngram_c.so: exports beyond its entry: ") && said.contains(", …"), "{said}");
    // One that others are linked to must export something.
    finds(&Copy::built(&[]).beside("__attribute__((visibility(\"default\"))) int shared(void) { return 1; }\n", &[]), &[]);
}

#[test]
fn exports_are_found_by_either_kind_of_hash_table() {
    for style in ["-Wl,--hash-style=sysv", "-Wl,--hash-style=gnu", "-Wl,--hash-style=both"] {
        finds(&Copy::built(&[style]), &[]);
        finds(&Copy::built(&[style, "-fvisibility=default"]), &["exported-symbols"]);
    }
}

#[test]
fn a_promised_entry_that_is_not_there_is_told() {
    let hidden = ["-Donebit_plugin_v1=another_name"];
    let said = finds(&Copy::built(&hidden), &["door-missing", "exported-symbols"]);
    assert!(said.contains("onebit_plugin_v1") && said.contains("another_name"), "{said}");
}

#[test]
fn a_runpath_into_foreign_places_is_told() {
    let runpath = |path: &str| Copy::built(&[&format!("-Wl,-rpath,{path}")]);
    finds(&runpath("$ORIGIN"), &[]);
    finds(&runpath("$ORIGIN/lib:/usr/lib"), &[]);
    finds(&runpath("lib"), &["runpath-relative"]);
    finds(&runpath("$ORIGIN:"), &["runpath-relative"]);
    finds(&runpath("$ORIGIN/../other"), &["runpath-outside"]);
    finds(&runpath("/srv/build/lib"), &["runpath-absolute"]);
    let weak = tempfile::tempdir().expect("a folder");
    fs::set_permissions(weak.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    let said = finds(&runpath(weak.path().to_str().expect("UTF-8")), &["runpath-writable"]);
    assert!(said.contains("everybody may"), "{said}");
    let old = Copy::built(&["-Wl,--disable-new-dtags", "-Wl,-rpath,lib"]);
    assert!(finds(&old, &["runpath-relative"]).contains("RPATH \"lib\""));
}

#[test]
fn what_forbids_a_load_is_an_error_with_its_own_code() {
    finds(&Copy::built(&[]).patch("abi_major=1", "abi_major=2"), &["abi", "abi"]);
    finds(&Copy::built(&[]).patch("abi_min_minor=0", "abi_min_minor=7"), &["abi"]);
    finds(&Copy::built(&[]).patch("-linux-gnu", "-other-gnu"), &["target"]);
    finds(&Copy::built(&[]).patch("note=1\n", "note=2\n"), &["note"]);
    finds(&Copy::built(&[]).edit("id = \"ngram-c\"", "id = \"another\""), &["id"]);
    finds(&Copy::built(&[]).edit("version = \"0.1.0\"", "version = \"9.0.0\""), &["version"]);
    finds(&Copy::built(&[]).edit("licence =", "license ="), &["plugin-toml"]);
    finds(&Copy::built(&[]).edit("default = \"0\"", "default = \"fast\""), &["plugin-toml"]);
    finds(&Copy::new(), &["library"]);
    let text = Copy::new();
    fs::write(text.library(), "no library").expect("a file");
    finds(&text, &["library"]);
    finds_in(&text.plugin().join("nothing"), &["folder"]);
}

#[test]
fn all_that_can_be_known_is_told_at_once() {
    let copy = Copy::built(&["-Wl,-z,execstack", "-Wl,-rpath,lib", "-fvisibility=default"])
        .patch("abi_min_minor=0", "abi_min_minor=7")
        .edit("id = \"ngram-c\"", "id = \"another\"");
    finds(&copy, &["abi", "id", "executable-stack", "runpath-relative", "exported-symbols"]);
}

#[test]
fn two_notes_are_one_too_many_and_none_is_too_few() {
    let second = "#include \"onebit_plugin.h\"\nONEBIT_PLUGIN_NOTE(\"id=x\\n\");\n";
    let dir = tempfile::tempdir().expect("a folder");
    fs::write(dir.path().join("second.c"), second).expect("a source");
    finds(&Copy::built(&[dir.path().join("second.c").to_str().expect("UTF-8")]), &["note"]);
    let none = Copy::new();
    fs::write(dir.path().join("none.c"), "int onebit_nothing(void);\nint onebit_nothing(void) { return 0; }\n").expect("a source");
    build_c(dir.path().join("none.c").to_str().expect("UTF-8"), &none.library(), GOOD).expect("compiled");
    finds(&none, &["note"]);
}

#[test]
fn a_library_of_another_machine_and_one_that_aborts_are_told() {
    let copy = Copy::built(&[]);
    let mut bytes = fs::read(copy.library()).expect("the library");
    bytes[18] = 183;
    fs::write(copy.library(), bytes).expect("the library");
    finds(&copy, &["machine"]);
    let rust = Copy::new();
    let ngram = plugins().join("ngram");
    fs::copy(ngram.join("libngram.so"), rust.plugin().join("libngram.so")).expect("a copy");
    fs::copy(ngram.join("plugin.toml"), rust.plugin().join("plugin.toml")).expect("a copy");
    let mut bytes = fs::read(rust.plugin().join("libngram.so")).expect("the library");
    let at = bytes.windows(13).position(|window| window == b"panic=unwind\n").expect("the note");
    bytes[at..at + 13].copy_from_slice(b"panic=none\n\n\n");
    fs::write(rust.plugin().join("libngram.so"), bytes).expect("the library");
    let report = check_warn(&rust.plugin());
    let errors: Vec<&str> =
        report.findings.iter().filter(|finding| finding.severity == Severity::Error).map(|finding| finding.id).collect();
    assert_eq!(errors, ["panic"], "{:#?}", report.findings);
}

#[test]
fn a_needed_library_that_is_nowhere_is_named() {
    let copy =
        Copy::built(&[]).beside("__attribute__((visibility(\"default\"))) int shared(void) { return 1; }\n", &["-Wl,-soname,libbeside.so"]);
    let search = format!("-L{}", copy.plugin().display());
    build_c("ngram.c", &copy.library(), &[GOOD, &["-Wl,--no-as-needed", &search, "-lbeside"]].concat()).expect("compiled");
    let said = finds(&copy, &["needed-library"]);
    assert!(said.contains("libbeside.so, for libngram_c.so"), "{said}");
}

#[test]
fn descriptions_that_mislead_are_told() {
    finds(&Copy::built(&[]).edit("\"onebit.tokenize/1\"", "\"tokens\""), &["capabilities", "capability-id"]);
    finds(&Copy::built(&[]).edit("\"onebit.tokenize/1\"", "\"onebit.dream/1\""), &["capabilities", "capability-unknown"]);
    finds(&Copy::built(&[]).edit("licence = \"MIT OR Apache-2.0\"", "licence = \"\""), &["licence-missing", "licence-differs"]);
    finds(&Copy::built(&[]).edit("licence = \"MIT OR Apache-2.0\"", "licence = \"GPL-3.0-only\""), &["licence-differs"]);
    finds(&Copy::built(&[]).edit("name = \"open_ms\"", "name = \"row_us\""), &["option-twice"]);
    let copy = Copy::built(&[]);
    let renamed = copy.dir.path().join("other");
    fs::rename(copy.plugin(), &renamed).expect("renamed");
    finds_in(&renamed, &["folder-name"]);
}

#[test]
fn a_damaged_library_beside_the_plugin_is_told() {
    let copy = Copy::built(&[]);
    fs::write(copy.plugin().join("libother.so.1"), "no library").expect("a file");
    let said = finds(&copy, &["damaged-beside"]);
    assert!(said.contains("libother.so.1"), "{said}");
}

#[test]
fn a_link_out_of_the_folder_and_weak_permissions_are_told() {
    let copy = Copy::built(&[]);
    let outside = copy.dir.path().join("outside.so");
    fs::rename(copy.library(), &outside).expect("moved");
    symlink(&outside, copy.library()).expect("a link");
    assert!(finds(&copy, &["library", "leads-out"]).contains("leads to"));
    for name in ["", "libngram_c.so", "plugin.toml"] {
        let weak = Copy::built(&[]);
        fs::set_permissions(weak.plugin().join(name), fs::Permissions::from_mode(0o757)).expect("chmod");
        finds(&weak, &["world-writable"]);
    }
    let parent = Copy::built(&[]);
    fs::set_permissions(parent.dir.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    finds(&parent, &["world-writable"]);
}

#[test]
fn what_is_not_proven_is_a_note_and_what_contradicts_itself_an_error() {
    let copy = Copy::built(&[]);
    let report = check_warn(&copy.plugin());
    let found: Vec<(&str, Severity)> = report.findings.iter().map(|finding| (finding.id, finding.severity)).collect();
    assert_eq!(found, UNPROVEN.iter().map(|id| (*id, Severity::Note)).collect::<Vec<_>>());
    let hash = "0".repeat(64);
    let listed =
        copy.edit("[[option]]\nname = \"row_us\"", &format!("[sha256]\n\"libngram_c.so\" = \"{hash}\"\n\n[[option]]\nname = \"row_us\""));
    finds(&listed, &["altered"]);
    let strict = check(&listed.plugin(), &Trust { mode: onebit_loader::trust::Mode::Strict, ..Trust::default() });
    assert!(strict.inspected.is_err());
    assert!(
        strict.findings.iter().any(|finding| finding.id == "unsigned" && finding.severity == Severity::Error),
        "{:#?}",
        strict.findings
    );
}

#[test]
fn damage_anywhere_in_a_library_never_crashes_the_check() {
    let copy = Copy::built(&["-fvisibility=default"]);
    let whole = fs::read(copy.library()).expect("the library");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..400 {
        let mut bytes = whole.clone();
        // Mostly what stands in front: headers, hash tables, symbols.
        let reach = if round % 4 == 0 { bytes.len() } else { 4096 };
        for _ in 0..=random(8) {
            let at = random(reach);
            bytes[at] = random(256) as u8;
        }
        fs::write(copy.library(), &bytes).expect("a damaged file");
        for finding in check_warn(&copy.plugin()).findings {
            assert!(!finding.sentence.contains(char::is_control), "{finding:?}");
        }
    }
}
