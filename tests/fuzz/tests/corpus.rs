//! Every input that is kept, through its target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use onebit_fuzz::TARGETS;
use onebit_worker::protocol::{Decoder, FromWorker, Hello, ToWorker};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_kept_input_obeys_the_laws_of_its_target() {
    onebit_fuzz::http::RENDERER.set(env!("CARGO_BIN_EXE_onebit-fuzz-render").into()).unwrap();
    let mut broken = Vec::new();
    for (name, run) in TARGETS {
        for file in files(&here().join("corpus").join(name)) {
            let bytes = std::fs::read(&file).unwrap();
            // The panic itself has been printed by then; here it gets its file.
            if std::panic::catch_unwind(|| run(&bytes)).is_err() {
                broken.push(file.strip_prefix(here()).unwrap().to_owned());
            }
        }
    }
    assert!(broken.is_empty(), "laws are broken by {broken:#?}");
}

#[test]
fn the_table_of_bounds_the_binaries_and_the_corpus_know_the_same_targets() {
    let known: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let table: toml::Table = std::fs::read_to_string(here().join("targets.toml")).unwrap().parse().unwrap();
    assert_eq!(table.keys().cloned().collect::<BTreeSet<_>>(), known);
    let names = |folder: &str| -> BTreeSet<String> {
        files(&here().join(folder)).iter().map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names("libfuzzer/src/bin"), known);
    assert_eq!(names("corpus"), known);
    for name in &known {
        let inputs = files(&here().join("corpus").join(name));
        assert!(inputs.len() >= 3, "{name} has only {} inputs", inputs.len());
        let bytes: u64 = inputs.iter().map(|file| file.metadata().unwrap().len()).sum();
        assert!(bytes <= 512 << 10, "the inputs of {name} have {bytes} bytes; keep the small ones: `cargo xtask fuzz {name} --minimise`");
    }
}

/// Kept frames are of one version of the protocol. Those of an older one are refused at once, and prove nothing any more.
#[test]
fn the_kept_frames_of_a_worker_are_messages_of_today() {
    fn read<M: serde::de::DeserializeOwned>(target: &str) {
        for file in files(&here().join("corpus").join(target)) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with("-cut") || ["huge-length", "left-over", "hello-only"].contains(&name.as_str()) {
                continue;
            }
            let bytes = std::fs::read(&file).unwrap();
            let mut decoder = Decoder::new();
            decoder.space().extend_from_slice(&bytes);
            let hello = decoder.take::<Hello>().unwrap();
            assert!(hello.is_some(), "{target}/{name} does not begin with a greeting");
            let mut messages = 0;
            let end = loop {
                match decoder.take::<M>() {
                    Ok(Some(_)) => messages += 1,
                    end => break end.map(drop),
                }
            };
            let remedy = "write it anew: cargo run -p onebit-fuzz --example frames";
            assert!(messages > 0 && end.is_ok(), "{target}/{name} is of another protocol ({messages} messages, {end:?}); {remedy}");
        }
    }
    read::<ToWorker>("to_worker");
    read::<FromWorker>("from_worker");
}
