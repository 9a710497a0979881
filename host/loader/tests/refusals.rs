//! What is refused before any code of a plugin runs, and what a person then reads.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use common::plugins;
use onebit_faults::build_c;
use onebit_loader::{Refusal, inspect};

/// A copy of the installed `ngram-c` that a test may damage.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let plugin = dir.path().join("ngram-c");
    fs::create_dir(&plugin).expect("the plugin's folder");
    for file in fs::read_dir(plugins().join("ngram-c")).expect("installed").flatten() {
        fs::copy(file.path(), plugin.join(file.file_name())).expect("a copy");
    }
    (dir, plugin)
}

fn edit_toml(plugin: &Path, from: &str, to: &str) {
    let path = plugin.join("plugin.toml");
    let text = fs::read_to_string(&path).expect("plugin.toml");
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).expect("plugin.toml");
}

#[track_caller]
fn refused(plugin: &Path) -> Refusal {
    let refusal = inspect(plugin).expect_err("a refusal");
    assert!(!refusal.rows.is_empty());
    for row in &refusal.rows {
        assert!(![&row.field, &row.host, &row.plugin, &row.remedy].iter().any(|text| text.is_empty()), "{refusal}");
    }
    refusal
}

#[track_caller]
fn refused_for(plugin: &Path, field: &str, found: &str) -> Refusal {
    let refusal = refused(plugin);
    let row = &refusal.rows[0];
    assert!(row.field == field && row.plugin.contains(found), "{refusal}");
    refusal
}

#[test]
fn an_honest_plugin_is_accepted_and_its_libraries_are_found() {
    for id in ["ngram", "ngram-c"] {
        let inspection = inspect(&plugins().join(id)).unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!((inspection.file.toml.id.as_str(), inspection.file.note.id.as_str()), (id, id));
        assert!(inspection.needed.iter().any(|(name, path)| name.starts_with("libc.") && path.is_file()), "{:?}", inspection.needed);
        assert!(inspection.warnings.is_empty(), "{:?}", inspection.warnings);
    }
}

#[test]
fn another_abi_major_is_refused_with_both_versions() {
    let (_dir, plugin) = copy();
    patch(&plugin, b"abi_major=1", b"abi_major=2");
    let refusal = refused_for(&plugin, "abi", "2.1");
    assert_eq!(refusal.rows[0].host, "1.0 to 1.1");
    assert!(refusal.rows[0].remedy.contains("newer onebit-host"), "{refusal}");
}

#[test]
fn a_plugin_that_wants_a_newer_host_is_refused_with_the_version_it_wants() {
    let (_dir, plugin) = copy();
    patch(&plugin, b"abi_min_minor=0", b"abi_min_minor=7");
    let refusal = refused_for(&plugin, "abi", "wants a host of 1.7");
    assert!(refusal.rows[0].remedy.contains("newer onebit-host"), "{refusal}");
}

/// Changes bytes of the library; both have one length.
fn patch(plugin: &Path, from: &[u8], to: &[u8]) {
    let path = plugin.join("libngram_c.so");
    let mut bytes = fs::read(&path).expect("the library");
    let at = bytes.windows(from.len()).position(|window| window == from).expect("the bytes to change");
    bytes[at..at + from.len()].copy_from_slice(to);
    fs::write(path, bytes).expect("the library");
}

#[test]
fn a_library_without_a_note_is_refused() {
    let (_dir, plugin) = copy();
    fs::write(plugin.join("none.c"), "int nothing(void) { return 0; }\n").expect("a source");
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(plugin.join("libngram_c.so"))
        .arg(plugin.join("none.c"))
        .status()
        .expect("cc");
    assert!(built.success());
    refused_for(&plugin, "note", "libngram_c.so has none");
}

#[test]
fn a_note_that_says_other_than_plugin_toml_is_refused_row_by_row() {
    let (_dir, plugin) = copy();
    edit_toml(&plugin, "id = \"ngram-c\"", "id = \"another\"");
    edit_toml(&plugin, &format!("version = \"{}\"", env!("CARGO_PKG_VERSION")), "version = \"9.0.0\"");
    edit_toml(&plugin, "\"onebit.tokenize/1\"", "\"onebit.embed/1\"");
    edit_toml(&plugin, "abi = \"1.1\"", "abi = \"1.3\"");
    let refusal = refused(&plugin);
    let fields: Vec<&str> = refusal.rows.iter().map(|row| row.field.as_str()).collect();
    assert_eq!(fields, ["id", "version", "abi", "capabilities"], "{refusal}");
}

#[test]
fn another_target_and_a_rust_plugin_that_aborts_are_refused() {
    let (_dir, plugin) = copy();
    patch(&plugin, b"-linux-gnu", b"-other-gnu");
    refused_for(&plugin, "target", "-other-gnu");
    let (_dir, plugin) = copy();
    fs::copy(plugins().join("ngram/libngram.so"), plugin.join("libngram_c.so")).expect("a copy");
    patch(&plugin, b"panic=unwind\n", b"panic=none\n\n\n");
    refused_for(&plugin, "panic", "none");
}

#[test]
fn a_missing_library_is_named_with_the_library_that_needs_it() {
    let (_dir, plugin) = copy();
    let lib = plugin.join("lib");
    fs::create_dir(&lib).expect("a folder");
    let make = |name: &str, args: &[&str]| {
        fs::write(plugin.join("empty.c"), format!("int {name}_function(void) {{ return 0; }}\n")).expect("a source");
        let status = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-Wl,--no-as-needed"])
            .arg(plugin.join("empty.c"))
            .arg("-o")
            .arg(lib.join(format!("lib{name}.so")))
            .arg(format!("-Wl,-soname,lib{name}.so"))
            .arg("-L")
            .arg(&lib)
            .args(args)
            .status()
            .expect("cc");
        assert!(status.success());
    };
    make("deep", &[]);
    make("middle", &["-ldeep"]);
    let search = format!("-L{}", lib.display());
    build_c("ngram.c", &plugin.join("libngram_c.so"), &["-Wl,--no-as-needed", &search, "-lmiddle", "-Wl,-rpath,$ORIGIN/lib"])
        .expect("compiled");

    // libmiddle has no RUNPATH of its own, so what it needs is not found: RUNPATH is not inherited.
    let refusal = refused_for(&plugin, "needed library", "libdeep.so, for libmiddle.so");
    assert_eq!(refusal.rows.len(), 1, "{refusal}");
    make("middle", &["-ldeep", "-Wl,-rpath,$ORIGIN"]);
    inspect(&plugin).unwrap_or_else(|refusal| panic!("{refusal}"));

    fs::remove_file(lib.join("libmiddle.so")).expect("removed");
    refused_for(&plugin, "needed library", "libmiddle.so, for libngram_c.so");
    make("middle", &[]);
    fs::rename(lib.join("libmiddle.so"), plugin.join("libmiddle.so")).expect("moved");
    let refusal = refused_for(&plugin, "needed library", "libmiddle.so");
    assert!(refusal.rows[0].remedy.contains("lies beside the plugin"), "{refusal}");
}

#[test]
fn what_everybody_may_write_is_refused() {
    for name in ["", "plugin.toml", "libngram_c.so"] {
        let (_dir, plugin) = copy();
        let path = if name.is_empty() { plugin.clone() } else { plugin.join(name) };
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode | 0o002)).expect("chmod");
        let refusal = refused(&plugin);
        assert!(refusal.rows[0].remedy.starts_with("chmod o-w "), "{refusal}");
    }
}

#[test]
fn a_link_out_of_the_folder_is_refused_and_one_within_is_not() {
    let (_dir, plugin) = copy();
    fs::rename(plugin.join("libngram_c.so"), plugin.join("libngram_c.so.0.1.0")).expect("renamed");
    symlink("libngram_c.so.0.1.0", plugin.join("libngram_c.so")).expect("a link");
    inspect(&plugin).unwrap_or_else(|refusal| panic!("{refusal}"));
    fs::remove_file(plugin.join("libngram_c.so")).expect("removed");
    symlink(plugins().join("ngram-c/libngram_c.so"), plugin.join("libngram_c.so")).expect("a link");
    refused_for(&plugin, "library", "leads to");
    fs::remove_file(plugin.join("plugin.toml")).expect("removed");
    symlink("/etc/hostname", plugin.join("plugin.toml")).expect("a link");
    refused_for(&plugin, "plugin.toml", "leads to");
}

#[test]
fn files_that_are_missing_or_of_another_kind_are_named() {
    let (_dir, plugin) = copy();
    refused_for(&plugin.join("nothing"), "folder", "nothing");
    refused_for(&plugin.join("plugin.toml"), "folder", "is a file");
    fs::remove_file(plugin.join("libngram_c.so")).expect("removed");
    refused_for(&plugin, "library", "libngram_c.so");
    fs::create_dir(plugin.join("libngram_c.so")).expect("a folder");
    refused_for(&plugin, "library", "is none");
    edit_toml(&plugin, "licence =", "license =");
    let refusal = refused_for(&plugin, "plugin.toml", "did you mean \"licence\"");
    assert_eq!(refusal.plugin, "ngram-c");
    fs::write(plugin.join("plugin.toml"), vec![b'#'; 100_000]).expect("a long file");
    refused_for(&plugin, "plugin.toml", "longer than");
    fs::write(plugin.join("plugin.toml"), [0xff, 0xfe]).expect("no text");
    refused_for(&plugin, "plugin.toml", "UTF-8");
}

#[test]
fn every_cut_of_the_file_is_refused_without_a_crash() {
    let (_dir, plugin) = copy();
    let library = plugin.join("libngram_c.so");
    let whole = fs::read(&library).expect("the library");
    // Every cut of the headers, and some of the rest; the tail holds section headers, which nobody reads.
    for cut in (0..1024).chain((1024..whole.len() / 4).step_by(257)) {
        fs::write(&library, &whole[..cut]).expect("a cut file");
        refused(&plugin);
    }
}

#[test]
fn random_damage_to_the_file_never_crashes_the_inspection() {
    let (_dir, plugin) = copy();
    let library = plugin.join("libngram_c.so");
    let whole = fs::read(&library).expect("the library");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..600 {
        let mut bytes = whole.clone();
        // Mostly headers and dynamic tables, where every byte steers something.
        let reach = if round % 3 == 0 { bytes.len() } else { 1024 };
        for _ in 0..=random(8) {
            let at = random(reach);
            bytes[at] = random(256) as u8;
        }
        fs::write(&library, &bytes).expect("a damaged file");
        // Accepted or refused: both are answers.
        let _ = inspect(&plugin).map_err(|refusal| assert!(!refusal.to_string().is_empty()));
    }
}

#[test]
fn a_refusal_is_a_table_for_people_and_data_for_programs() {
    let (_dir, plugin) = copy();
    edit_toml(&plugin, "id = \"ngram-c\"", "id = \"another\"");
    let refusal = refused(&plugin);
    let text = refusal.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("plugin another {} cannot be used:", env!("CARGO_PKG_VERSION")));
    let column = lines[1].find("plugin").expect("a column");
    assert!(lines[1].starts_with("  field  host") && lines[2][column..].starts_with("note: ngram-c"), "{text}");
    let json = serde_json::to_string(&refusal).expect("JSON");
    assert_eq!(serde_json::from_str::<Refusal>(&json).expect("JSON"), refusal);
}
